/*
 * partition/check.h -- refuse options that break the contract of
 * muster/partition.h, with a line that says what would be right.
 */
#ifndef MUSTER_PARTITION_CHECK_H
#define MUSTER_PARTITION_CHECK_H

#include "muster/partition.h"

/* Read the options of a caller of any version (base/sized.h), and check what
 * every call reads: sizes, label kind, kernel options, threads.
 * MUSTER_ERR_INVALID. */
MUSTER_CHECKED muster_status
muster_partition_read(const muster_partition_opts *theirs,
                      muster_error *error_out, muster_partition_opts *own_out);

/* The checks alone, of options that were read. MUSTER_ERR_INVALID. */
MUSTER_CHECKED muster_status muster_partition_check(
    const muster_partition_opts *opts, muster_error *error_out);

/* The fields of the first release: no caller has fewer. */
#define MUSTER_PARTITION_OPTS_MIN \
    (offsetof(muster_partition_opts, progress_context) + sizeof(void *))

/* Workers against rows, and speeds. MUSTER_ERR_INVALID. */
MUSTER_CHECKED muster_status muster_partition_check_workers(
    const muster_partition_opts *opts, muster_error *error_out);

/* `status` with a text, when it is MUSTER_ERR_NO_MEMORY or _CANCELLED. */
muster_status muster_partition_explain(muster_status status,
                                       muster_error *error_out);

#endif // MUSTER_PARTITION_CHECK_H
