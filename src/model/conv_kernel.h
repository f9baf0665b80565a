/*
 * model/conv_kernel.h -- the loops of a convolution that are not BLAS.
 *
 * An image lies row by row from the top left, the channels of a pixel side by
 * side. A 3 x 3 convolution is a matrix product: pixel p becomes a row of the
 * 9 x channels floats around it, zeros beyond the border ("im2col").
 *
 *   Threads      Pure functions over the caller's memory.
 *   Allocation   None.
 */
#ifndef MUSTER_MODEL_CONV_KERNEL_H
#define MUSTER_MODEL_CONV_KERNEL_H

#include <stdint.h>

#include "muster/rows.h"

#define MUSTER_CONV_TAPS 9u

/* columns (pixels x 9 channels) from one image. */
void muster_conv_unfold(const muster_image *shape, const float *image,
                        float *columns);

/* Back: image += what each of its floats has in `columns`. */
void muster_conv_fold(const muster_image *shape, const float *columns,
                      float *image);

/* Of each 2 x 2 pixels of `maps` (channels of `shape`) the largest, plus the
 * channel's bias, or 0 where that is negative. picks_out: which of the four. An
 * odd last row or column is left out. */
void muster_conv_pool(const muster_image *shape, const float *maps,
                      const float *biases, float *out, uint8_t *picks_out);

/* Back: slopes of the pooled pixels go to where `picks` says, 0 elsewhere. */
void muster_conv_unpool(const muster_image *shape, const float *slopes,
                        const uint8_t *picks, float *maps);

#endif // MUSTER_MODEL_CONV_KERNEL_H
