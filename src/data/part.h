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

/* Check the bytes and view them. MUSTER_ERR_PROTOCOL with a reason if they are
 * not a part. */
MUSTER_CHECKED muster_status muster_part_open(const void *bytes, size_t size,
                                              muster_error *error_out,
                                              muster_part *part_out);

/* The row of `sample`, or UINT32_MAX when the part does not hold it. Constant
 * time when the part is a range of samples, else a binary search. */
uint32_t muster_part_find(const muster_part *part, uint32_t sample);

#endif // MUSTER_DATA_PART_H
