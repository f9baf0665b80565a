/*
 * partition/methods.h -- the methods: from classes to owners.
 */
#ifndef MUSTER_PARTITION_METHODS_H
#define MUSTER_PARTITION_METHODS_H

#include "muster/partition.h"
#include "partition/classes.h"
#include "partition/meter.h"

/* Rows of a class up to which the kernel is dense by default: 256 MiB. */
#define MUSTER_KERNEL_DENSE_MAX 8192u

/* Everything but submodular. `classes` is reordered. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status
muster_method_baseline(const muster_partition_opts *opts,
                       muster_sample_classes *classes, uint32_t *owners_out);

/* Fills the report's counts of kernels, recall and work; the meter counts CPU
 * time. `classes` is reordered. MUSTER_ERR_INVALID (features),
 * MUSTER_ERR_NO_MEMORY, MUSTER_ERR_CANCELLED. */
MUSTER_CHECKED muster_status muster_method_submodular(
    const muster_partition_opts *opts, muster_sample_classes *classes,
    muster_meter *meter, muster_error *error_out, uint32_t *owners_out,
    muster_partition_report *report);

/* Whether a class of `size` rows gets a sparse kernel. */
static inline bool muster_method_is_sparse(const muster_partition_opts *opts,
                                           uint32_t size)
{
    return opts->kernel == MUSTER_PARTITION_KERNEL_SPARSE ||
           (opts->kernel == MUSTER_PARTITION_KERNEL_AUTO &&
            size > MUSTER_KERNEL_DENSE_MAX);
}

#endif // MUSTER_PARTITION_METHODS_H
