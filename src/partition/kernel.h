/*
 * partition/kernel.h -- similarities of the rows of one class.
 *
 * From unit rows x_0 .. x_{n-1}: s(i, u) = max(0, <x_i, x_u>).
 *
 *   dense   all pairs, n x n, in tiles; half of them are computed, the other
 *           half is copied.
 *   sparse  the clients are the first `clients` rows (all, or a sample when
 *           rows come in random order). Each client keeps its nearest items:
 *           k of them when all rows are clients, else k n / clients, so that
 *           either way an item has k entries on average.
 *
 *   Determinism  A tile is one matrix product of a fixed shape. Nearest means
 *                by (similarity, lower item), a total order: no number of
 *                threads changes which items are kept.
 *   Allocation   The facility; while building sparse ones 16 k n bytes more.
 */
#ifndef MUSTER_PARTITION_KERNEL_H
#define MUSTER_PARTITION_KERNEL_H

#include <stdint.h>

#include "muster/status.h"
#include "partition/facility.h"
#include "partition/meter.h"

typedef struct muster_kernel_input {
    const float *rows; // count x columns, each of unit length or zero
    uint32_t count;
    uint32_t columns;
    uint32_t clients;    // sparse: rows that are clients, at most count
    uint32_t neighbours; // k; sparse
    uint32_t threads;
    muster_meter *meter;
    double work_ns; // what building adds to the meter
} muster_kernel_input;

/* MUSTER_ERR_NO_MEMORY, MUSTER_ERR_CANCELLED. */
MUSTER_CHECKED muster_status muster_kernel_dense(
    const muster_kernel_input *input, muster_facility *facility_out);
MUSTER_CHECKED muster_status muster_kernel_sparse(
    const muster_kernel_input *input, muster_facility *facility_out);

/* Of the pairs (row, one of its k nearest rows, of which it is one itself), the
 * share that a sparse kernel holds in either direction; from at most 64 rows of
 * the class. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status
muster_kernel_recall(const muster_kernel_input *input,
                     const muster_facility *facility, double *recall_out);

#endif // MUSTER_PARTITION_KERNEL_H
