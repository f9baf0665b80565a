/*
 * slots.c -- the shards of a plan, and which of them has a sample.
 *
 * A slot is a shard of one of a stage's parts, in the order of the parts and,
 * within a part, of the shards. Where no two shards have samples between each
 * other's, as when the data is cut in one piece after another, slots ascend by
 * their samples and one is found by halving; else each is looked at. Where a
 * slot has gaps between its samples, as with a placement, a bit for each sample
 * of the data says whether it is here, and a table says where. A worker asks
 * for every sample of a batch, and few are its own: the bits stay in the cache,
 * the table does not.
 */
#include <inttypes.h>

#include <string.h>

#include "base/error.h"
#include "job/inside.h"

static plan_slot make_slot(const muster_shard *shard, uint32_t part)
{
    const uint32_t *ids = shard->sample_ids;
    uint32_t last = shard->rows.count - 1;
    return (plan_slot){.shard = shard,
                       .part = part,
                       .first = ids[0],
                       .last = ids[last],
                       .is_run = ids[last] - ids[0] == last};
}

/* Append the shards of a part; every one must be here. One without samples
 * has nothing to find. */
static muster_status add_part(worker *self, const muster_terms_part *shards,
                              uint32_t part)
{
    plan_slots *slots = &self->slots;
    for (uint32_t i = 0; i < shards->count; i++) {
        const held_shard *held = muster_job_held_find(self, shards->first + i);
        if (held == NULL) {
            return muster_error_set(&self->base.error, MUSTER_ERR_INVALID,
                                    "step %" PRIu64 ": shard %u is not here",
                                    self->base.job.step, shards->first + i);
        }
        if (held->shard.rows.count == 0) {
            continue;
        }
        plan_slot *slot = muster_vec_push(&slots->list);
        if (slot == NULL) {
            return MUSTER_ERR_NO_MEMORY;
        }
        *slot = make_slot(&held->shard, part);
        slots->rows += held->shard.rows.count;
        slots->are_runs = slots->are_runs && slot->is_run;
        slots->in_order = slots->in_order && (slots->list.count == 1 ||
                                              slot[-1].last < slot->first);
        if (held->row_entries_max > slots->entries_row) {
            slots->entries_row = held->row_entries_max;
        }
    }
    return MUSTER_OK;
}

#define WORD_BITS 64u

/* Note which samples are here, and which slot and row has each of them. */
static muster_status map_samples(worker *self)
{
    plan_slots *slots = &self->slots;
    const plan_slot *list = slots->list.data;
    size_t samples = (size_t)self->setup.samples;
    size_t words = samples / WORD_BITS + 1;
    if (!muster_vec_reserve(&slots->where, samples) ||
        !muster_vec_reserve(&slots->here, words)) {
        return MUSTER_ERR_NO_MEMORY;
    }
    batch_member *where = slots->where.data;
    uint64_t *here = slots->here.data;
    memset(here, 0, words * sizeof(*here));
    for (size_t i = 0; i < slots->list.count; i++) {
        const muster_shard *shard = list[i].shard;
        for (uint32_t r = 0; r < shard->rows.count; r++) {
            uint32_t sample = shard->sample_ids[r];
            here[sample / WORD_BITS] |= (uint64_t)1 << sample % WORD_BITS;
            where[sample] = (batch_member){(uint32_t)i, r};
        }
    }
    return MUSTER_OK;
}

muster_status muster_job_slots_find(worker *self, const worker_plan *plan,
                                    uint32_t stage)
{
    const muster_encode_plan *lanes = plan->lanes[stage];
    plan_slots *slots = &self->slots;
    if (slots->plan == plan->number && slots->stage == stage &&
        slots->changes == self->changes) {
        return MUSTER_OK;
    }
    muster_vec_clear(&slots->list);
    slots->entries_row = 0;
    slots->rows = 0;
    slots->in_order = true;
    slots->are_runs = true;
    slots->changes = 0; // nothing is looked up until all of it is
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; status == MUSTER_OK && i < plan->part_count; i++) {
        if (lanes->parts[i].lane == MUSTER_NO_LANE) {
            continue;
        }
        status = add_part(self, &plan->parts[i], i);
    }
    if (status == MUSTER_OK && !slots->are_runs) {
        status = map_samples(self);
    }
    if (status == MUSTER_OK) {
        slots->plan = plan->number;
        slots->stage = stage;
        slots->changes = self->changes;
    }
    return status;
}

static uint32_t row_of(const plan_slot *slot, uint32_t sample)
{
    if (sample < slot->first || sample > slot->last) {
        return UINT32_MAX;
    }
    return slot->is_run ? sample - slot->first
                        : muster_shard_find(slot->shard, sample);
}

/* The last slot that begins at `sample` or before it; the first if none. */
static size_t slot_before(const plan_slot *list, size_t count, uint32_t sample)
{
    size_t low = 0;
    while (count > 1) {
        size_t half = count / 2;
        low += list[low + half].first <= sample ? half : 0;
        count -= half;
    }
    return low;
}

/* Slots without gaps: which has the sample. */
static bool find_member(const plan_slots *slots, uint32_t sample,
                        batch_member *member_out)
{
    const plan_slot *list = slots->list.data;
    size_t count = slots->list.count;
    if (slots->in_order && count > 0) {
        size_t at = slot_before(list, count, sample);
        uint32_t row = row_of(&list[at], sample);
        *member_out = (batch_member){(uint32_t)at, row};
        return row != UINT32_MAX;
    }
    for (size_t at = 0; at < count; at++) {
        uint32_t row = row_of(&list[at], sample);
        if (row != UINT32_MAX) {
            *member_out = (batch_member){(uint32_t)at, row};
            return true;
        }
    }
    return false;
}

/* Move the samples that are here to the front; how many. Whether one is cannot
 * be foreseen, so there is no branch on it. */
static size_t keep_here(const uint64_t *here, uint32_t *samples, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t sample = samples[i];
        samples[kept] = sample;
        kept += here[sample / WORD_BITS] >> sample % WORD_BITS & 1;
    }
    return kept;
}

size_t muster_job_slots_members(const plan_slots *slots, uint32_t *samples,
                                size_t count, batch_member *members_out)
{
    size_t found = 0;
    if (slots->are_runs) {
        for (size_t i = 0; i < count; i++) {
            batch_member member;
            if (find_member(slots, samples[i], &member)) {
                members_out[found++] = member;
            }
        }
        return found;
    }
    const batch_member *where = slots->where.data;
    found = keep_here(slots->here.data, samples, count);
    for (size_t i = 0; i < found; i++) {
        members_out[i] = where[samples[i]];
    }
    return found;
}
