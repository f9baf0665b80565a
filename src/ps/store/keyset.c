/*
 * keyset.c -- ranges sorted by (table, first); ranges that touch are merged.
 */
#include "ps/store/keyset.h"

#include <stdlib.h>

muster_keyset muster_keyset_make(void)
{
    return (muster_keyset){.ranges = muster_vec_make(sizeof(muster_keyrange))};
}

void muster_keyset_fini(muster_keyset *set)
{
    muster_vec_fini(&set->ranges);
}

muster_status muster_keyset_add(muster_keyset *set, muster_keyrange range)
{
    return muster_vec_append(&set->ranges, &range, 1) ? MUSTER_OK
                                                      : MUSTER_ERR_NO_MEMORY;
}

static int by_place(const void *a, const void *b)
{
    const muster_keyrange *x = a;
    const muster_keyrange *y = b;
    if (x->table != y->table) {
        return x->table < y->table ? -1 : 1;
    }
    return (x->first > y->first) - (x->first < y->first);
}

void muster_keyset_seal(muster_keyset *set)
{
    muster_keyrange *ranges = set->ranges.data;
    size_t kept = 0;
    if (set->ranges.count == 0) {
        return;
    }
    qsort(ranges, set->ranges.count, sizeof(*ranges), by_place);
    for (size_t i = 1; i < set->ranges.count; i++) {
        muster_keyrange *last = &ranges[kept];
        if (ranges[i].table == last->table &&
            (uint64_t)ranges[i].first <= (uint64_t)last->last + 1) {
            last->last =
                ranges[i].last > last->last ? ranges[i].last : last->last;
        } else {
            ranges[++kept] = ranges[i];
        }
    }
    set->ranges.count = kept + 1;
}

bool muster_keyset_has(const muster_keyset *set, uint32_t table, uint32_t key)
{
    const muster_keyrange *ranges = set->ranges.data;
    size_t low = 0;
    size_t high = set->ranges.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const muster_keyrange *range = &ranges[middle];
        if (range->table < table ||
            (range->table == table && range->last < key)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < set->ranges.count && ranges[low].table == table &&
           ranges[low].first <= key;
}
