/*
 * base/map.h -- a small map from (table, key) to a number, for rows that
 * are on their way or replicated: few beside the rows of a table.
 *
 *   Threads      One.
 *   Allocation   When it grows; half full at most.
 */
#ifndef MUSTER_BASE_MAP_H
#define MUSTER_BASE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#define MUSTER_MAP_NONE UINT32_MAX

typedef struct muster_map {
    uint64_t *places; // table << 32 | key, plus one; 0 is free
    uint32_t *values;
    uint32_t count;
    uint32_t size; // a power of two, or 0
} muster_map;

void muster_map_fini(muster_map *map);

/* MUSTER_MAP_NONE when it is not there. */
uint32_t muster_map_find(const muster_map *map, uint64_t place);

/* Add what is not there yet; false when out of memory. */
bool muster_map_add(muster_map *map, uint64_t place, uint32_t value);

void muster_map_remove(muster_map *map, uint64_t place);

#endif // MUSTER_BASE_MAP_H
