/*
 * ps/store/delta.h -- the arithmetic of replicas: take the delta of a replica,
 * apply it at the owner, merge the owner's row into the replica.
 *
 * A row is `width` weights followed by the state of its optimiser, `floats` in
 * all. Norms and products are of the weights alone. Sums have one fixed order
 * (base/simd.h).
 *
 *   Allocation   None.
 *   Not here     When replicas are synchronised (ps/protocol/replica.c).
 */
#ifndef MUSTER_PS_STORE_DELTA_H
#define MUSTER_PS_STORE_DELTA_H

#include <stdint.h>

typedef struct muster_delta_shape {
    uint32_t width;
    uint32_t floats;
} muster_delta_shape;

typedef struct muster_delta_taken {
    float norm2; // squared norm of the delta
    float along; // its product with `others`
} muster_delta_taken;

/* delta = row - base, then base = row. `delta` may be `base`, when the delta is
 * not wanted. */
muster_delta_taken muster_delta_take(const float *row, float *base,
                                     float *delta, const float *others,
                                     muster_delta_shape shape);

/* Only this share of the change of the weights counts: scale it in the delta,
 * and take the rest back from row and base, which are equal. */
void muster_delta_damp(float *row, float *base, float *delta, uint32_t width,
                       float share);

/* row += delta, then sent = row. `sent` may be `row`. */
void muster_delta_apply(float *row, const float *delta, float *sent,
                        uint32_t floats);

/*
 * Rows of adagrad, weights and as many sums of squares, which several nodes
 * change at the same time. The steps of each shrink with the squares that it
 * knows of; the steps of all must shrink with the squares of all. So what is
 * taken of a weight is its change times the root of the sum that made it, which
 * makes it a sum of gradients, and the owner divides it by the root of the sum
 * of all squares. A weight whose sum did not change is left as it is: no
 * gradient changed it. No two of the rows overlap.
 */
void muster_delta_take_gradients(const float *restrict row,
                                 float *restrict base, float *restrict delta,
                                 uint32_t width);
void muster_delta_apply_gradients(float *restrict row,
                                  const float *restrict delta, uint32_t width);

typedef struct muster_delta_merged {
    float others_norm2; // squared norm of `others`
    float along;        // product of `others` and the delta before
} muster_delta_merged;

/* others = owner - base: what other nodes changed. Then row = owner + (row -
 * base) and base = owner. They do not overlap. */
muster_delta_merged muster_delta_merge(float *restrict row,
                                       float *restrict base,
                                       float *restrict others,
                                       const float *restrict owner,
                                       muster_delta_shape shape);
/* The same where nobody asks what others changed. */
void muster_delta_add_owner(float *restrict row, float *restrict base,
                            const float *restrict owner, uint32_t floats);

#endif // MUSTER_PS_STORE_DELTA_H
