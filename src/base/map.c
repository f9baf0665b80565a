/*
 * map.c -- linear probing.
 *
 * Invariants
 *  1. From the slot where a key's search starts to the key there is no free
 *     slot. So removal moves back every key that a new gap would hide.
 *  2. At least half of the slots are free, so a search ends.
 */
#include "base/map.h"

#include <stddef.h>

#include "base/mem.h"

#define SIZE_MIN   256u
#define SHIFT_MIN  56u // 64 - log2(SIZE_MIN)
#define SIZE_LIMIT 0x80000000u

/* Fibonacci hashing: the upper bits of the product depend on all bits of the
 * key. */
static uint32_t start(const muster_map *map, uint64_t stored)
{
    return (uint32_t)((stored * 0x9e3779b97f4a7c15ull) >> map->shift);
}

void muster_map_fini(muster_map *map)
{
    muster_mem_free(map->stored);
    muster_mem_free(map->values);
    *map = (muster_map){0};
}

/* The slot of a key: its own, or the free one where it belongs. */
static uint32_t slot_of(const muster_map *map, uint64_t stored)
{
    uint32_t at = start(map, stored);
    while (map->stored[at] != 0 && map->stored[at] != stored) {
        at = (at + 1) & (map->size - 1);
    }
    return at;
}

uint32_t muster_map_find(const muster_map *map, uint64_t key)
{
    if (map->count == 0) {
        return MUSTER_MAP_NONE;
    }
    uint32_t at = slot_of(map, key + 1);
    return map->stored[at] == 0 ? MUSTER_MAP_NONE : map->values[at];
}

static bool grow(muster_map *map)
{
    if (map->size == SIZE_LIMIT) {
        return false;
    }
    muster_map larger = {.size = map->size == 0 ? SIZE_MIN : 2 * map->size,
                         .shift = map->size == 0 ? SHIFT_MIN : map->shift - 1,
                         .count = map->count};
    larger.stored = muster_mem_array(larger.size, sizeof(*larger.stored));
    larger.values = muster_mem_array(larger.size, sizeof(*larger.values));
    if (larger.stored == NULL || larger.values == NULL) {
        muster_map_fini(&larger);
        return false;
    }
    for (uint32_t i = 0; i < map->size; i++) {
        if (map->stored[i] != 0) {
            uint32_t at = slot_of(&larger, map->stored[i]);
            larger.stored[at] = map->stored[i];
            larger.values[at] = map->values[i];
        }
    }
    muster_map_fini(map);
    *map = larger;
    return true;
}

bool muster_map_set(muster_map *map, uint64_t key, uint32_t value)
{
    if (map->count >= map->size / 2 && !grow(map)) {
        return false;
    }
    uint32_t at = slot_of(map, key + 1);
    map->count += map->stored[at] == 0;
    map->stored[at] = key + 1;
    map->values[at] = value;
    return true;
}

void muster_map_remove(muster_map *map, uint64_t key)
{
    if (map->count == 0) {
        return;
    }
    uint32_t mask = map->size - 1;
    uint32_t gap = slot_of(map, key + 1);
    if (map->stored[gap] == 0) {
        return;
    }
    map->count--;
    for (uint32_t at = (gap + 1) & mask; map->stored[at] != 0;
         at = (at + 1) & mask) {
        // A key whose search starts at or before the gap moves into it.
        uint32_t from = start(map, map->stored[at]);
        if (((at - from) & mask) >= ((at - gap) & mask)) {
            map->stored[gap] = map->stored[at];
            map->values[gap] = map->values[at];
            gap = at;
        }
    }
    map->stored[gap] = 0;
}

bool muster_map_next(const muster_map *map, uint32_t *cursor, uint64_t *key_out)
{
    while (*cursor < map->size) {
        uint64_t stored = map->stored[(*cursor)++];
        if (stored != 0) {
            *key_out = stored - 1;
            return true;
        }
    }
    return false;
}
