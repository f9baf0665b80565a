/*
 * partition/greedy.h -- deal items to blocks, each time the best one left.
 *
 * Until all quotas are filled: choose a block (the one with the smallest f, or
 * the one with the smallest filled share) and give it the free item of largest
 * gain for it. One block with a quota below the number of items is plain
 * subset selection.
 *
 * A block keeps old gains, which are upper bounds (facility.h), and evaluates
 * an item only when its bound is the largest (Minoux 1978).
 *
 *   Promise      The picks of naive greedy. Equal gains: the lower item first;
 *                equal blocks: the lower block first.
 *   Ownership    The caller owns all arrays of the result.
 *   Allocation   4 clients bytes for each block, 16 bytes for each item that a
 *                block has evaluated and not taken.
 */
#ifndef MUSTER_PARTITION_GREEDY_H
#define MUSTER_PARTITION_GREEDY_H

#include <stdint.h>

#include "muster/status.h"
#include "partition/facility.h"
#include "partition/meter.h"

/* Owner of an item that no block took. */
#define MUSTER_GREEDY_FREE UINT32_MAX

typedef struct muster_greedy_input {
    const muster_facility *facility;
    uint32_t blocks;
    const uint32_t *quotas; // of each block; they add up to at most the items
    uint32_t turn;          // a muster_partition_turn
    const double *first_gains; // items: gains for an empty block; NULL: to be
                               // computed
    muster_meter *meter;
    double work_ns; // what the whole choice adds to the meter
} muster_greedy_input;

typedef struct muster_greedy_result {
    uint32_t *owners; // items: the block of each, or MUSTER_GREEDY_FREE
    uint32_t *places; // items: how many its block had before; NULL: unwanted
    uint32_t *picks;  // items in the order of choice; NULL: unwanted
    double *gains;    // of the picks; NULL: unwanted
    double *values;   // blocks: f of each, as the sum of its gains
    uint64_t evaluations; // gains computed after the first of each item
} muster_greedy_result;

/* MUSTER_OK, MUSTER_ERR_NO_MEMORY, MUSTER_ERR_CANCELLED. */
MUSTER_CHECKED muster_status muster_greedy_run(const muster_greedy_input *input,
                                               muster_greedy_result *result);

#endif // MUSTER_PARTITION_GREEDY_H
