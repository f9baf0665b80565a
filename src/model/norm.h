/*
 * model/norm.h -- layer norm of a row: y = gain (x - mean) / deviation + shift.
 *
 * Mean and deviation are over the units of the row, so a row's outputs depend
 * on the row alone, as gradient codes need it (Ba et al., 2016).
 *
 *   Threads      Pure functions over the caller's memory.
 *   Allocation   None; up to 4 KiB of stack.
 */
#ifndef MUSTER_MODEL_NORM_H
#define MUSTER_MODEL_NORM_H

#include <stddef.h>
#include <stdint.h>

#include "model/layers_kernel.h"

/* x becomes y; normed_out is (x - mean) / deviation. Returns 1 / deviation,
 * where the variance has 1e-5 added. */
float muster_norm_row(const float *gain, const float *shift, size_t count,
                      float *x, float *normed_out);

/* Slopes of y become slopes of x. */
void muster_norm_row_back(const float *gain, const float *normed, float inverse,
                          size_t count, float *slopes);

/* sums[c] += sum_r a[r][c] b[r][c]: the gradient of the gains. */
void muster_norm_product_sums(const muster_matrix *a, const muster_matrix *b,
                              muster_layer_sums sums);

#endif // MUSTER_MODEL_NORM_H
