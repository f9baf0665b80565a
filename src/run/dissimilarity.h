/*
 * run/dissimilarity.h -- how much the gradients of the workers' samples differ.
 *
 * With g the mean gradient of all samples, g_j that of worker j's, and p_j its
 * share of the samples: sum over j of p_j |g_j - g|^2, over |g|^2. It is 0
 * where every worker has the gradient of all. Taken at the model's first
 * parameters.
 */
#ifndef MUSTER_RUN_DISSIMILARITY_H
#define MUSTER_RUN_DISSIMILARITY_H

#include <stdint.h>

#include "data/dataset.h"
#include "muster/status.h"

typedef struct muster_dissimilarity_opts {
    const char *model; // its spec
    uint64_t seed;     // of its parameters
    uint32_t owners;
} muster_dissimilarity_opts;

/* MUSTER_ERR_INVALID, MUSTER_ERR_INPUT: the model is none, or not one for this
 * data. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_dissimilarity_measure(
    const muster_dissimilarity_opts *opts, const muster_dataset *data,
    const uint32_t *owner_of, muster_error *error_out, double *value_out);

#endif // MUSTER_RUN_DISSIMILARITY_H
