/*
 * baseline.c -- partitions that do not look at features.
 *
 * All are one thing: rows in some order, cut into runs of the quotas' lengths.
 * Stratified: each class in random order, cut by its own quotas. Random: all
 * rows in random order, as one class. Class-sorted: all rows in the order of
 * their classes, as one class.
 */
#include "base/mem.h"
#include "partition/methods.h"
#include "partition/quota.h"
#include "partition/shuffle.h"

static void cut_rows(const uint32_t *members, const uint32_t *quotas,
                     uint32_t workers, uint32_t *owners_out)
{
    for (uint32_t j = 0; j < workers; j++) {
        for (uint32_t i = 0; i < quotas[j]; i++) {
            owners_out[*members++] = j;
        }
    }
}

static void cut_classes(const muster_partition_opts *opts,
                        const muster_sample_classes *classes,
                        const muster_quota_input *shape, const uint32_t *quotas,
                        uint32_t *owners_out)
{
    for (uint32_t c = 0; c < shape->classes; c++) {
        uint32_t *members = classes->members + shape->starts[c];
        if (opts->method != MUSTER_PARTITION_CLASS_SORTED) {
            muster_shuffle(
                members, shape->starts[c + 1] - shape->starts[c],
                muster_rng_make(opts->seed, MUSTER_STREAM_BASELINE + c));
        }
        cut_rows(members, quotas + (size_t)c * shape->workers, shape->workers,
                 owners_out);
    }
}

muster_status muster_method_baseline(const muster_partition_opts *opts,
                                     muster_sample_classes *classes,
                                     uint32_t *owners_out)
{
    bool equal = opts->method == MUSTER_PARTITION_EQUAL_RANDOM ||
                 opts->method == MUSTER_PARTITION_EQUAL_STRATIFIED;
    bool stratified = opts->method == MUSTER_PARTITION_EQUAL_STRATIFIED ||
                      opts->method == MUSTER_PARTITION_PROPORTIONAL_STRATIFIED;
    const uint32_t whole[2] = {0, classes->rows};
    muster_quota_input shape = {equal ? NULL : opts->speeds, opts->workers,
                                stratified ? classes->starts : whole,
                                stratified ? classes->count : 1};
    uint32_t *quotas = muster_mem_array((size_t)shape.classes * shape.workers,
                                        sizeof(*quotas));
    if (quotas == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_status status = muster_quota_make(&shape, quotas);
    if (status == MUSTER_OK) {
        cut_classes(opts, classes, &shape, quotas, owners_out);
    }
    muster_mem_free(quotas);
    return status;
}
