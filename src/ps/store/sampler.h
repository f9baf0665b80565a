/*
 * ps/store/sampler.h -- how samples are chosen, from independent draws to
 * whatever is near.
 *
 * One muster_sampler per worker and distribution turns draws of a target into
 * samples by one of the schemes that muster/ps.h lists. It knows about rows
 * only what its `nearby` tells: is a row here, and please bring these.
 *
 *   prepare(n)  reserves n samples under a handle and may ask for their rows
 *   pull(h, n)  gives the next n
 *
 *   Promise      INDEPENDENT: samples are independent draws. REUSE: in every
 *                aligned run of group * reuse samples of this sampler each draw
 *                of the group occurs exactly `reuse` times, and the first
 *                `group` are the draws in order. POSTPONE: the samples of a
 *                handle are a permutation of those REUSE would have given it;
 *                each is put off at most once. LOCAL: a sample's row was here
 *                when it was pulled, if a row in range was found. REPURPOSE:
 *                as LOCAL, from the keys noted by muster_sampler_note().
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

/* The target is lent until free. MUSTER_ERR_INVALID, MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_sampler_create(
    const muster_key_distribution *target, const muster_sampler_opts *opts,
    const muster_nearby *nearby, muster_sampler **sampler_out);
void muster_sampler_free(muster_sampler *sampler);

/* What is drawn from now on comes from these draws. */
void muster_sampler_seek(muster_sampler *sampler, muster_draws draws);

/* MUSTER_ERR_AGAIN: MUSTER_PS_SAMPLES_MAX or _SAMPLE_HANDLES_MAX passed.
 * Handles are never 0. */
MUSTER_CHECKED muster_status muster_sampler_prepare(muster_sampler *sampler,
                                                    size_t count,
                                                    uint32_t *handle_out);
/* MUSTER_ERR_INVALID: unknown handle, or more than are left. */
MUSTER_CHECKED muster_status muster_sampler_pull(muster_sampler *sampler,
                                                 uint32_t handle, size_t count,
                                                 uint32_t *keys_out);
MUSTER_CHECKED muster_status muster_sampler_finish(muster_sampler *sampler,
                                                   uint32_t handle);

/* A direct access: REPURPOSE may offer the key again. Keys out of the target's
 * range and other schemes ignore it. */
void muster_sampler_note(muster_sampler *sampler, uint32_t key);

#endif // MUSTER_PS_STORE_SAMPLER_H
