/*
 * classes.c -- labels to classes.
 *
 * All kinds end in one shape: ascending boundary values; the class of a row is
 * the last boundary that is not above its label. For class labels the
 * boundaries are the distinct values, for targets the quantiles.
 */
#include "partition/classes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

static int compare_floats(const void *left, const void *right)
{
    float a = *(const float *)left;
    float b = *(const float *)right;
    return (a > b) - (a < b);
}

static muster_status check_labels(const muster_partition_opts *opts,
                                  muster_error *error_out)
{
    if (opts->rows.labels == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "the rows have no labels: give them, or "
                                "partition as unlabelled");
    }
    for (uint32_t r = 0; r < opts->rows.count; r++) {
        if (!isfinite(opts->rows.labels[r])) {
            return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                    "row %u: the label is not a finite number",
                                    r);
        }
    }
    return MUSTER_OK;
}

/* Distinct values of a sorted array, in place; their number. */
static uint32_t keep_distinct(float *sorted, uint32_t count)
{
    uint32_t kept = 1;
    for (uint32_t i = 1; i < count; i++) {
        if (sorted[i] > sorted[kept - 1]) {
            sorted[kept++] = sorted[i];
        }
    }
    return kept;
}

/* The smallest value and the distinct quantiles above it, in place. The place
 * read is never before the place written: q rows / quantiles >= q. */
static uint32_t keep_quantiles(float *sorted, uint32_t count,
                               uint32_t quantiles)
{
    uint32_t kept = 1;
    if (quantiles > count) {
        quantiles = count;
    }
    for (uint32_t q = 1; q < quantiles; q++) {
        float cut = sorted[(uint64_t)q * count / quantiles];
        if (cut > sorted[kept - 1]) {
            sorted[kept++] = cut;
        }
    }
    return kept;
}

static uint32_t find_class(const float *values, uint32_t count, float label)
{
    uint32_t low = 0;
    uint32_t high = count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (values[middle] <= label) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static muster_status find_values(muster_sample_classes *classes,
                                 const muster_partition_opts *opts,
                                 muster_error *error_out)
{
    uint32_t rows = opts->rows.count;
    memcpy(classes->values, opts->rows.labels, rows * sizeof(float));
    qsort(classes->values, rows, sizeof(float), compare_floats);
    if (opts->label_kind == MUSTER_PARTITION_TARGETS) {
        classes->count = keep_quantiles(classes->values, rows, opts->quantiles);
    } else {
        classes->count = keep_distinct(classes->values, rows);
    }
    if (classes->count > MUSTER_PARTITION_CLASSES_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%u classes, at most %u are allowed: are the "
                                "labels real targets?",
                                classes->count, MUSTER_PARTITION_CLASSES_MAX);
    }
    return MUSTER_OK;
}

/* Counting sort of the rows by class. */
static muster_status list_members(muster_sample_classes *classes)
{
    classes->starts =
        muster_mem_array((size_t)classes->count + 1, sizeof(*classes->starts));
    uint32_t *next = muster_mem_array(classes->count, sizeof(*next));
    if (classes->starts == NULL || next == NULL) {
        muster_mem_free(next);
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t r = 0; r < classes->rows; r++) {
        classes->starts[classes->of[r] + 1]++;
    }
    for (uint32_t c = 0; c < classes->count; c++) {
        next[c] = classes->starts[c];
        classes->starts[c + 1] += classes->starts[c];
    }
    for (uint32_t r = 0; r < classes->rows; r++) {
        classes->members[next[classes->of[r]]++] = r;
    }
    muster_mem_free(next);
    return MUSTER_OK;
}

static muster_status fill(muster_sample_classes *classes,
                          const muster_partition_opts *opts,
                          muster_error *error_out)
{
    classes->count = 1;
    if (opts->label_kind != MUSTER_PARTITION_UNLABELLED) {
        muster_status status = find_values(classes, opts, error_out);
        if (status != MUSTER_OK) {
            return status;
        }
        for (uint32_t r = 0; r < classes->rows; r++) {
            classes->of[r] = find_class(classes->values, classes->count,
                                        opts->rows.labels[r]);
        }
    }
    return list_members(classes);
}

muster_status muster_sample_classes_init(muster_sample_classes *classes,
                                         const muster_partition_opts *opts,
                                         muster_error *error_out)
{
    *classes = (muster_sample_classes){.rows = opts->rows.count};
    if (opts->label_kind != MUSTER_PARTITION_UNLABELLED) {
        muster_status status = check_labels(opts, error_out);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    classes->of = muster_mem_array(classes->rows, sizeof(*classes->of));
    classes->members =
        muster_mem_array(classes->rows, sizeof(*classes->members));
    classes->values = muster_mem_array(classes->rows, sizeof(*classes->values));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (classes->of != NULL && classes->members != NULL &&
        classes->values != NULL) {
        status = fill(classes, opts, error_out);
    }
    if (status != MUSTER_OK) {
        muster_sample_classes_fini(classes);
    }
    return status;
}

void muster_sample_classes_fini(muster_sample_classes *classes)
{
    muster_mem_free(classes->of);
    muster_mem_free(classes->starts);
    muster_mem_free(classes->members);
    muster_mem_free(classes->values);
    *classes = (muster_sample_classes){0};
}
