/*
 * code/cache.h -- the decode cache, for callers inside the library.
 *
 * muster/code.h lends terms until the next call. A coordinator hands a decoding
 * to a job that runs on another thread, so it takes the decoding itself.
 *
 *   Ownership    A decoding is lent until the next get; to keep it, take a
 *                reference (decoding.h).
 *   Threads      A cache belongs to one thread.
 *   Allocation   Only a set that is not known allocates.
 */
#ifndef MUSTER_CODE_CACHE_H
#define MUSTER_CODE_CACHE_H

#include <stdint.h>

#include "code/decoding.h"
#include "muster/code.h"

/* For `responders`, ascending. The statuses are those of
 * muster_code_weights(). */
MUSTER_CHECKED muster_status
muster_code_cache_get(muster_code_cache *cache, const uint32_t *responders,
                      uint32_t count, muster_decoding **decoding_out);

/* Sets that were not known when they were asked for. */
uint64_t muster_code_cache_solved(const muster_code_cache *cache);

#endif // MUSTER_CODE_CACHE_H
