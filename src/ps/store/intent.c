/*
 * intent.c -- two heaps: intents that have not begun, by their start, and
 * intents that have begun, by their end.
 */
#include "ps/store/intent.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/vec.h"

#define FIRST_CLOCKS 10.0 // per round, before the first round
#define SMOOTHING    0.1
#define QUANTILE     3.72 // of a normal distribution, at 0.9999

typedef struct block {
    muster_intent intent;
    uint32_t keys[];
} block;

typedef struct entry {
    uint64_t due;
    block *what;
} entry;

struct muster_intents {
    muster_vec waiting; // entry, a heap by start
    muster_vec begun;   // entry, a heap by end
    block *lent;        // has ended; the caller may still read its keys
    double clocks;      // per round, smoothed
    double last;        // in the last round
    uint64_t clock;     // at the end of the last round
};

muster_status muster_intents_create(muster_intents **out)
{
    muster_intents *intents = muster_mem_array(1, sizeof(*intents));
    if (intents == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    intents->waiting = muster_vec_make(sizeof(entry));
    intents->begun = muster_vec_make(sizeof(entry));
    intents->clocks = FIRST_CLOCKS;
    *out = intents;
    return MUSTER_OK;
}

static void free_all(muster_vec *heap)
{
    entry *entries = heap->data;
    for (size_t i = 0; i < heap->count; i++) {
        muster_mem_free(entries[i].what);
    }
    muster_vec_fini(heap);
}

void muster_intents_free(muster_intents *intents)
{
    if (intents == NULL) {
        return;
    }
    free_all(&intents->waiting);
    free_all(&intents->begun);
    muster_mem_free(intents->lent);
    muster_mem_free(intents);
}

/* ---- heaps --------------------------------------------------------------- */

static bool heap_add(muster_vec *heap, entry added)
{
    if (!muster_vec_append(heap, &added, 1)) {
        return false;
    }
    entry *entries = heap->data;
    size_t at = heap->count - 1;
    while (at > 0 && entries[(at - 1) / 2].due > added.due) {
        entries[at] = entries[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    entries[at] = added;
    return true;
}

static block *heap_take(muster_vec *heap)
{
    entry *entries = heap->data;
    block *taken = entries[0].what;
    entry last = entries[--heap->count];
    size_t at = 0;
    for (;;) {
        size_t below = 2 * at + 1;
        if (below >= heap->count) {
            break;
        }
        if (below + 1 < heap->count &&
            entries[below + 1].due < entries[below].due) {
            below++;
        }
        if (entries[below].due >= last.due) {
            break;
        }
        entries[at] = entries[below];
        at = below;
    }
    entries[at] = last;
    return taken;
}

static bool heap_due(const muster_vec *heap, uint64_t until)
{
    const entry *entries = heap->data;
    return heap->count > 0 && entries[0].due <= until;
}

/* ---- intents ------------------------------------------------------------- */

muster_status muster_intents_add(muster_intents *intents,
                                 const muster_intent *intent)
{
    MUSTER_ASSERT(intent->start < intent->end);
    size_t bytes = intent->count * sizeof(uint32_t);
    block *kept = muster_mem_array(1, sizeof(*kept) + bytes);
    // Reserve memory for its end now, so that every intent can end.
    if (kept == NULL ||
        !muster_vec_reserve(&intents->begun, intents->begun.count +
                                                 intents->waiting.count + 1) ||
        !heap_add(&intents->waiting, (entry){intent->start, kept})) {
        muster_mem_free(kept);
        return MUSTER_ERR_NO_MEMORY;
    }
    kept->intent = *intent;
    kept->intent.keys = kept->keys;
    if (bytes > 0) {
        memcpy(kept->keys, intent->keys, bytes);
    }
    return MUSTER_OK;
}

void muster_intents_round(muster_intents *intents, uint64_t clock)
{
    intents->last = (double)(clock - intents->clock);
    intents->clock = clock;
    intents->clocks =
        (1 - SMOOTHING) * intents->clocks + SMOOTHING * intents->last;
}

uint64_t muster_intents_reach(const muster_intents *intents)
{
    double mean =
        intents->clocks > intents->last ? intents->clocks : intents->last;
    mean *= 2;
    return (uint64_t)ceil(mean + QUANTILE * sqrt(mean));
}

size_t muster_intents_count(const muster_intents *intents)
{
    return intents->waiting.count + intents->begun.count;
}

bool muster_intents_next(muster_intents *intents, uint64_t clock,
                         muster_intent *due_out, bool *begins_out)
{
    muster_mem_free(intents->lent);
    intents->lent = NULL;
    // Ends first, so that replicas are dropped before others are requested.
    if (heap_due(&intents->begun, clock)) {
        intents->lent = heap_take(&intents->begun);
        *due_out = intents->lent->intent;
        *begins_out = false;
        return true;
    }
    uint64_t reach = muster_intents_reach(intents);
    uint64_t until = clock > UINT64_MAX - reach ? UINT64_MAX : clock + reach;
    if (!heap_due(&intents->waiting, until)) {
        return false;
    }
    block *begun = heap_take(&intents->waiting);
    bool added = heap_add(&intents->begun, (entry){begun->intent.end, begun});
    MUSTER_ASSERT(added); // muster_intents_add() made room
    *due_out = begun->intent;
    *begins_out = true;
    return true;
}

bool muster_intents_abandon(muster_intents *intents, muster_intent *ended_out)
{
    muster_mem_free(intents->lent);
    intents->lent = NULL;
    if (intents->begun.count == 0) {
        free_all(&intents->waiting);
        intents->waiting = muster_vec_make(sizeof(entry));
        return false;
    }
    intents->lent = heap_take(&intents->begun);
    *ended_out = intents->lent->intent;
    return true;
}
