/*
 * data/feature_rows.h -- features of samples in a file of their own, such as an
 * embedding: an npy array with a row for each sample, in their order.
 *
 *   Ownership    What read makes is for muster_mem_free().
 */
#ifndef MUSTER_DATA_FEATURE_ROWS_H
#define MUSTER_DATA_FEATURE_ROWS_H

#include <stdint.h>

#include "muster/status.h"

typedef struct muster_feature_rows {
    float *dense;      // row after row
    uint32_t features; // of a row
} muster_feature_rows;

/*
 * MUSTER_ERR_INPUT      the file is missing, not such an array, or has not a
 *                       row for each of `samples` samples; a number in it is
 *                       not finite
 * MUSTER_ERR_NO_MEMORY, MUSTER_ERR_SYSTEM
 */
MUSTER_CHECKED muster_status muster_feature_rows_read(
    const char *path, uint64_t samples, muster_error *error_out,
    muster_feature_rows *rows_out);

#endif // MUSTER_DATA_FEATURE_ROWS_H
