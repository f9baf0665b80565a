/*
 * check.c -- options, one by one.
 */
#include "partition/check.h"

#include <math.h>

#include "base/error.h"
#include "base/sized.h"

/* A number that must be in low..high. */
typedef struct bounded_option {
    const char *name;
    uint32_t value;
    uint32_t low;
    uint32_t high;
} bounded_option;

static muster_status check_bounds(const bounded_option *option,
                                  muster_error *error_out)
{
    if (option->value >= option->low && option->value <= option->high) {
        return MUSTER_OK;
    }
    return muster_error_set(error_out, MUSTER_ERR_INVALID,
                            "%s is %u, must be in %u..%u", option->name,
                            option->value, option->low, option->high);
}

muster_status muster_partition_check(const muster_partition_opts *opts,
                                     muster_error *error_out)
{
    const bounded_option options[] = {
        {"rows.count", opts->rows.count, 1, UINT32_MAX - 1},
        {"label_kind", opts->label_kind, 0, MUSTER_PARTITION_TARGETS},
        {"quantiles", opts->quantiles, 1, MUSTER_PARTITION_CLASSES_MAX},
        {"kernel", opts->kernel, 0, MUSTER_PARTITION_KERNEL_SPARSE},
        {"turn", opts->turn, 0, MUSTER_PARTITION_ROUND_ROBIN},
        {"neighbours", opts->neighbours, 1, 65536},
        {"sample", opts->sample, 1, UINT32_MAX},
        {"project", opts->project, 0, 65536},
        {"threads", opts->threads, 0, MUSTER_PARTITION_THREADS_MAX},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        muster_status status = check_bounds(&options[i], error_out);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    if (!(opts->drift >= 0.0 && opts->drift <= 1e6)) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "drift is %g, must be a number of 0 or more",
                                opts->drift);
    }
    return MUSTER_OK;
}

muster_status muster_partition_read(const muster_partition_opts *theirs,
                                    muster_error *error_out,
                                    muster_partition_opts *own_out)
{
    *own_out = (muster_partition_opts)MUSTER_PARTITION_OPTS_INIT;
    if (theirs == NULL ||
        !muster_sized_read(theirs, MUSTER_PARTITION_OPTS_MIN, own_out)) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "muster_partition_opts: bad struct_size or "
                                "unknown options: start from "
                                "MUSTER_PARTITION_OPTS_INIT");
    }
    return muster_partition_check(own_out, error_out);
}

muster_status muster_partition_check_workers(const muster_partition_opts *opts,
                                             muster_error *error_out)
{
    const bounded_option workers = {"workers", opts->workers, 1,
                                    MUSTER_PARTITION_WORKERS_MAX};
    muster_status status = check_bounds(&workers, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    if (opts->workers > opts->rows.count) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%u workers for %u rows: at most one worker "
                                "for each row",
                                opts->workers, opts->rows.count);
    }
    for (uint32_t j = 0; opts->speeds != NULL && j < opts->workers; j++) {
        if (!(opts->speeds[j] > 0.0) || !isfinite(opts->speeds[j])) {
            return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                    "worker %u: speed %g is not a positive "
                                    "number",
                                    j, opts->speeds[j]);
        }
    }
    return MUSTER_OK;
}

muster_status muster_partition_explain(muster_status status,
                                       muster_error *error_out)
{
    if (status == MUSTER_ERR_NO_MEMORY) {
        return muster_error_set(error_out, status,
                                "out of memory: sparse kernels, fewer "
                                "neighbours or fewer threads need less");
    }
    if (status == MUSTER_ERR_CANCELLED) {
        return muster_error_set(error_out, status, "cancelled");
    }
    return status;
}
