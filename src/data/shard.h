/*
 * data/shard.h -- a shard of the data as one run of bytes, used where it lies.
 *
 * A shard travels from the coordinator to workers, or from worker to worker, as
 * one blob, and is computed on in place: the bytes are a fixed little-endian
 * header and then arrays, each 64-byte aligned. Opening a view checks
 * everything (sizes, offsets ascending, columns below `features` and ascending,
 * finite values), since the bytes may come from the network.
 *
 * Samples have global numbers 0..samples-1, the same whatever the shards. A
 * shard lists its samples' numbers, ascending; row r of the shard is sample
 * sample_ids[r].
 *
 *     offset  0  "MUSTSHRD"
 *             8  u32 version (1)    12  u32 number
 *            16  u32 count          20  u32 features
 *            24  u32 sparse (0, 1)  28  u32 0
 *            32  u64 entries        40  u64 bytes of the whole shard
 *            48  16 bytes of 0
 *            64  u32 sample_ids[count]; f32 labels[count]; then
 *                dense   f32 values[count * features]   (entries = the product)
 *                sparse  u64 offsets[count + 1], the first 0;
 *                        u32 columns[entries]; f32 values[entries]
 *
 * Gaps between arrays are zero.
 *
 *   Ownership    A view lends pointers into the bytes; it holds nothing.
 */
#ifndef MUSTER_DATA_SHARD_H
#define MUSTER_DATA_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "base/blob.h"
#include "muster/rows.h"
#include "muster/status.h"

typedef struct muster_shard {
    uint32_t number;            // which shard
    const uint32_t *sample_ids; // rows.count, ascending
    muster_rows rows;           // with labels
} muster_shard;

/* How many bytes a shard made of these rows takes. */
size_t muster_shard_bytes(const muster_rows *rows);

/* Write a shard into `bytes` (muster_shard_bytes() of them, 64-byte
 * aligned). */
void muster_shard_write(uint32_t number, const uint32_t *sample_ids,
                        const muster_rows *rows, void *bytes);

/* The same for the samples first_sample, first_sample + 1, ... */
void muster_shard_write_range(uint32_t number, uint32_t first_sample,
                              const muster_rows *rows, void *bytes);

/* Likewise, of `all` rows those numbered ids[0] .. ids[count - 1], which are
 * also the samples' numbers. */
size_t muster_shard_bytes_listed(const muster_rows *all, const uint32_t *ids,
                                 uint32_t count);
void muster_shard_write_listed(uint32_t number, const uint32_t *ids,
                               uint32_t count, const muster_rows *all,
                               void *bytes);

/* Check the bytes (8-byte aligned at least) and view them. MUSTER_ERR_PROTOCOL
 * with a reason if they are not a shard; nothing outside them is ever read. */
MUSTER_CHECKED muster_status muster_shard_open(const void *bytes, size_t size,
                                               muster_error *error_out,
                                               muster_shard *shard_out);

/* The row of `sample`, or UINT32_MAX when the shard does not hold it. Constant
 * time when the shard is a range of samples, else a binary search. */
uint32_t muster_shard_find(const muster_shard *shard, uint32_t sample);

#endif // MUSTER_DATA_SHARD_H
