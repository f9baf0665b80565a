/*
 * ps/store/sampler.h -- sampling schemes, from independent draws to rows that
 * happen to be at this node (after NuPS).
 *
 * One muster_sampler per worker and distribution turns draws into samples by
 * one of the schemes of muster/ps_sample.h. It knows about rows only through
 * its `nearby`: is the row of a key here, and bring the rows of these keys.
 *
 *   prepare(n)  reserves n samples under a handle and may request their rows
 *   pull(h, n)  returns the next n samples
 *
 *   Promise      INDEPENDENT: samples are independent draws. REUSE: in every
 *                aligned run of group * reuse samples of this sampler each draw
 *                of the group occurs exactly `reuse` times, and the first
 *                `group` samples are the draws in order. POSTPONE: the samples
 *                of a handle are a permutation of those of REUSE; each is
 *                postponed at most once. LOCAL: the row of a sample was here
 *                when it was pulled, if a row of the range was found.
 *                REPURPOSE: as LOCAL, from the keys given to
 *                muster_sampler_note().
 *   Threads      One.
 *   Allocation   Only create.
 */
#ifndef MUSTER_PS_STORE_SAMPLER_H
#define MUSTER_PS_STORE_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/ps_sample.h"
#include "ps/store/distribution.h"

typedef struct muster_nearby {
    bool (*here)(void *context, uint32_t key);
    void (*bring)(void *context, const uint32_t *keys, size_t count);
    void *context;
} muster_nearby;

typedef struct muster_sampler_opts {
    uint32_t scheme; // a muster_ps_scheme
    uint32_t reuse;
    uint32_t group;
    uint64_t seed;
    uint64_t stream; // differs between workers and distributions
} muster_sampler_opts;

typedef struct muster_sampler muster_sampler;

/* `target` must outlive the sampler. MUSTER_ERR_INVALID, MUSTER_ERR_NO_MEMORY.
 */
MUSTER_CHECKED muster_status muster_sampler_create(
    const muster_key_distribution *target, const muster_sampler_opts *opts,
    const muster_nearby *nearby, muster_sampler **sampler_out);
void muster_sampler_free(muster_sampler *sampler);

/* Use these draws from now on. */
void muster_sampler_seek(muster_sampler *sampler, muster_draws draws);

/* MUSTER_ERR_AGAIN: more than MUSTER_PS_SAMPLES_MAX samples or
 * MUSTER_PS_SAMPLE_HANDLES_MAX handles would be open. Handles are never 0. */
MUSTER_CHECKED muster_status muster_sampler_prepare(muster_sampler *sampler,
                                                    size_t count,
                                                    uint32_t *handle_out);
/* MUSTER_ERR_INVALID: unknown handle, or fewer samples left. */
MUSTER_CHECKED muster_status muster_sampler_pull(muster_sampler *sampler,
                                                 uint32_t handle, size_t count,
                                                 uint32_t *keys_out);
MUSTER_CHECKED muster_status muster_sampler_finish(muster_sampler *sampler,
                                                   uint32_t handle);

/* The worker accessed this key directly: REPURPOSE may return it as a sample.
 * Ignored for keys outside the range and for other schemes. */
void muster_sampler_note(muster_sampler *sampler, uint32_t key);

#endif // MUSTER_PS_STORE_SAMPLER_H
