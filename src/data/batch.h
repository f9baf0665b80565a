/*
 * data/batch.h -- which samples a step uses.
 *
 * All steps read one endless sequence of samples: epoch e of it is the keyed
 * permutation (seed, e) of all samples (base/perm.h). The batch of step t is
 * positions t*size .. t*size+size-1; position q is element q % samples of epoch
 * q / samples. Every epoch so visits every sample exactly once, and nothing
 * about workers, parts or codes enters. A full batch (size == samples) is every
 * sample, in order, at every step.
 *
 *   Threads      Pure functions.
 *   Allocation   None.
 *   Determinism  The same on every machine, for ever.
 */
#ifndef MUSTER_DATA_BATCH_H
#define MUSTER_DATA_BATCH_H

#include <stdint.h>

typedef struct muster_batch {
    uint64_t seed;
    uint64_t samples; // of the whole data set, 1..2^32-1
    uint64_t size;    // samples a step, at least 1; may exceed `samples`
} muster_batch;

/* Samples first..first+count-1 of the batch of `step` (first + count <= size),
 * so that a long batch can be drawn in pieces. About 50 ns a sample. */
void muster_batch_draw(const muster_batch *batch, uint64_t step, uint64_t first,
                       uint64_t count, uint32_t *samples_out);

/* Steps that cover so many epochs (>= 0), rounded up. */
uint64_t muster_batch_steps(const muster_batch *batch, double epochs);

#endif // MUSTER_DATA_BATCH_H
