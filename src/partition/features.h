/*
 * partition/features.h -- feature rows as the kernels want them: dense, of unit
 * length, side by side.
 *
 * Dense rows are copied; CSR rows are spread out; either may be projected to
 * fewer columns by a matrix of random signs (Achlioptas 2003): inner products
 * of unit rows are then off by about 1 / sqrt(columns). A row of zeros stays
 * zeros, so that its similarity to any row is 0.
 *
 *   Promise      After muster_features_init() every feature is known to be
 *                finite.
 *   Determinism  Signs depend on (seed, column) alone.
 *   Threads      Never changes after init: gather from any thread.
 */
#ifndef MUSTER_PARTITION_FEATURES_H
#define MUSTER_PARTITION_FEATURES_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/partition.h"

/* CSR rows of more columns than this are projected, to so many. */
#define MUSTER_FEATURES_SPREAD_MAX 4096u
#define MUSTER_FEATURES_PROJECTED  256u

typedef struct muster_features {
    const muster_rows *rows; // lent
    uint32_t columns;        // of a gathered row
    bool projected;
    uint64_t seed;
    float *signs; // rows->features x columns, for dense rows
} muster_features;

/* MUSTER_ERR_INVALID: no features, sizes that do not fit, a value that is not
 * finite or a CSR column that is not below rows->features (names the row).
 * MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_features_init(
    muster_features *features, const muster_partition_opts *opts,
    muster_error *error_out);
void muster_features_fini(muster_features *features);

/* Rows members[0..count-1] to `out`, count x columns floats.
 * MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status
muster_features_gather(const muster_features *features, const uint32_t *members,
                       uint32_t count, float *out);

#endif // MUSTER_PARTITION_FEATURES_H
