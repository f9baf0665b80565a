/*
 * code/generator.h -- generator matrices of linear codes: how well any `rows`
 * of the columns can be inverted, and the minimum distance over the reals.
 *
 * A generator is rows x columns (k' x n'), row-major.
 */
#ifndef MUSTER_CODE_GENERATOR_H
#define MUSTER_CODE_GENERATOR_H

#include <stdint.h>

#include "muster/code.h"

typedef struct muster_generator {
    uint32_t rows;    // k', the dimension
    uint32_t columns; // n', the block length
    double *entries;
} muster_generator;

typedef struct muster_generator_survey {
    double cond_worst;
    double error_worst; // predicted float32 error of a group alone
} muster_generator_survey;

/* Over all choices of `answers` columns (at least rows of them) when they are
 * no more than limit, else over some (sets.h). MUSTER_ERR_NO_MEMORY,
 * MUSTER_ERR_INVALID when an entry is not finite. */
MUSTER_CHECKED muster_status
muster_generator_survey_run(const muster_generator *generator, uint32_t answers,
                            uint64_t limit, muster_generator_survey *out);

/*
 * The smallest number of nonzero entries of x G, x != 0: any distance - 1
 * columns may be lost. By hyperplanes: it is n' minus the largest number of
 * columns in one, and such a one is spanned by k' - 1 independent columns.
 * MUSTER_ERR_UNSUPPORTED  rank below k' (*distance_out = 0), or more than
 *                         choices_max to look at (untouched)
 */
MUSTER_CHECKED muster_status
muster_generator_distance(const muster_generator *generator,
                          uint32_t choices_max, uint32_t *distance_out);

#endif // MUSTER_CODE_GENERATOR_H
