/*
 * partition/shuffle.h -- a random order, drawn by seed and stream.
 */
#ifndef MUSTER_PARTITION_SHUFFLE_H
#define MUSTER_PARTITION_SHUFFLE_H

#include <stdint.h>

#include "base/rng.h"

/* Streams of the seed: what is drawn for class c uses stream base + c, and no
 * two bases are nearer than the number of classes. */
#define MUSTER_STREAM_BASELINE (1ull << 32)
#define MUSTER_STREAM_SAMPLE   (2ull << 32)
#define MUSTER_STREAM_SWAPS    (3ull << 32)
#define MUSTER_STREAM_MEASURE  (4ull << 32)

/* Fisher and Yates. */
static inline void muster_shuffle(uint32_t *items, uint32_t count,
                                  muster_rng rng)
{
    for (uint32_t left = count; left > 1; left--) {
        uint32_t at = (uint32_t)muster_rng_below(&rng, left);
        uint32_t kept = items[left - 1];
        items[left - 1] = items[at];
        items[at] = kept;
    }
}

#endif // MUSTER_PARTITION_SHUFFLE_H
