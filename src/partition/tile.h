/*
 * partition/tile.h -- inner products of two runs of rows, one product of BLAS.
 */
#ifndef MUSTER_PARTITION_TILE_H
#define MUSTER_PARTITION_TILE_H

#include <stddef.h>
#include <stdint.h>

/* Rows of a tile: large enough for BLAS to be fast, small enough for a tile of
 * floats (256 KiB) to stay in the second cache. */
#define MUSTER_TILE 256u

typedef struct muster_tile_rows {
    const float *rows;
    uint32_t count;
    uint32_t columns;
} muster_tile_rows;

/* Rows of run `number`: MUSTER_TILE, or fewer at the end. */
static inline uint32_t muster_tile_size(uint32_t rows, uint32_t number)
{
    uint32_t left = rows - number * MUSTER_TILE;
    return left < MUSTER_TILE ? left : MUSTER_TILE;
}

static inline uint32_t muster_tile_count(uint32_t rows)
{
    return rows / MUSTER_TILE + (rows % MUSTER_TILE != 0);
}

/* out[a * stride + b] = <left row a, right row b>. */
void muster_tile_product(muster_tile_rows left, muster_tile_rows right,
                         float *out, size_t stride);

/* Run `number` of rows. */
muster_tile_rows muster_tile_run(const float *rows, uint32_t count,
                                 uint32_t columns, uint32_t number);

#endif // MUSTER_PARTITION_TILE_H
