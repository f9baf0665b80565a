/*
 * heavy.c -- the counters of Misra and Gries in an open-addressing table that
 * is twice as large as their number. Decrementing all of them rebuilds the
 * table; it happens at most once in `counters` accesses.
 */
#include "ps/store/heavy.h"

#include "base/assert.h"
#include "base/mem.h"

#define COUNTERS_MIN 256u
#define NOTES_MIN    8u

typedef struct counter {
    uint32_t key;
    uint32_t count; // 0: free
} counter;

struct muster_heavy {
    uint32_t keys;
    uint32_t counters; // max in use
    uint32_t used;
    uint32_t mask; // table size - 1, a power of two
    uint64_t total;
    counter *table;
    counter *spare; // for rebuilding
};

muster_status muster_heavy_create(uint32_t keys, muster_heavy **heavy_out)
{
    muster_heavy *heavy = muster_mem_array(1, sizeof(*heavy));
    if (heavy == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    // Twice what the bound needs, so that estimates are twice as close.
    uint32_t wanted = keys / MUSTER_HEAVY_FACTOR * 2;
    wanted = wanted < COUNTERS_MIN ? COUNTERS_MIN : wanted;
    wanted =
        wanted > MUSTER_HEAVY_COUNTERS_MAX ? MUSTER_HEAVY_COUNTERS_MAX : wanted;
    uint32_t size = 1;
    while (size < 2 * wanted) {
        size *= 2;
    }
    heavy->keys = keys;
    heavy->counters = wanted;
    heavy->mask = size - 1;
    heavy->table = muster_mem_array(size, sizeof(*heavy->table));
    heavy->spare = muster_mem_array(size, sizeof(*heavy->spare));
    if (heavy->table == NULL || heavy->spare == NULL) {
        muster_heavy_free(heavy);
        return MUSTER_ERR_NO_MEMORY;
    }
    *heavy_out = heavy;
    return MUSTER_OK;
}

void muster_heavy_free(muster_heavy *heavy)
{
    if (heavy == NULL) {
        return;
    }
    muster_mem_free(heavy->table);
    muster_mem_free(heavy->spare);
    muster_mem_free(heavy);
}

static counter *find(counter *table, uint32_t mask, uint32_t key)
{
    uint32_t at = key * 0x9e3779b1u;
    at = (at ^ (at >> 15)) & mask;
    while (table[at].count != 0 && table[at].key != key) {
        at = (at + 1) & mask;
    }
    return &table[at];
}

/* Rebuild the table with c / divide - less for every count c; a counter that
 * would not be above 0 is freed. */
static void shrink(muster_heavy *heavy, uint32_t divide, uint32_t less)
{
    counter *old = heavy->table;
    counter *fresh = heavy->spare;
    heavy->used = 0;
    for (uint32_t i = 0; i <= heavy->mask; i++) {
        fresh[i] = (counter){0};
    }
    for (uint32_t i = 0; i <= heavy->mask; i++) {
        uint32_t count = old[i].count / divide;
        if (count > less) {
            *find(fresh, heavy->mask, old[i].key) =
                (counter){.key = old[i].key, .count = count - less};
            heavy->used++;
        }
    }
    heavy->table = fresh;
    heavy->spare = old;
}

void muster_heavy_note(muster_heavy *heavy, uint32_t key)
{
    MUSTER_ASSERT(heavy->used <= heavy->counters);
    heavy->total++;
    counter *at = find(heavy->table, heavy->mask, key);
    if (at->count != 0) {
        at->count++;
        if (at->count == UINT32_MAX) {
            muster_heavy_age(heavy);
        }
    } else if (heavy->used < heavy->counters) {
        *at = (counter){.key = key, .count = 1};
        heavy->used++;
    } else {
        shrink(heavy, 1, 1);
    }
}

uint64_t muster_heavy_total(const muster_heavy *heavy)
{
    return heavy->total;
}

uint64_t muster_heavy_estimate(const muster_heavy *heavy, uint32_t key)
{
    return find(heavy->table, heavy->mask, key)->count;
}

bool muster_heavy_is_hot(const muster_heavy *heavy, uint32_t factor,
                         uint32_t key)
{
    uint64_t count = muster_heavy_estimate(heavy, key);
    return count >= NOTES_MIN && count * heavy->keys > heavy->total * factor;
}

size_t muster_heavy_hot(const muster_heavy *heavy, uint32_t factor,
                        uint32_t *keys_out, size_t capacity)
{
    size_t found = 0;
    for (uint32_t i = 0; i <= heavy->mask && found < capacity; i++) {
        uint64_t count = heavy->table[i].count;
        if (count >= NOTES_MIN && count * heavy->keys > heavy->total * factor) {
            keys_out[found++] = heavy->table[i].key;
        }
    }
    return found;
}

void muster_heavy_age(muster_heavy *heavy)
{
    shrink(heavy, 2, 0);
    heavy->total /= 2;
}
