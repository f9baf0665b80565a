/*
 * map.c -- linear probing; removal shifts back what a gap would hide.
 */
#include "base/map.h"

#include <stddef.h>

#include "base/mem.h"

#define SIZE_MIN 256u

static uint32_t start(const muster_map *map, uint64_t stored)
{
    uint64_t mixed = stored * 0x9e3779b97f4a7c15ull;
    return (uint32_t)(mixed >> 40) & (map->size - 1);
}

void muster_map_fini(muster_map *map)
{
    muster_mem_free(map->places);
    muster_mem_free(map->values);
    *map = (muster_map){0};
}

static uint32_t slot_of(const muster_map *map, uint64_t stored)
{
    uint32_t at = start(map, stored);
    while (map->places[at] != 0 && map->places[at] != stored) {
        at = (at + 1) & (map->size - 1);
    }
    return at;
}

uint32_t muster_map_find(const muster_map *map, uint64_t place)
{
    if (map->count == 0) {
        return MUSTER_MAP_NONE;
    }
    uint32_t at = slot_of(map, place + 1);
    return map->places[at] == 0 ? MUSTER_MAP_NONE : map->values[at];
}

static bool grow(muster_map *map)
{
    muster_map larger = {.size = map->size == 0 ? SIZE_MIN : 2 * map->size,
                           .count = map->count};
    larger.places = muster_mem_array(larger.size, sizeof(*larger.places));
    larger.values = muster_mem_array(larger.size, sizeof(*larger.values));
    if (larger.places == NULL || larger.values == NULL) {
        muster_map_fini(&larger);
        return false;
    }
    for (uint32_t i = 0; i < map->size; i++) {
        if (map->places[i] != 0) {
            uint32_t at = slot_of(&larger, map->places[i]);
            larger.places[at] = map->places[i];
            larger.values[at] = map->values[i];
        }
    }
    muster_map_fini(map);
    *map = larger;
    return true;
}

bool muster_map_add(muster_map *map, uint64_t place, uint32_t value)
{
    if (2 * (map->count + 1) > map->size && !grow(map)) {
        return false;
    }
    uint32_t at = slot_of(map, place + 1);
    map->count += map->places[at] == 0;
    map->places[at] = place + 1;
    map->values[at] = value;
    return true;
}

void muster_map_remove(muster_map *map, uint64_t place)
{
    if (map->count == 0) {
        return;
    }
    uint32_t mask = map->size - 1;
    uint32_t gap = slot_of(map, place + 1);
    if (map->places[gap] == 0) {
        return;
    }
    map->count--;
    for (uint32_t at = (gap + 1) & mask; map->places[at] != 0;
         at = (at + 1) & mask) {
        // Whoever starts at or before the gap would not be found behind it.
        uint32_t from = start(map, map->places[at]);
        if (((at - from) & mask) >= ((at - gap) & mask)) {
            map->places[gap] = map->places[at];
            map->values[gap] = map->values[at];
            gap = at;
        }
    }
    map->places[gap] = 0;
}
