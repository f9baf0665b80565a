/*
 * data/part.h -- a part of the data as one run of bytes, used where it lies.
 *
 * A part travels from the coordinator to workers, or from worker to worker, as
 * one blob, and is computed on in place: the bytes are a fixed little-endian
 * header and then arrays, each 64-byte aligned. Opening a view checks
 * everything (sizes, offsets ascending, columns below `features` and ascending,
 * finite values), since the bytes may come from the network.
 *
 * Samples have global numbers 0..samples-1, the same whatever the parts. A
 * part lists its samples' numbers, ascending; row r of the part is sample
 * sample_ids[r].
 *
 *     offset  0  "MUSTPART"
 *             8  u32 version (1)    12  u32 number
 *            16  u32 count          20  u32 features
 *            24  u32 sparse (0, 1)  28  u32 0
 *            32  u64 entries        40  u64 bytes of the whole part
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
#ifndef MUSTER_DATA_PART_H
#define MUSTER_DATA_PART_H

#include <stddef.h>
#include <stdint.h>

#include "base/blob.h"
#include "muster/rows.h"
#include "muster/status.h"

typedef struct muster_part {
    uint32_t number;            // which part
    const uint32_t *sample_ids; // rows.count, ascending
    muster_rows rows;           // with labels
} muster_part;

/* How many bytes a part made of these rows takes. */
size_t muster_part_bytes(const muster_rows *rows);

/* Write a part into `bytes` (muster_part_bytes() of them, 64-byte aligned). */
void muster_part_write(uint32_t number, const uint32_t *sample_ids,
                       const muster_rows *rows, void *bytes);

/* The same for the samples first_sample, first_sample + 1, ... */
void muster_part_write_range(uint32_t number, uint32_t first_sample,
                             const muster_rows *rows, void *bytes);

/* Check the bytes (8-byte aligned at least) and view them. MUSTER_ERR_PROTOCOL
 * with a reason if they are not a part; nothing outside them is ever read. */
MUSTER_CHECKED muster_status muster_part_open(const void *bytes, size_t size,
                                              muster_error *error_out,
                                              muster_part *part_out);

/* The row of `sample`, or UINT32_MAX when the part does not hold it. Constant
 * time when the part is a range of samples, else a binary search. */
uint32_t muster_part_find(const muster_part *part, uint32_t sample);

#endif // MUSTER_DATA_PART_H
