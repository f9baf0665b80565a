/*
 * data/cut.h -- where the samples are cut into shards.
 *
 * The data is cut once, at the start of a run, into S numbered shards; they
 * stay what they are whatever plan, code or placement comes. Shard i is the
 * samples at first[i] .. first[i + 1] - 1 of `order`, or those of these
 * numbers where there is no order; it may be empty.
 *
 *   Even         Shard i begins at i N / S. So where k divides S, the shards of
 *                each of k parts are the samples of part j N / k ..
 *   Owned        A placement gives each owner a run of samples. No shard then
 *                has samples of two owners, so that what one owner gives up
 *                can be moved without touching another's.
 *   Placed       A placement names the owner of each sample. `order` puts the
 *                samples of an owner side by side, in ascending order, and
 *                the cut of this order is an owned one.
 *   Ownership    fini frees what the others make.
 *   Determinism  The same numbers on every machine.
 */
#ifndef MUSTER_DATA_CUT_H
#define MUSTER_DATA_CUT_H

#include <stdint.h>

#include "muster/status.h"

typedef struct muster_cut {
    uint32_t shards;
    uint64_t *first; // shards + 1 numbers; the last is the number of samples
    uint32_t *order; // NULL: samples are in the order of their numbers
    uint32_t *owned; // first shard of each owner, and `shards` after the last;
                     // NULL: nobody owns any
} muster_cut;

/* S where nobody asks for another: the smallest multiple of `parts` (at least
 * 1) that is at least 4 a worker. UINT32_MAX - 1 at most. */
uint32_t muster_cut_default(uint32_t workers, uint32_t parts);

/* `shards` at least 1. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_cut_even(uint64_t samples, uint32_t shards,
                                             muster_cut *cut_out);

/*
 * Owner i has the samples ends[i - 1] .. ends[i] - 1 (from 0 for the first);
 * the last end is the number of samples, below 2^32. An owner with samples has
 * at least one shard, and the rest go by their shares of the samples.
 * MUSTER_ERR_INVALID: the ends do not ascend, or there are fewer shards than
 * owners with samples. MUSTER_ERR_NO_MEMORY.
 */
MUSTER_CHECKED muster_status muster_cut_owned(const uint64_t *ends,
                                              uint32_t owners, uint32_t shards,
                                              muster_error *error_out,
                                              muster_cut *cut_out);

/*
 * owner_of[i], below `owners`, is the owner of sample i of `samples` (below
 * 2^32). Fails as muster_cut_owned().
 */
MUSTER_CHECKED muster_status muster_cut_placed(const uint32_t *owner_of,
                                               uint64_t samples,
                                               uint32_t owners, uint32_t shards,
                                               muster_error *error_out,
                                               muster_cut *cut_out);

void muster_cut_fini(muster_cut *cut);

#endif // MUSTER_DATA_CUT_H
