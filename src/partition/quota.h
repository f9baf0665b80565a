/*
 * partition/quota.h -- how many samples of each class each worker gets.
 *
 * Worker j of speed r_j has the share p_j = r_j / sum r. Of a class of n_c
 * samples it gets floor(p_j n_c), and one more where its remainder is among
 * the largest. Remainders that a worker did not get count for the next class,
 * so that its total follows p_j N.
 *
 *   Promise      Quotas of a class add up to n_c; each is within 1 of p_j n_c;
 *                each total is within 1 of p_j N.
 *   Determinism  Equal remainders: the lower worker first.
 */
#ifndef MUSTER_PARTITION_QUOTA_H
#define MUSTER_PARTITION_QUOTA_H

#include <stdint.h>

#include "muster/status.h"

typedef struct muster_quota_input {
    const double *speeds; // positive and finite; NULL: all equal
    uint32_t workers;
    const uint32_t *starts; // classes + 1: n_c = starts[c + 1] - starts[c]
    uint32_t classes;
} muster_quota_input;

/* quotas_out: classes x workers. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_quota_make(const muster_quota_input *input,
                                               uint32_t *quotas_out);

#endif // MUSTER_PARTITION_QUOTA_H
