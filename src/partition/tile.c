/*
 * tile.c -- one call of BLAS.
 */
#include "partition/tile.h"

#include <cblas.h>

void muster_tile_product(muster_tile_rows left, muster_tile_rows right,
                         float *out, size_t stride)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)left.count,
                (int)right.count, (int)left.columns, 1.0f, left.rows,
                (int)left.columns, right.rows, (int)right.columns, 0.0f, out,
                (int)stride);
}

muster_tile_rows muster_tile_run(const float *rows, uint32_t count,
                                 uint32_t columns, uint32_t number)
{
    return (muster_tile_rows){rows + (size_t)number * MUSTER_TILE * columns,
                              muster_tile_size(count, number), columns};
}
