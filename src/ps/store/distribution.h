/*
 * ps/store/distribution.h -- distributions over keys, drawn in constant time.
 *
 *   uniform      every key alike
 *   weights      Vose's alias table (IEEE Trans. Software Eng. 17, 1991): eight
 *                bytes a key, one draw and one compare
 *   log-uniform  P(k) = log((k+2)/(k+1)) / log(n+1), for keys sorted by falling
 *                frequency
 *
 * muster_key_distribution_zipf() makes weights for benchmarks and tests.
 *
 *   Threads      A distribution never changes after create; a muster_draws
 *                belongs to one thread.
 *   Determinism  Keys are a function of seed and stream of the draws.
 */
#ifndef MUSTER_PS_STORE_DISTRIBUTION_H
#define MUSTER_PS_STORE_DISTRIBUTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/ps_sample.h"

/* SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), seeded from the counter-based
 * generator of base/rng.h. Sampling needs millions of draws a second and
 * streams that do not overlap, but no random access. */
typedef struct muster_draws {
    uint64_t state;
} muster_draws;

muster_draws muster_draws_make(uint64_t seed, uint64_t stream);

/* Draws for a position in the work, whichever worker does it. */
muster_draws muster_draws_at(uint64_t seed, uint32_t distribution,
                             uint64_t position);

static inline uint64_t muster_draws_next(muster_draws *draws)
{
    uint64_t z = draws->state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* Uniform in 0..bound-1 from 32 of the bits (bias below bound / 2^32). */
static inline uint32_t muster_draws_below(muster_draws *draws, uint32_t bound)
{
    return (uint32_t)(((muster_draws_next(draws) >> 32) * bound) >> 32);
}

typedef struct muster_key_distribution muster_key_distribution;

/* Keys first..first+count-1. `weights` (count, finite, >= 0, sum > 0) only for
 * MUSTER_PS_TARGET_WEIGHTS. MUSTER_ERR_INVALID, MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_key_distribution_create(
    uint32_t kind, uint32_t first, uint32_t count, const double *weights,
    muster_key_distribution **target_out);
void muster_key_distribution_free(muster_key_distribution *target);

uint32_t muster_key_distribution_draw(const muster_key_distribution *target,
                                      muster_draws *draws);

/* The keys of as many draws, in less time. */
void muster_key_distribution_draw_many(const muster_key_distribution *target,
                                       muster_draws *draws, uint32_t *keys_out,
                                       size_t count);

/* Can this key of the range be drawn? Not when its weight is 0. */
bool muster_key_distribution_possible(const muster_key_distribution *target,
                                      uint32_t key);

/* The range that draws come from. */
uint32_t muster_key_distribution_first(const muster_key_distribution *target);
uint32_t muster_key_distribution_count(const muster_key_distribution *target);

/* weights_out[k] = (k + 1)^-exponent. */
void muster_key_distribution_zipf(uint32_t count, double exponent,
                                  double *weights_out);

#endif // MUSTER_PS_STORE_DISTRIBUTION_H
