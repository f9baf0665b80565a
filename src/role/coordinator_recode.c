/*
 * coordinator_recode.c -- a plan of another code in mid-run.
 *
 * Whatever is made for one code (how it decodes, which parts came, the shuffle
 * over its slots) is made for the other one before it is asked for, so that the
 * change can fail no more. The next plan then has the other code. It is made
 * ready and adopted as every plan is: workers are sent the shards that they
 * lack, and drop those that neither plan asks for when it is in force. At the
 * adoption what belongs to the two codes changes places.
 */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "code/numbers.h"
#include "role/coordinator_inside.h"

/* Responder sets whose decodings are kept: stragglers repeat. */
#define DECODINGS_MAX   64u
#define DECODINGS_MIN   2u
#define DECODINGS_BYTES (8u << 20)

static muster_status build_shuffle(muster_coding *coding, const char *policy,
                                   muster_error *error)
{
    if (policy == NULL || strcmp(policy, "none") == 0) {
        return MUSTER_OK;
    }
    muster_shuffle_opts opts = {.policy = policy, .code = coding->plan.code};
    muster_status status =
        muster_shuffle_create(&opts, error, &coding->shuffle);
    if (status == MUSTER_OK) {
        status = muster_assignment_init(&coding->next, coding->plan.code,
                                        coding->plan.shards, 0);
    }
    return status;
}

/* How many decodings are kept: of thousands of workers each takes megabytes,
 * and hardly a set of responders comes twice. */
static uint32_t decodings_kept(const muster_code *code)
{
    size_t each =
        muster_code_decode_terms_max(code) * sizeof(muster_code_decode_term) +
        muster_code_numbers(code)->workers * (2 * sizeof(uint32_t));
    size_t room = DECODINGS_BYTES / each;
    room = room < DECODINGS_MAX ? room : DECODINGS_MAX;
    return room > DECODINGS_MIN ? (uint32_t)room : DECODINGS_MIN;
}

muster_status muster_coding_init(muster_coding *coding,
                                 const muster_layer *layer, uint32_t shards,
                                 const muster_coordinator_opts *opts,
                                 muster_error *error)
{
    uint32_t parts = muster_code_numbers(layer->terms)->parts;
    *coding = (muster_coding){
        .received = muster_mem_array(parts, sizeof(*coding->received)),
        .counted = muster_mem_array(parts, sizeof(*coding->counted))};
    muster_status status = coding->received == NULL || coding->counted == NULL
                               ? MUSTER_ERR_NO_MEMORY
                               : MUSTER_OK;
    if (status == MUSTER_OK) {
        status = muster_assignment_init_layer(&coding->plan, layer, shards, 0);
    }
    if (status == MUSTER_OK) {
        status = muster_code_cache_create(
            layer->code, decodings_kept(layer->code), &coding->decodings);
    }
    if (status == MUSTER_OK) {
        status = muster_code_progress_create(layer->code, &coding->progress);
    }
    if (status == MUSTER_OK) {
        status = muster_code_progress_create(layer->code, &coding->reach);
    }
    if (status == MUSTER_OK) {
        status =
            muster_staging_init(&coding->staging, layer->code, opts->eager);
    }
    return status == MUSTER_OK ? build_shuffle(coding, opts->shuffle, error)
                               : status;
}

void muster_coding_fini(muster_coding *coding)
{
    muster_assignment_fini(&coding->plan);
    muster_assignment_fini(&coding->next);
    muster_code_cache_free(coding->decodings);
    muster_code_progress_free(coding->progress);
    muster_code_progress_free(coding->reach);
    muster_staging_fini(&coding->staging);
    muster_shuffle_free(coding->shuffle);
    muster_mem_free(coding->received);
    muster_mem_free(coding->counted);
    *coding = (muster_coding){0};
}

void muster_coding_use(muster_coordinator *c, muster_coding *coding)
{
    muster_coding used = {.plan = c->plan,
                          .next = c->next,
                          .decodings = c->decodings,
                          .progress = c->open.progress,
                          .reach = c->open.reach,
                          .staging = c->staging,
                          .shuffle = c->shuffling.policy,
                          .received = c->past.parts_received,
                          .counted = c->past.counted};
    c->plan = coding->plan;
    c->next = coding->next;
    c->decodings = coding->decodings;
    c->open.progress = coding->progress;
    c->open.reach = coding->reach;
    c->staging = coding->staging;
    c->shuffling.policy = coding->shuffle;
    c->past.parts_received = coding->received;
    c->past.counted = coding->counted;
    c->answer_bytes = muster_coordinator_answer_floats(c) * sizeof(float) +
                      c->opts.message_tail;
    *coding = used;
}

void muster_coding_counts_to_shards(const muster_assignment *plan,
                                    const uint64_t *received,
                                    uint64_t *by_shard_out)
{
    for (uint32_t part = 0; part < plan->info.parts; part++) {
        for (uint32_t shard = plan->first_shard[part];
             shard < plan->first_shard[part + 1]; shard++) {
            by_shard_out[shard] = received[part];
        }
    }
}

void muster_coding_counts_to_parts(const muster_assignment *plan,
                                   const uint64_t *by_shard,
                                   uint64_t *received_out)
{
    for (uint32_t part = 0; part < plan->info.parts; part++) {
        uint32_t first = plan->first_shard[part];
        uint32_t end = plan->first_shard[part + 1];
        uint64_t min = first < end ? by_shard[first] : 0;
        for (uint32_t shard = first; shard < end; shard++) {
            min = by_shard[shard] < min ? by_shard[shard] : min;
        }
        received_out[part] = min;
    }
}

muster_status muster_recode_init(muster_coordinator *c, muster_error *error)
{
    return c->opts.change_code == NULL
               ? MUSTER_OK
               : muster_recode_to(c, c->opts.change_code, error);
}

muster_status muster_recode_to(muster_coordinator *c, const muster_code *code,
                               muster_error *error)
{
    MUSTER_ASSERT(!c->recoding.under_way);
    muster_layer layer = muster_coordinator_layer(c, code);
    muster_coding_fini(&c->recoding.other);
    if (c->recoding.by_shard == NULL) {
        c->recoding.by_shard =
            muster_mem_array(c->plan.shards, sizeof(*c->recoding.by_shard));
    }
    if (c->recoding.by_shard == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    c->recoding.code = code;
    return muster_coding_init(&c->recoding.other, &layer, c->plan.shards,
                              &c->opts, error);
}

void muster_recode_begin(muster_coordinator *c)
{
    muster_assignment *plan = &c->recoding.other.plan;
    c->recoding.code = NULL;
    c->recoding.done = c->recoding.under_way = true;
    memcpy(plan->slot_of, c->plan.slot_of,
           c->worker_count * sizeof(*plan->slot_of));
    muster_assignment shuffled = c->next;
    c->next = *plan;
    *plan = shuffled;
}

bool muster_recode_wanted(muster_coordinator *c)
{
    if (c->recoding.code == NULL || c->step < c->opts.change_step) {
        return false;
    }
    muster_recode_begin(c);
    return true;
}

bool muster_recode_adopt(muster_coordinator *c)
{
    muster_coding *other = &c->recoding.other;
    if (!c->recoding.under_way) {
        return false;
    }
    c->recoding.under_way = false;
    muster_coding_counts_to_shards(&c->plan, c->past.parts_received,
                                   c->recoding.by_shard);
    muster_assignment shuffled = other->plan;
    other->plan = c->next;
    c->next = shuffled;
    muster_coding_use(c, other);
    muster_coding_counts_to_parts(&c->plan, c->recoding.by_shard,
                                  c->past.parts_received);
    return true;
}
