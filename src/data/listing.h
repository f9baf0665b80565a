/*
 * data/listing.h -- which samples a shard has, and the hash of its bytes: what
 * a worker is sent in place of the shard when it can read the data itself.
 *
 *     offset  0  "MUSTLIST"
 *             8  u32 version (1)      12  u32 number of the shard
 *            16  u32 count            20  u32 first sample
 *            24  u32 listed (0, 1)    28  u32 0
 *            32  u64 bytes of the shard
 *            40  u64 hash (XXH3) of these bytes
 *            48  16 bytes of 0
 *            64  listed: u32 sample_ids[count], ascending; else nothing, and
 *                the samples are first .. first + count - 1
 *
 * The hash finds another version of a file and a file that was read wrongly. It
 * is no proof against whoever makes a file to have this hash.
 *
 *   Ownership    An opened listing lends pointers into the bytes.
 */
#ifndef MUSTER_DATA_LISTING_H
#define MUSTER_DATA_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/dataset.h"
#include "muster/status.h"

typedef struct muster_listing {
    uint32_t number; // of the shard
    uint32_t count;  // of its samples
    uint32_t first;
    const uint32_t *sample_ids; // NULL: from `first` on
    uint64_t shard_bytes;
    uint64_t hash;
} muster_listing;

/* How many bytes the listing of a shard takes. */
size_t muster_listing_bytes(const muster_cut *cut, uint32_t shard);

/* Write it; `shard_bytes` of the shard are at `bytes_of`. */
void muster_listing_write(const muster_cut *cut, uint32_t shard,
                          const void *bytes_of, size_t shard_bytes,
                          void *bytes);

/* Do the bytes begin as a listing does? A shard never does. */
bool muster_listing_is(const void *bytes, size_t size);

/* Check the bytes (8-byte aligned) and view them; all samples are below
 * `samples`. MUSTER_ERR_PROTOCOL with a reason if they are not a listing. */
MUSTER_CHECKED muster_status muster_listing_open(const void *bytes, size_t size,
                                                 uint64_t samples,
                                                 muster_error *error_out,
                                                 muster_listing *listing_out);

/* The shard that the data set has of these samples, which it must have: how
 * many bytes, and writing them (64-byte aligned). */
size_t muster_listing_shard_bytes(const muster_listing *listing,
                                  const muster_dataset *dataset);
void muster_listing_shard_write(const muster_listing *listing,
                                const muster_dataset *dataset, void *bytes);

/* Are these the bytes of the shard that was listed? */
bool muster_listing_matches(const muster_listing *listing, const void *bytes,
                            size_t size);

#endif // MUSTER_DATA_LISTING_H
