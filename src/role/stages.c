/*
 * stages.c -- see stages.h.
 */
#include "role/stages.h"

#include <stddef.h>

#include "base/mem.h"

static uint64_t bit_of(uint32_t stage)
{
    return UINT64_C(1) << stage;
}

/* The first `count` stages. */
static uint64_t first_of(uint32_t count)
{
    return count >= MUSTER_STAGES_MAX ? UINT64_MAX : bit_of(count) - 1;
}

static void drop_kept(muster_stages *stages)
{
    for (uint32_t t = 0; stages->kept != NULL && t < MUSTER_STAGES_MAX; t++) {
        stages->dropped += stages->kept[t].message != NULL;
        muster_blob_unref(stages->kept[t].message);
        stages->kept[t].message = NULL;
    }
}

void muster_stages_fini(muster_stages *stages)
{
    drop_kept(stages);
    muster_mem_free(stages->kept);
}

void muster_stages_leave(muster_stages *stages)
{
    drop_kept(stages);
    muster_stage_result *kept = stages->kept;
    *stages = (muster_stages){.running = MUSTER_STAGE_NONE, .kept = kept};
}

static void use_word(muster_stages *stages)
{
    stages->told = true;
    stages->missing = stages->word.missing & first_of(stages->plan.count);
}

static bool is_for(const muster_stages *stages, const muster_stages_word *word)
{
    return word->number > 0 && word->step == stages->step &&
           word->plan == stages->number;
}

void muster_stages_begin(muster_stages *stages, const muster_stages_plan *plan,
                         uint64_t step, uint32_t number)
{
    drop_kept(stages);
    stages->plan = *plan;
    stages->step = step;
    stages->number = number;
    stages->told = false;
    stages->started = false;
    stages->done = 0;
    stages->sent = 0;
    stages->running = MUSTER_STAGE_NONE;
    if (stages->kept == NULL && plan->count > 1) {
        stages->kept =
            muster_mem_array(MUSTER_STAGES_MAX, sizeof(*stages->kept));
    }
    if (stages->kept == NULL) {
        stages->plan.begun = plan->own;
    }
    if (is_for(stages, &stages->word)) {
        use_word(stages);
    }
}

/* Stages to compute. */
static uint64_t asked(const muster_stages *stages)
{
    return stages->told ? stages->missing : first_of(stages->plan.begun);
}

/* Stages to send when they are done. */
static uint64_t wanted(const muster_stages *stages)
{
    return stages->told ? stages->missing : first_of(stages->plan.own);
}

uint32_t muster_stages_next(const muster_stages *stages)
{
    uint64_t left = asked(stages) & ~stages->done;
    bool none = left == 0 || stages->plan.count == 0 ||
                stages->running != MUSTER_STAGE_NONE;
    return none ? MUSTER_STAGE_NONE : (uint32_t)__builtin_ctzll(left);
}

void muster_stages_start(muster_stages *stages, uint32_t stage)
{
    stages->running = stage;
    stages->started = true;
}

bool muster_stages_is_open(const muster_stages *stages)
{
    uint64_t all = first_of(stages->plan.count);
    uint64_t running =
        stages->running != MUSTER_STAGE_NONE ? bit_of(stages->running) : 0;
    return (all & ~stages->done & ~running) != 0;
}

bool muster_stages_computed(muster_stages *stages, muster_stage_result result)
{
    uint32_t stage = stages->running;
    if (stage == MUSTER_STAGE_NONE) {
        return false; // of another life
    }
    stages->running = MUSTER_STAGE_NONE;
    if (result.message == NULL) {
        stages->dropped++;
        return false;
    }
    stages->done |= bit_of(stage);
    if ((wanted(stages) & bit_of(stage)) != 0) {
        stages->sent |= bit_of(stage);
        return true;
    }
    if (stages->kept != NULL) {
        muster_blob_ref(result.message);
        stages->kept[stage] = result;
    }
    return false;
}

bool muster_stages_told(muster_stages *stages, const muster_stages_word *word)
{
    const muster_stages_word *last = &stages->word;
    bool newer = word->step > last->step ||
                 (word->step == last->step && word->number > last->number);
    if (!newer && last->number > 0) {
        return false;
    }
    stages->word = *word;
    bool counts = is_for(stages, word);
    if (counts) {
        use_word(stages);
    }
    return counts;
}

bool muster_stages_is_idle_work(const muster_stages *stages)
{
    return stages->running != MUSTER_STAGE_NONE &&
           (asked(stages) & bit_of(stages->running)) == 0;
}

uint32_t muster_stages_take(muster_stages *stages,
                            muster_stage_result *result_out)
{
    uint64_t ready = wanted(stages) & stages->done & ~stages->sent;
    for (uint32_t t = 0; stages->kept != NULL && t < stages->plan.count; t++) {
        if ((ready & bit_of(t)) != 0 && stages->kept[t].message != NULL) {
            stages->sent |= bit_of(t);
            *result_out = stages->kept[t];
            stages->kept[t].message = NULL;
            return t;
        }
    }
    return MUSTER_STAGE_NONE;
}

uint32_t muster_stages_take_dropped(muster_stages *stages)
{
    uint32_t dropped = stages->dropped;
    stages->dropped = 0;
    return dropped;
}
