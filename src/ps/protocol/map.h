/*
 * ps/protocol/map.h -- a small map from (table, key) to a number, for rows that
 * are on their way or replicated: few beside the rows of a table.
 *
 *   Threads      One.
 *   Allocation   When it grows; half full at most.
 */
#ifndef MUSTER_PS_PROTOCOL_MAP_H
#define MUSTER_PS_PROTOCOL_MAP_H

#include <stdbool.h>
#include <stdint.h>

#define MUSTER_PSMAP_NONE UINT32_MAX

typedef struct muster_psmap {
    uint64_t *places; // table << 32 | key, plus one; 0 is free
    uint32_t *values;
    uint32_t count;
    uint32_t size; // a power of two, or 0
} muster_psmap;

void muster_psmap_fini(muster_psmap *map);

/* MUSTER_PSMAP_NONE when it is not there. */
uint32_t muster_psmap_find(const muster_psmap *map, uint64_t place);

/* Add what is not there yet; false when out of memory. */
bool muster_psmap_add(muster_psmap *map, uint64_t place, uint32_t value);

void muster_psmap_remove(muster_psmap *map, uint64_t place);

#endif // MUSTER_PS_PROTOCOL_MAP_H
