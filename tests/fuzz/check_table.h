/*
 * tests/fuzz/check_table.h -- whatever a reader accepts must also pass the
 * checks of a part, which were written apart from it.
 */
#ifndef MUSTER_FUZZ_CHECK_TABLE_H
#define MUSTER_FUZZ_CHECK_TABLE_H

#include "base/assert.h"
#include "base/mem.h"
#include "data/readers.h"
#include "data/shard.h"

static inline void check_table(muster_status status, muster_table *table)
{
    if (status != MUSTER_OK) {
        MUSTER_ASSERT(table->samples == 0 && table->labels == NULL);
        return;
    }
    muster_rows rows = {
        .count = (uint32_t)table->samples,
        .features = table->features,
        .dense = table->dense,
        .stride = table->features,
        .offsets = table->offsets,
        .columns = table->columns,
        .values = table->values,
        .labels = table->labels,
    };
    size_t size = muster_shard_bytes(&rows);
    void *bytes = muster_mem_raw_aligned(size, 1);
    MUSTER_ASSERT(bytes != NULL);
    muster_shard_write_range(0, 0, &rows, bytes);
    muster_shard part;
    MUSTER_ASSERT(muster_shard_open(bytes, size, NULL, &part) == MUSTER_OK);
    muster_mem_free(bytes);
    muster_table_fini(table);
}

static inline muster_source *open_bytes(const uint8_t *data, size_t size)
{
    muster_source *source = NULL;
    MUSTER_ASSERT(muster_source_open_memory("input", data, size, NULL,
                                            &source) == MUSTER_OK);
    return source;
}

/* Two files in one input: a 16-bit length, the labels, the samples. */
typedef struct two_files {
    const uint8_t *labels;
    size_t labels_size;
    const uint8_t *samples;
    size_t samples_size;
} two_files;

static inline two_files cut_input(const uint8_t *data, size_t size)
{
    two_files files = {.samples = data};
    if (size < 2) {
        return files;
    }
    size_t length = (size_t)data[0] | (size_t)data[1] << 8;
    files.labels = data + 2;
    files.labels_size = length < size - 2 ? length : size - 2;
    files.samples = files.labels + files.labels_size;
    files.samples_size = size - 2 - files.labels_size;
    return files;
}

#endif // MUSTER_FUZZ_CHECK_TABLE_H
