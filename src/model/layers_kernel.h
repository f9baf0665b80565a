/*
 * model/layers_kernel.h -- the loops of fully connected layers that are not
 * BLAS: one output, sparse rows, sums over rows, norms.
 *
 * They run at the speed of memory, so they can afford sums in double: each
 * result is the rounded exact sum but for about 2^-50 of its terms.
 *
 *   Threads      Pure functions over the caller's memory.
 *   Allocation   None; up to 4 KiB of stack.
 *   Determinism  Sums have one order, whatever the instruction set.
 */
#ifndef MUSTER_MODEL_LAYERS_KERNEL_H
#define MUSTER_MODEL_LAYERS_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "muster/rows.h"

/* Dense rows, `stride` floats apart. */
typedef struct muster_matrix {
    const float *data;
    size_t stride;
    uint32_t rows;
    uint32_t columns;
} muster_matrix;

/* Where sums over rows go: `wide` where it is not NULL, else `narrow`. */
typedef struct muster_layer_sums {
    float *narrow;
    double *wide;
} muster_layer_sums;

/* out[r] = bias + x_r . w */
void muster_layer_dot(const muster_matrix *x, const float *w, float bias,
                      float *out);

/* sums += x' slopes, one slope a row. */
void muster_layer_dot_back(const muster_matrix *x, const float *slopes,
                           muster_layer_sums sums);

/* Rows begin..end-1: out (count x width, by row) += x W. */
void muster_layer_sparse(const muster_rows *rows, uint32_t begin, uint32_t end,
                         const float *w, uint32_t width, float *out);

/* Rows begin..end-1: sums (features x width) += x' slopes. */
void muster_layer_sparse_back(const muster_rows *rows, uint32_t begin,
                              uint32_t end, const float *slopes, uint32_t width,
                              muster_layer_sums sums);

/* sums[c] += sum_r x[r][c] */
void muster_layer_column_sums(const muster_matrix *x, muster_layer_sums sums);

/* sums[at + c] += strip[c] */
void muster_layer_put_sums(const double *strip, uint32_t count,
                           muster_layer_sums sums, size_t at);

/* x = max(x, 0) */
void muster_layer_relu(float *x, size_t count);

/* out = slopes where out > 0, else 0. They do not overlap. */
void muster_layer_mask(float *out, const float *slopes, size_t count);

/* x = scale x */
void muster_layer_scale(float *x, float scale, size_t count);

/* Sum of squares; good to 1e-4. */
double muster_layer_squares(const float *x, size_t count);

#endif // MUSTER_MODEL_LAYERS_KERNEL_H
