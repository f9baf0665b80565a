/*
 * ps/store/delta.h -- the arithmetic of replicas: take the delta of a replica,
 * apply it at the owner, merge the owner's row into the replica.
 *
 * A row is `width` weights followed by the state of its optimiser, `floats` in
 * all. Norms are of the weights alone. Sums have one fixed order
 * (base/simd.h).
 *
 *   Allocation   None.
 *   Not here     When replicas are synchronised (ps/protocol/replica.c).
 */
#ifndef MUSTER_PS_STORE_DELTA_H
#define MUSTER_PS_STORE_DELTA_H

#include <stdint.h>

/* delta = row - base, then base = row. Returns the squared norm of delta.
 * `delta` may be `base`, when the delta is not wanted. */
float muster_delta_take(const float *row, float *base, float *delta,
                        uint32_t width, uint32_t floats);

/* row += delta, then sent = row. `sent` may be `row`. */
void muster_delta_apply(float *row, const float *delta, float *sent,
                        uint32_t floats);

typedef struct muster_delta_norms {
    float others; // squared norm of owner - base: what other nodes changed
    float owner;  // squared norm of the owner's row
} muster_delta_norms;

/* row = owner + (row - base), then base = owner. They do not overlap. */
muster_delta_norms muster_delta_merge(float *restrict row, float *restrict base,
                                      const float *restrict owner,
                                      uint32_t width, uint32_t floats);

#endif // MUSTER_PS_STORE_DELTA_H
