/*
 * ps/store/delta.h -- the arithmetic of copies: what a copy has delta, and the
 * owner's row put under it.
 *
 * A row is `width` weights followed by state, `floats` in all; norms are of the
 * weights alone. Sums have one fixed order (base/simd.h).
 *
 *   Allocation   None.
 *   Not here     When copies are synchronised: ps/protocol/copy.c.
 */
#ifndef MUSTER_PS_STORE_DELTA_H
#define MUSTER_PS_STORE_DELTA_H

#include <stdint.h>

/* delta = row - base, base = row; returns the square of the gain's norm.
 * `delta` may be `base`: then it is not kept. */
float muster_delta_take(const float *row, float *base, float *delta,
                        uint32_t width, uint32_t floats);

/* row += delta, and told = row; they may be the same. */
void muster_delta_apply(float *row, const float *delta, float *told,
                        uint32_t floats);

typedef struct muster_delta_norms {
    float others; // square of the norm of owner - base
    float owner;  // and of owner
} muster_delta_norms;

/* row = owner + (row - base), base = owner. The three do not overlap. */
muster_delta_norms muster_delta_merge(float *restrict row, float *restrict base,
                                      const float *restrict owner,
                                      uint32_t width, uint32_t floats);

#endif // MUSTER_PS_STORE_DELTA_H
