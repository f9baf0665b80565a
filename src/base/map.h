/*
 * base/map.h -- the hash map: 64-bit keys to 32-bit values.
 *
 * Open addressing with linear probing; at most half of the slots are taken.
 * Texts get a map through data/names.h. What else a caller wants to keep under
 * a key lies in an array of the caller's; the value is its index.
 *
 *   Lifecycle    A zeroed map is empty; fini makes it so again.
 *   Threads      One.
 *   Allocation   add only: 24 to 48 bytes a key, and as much again for a
 *                moment while the map grows.
 */
#ifndef MUSTER_BASE_MAP_H
#define MUSTER_BASE_MAP_H

#include <stdbool.h>
#include <stdint.h>

/* What find answers for a key that is not there. */
#define MUSTER_MAP_NONE UINT32_MAX

typedef struct muster_map {
    uint64_t *stored; // key + 1; 0: the slot is free
    uint32_t *values;
    uint32_t count;
    uint32_t size;  // slots: a power of two, or 0
    uint32_t shift; // 64 - log2(size)
} muster_map;

void muster_map_fini(muster_map *map);

/* MUSTER_MAP_NONE when the key is not there. Keys are below UINT64_MAX. */
uint32_t muster_map_find(const muster_map *map, uint64_t key);

/* Set the value of a key, new or known; false when out of memory. */
bool muster_map_set(muster_map *map, uint64_t key, uint32_t value);

/* A key that is not there is fine. */
void muster_map_remove(muster_map *map, uint64_t key);

/*
 * Walk all keys, in no particular order: `cursor` begins at 0; false after the
 * last key. The map must not change meanwhile.
 */
bool muster_map_next(const muster_map *map, uint32_t *cursor,
                     uint64_t *key_out);

#endif // MUSTER_BASE_MAP_H
