/*
 * table.c -- memory for rows and labels, with sizes checked beforehand: Linux
 * promises memory that it does not have, and kills who uses it. Rows that are
 * too large for it go to a file.
 */
#include "data/table.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/bulk.h"

void muster_table_fini(muster_table *table)
{
    muster_bulk_free(table->dense, table->dense_mapped);
    muster_mem_free(table->offsets);
    muster_bulk_free(table->columns, table->columns_mapped);
    muster_bulk_free(table->values, table->values_mapped);
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

static muster_status fail_room(const muster_table *table, const char *name,
                               muster_error *error_out)
{
    return muster_error_set(
        error_out, MUSTER_ERR_INPUT,
        "%s: %llu samples of %u features do not fit in memory here, nor as a "
        "file in TMPDIR or /var/tmp",
        name, (unsigned long long)table->samples, table->features);
}

/* Rows on the heap, or in a file. */
static muster_status make_rows(muster_table *table, const char *name,
                               muster_error *error_out)
{
    size_t bytes = table->samples * table->features * sizeof(float);
    bool is_large = bytes > muster_bulk_limit();
    table->dense =
        is_large ? muster_bulk_map(bytes) : muster_mem_raw_aligned(bytes, 1);
    table->dense_mapped = is_large && table->dense != NULL ? bytes : 0;
    if (table->dense != NULL) {
        return MUSTER_OK;
    }
    return is_large ? fail_room(table, name, error_out)
                    : muster_table_fail_memory(name, error_out);
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
    table->samples = samples;
    table->features = (uint32_t)features;
    // Both keep the product below 2^64.
    muster_status status = MUSTER_OK;
    if (samples > MUSTER_TABLE_SAMPLES_MAX ||
        features > MUSTER_TABLE_FEATURES_MAX) {
        status = fail_room(table, name, error_out);
    }
    if (status == MUSTER_OK) {
        status = make_rows(table, name, error_out);
    }
    if (status == MUSTER_OK) {
        table->labels = muster_mem_raw_aligned(samples, sizeof(float));
        status = table->labels != NULL
                     ? MUSTER_OK
                     : muster_table_fail_memory(name, error_out);
    }
    if (status != MUSTER_OK) {
        muster_table_fini(table);
    }
    return status;
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
