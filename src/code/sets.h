/*
 * code/sets.h -- straggler sets to try a code on.
 *
 * All choices of s from n when they are no more than a limit; else the sets
 * that hurt structured codes (bursts of neighbours, every second worker, evenly
 * spread) from every start that the limit allows, and seeded random ones for
 * the other half.
 *
 *   Determinism  The same sequence for the same (n, s, limit, seed).
 */
#ifndef MUSTER_CODE_SETS_H
#define MUSTER_CODE_SETS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "muster/code.h"

typedef struct muster_code_sets {
    uint32_t workers;
    uint32_t stragglers;
    uint64_t total; // sets that next() will give
    uint64_t at;
    bool all;
    muster_rng rng;
} muster_code_sets;

muster_code_sets muster_code_sets_make(uint32_t workers, uint32_t stragglers,
                                       uint64_t limit, uint64_t seed);

/* The next set: `missing` (room for s) ascending, kept by the caller between
 * calls. False at the end. */
bool muster_code_sets_next(muster_code_sets *sets, uint32_t *missing);

/* The workers not in `missing`; returns their number. */
uint32_t muster_code_sets_responders(uint32_t workers, const uint32_t *missing,
                                     uint32_t stragglers, uint32_t *out);

/* What a code does over such sets. */
typedef struct muster_code_survey {
    uint64_t sets_checked;
    double error_worst;    // predicted float32 error
    double residual_worst; // of aB - 1, in double
    uint64_t sets_inexact; // above MUSTER_CODE_EXACT
} muster_code_survey;

/* Up to `limit` sets of exactly the code's stragglers, solved as far as
 * `improvement_min` of a query says. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_code_survey_run(const muster_code *code,
                                                    uint64_t limit,
                                                    uint64_t seed,
                                                    double improvement_min,
                                                    muster_code_survey *out);

#endif // MUSTER_CODE_SETS_H
