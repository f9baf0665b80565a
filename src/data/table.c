/*
 * table.c -- memory for rows and labels, with sizes checked beforehand: Linux
 * promises memory that it does not have, and kills who uses it.
 */
#define _POSIX_C_SOURCE 200809L
#include "data/table.h"

#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

void muster_table_fini(muster_table *table)
{
    muster_mem_free(table->dense);
    muster_mem_free(table->offsets);
    muster_mem_free(table->columns);
    muster_mem_free(table->values);
    muster_mem_free(table->labels);
    muster_mem_free(table->label_name);
    *table = (muster_table){0};
}

muster_status muster_table_fail_memory(const char *name,
                                       muster_error *error_out)
{
    return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                            "%s: out of memory for the data set", name);
}

static uint64_t machine_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_bytes <= 0) {
        return UINT64_MAX;
    }
    return (uint64_t)pages * (uint64_t)page_bytes;
}

muster_status muster_table_make_dense(muster_table *table, uint64_t samples,
                                      uint64_t features, const char *name,
                                      muster_error *error_out)
{
    if (samples == 0 || features == 0) {
        return muster_error_set(
            error_out, MUSTER_ERR_INPUT,
            "%s: %llu samples of %llu features: nothing to learn from", name,
            (unsigned long long)samples, (unsigned long long)features);
    }
    // The first two keep the product below 2^64.
    if (samples > MUSTER_TABLE_SAMPLES_MAX ||
        features > MUSTER_TABLE_FEATURES_MAX ||
        samples * (features + 1) * sizeof(float) > machine_bytes()) {
        return muster_error_set(
            error_out, MUSTER_ERR_INPUT,
            "%s: %llu samples of %llu features do not fit in memory here", name,
            (unsigned long long)samples, (unsigned long long)features);
    }
    table->samples = samples;
    table->features = (uint32_t)features;
    table->dense = muster_mem_raw_aligned(samples * features, sizeof(float));
    table->labels = muster_mem_raw_aligned(samples, sizeof(float));
    if (table->dense == NULL || table->labels == NULL) {
        muster_table_fini(table);
        return muster_table_fail_memory(name, error_out);
    }
    return MUSTER_OK;
}

void *muster_table_take(muster_vec *vec)
{
    void *data = vec->data;
    if (vec->count < vec->capacity) {
        void *shrunk = muster_mem_resize(data, vec->count, vec->element_bytes);
        data = shrunk != NULL ? shrunk : data;
    }
    *vec = muster_vec_make(vec->element_bytes);
    return data;
}
