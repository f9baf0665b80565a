/*
 * cut.c -- see cut.h.
 */
#include "data/cut.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"

#define SHARDS_A_WORKER 4u

uint32_t muster_cut_default(uint32_t workers, uint32_t parts)
{
    MUSTER_ASSERT(parts > 0);
    uint64_t wanted = (uint64_t)workers * SHARDS_A_WORKER;
    uint64_t each = (wanted + parts - 1) / parts;
    uint64_t shards = (each > 0 ? each : 1) * parts;
    return shards < UINT32_MAX ? (uint32_t)shards : parts;
}

static muster_status make(uint32_t shards, muster_cut *cut_out)
{
    MUSTER_ASSERT(shards > 0);
    *cut_out = (muster_cut){.shards = shards};
    cut_out->first =
        muster_mem_array((size_t)shards + 1, sizeof(*cut_out->first));
    return cut_out->first != NULL ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
}

/* Cut `count` samples from `first` on into shards at..at + shards - 1. */
static void cut_range(muster_cut *cut, uint32_t at, uint32_t shards,
                      uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < shards; i++) {
        cut->first[at + i] = first + i * count / shards;
    }
    cut->first[at + shards] = first + count;
}

muster_status muster_cut_even(uint64_t samples, uint32_t shards,
                              muster_cut *cut_out)
{
    muster_status status = make(shards, cut_out);
    if (status == MUSTER_OK) {
        cut_range(cut_out, 0, shards, 0, samples);
    }
    return status;
}

/* How many owners have samples; UINT32_MAX when the ends do not ascend. */
static uint32_t count_owners(const uint64_t *ends, uint32_t owners)
{
    uint32_t count = 0;
    uint64_t before = 0;
    for (uint32_t i = 0; i < owners; i++) {
        if (ends[i] < before || ends[i] > UINT32_MAX) {
            return UINT32_MAX;
        }
        count += ends[i] > before;
        before = ends[i];
    }
    return count;
}

static muster_status fail_memory(uint32_t shards, muster_error *error_out)
{
    return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                            "no memory for %" PRIu32 " shards", shards);
}

muster_status muster_cut_owned(const uint64_t *ends, uint32_t owners,
                               uint32_t shards, muster_error *error_out,
                               muster_cut *cut_out)
{
    uint32_t having = count_owners(ends, owners);
    if (having == 0 || having == UINT32_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "the samples of the owners do not ascend from "
                                "0, or there are none");
    }
    if (shards < having) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "%" PRIu32 " shards are too few for %" PRIu32
                                " owners with samples",
                                shards, having);
    }
    muster_status status = make(shards, cut_out);
    if (status == MUSTER_OK) {
        cut_out->owned =
            muster_mem_array((size_t)owners + 1, sizeof(*cut_out->owned));
    }
    if (status != MUSTER_OK || cut_out->owned == NULL) {
        muster_cut_fini(cut_out);
        return fail_memory(shards, error_out);
    }
    uint64_t samples = ends[owners - 1];
    uint64_t spare = shards - having; // beyond one each
    uint64_t begin = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < owners; i++) {
        cut_out->owned[i] = at;
        if (ends[i] > begin) {
            // Rounded at the ends, so that the shares add up to all of them.
            uint64_t share =
                ends[i] * spare / samples - begin * spare / samples;
            cut_range(cut_out, at, 1 + (uint32_t)share, begin, ends[i] - begin);
            at += 1 + (uint32_t)share;
            begin = ends[i];
        }
    }
    MUSTER_ASSERT(at == shards);
    cut_out->owned[owners] = at;
    return MUSTER_OK;
}

/* Where each owner's samples end, once they are side by side. */
static void count_ends(const uint32_t *owner_of, uint64_t samples,
                       uint32_t owners, uint64_t *ends)
{
    for (uint64_t i = 0; i < samples; i++) {
        MUSTER_ASSERT(owner_of[i] < owners);
        ends[owner_of[i]]++;
    }
    for (uint32_t owner = 1; owner < owners; owner++) {
        ends[owner] += ends[owner - 1];
    }
}

/* From the last sample to the first, so that `ends` become the begins. */
static void sort_samples(const uint32_t *owner_of, uint64_t samples,
                         uint64_t *ends, uint32_t *order)
{
    for (uint64_t i = samples; i-- > 0;) {
        order[--ends[owner_of[i]]] = (uint32_t)i;
    }
}

muster_status muster_cut_placed(const uint32_t *owner_of, uint64_t samples,
                                uint32_t owners, uint32_t shards,
                                muster_error *error_out, muster_cut *cut_out)
{
    uint64_t *ends = muster_mem_array(owners, sizeof(*ends));
    uint32_t *order = muster_mem_array(samples, sizeof(*order));
    if (ends == NULL || order == NULL) {
        muster_mem_free(ends);
        muster_mem_free(order);
        return fail_memory(shards, error_out);
    }
    count_ends(owner_of, samples, owners, ends);
    muster_status status =
        muster_cut_owned(ends, owners, shards, error_out, cut_out);
    if (status == MUSTER_OK) {
        sort_samples(owner_of, samples, ends, order);
        cut_out->order = order;
    } else {
        muster_mem_free(order);
    }
    muster_mem_free(ends);
    return status;
}

void muster_cut_fini(muster_cut *cut)
{
    muster_mem_free(cut->first);
    muster_mem_free(cut->order);
    muster_mem_free(cut->owned);
    *cut = (muster_cut){0};
}
