/*
 * code/families/linear.h -- what the kinds of linear:KIND share.
 *
 * Communication-efficient gradient codes from any linear code (Kadhe,
 * Koyluoglu, Ramchandran, ISIT 2020): block length = load, dimension =
 * reduction m, minimum distance = tolerance + 1, one group of workers after
 * another (group.h).
 */
#ifndef MUSTER_CODE_FAMILIES_LINEAR_H
#define MUSTER_CODE_FAMILIES_LINEAR_H

#include "code/group.h"

/* The table of a kind; all decode through the group engine. Further fields may
 * follow the texts. */
#define MUSTER_LINEAR_OPS(kind, build_function, needs_text, ...)          \
    {                                                                     \
        .name = "linear:" kind, .build = (build_function),                \
        .weights = muster_group_weights, .free_state = muster_group_free, \
        .progress_bytes = muster_group_progress_bytes,                    \
        .progress_reset = muster_group_progress_reset,                    \
        .progress_add = muster_group_progress_add, .needs = (needs_text), \
        .limits = __VA_ARGS__                                             \
    }

/* Repeat the first `known` columns of a rows x workers generator until it is
 * full: workers beyond the block length copy earlier ones. */
void muster_linear_repeat(double *generator, uint32_t rows, uint32_t known,
                          uint32_t workers);

/* The best linear code known here for [columns, rows]: harmonic, or found by
 * search where that is better (linear_tuned.c). */
void muster_linear_tuned_generator(uint32_t rows, uint32_t columns,
                                   double *generator_out);

#endif // MUSTER_CODE_FAMILIES_LINEAR_H
