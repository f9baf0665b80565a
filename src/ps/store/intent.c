/*
 * intent.c -- two heaps: those to come by their start, those begun by their
 * end. An intent's block holds a copy of its keys.
 */
#include "ps/store/intent.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/vec.h"

#define FIRST_CLOCKS 10.0 // a round's, before one was seen
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
    muster_vec coming; // entry, a heap by start
    muster_vec begun;  // entry, a heap by end
    block *lent;       // ended, but its keys may still be read
    double clocks;     // of a round, smoothed
    double last;       // and of the last one
    uint64_t clock;    // at its end
};

muster_status muster_intents_create(muster_intents **out)
{
    muster_intents *intents = muster_mem_array(1, sizeof(*intents));
    if (intents == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    intents->coming = muster_vec_make(sizeof(entry));
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
    free_all(&intents->coming);
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
    size_t bytes = intent->count * sizeof(uint32_t);
    block *kept = muster_mem_array(1, sizeof(*kept) + bytes);
    // What has begun must be able to end: room for it is made now.
    if (kept == NULL ||
        !muster_vec_reserve(&intents->begun,
                            intents->begun.count + intents->coming.count + 1) ||
        !heap_add(&intents->coming, (entry){intent->start, kept})) {
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
    return intents->coming.count + intents->begun.count;
}

bool muster_intents_next(muster_intents *intents, uint64_t clock,
                         muster_intent *due_out, bool *begins_out)
{
    muster_mem_free(intents->lent);
    intents->lent = NULL;
    // Ends first, so that a row's copy can go before another is asked for.
    if (heap_due(&intents->begun, clock)) {
        intents->lent = heap_take(&intents->begun);
        *due_out = intents->lent->intent;
        *begins_out = false;
        return true;
    }
    uint64_t reach = muster_intents_reach(intents);
    uint64_t until = clock > UINT64_MAX - reach ? UINT64_MAX : clock + reach;
    if (!heap_due(&intents->coming, until)) {
        return false;
    }
    block *begun = heap_take(&intents->coming);
    (void)heap_add(&intents->begun, (entry){begun->intent.end, begun});
    *due_out = begun->intent;
    *begins_out = true;
    return true;
}

bool muster_intents_abandon(muster_intents *intents, muster_intent *ended_out)
{
    muster_mem_free(intents->lent);
    intents->lent = NULL;
    if (intents->begun.count == 0) {
        free_all(&intents->coming);
        intents->coming = muster_vec_make(sizeof(entry));
        return false;
    }
    intents->lent = heap_take(&intents->begun);
    *ended_out = intents->lent->intent;
    return true;
}
