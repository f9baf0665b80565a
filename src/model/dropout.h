/*
 * model/dropout.h -- which units of a layer a row does without.
 *
 * Every hidden unit is 0 with probability p, and 1 / (1 - p) of itself
 * otherwise, so that scores need no change where nothing is dropped. Which
 * units is a function of the run's seed, the step, the sample's number and the
 * layer: all workers that compute a sample in a step drop the same, so that
 * gradient codes stay exact and a resumed run goes on as it would have.
 *
 *   Determinism  The same on every machine.
 *   Threads      Pure functions.
 */
#ifndef MUSTER_MODEL_DROPOUT_H
#define MUSTER_MODEL_DROPOUT_H

#include <stddef.h>
#include <stdint.h>

/* What drops what in a step. */
typedef struct muster_dropout {
    uint32_t threshold; // p in 65,536ths; 0: nothing is dropped
    float scale;        // of what is kept
    uint64_t key;       // of the seed and the step
} muster_dropout;

/* p is 0 to below 1. */
muster_dropout muster_dropout_make(double p, uint64_t seed, uint64_t step);

/* Units begin..begin+count-1 of a sample's layer, at x; begin is a multiple
 * of 4. */
void muster_dropout_apply(const muster_dropout *dropout, uint32_t sample,
                          uint32_t layer, float *x, size_t begin, size_t count);

#endif // MUSTER_MODEL_DROPOUT_H
