/*
 * ps/store/heavy.h -- heavy hitters: the keys that are accessed far more often
 * than the mean.
 *
 * The summary of Misra and Gries (Sci. Comput. Programming 2, 1982): it has
 * counters for some keys. An access to a key without a counter takes a free
 * counter, or else decrements all counters. Every estimate is too low by at
 * most total / (counters + 1). So a key with more than 100 times the mean
 * frequency, total * 100 / keys, always has a counter when there are more than
 * keys / 100 of them. The caller samples accesses; counts are of samples.
 * Ageing halves the counts, so that old accesses lose their weight.
 *
 *   Threads      One.
 *   Allocation   Only create: about 12 bytes a counter.
 */
#ifndef MUSTER_PS_STORE_HEAVY_H
#define MUSTER_PS_STORE_HEAVY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

#define MUSTER_HEAVY_FACTOR       100u
#define MUSTER_HEAVY_COUNTERS_MAX 65536u

typedef struct muster_heavy muster_heavy;

/* For a table of `keys` keys: twice the counters that the bound above needs, at
 * most MUSTER_HEAVY_COUNTERS_MAX. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_heavy_create(uint32_t keys,
                                                 muster_heavy **heavy_out);
void muster_heavy_free(muster_heavy *heavy);

/* Count an access to the key. */
void muster_heavy_note(muster_heavy *heavy, uint32_t key);

/* Number of accesses, and the estimate for one key; both after ageing. */
uint64_t muster_heavy_total(const muster_heavy *heavy);
uint64_t muster_heavy_estimate(const muster_heavy *heavy, uint32_t key);

/* Is the estimate of the key at least 8, and above `factor` times the mean? */
bool muster_heavy_is_hot(const muster_heavy *heavy, uint32_t factor,
                         uint32_t key);

/* All keys for which muster_heavy_is_hot() is true, in no order. Returns how
 * many, at most `capacity`. */
size_t muster_heavy_hot(const muster_heavy *heavy, uint32_t factor,
                        uint32_t *keys_out, size_t capacity);

/* Halve all counts. */
void muster_heavy_age(muster_heavy *heavy);

#endif // MUSTER_PS_STORE_HEAVY_H
