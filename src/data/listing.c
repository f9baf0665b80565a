/*
 * listing.c -- see listing.h.
 */
#include "data/listing.h"

#include <string.h>
#include <xxhash.h>

#include "base/assert.h"
#include "base/error.h"
#include "data/shard.h"

#define LISTING_VERSION 1u

typedef struct listing_header {
    char magic[8];
    uint32_t version;
    uint32_t number;
    uint32_t count;
    uint32_t first;
    uint32_t listed;
    uint32_t zero;
    uint64_t shard_bytes;
    uint64_t hash;
    uint64_t zeros[2];
} listing_header;

_Static_assert(sizeof(listing_header) == 64, "layout of a listing");

static const char listing_magic[8] = {'M', 'U', 'S', 'T', 'L', 'I', 'S', 'T'};

static uint32_t samples_of(const muster_cut *cut, uint32_t shard)
{
    MUSTER_ASSERT(shard < cut->shards);
    return (uint32_t)(cut->first[shard + 1] - cut->first[shard]);
}

size_t muster_listing_bytes(const muster_cut *cut, uint32_t shard)
{
    size_t ids = cut->order != NULL ? samples_of(cut, shard) : 0;
    return sizeof(listing_header) + ids * sizeof(uint32_t);
}

void muster_listing_write(const muster_cut *cut, uint32_t shard,
                          const void *bytes_of, size_t shard_bytes, void *bytes)
{
    bool listed = cut->order != NULL;
    uint32_t count = samples_of(cut, shard);
    listing_header header = {
        .version = LISTING_VERSION,
        .number = shard,
        .count = count,
        .first = listed ? 0 : (uint32_t)cut->first[shard],
        .listed = listed,
        .shard_bytes = shard_bytes,
        .hash = XXH3_64bits(bytes_of, shard_bytes),
    };
    memcpy(header.magic, listing_magic, sizeof(header.magic));
    memcpy(bytes, &header, sizeof(header));
    if (listed) {
        memcpy((char *)bytes + sizeof(header), cut->order + cut->first[shard],
               count * sizeof(uint32_t));
    }
}

bool muster_listing_is(const void *bytes, size_t size)
{
    return size >= sizeof(listing_magic) &&
           memcmp(bytes, listing_magic, sizeof(listing_magic)) == 0;
}

static bool is_header(const listing_header *header, size_t size)
{
    size_t ids = header->listed ? header->count : 0;
    return memcmp(header->magic, listing_magic, sizeof(header->magic)) == 0 &&
           header->version == LISTING_VERSION && header->listed <= 1 &&
           header->zero == 0 && header->zeros[0] == 0 &&
           header->zeros[1] == 0 &&
           (header->listed == 0 || header->first == 0) &&
           size == sizeof(*header) + ids * sizeof(uint32_t);
}

/* Do the numbers ascend, and stay below `samples`? */
static bool are_samples(const uint32_t *ids, uint32_t count, uint64_t samples)
{
    for (uint32_t i = 1; i < count; i++) {
        if (ids[i] <= ids[i - 1]) {
            return false;
        }
    }
    return count == 0 || ids[count - 1] < samples;
}

muster_status muster_listing_open(const void *bytes, size_t size,
                                  uint64_t samples, muster_error *error_out,
                                  muster_listing *listing_out)
{
    listing_header header;
    if (size < sizeof(header)) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "a shard's listing is cut short");
    }
    memcpy(&header, bytes, sizeof(header));
    const uint32_t *ids =
        header.listed ? (const void *)((const char *)bytes + sizeof(header))
                      : NULL;
    bool inside =
        is_header(&header, size) &&
        (ids != NULL ? are_samples(ids, header.count, samples)
                     : (uint64_t)header.first + header.count <= samples);
    if (!inside) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "a shard's listing makes no sense");
    }
    *listing_out = (muster_listing){
        .number = header.number,
        .count = header.count,
        .first = header.first,
        .sample_ids = ids,
        .shard_bytes = header.shard_bytes,
        .hash = header.hash,
    };
    return MUSTER_OK;
}

static muster_rows rows_of(const muster_listing *listing,
                           const muster_dataset *dataset)
{
    uint64_t samples = muster_dataset_describe(dataset).samples;
    return listing->sample_ids != NULL
               ? muster_dataset_rows(dataset, 0, (uint32_t)samples)
               : muster_dataset_rows(dataset, listing->first, listing->count);
}

size_t muster_listing_shard_bytes(const muster_listing *listing,
                                  const muster_dataset *dataset)
{
    muster_rows rows = rows_of(listing, dataset);
    return listing->sample_ids != NULL
               ? muster_shard_bytes_listed(&rows, listing->sample_ids,
                                           listing->count)
               : muster_shard_bytes(&rows);
}

void muster_listing_shard_write(const muster_listing *listing,
                                const muster_dataset *dataset, void *bytes)
{
    muster_rows rows = rows_of(listing, dataset);
    if (listing->sample_ids != NULL) {
        muster_shard_write_listed(listing->number, listing->sample_ids,
                                  listing->count, &rows, bytes);
    } else {
        muster_shard_write_range(listing->number, listing->first, &rows, bytes);
    }
}

bool muster_listing_matches(const muster_listing *listing, const void *bytes,
                            size_t size)
{
    return size == listing->shard_bytes &&
           XXH3_64bits(bytes, size) == listing->hash;
}
