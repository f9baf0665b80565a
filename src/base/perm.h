/*
 * base/perm.h -- a keyed permutation of 0..count-1, one position at a time.
 *
 * A six-round Feistel network over the smallest even number of bits that holds
 * count - 1, walked until it lands below count. Any machine that knows (seed,
 * epoch, count) finds the sample at a position without storing or drawing the
 * others: that is how a step's mini-batch is the same on every cluster.
 *
 *   Determinism  The same on every machine, for ever.
 */
#ifndef MUSTER_BASE_PERM_H
#define MUSTER_BASE_PERM_H

#include <stdint.h>

typedef struct muster_perm {
    uint64_t count;
    uint64_t keys[6];
    unsigned half_bits;
} muster_perm;

/* count >= 1. */
muster_perm muster_perm_make(uint64_t seed, uint64_t epoch, uint64_t count);

/* The element at `position` (< count): a bijection of 0..count-1. */
uint64_t muster_perm_at(const muster_perm *perm, uint64_t position);

/* What perm_at() gives for `first` and the count - 1 positions after it, at
 * half of the cost where they are many. Elements are below 2^32. */
void muster_perm_run(const muster_perm *perm, uint64_t first, uint64_t count,
                     uint32_t *elements_out);

#endif // MUSTER_BASE_PERM_H
