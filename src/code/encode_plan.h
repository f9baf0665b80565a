/*
 * code/encode_plan.h -- how a worker turns its terms into few gradients.
 *
 * Computing each part's gradient by itself and then mixing them costs one
 * buffer a part. But parts whose coefficients are multiples of each other can
 * be summed first: their gradient is accumulated with a weight per part (as
 * weights of the samples), in one *lane*. The message is then a mix of lanes:
 *
 *     lane_l    = sum over parts of the lane: weight_part * gradient_part
 *     message_b = sum over l, u: coefs[l][b][u] * block u of lane_l
 *
 * Codes with whole messages and group codes need one lane whatever the load;
 * ye-abbe and complex codes need one a part.
 *
 *   Promise      Lanes reproduce the terms to 1e-12 relative, exactly when the
 *                coefficients are equal. Works on any terms, as received from
 *                a coordinator: needs no muster_code.
 *   Ownership    create copies; the caller frees.
 *   Threads      A plan belongs to one thread: apply uses its scratch.
 *   Allocation   Only create allocates.
 */
#ifndef MUSTER_CODE_ENCODE_PLAN_H
#define MUSTER_CODE_ENCODE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "muster/code.h"

#define MUSTER_NO_LANE UINT32_MAX

typedef struct muster_encode_plan_part {
    uint32_t part;
    uint32_t lane;
    double weight; // of the part's gradient in its lane
} muster_encode_plan_part;

typedef struct muster_encode_plan {
    uint32_t gradient_blocks;
    uint32_t message_blocks;
    uint32_t part_count;
    uint32_t lane_count;
    muster_encode_plan_part *parts; // ascending by part
    double *coefs;      // [lane][message block][gradient block], largest is 1
    const float **rows; // scratch of apply: a message block's lane blocks
    double *weights;
    double *sums; // NULL: so few rows that none is needed
} muster_encode_plan;

/* Terms sorted by part; blocks in range (wire/terms.h checks).
 * MUSTER_ERR_INVALID when they are not; MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_encode_plan_create(
    const muster_code_encode_term *terms, uint32_t term_count,
    uint32_t gradient_blocks, uint32_t message_blocks,
    muster_encode_plan **plan_out);

void muster_encode_plan_free(muster_encode_plan *plan);

/* List further parts, which no lane has (`lane` is MUSTER_NO_LANE), so that the
 * plan's parts are exactly these: ascending, with all that it has so far.
 * MUSTER_ERR_INVALID: one that it has is not among them. */
MUSTER_CHECKED muster_status muster_encode_plan_spread(muster_encode_plan *plan,
                                                       const uint32_t *parts,
                                                       uint32_t count);

/* Floats of one block and of the whole message, for gradients of dim floats. */
size_t muster_encode_plan_block(const muster_encode_plan *plan, size_t dim);
size_t muster_encode_plan_message(const muster_encode_plan *plan, size_t dim);

/* Message coordinates begin <= t < end from the lanes (dim floats each). The
 * padding of the last block is written as what the code makes of zeros. */
void muster_encode_plan_apply(muster_encode_plan *plan,
                              const float *const *lanes, size_t dim,
                              size_t begin, size_t end, float *message);

#endif // MUSTER_CODE_ENCODE_PLAN_H
