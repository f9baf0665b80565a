/*
 * dataset_shard.c -- shards of a data set as bytes: a range of its samples, or
 * those that the cut lists.
 */
#include "base/assert.h"
#include "data/dataset.h"
#include "data/shard.h"

static muster_rows shard_rows(const muster_dataset *dataset,
                              const muster_cut *cut, uint32_t shard)
{
    MUSTER_ASSERT(shard < cut->shards);
    uint64_t first = cut->first[shard];
    return muster_dataset_rows(dataset, first,
                               (uint32_t)(cut->first[shard + 1] - first));
}

/* The samples of a shard where the cut has an order of them. */
static const uint32_t *shard_ids(const muster_cut *cut, uint32_t shard,
                                 uint32_t *count_out)
{
    MUSTER_ASSERT(shard < cut->shards);
    uint64_t first = cut->first[shard];
    *count_out = (uint32_t)(cut->first[shard + 1] - first);
    return cut->order + first;
}

static muster_rows all_rows(const muster_dataset *dataset)
{
    uint64_t samples = muster_dataset_describe(dataset).samples;
    return muster_dataset_rows(dataset, 0, (uint32_t)samples);
}

size_t muster_dataset_shard_bytes(const muster_dataset *dataset,
                                  const muster_cut *cut, uint32_t shard)
{
    if (cut->order != NULL) {
        uint32_t count = 0;
        const uint32_t *ids = shard_ids(cut, shard, &count);
        muster_rows all = all_rows(dataset);
        return muster_shard_bytes_listed(&all, ids, count);
    }
    muster_rows rows = shard_rows(dataset, cut, shard);
    return muster_shard_bytes(&rows);
}

void muster_dataset_shard_write(const muster_dataset *dataset,
                                const muster_cut *cut, uint32_t shard,
                                void *bytes)
{
    if (cut->order != NULL) {
        uint32_t count = 0;
        const uint32_t *ids = shard_ids(cut, shard, &count);
        muster_rows all = all_rows(dataset);
        muster_shard_write_listed(shard, ids, count, &all, bytes);
        return;
    }
    muster_rows rows = shard_rows(dataset, cut, shard);
    muster_shard_write_range(shard, (uint32_t)cut->first[shard], &rows, bytes);
}
