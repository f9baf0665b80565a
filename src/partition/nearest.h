/*
 * partition/nearest.h -- for each of many clients, the nearest items seen.
 *
 * A list keeps up to twice what it must; when it is full it is cut to the
 * nearest half, and nothing below the last of them enters any more.
 *
 *   Promise      The kept set depends on what was offered, not on the order:
 *                nearer is larger similarity, then lower item.
 *   Threads      One at a time for a list.
 */
#ifndef MUSTER_PARTITION_NEAREST_H
#define MUSTER_PARTITION_NEAREST_H

#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

typedef struct muster_nearest_entry {
    float similarity;
    uint32_t item;
} muster_nearest_entry;

typedef struct muster_nearest {
    uint32_t clients;
    uint32_t keep;                 // items of a list in the end
    float *floors;                 // clients: less similar items do not enter
    uint32_t *counts;              // clients: entries
    muster_nearest_entry *entries; // clients x 2 keep
} muster_nearest;

/* Empty lists; similarities that are not above 0 do not enter. */
MUSTER_CHECKED muster_status muster_nearest_init(muster_nearest *nearest,
                                                 uint32_t clients,
                                                 uint32_t keep);
void muster_nearest_fini(muster_nearest *nearest);

static inline muster_nearest_entry *
muster_nearest_list(const muster_nearest *nearest, uint32_t client)
{
    return nearest->entries + (size_t)client * 2 * nearest->keep;
}

/* A tile of similarities: row a is for client or item first_row + a. */
typedef struct muster_nearest_tile {
    const float *values;
    size_t stride;
    uint32_t first_row;
    uint32_t rows;
    uint32_t first_column;
    uint32_t columns;
} muster_nearest_tile;

/* Offer a tile whose rows are clients and columns items; or the reverse. */
void muster_nearest_by_rows(muster_nearest *nearest,
                            const muster_nearest_tile *tile);
void muster_nearest_by_columns(muster_nearest *nearest,
                               const muster_nearest_tile *tile);

/* Cut a list to the nearest `keep`. */
void muster_nearest_cut(muster_nearest *nearest, uint32_t client);

#endif // MUSTER_PARTITION_NEAREST_H
