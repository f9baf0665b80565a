/*
 * partition/refine.h -- swap samples of a class between workers until the
 * means agree.
 *
 * The greedy choice improves coverage, not the mean: what is left over goes to
 * the large workers. The drift of worker j is the distance of its mean from
 * the mean of the class; that of a random set of q_j of n samples is, in root
 * mean square,  sqrt(variance / q_j (n - q_j) / (n - 1)).  A swap is taken when
 * it lowers  sum_j q_j drift_j^2;  one side is always the worker whose drift is
 * largest beside the random one. It ends when no drift is above `share` times
 * the random one, or after `trials` trials.
 *
 * At first only samples of the later half of each worker's picks are swapped.
 * A sample that leaves costs at most the gain it brought (submodularity), and
 * late picks brought little: so coverage is kept. Where half of the trials do
 * not suffice, the other half is for all samples.
 */
#ifndef MUSTER_PARTITION_REFINE_H
#define MUSTER_PARTITION_REFINE_H

#include <stdint.h>

#include "base/rng.h"
#include "muster/status.h"

typedef struct muster_refine_input {
    const float *rows; // count x columns
    uint32_t count;
    uint32_t columns;
    uint32_t blocks;
    const uint32_t *quotas; // samples of each block
    const uint32_t *places; // of each sample in its block's order of choice
    double share;
    uint64_t trials;
    muster_rng rng;
} muster_refine_input;

/* owners: the block of each sample. Counts are added to what is there.
 * MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_refine_run(const muster_refine_input *input,
                                               uint32_t *owners,
                                               uint64_t *tried_out,
                                               uint64_t *done_out);

#endif // MUSTER_PARTITION_REFINE_H
