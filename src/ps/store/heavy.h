/*
 * ps/store/heavy.h -- which keys are accessed far more often than the mean.
 *
 * Misra and Gries' summary (Sci. Comput. Programming 2, 1982): `counters` keys
 * with counts; a key that finds no room makes all counts one smaller. Every
 * estimate is low by at most total / (counters + 1), so a key above 100 times
 * the mean frequency, total * 100 / keys, cannot hide once counters exceeds
 * keys / 100. Accesses are sampled by the caller; counts are of samples. Age
 * halves them, so that what was hot fades.
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

/* For a table of `keys` keys: as many counters as the rule needs, within
 * MUSTER_HEAVY_COUNTERS_MAX. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_heavy_create(uint32_t keys,
                                                 muster_heavy **heavy_out);
void muster_heavy_free(muster_heavy *heavy);

void muster_heavy_note(muster_heavy *heavy, uint32_t key);

/* Accesses noted (after ageing), and the estimate of one key. */
uint64_t muster_heavy_total(const muster_heavy *heavy);
uint64_t muster_heavy_estimate(const muster_heavy *heavy, uint32_t key);

/* Is a key's estimate above `factor` times the mean, and was it noted at least
 * 8 times? */
bool muster_heavy_is_hot(const muster_heavy *heavy, uint32_t factor,
                         uint32_t key);

/* Keys whose estimate exceeds `factor` times the mean and which were noted at
 * least 8 times, in no order; returns how many, at most `capacity`. */
size_t muster_heavy_hot(const muster_heavy *heavy, uint32_t factor,
                        uint32_t *keys_out, size_t capacity);

/* Halve everything. */
void muster_heavy_age(muster_heavy *heavy);

#endif // MUSTER_PS_STORE_HEAVY_H
