/*
 * Collecting the batch's rows from several parts, so that the model sees them
 * as one block. Whole batches are not collected: parts are used in place.
 */
#include <string.h>

#include "base/mem.h"
#include "job/inside.h"

bool muster_job_gather_init(gathered *gather, const job_setup *setup,
                            uint32_t rows_max, uint64_t entries_row)
{
    *gather = (gathered){.rows_max = rows_max};
    gather->labels = muster_mem_raw_aligned(rows_max, sizeof(float));
    gather->weights = muster_mem_raw_aligned(rows_max, sizeof(float));
    gather->samples = muster_mem_raw_aligned(rows_max, sizeof(uint32_t));
    if (setup->is_sparse) {
        double mean = (double)setup->nonzeros / (double)setup->samples;
        gather->entries_max = (uint64_t)(2 * mean * rows_max) + entries_row;
        gather->offsets = muster_mem_array(rows_max + 1, sizeof(uint64_t));
        gather->columns =
            muster_mem_raw_aligned(gather->entries_max, sizeof(uint32_t));
        gather->values =
            muster_mem_raw_aligned(gather->entries_max, sizeof(float));
    } else {
        gather->dense = muster_mem_raw_aligned(
            (size_t)rows_max * setup->features, sizeof(float));
        gather->from = muster_mem_array(rows_max, sizeof(*gather->from));
    }
    bool has_rows = setup->is_sparse
                        ? gather->offsets != NULL && gather->columns != NULL &&
                              gather->values != NULL
                        : gather->dense != NULL && gather->from != NULL;
    return has_rows && gather->labels != NULL && gather->weights != NULL &&
           gather->samples != NULL;
}

void muster_job_gather_fini(gathered *gather)
{
    muster_mem_free(gather->dense);
    muster_mem_free(gather->from);
    muster_mem_free(gather->offsets);
    muster_mem_free(gather->columns);
    muster_mem_free(gather->values);
    muster_mem_free(gather->labels);
    muster_mem_free(gather->weights);
    muster_mem_free(gather->samples);
    *gather = (gathered){0};
}

bool muster_job_gather_add(gathered *gather, const muster_shard *shard,
                           uint32_t row, float weight)
{
    const muster_rows *rows = &shard->rows;
    uint32_t at = gather->count;
    if (at == gather->rows_max) {
        return false;
    }
    if (gather->dense != NULL) {
        gather->from[at] = rows->dense + row * rows->stride;
    } else {
        uint64_t from = rows->offsets[row];
        uint64_t count = rows->offsets[row + 1] - from;
        uint64_t to = gather->offsets[at];
        if (count > gather->entries_max - to) {
            return false;
        }
        memcpy(gather->columns + to, rows->columns + from,
               count * sizeof(uint32_t));
        memcpy(gather->values + to, rows->values + from, count * sizeof(float));
        gather->offsets[at + 1] = to + count;
    }
    gather->labels[at] = rows->labels[row];
    gather->weights[at] = weight;
    gather->samples[at] = shard->sample_ids[row];
    gather->count++;
    return true;
}

/* Which rows a thread copies. */
typedef struct row_copies {
    const gathered *gather;
    uint32_t features;
    uint32_t parts;
} row_copies;

static void copy_part(void *context, uint32_t part)
{
    const row_copies *copies = context;
    const gathered *gather = copies->gather;
    uint64_t count = gather->count;
    uint64_t end = count * (part + 1) / copies->parts;
    for (uint64_t r = count * part / copies->parts; r < end; r++) {
        memcpy(gather->dense + r * copies->features, gather->from[r],
               copies->features * sizeof(float));
    }
}

muster_rows muster_job_gather_view(muster_executor *executor, gathered *gather,
                                   uint32_t features)
{
    size_t floats = (size_t)gather->count * features;
    row_copies copies = {gather, features, muster_job_parts(executor, floats)};
    if (gather->dense != NULL) {
        muster_job_run(executor, floats, copy_part, &copies);
    }
    return (muster_rows){
        .count = gather->count,
        .features = features,
        .dense = gather->dense,
        .stride = features,
        .offsets = gather->offsets,
        .columns = gather->columns,
        .values = gather->values,
        .labels = gather->labels,
    };
}
