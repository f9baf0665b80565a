/*
 * coordinator_plan.c -- the next plan: wanted by the shuffle, made ready while
 * steps go on, adopted between two of them.
 *
 * A plan for step t + 1 is sent when step t begins, before its model. Where the
 * shuffle knows the turns that follow, their plans and shards go out earlier
 * still: a worker that gets its model before the plan, or takes as long over
 * the plan as a step lasts, has confirmed it all the same when its step comes.
 * So a map can change with every step.
 *
 * Invariants:
 *   1. At most one next plan. Once begun it is adopted, never given up, and
 *      turns whose plans were announced come before any other plan: workers
 *      may have them. A worker is sent no plan that would push out the one in
 *      force, of the MUSTER_WORKER_PLANS that it keeps.
 *   2. It is adopted when those that answered the last step have confirmed it
 *      and hold its shards, and can do with an exact code what they did before;
 *      or when all that are ready have, but not with another code that needs
 *      more. One that has not then is behind: it is
 *      offered no model until it has. One that has not confirmed what it was
 *      sent is sent no further plan.
 *   3. Shards are forgotten only after the plan that needed them is out of
 *      force, by workers that are under the new one.
 */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "role/coordinator_inside.h"

/* A worker that was not there for so many steps is not expected back soon: its
 * parts are moved as those of a slow one are. */
#define GONE_STEPS 16u

uint32_t muster_plan_turns(const muster_coordinator *c)
{
    uint32_t plans = c->next.number != 0 ? 2 : 1;
    return plans + c->shuffling.turns;
}

uint32_t muster_plan_number(const muster_coordinator *c, uint32_t turn)
{
    return turn > 0 && c->next.number != 0 ? c->next.number + turn - 1
                                           : c->plan.number + turn;
}

uint32_t muster_plan_slot(const muster_coordinator *c, uint32_t id,
                          uint32_t turn, const muster_assignment **plan_out)
{
    bool is_next = turn > 0 && c->next.number != 0;
    const muster_assignment *plan = is_next ? &c->next : &c->plan;
    uint32_t further = turn - (is_next ? 1 : 0);
    *plan_out = plan;
    return further == 0 ? plan->slot_of[id]
                        : muster_shuffle_slot_ahead(c->shuffling.policy,
                                                    plan->slot_of[id], further);
}

bool muster_plan_is_ready(muster_coordinator *c)
{
    muster_code_progress *reach =
        c->recoding.under_way ? c->recoding.other.reach : c->open.reach;
    const muster_staging *staging =
        c->recoding.under_way ? &c->recoding.other.staging : &c->staging;
    muster_code_progress_reset(reach);
    bool all = true;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        if (c->workers[id].stage != MUSTER_STAGE_READY) {
            continue;
        }
        if (muster_workers_is_ahead(c, id)) {
            muster_staging_add_all(staging, reach, c->next.slot_of[id]);
        } else if (c->workers[id].answered) {
            return false;
        } else {
            all = false;
        }
    }
    if (!c->next.info.exact || muster_code_progress_ready(reach)) {
        return true;
    }
    // A code that cannot go on with those that are here waits for the others.
    return all && (!c->recoding.under_way || c->degraded);
}

/* The plan in force and the next change places. */
static void swap_plans(muster_coordinator *c, uint64_t first_step)
{
    c->plan_first_step = first_step;
    if (muster_recode_adopt(c)) {
        return;
    }
    muster_assignment old = c->plan;
    c->plan = c->next; // decodings are by slot: they stay
    c->next = old;
    c->next.number = 0;
    if (c->balance != NULL) {
        muster_balance_adopted(c->balance);
    }
}

/* Who has answered so many steps in a row keeps up with them; one that was slow
 * before has turns to catch up with. */
#define KEEPS_UP_STEPS 8u

/* The next plan comes late. Where one that keeps up with the steps has it not,
 * later ones shall go out earlier; nobody can have the first turn. */
static void note_late(muster_coordinator *c)
{
    bool late = false;
    if (c->shuffling.policy == NULL || c->recoding.under_way ||
        c->plan.number == 1) {
        return;
    }
    for (uint32_t id = 0; !late && id < c->worker_count; id++) {
        late = c->workers[id].stage == MUSTER_STAGE_READY &&
               c->workers[id].answered_row >= KEEPS_UP_STEPS &&
               !muster_workers_is_ahead(c, id);
    }
    if (late) {
        muster_shuffle_was_late(c->shuffling.policy);
    }
}

static bool adopt(muster_coordinator *c, const muster_event *event,
                  muster_actions *actions)
{
    if (c->next.number == 0) {
        return false;
    }
    if (!muster_plan_is_ready(c)) {
        note_late(c);
        return false;
    }
    swap_plans(c, c->step);
    muster_act_notice(actions, event->now_ns, MUSTER_LOG_DEBUG,
                      "plan %u from step %llu on", c->plan.number,
                      (unsigned long long)c->step);
    return true;
}

/* Do the workers' times ask for parts of other sizes? */
static bool wants_sizes(muster_coordinator *c, const muster_event *event,
                        muster_actions *actions)
{
    uint32_t moved = 0;
    if (c->balance == NULL ||
        !muster_balance_next(c->balance, c->plan.first_shard,
                             c->next.first_shard)) {
        return false;
    }
    memcpy(c->next.slot_of, c->plan.slot_of,
           c->worker_count * sizeof(*c->next.slot_of));
    for (uint32_t id = 0; id < c->worker_count; id++) {
        for (uint32_t shard = c->next.first_shard[id];
             shard < c->next.first_shard[id + 1]; shard++) {
            moved += shard < c->plan.first_shard[id] ||
                     shard >= c->plan.first_shard[id + 1];
        }
    }
    double slow = muster_balance_speed(c->balance, 0), fast = slow;
    for (uint32_t id = 1; id < c->worker_count; id++) {
        double speed = muster_balance_speed(c->balance, id);
        slow = speed < slow ? speed : slow;
        fast = speed > fast ? speed : fast;
    }
    muster_act_notice(actions, event->now_ns, MUSTER_LOG_INFO,
                      "step %llu: workers' speeds differ by a factor of %.2f: "
                      "%u of %u shards move",
                      (unsigned long long)c->step, fast / slow, moved,
                      c->plan.shards);
    return true;
}

/* Another map or code for the steps after this one? */
static bool is_wanted(muster_coordinator *c, const muster_event *event,
                      muster_actions *actions)
{
    if (c->next.number != 0 || c->step + 1 >= c->opts.last_step) {
        return false;
    }
    bool settled = c->shuffling.announced > c->plan.number;
    return (!settled &&
            (muster_recode_wanted(c) || wants_sizes(c, event, actions))) ||
           (c->shuffling.policy != NULL &&
            muster_shuffle_next(c->shuffling.policy, c->step + 1,
                                c->plan.slot_of, c->next.slot_of));
}

static void number_next(muster_coordinator *c, uint32_t number)
{
    c->next.number = number;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        c->next.worker_of[c->next.slot_of[id]] = id;
    }
}

static bool somebody_joins(const muster_coordinator *c)
{
    bool joins = false;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        muster_worker_stage stage = c->workers[id].stage;
        joins = joins ||
                (stage != MUSTER_STAGE_ABSENT && stage != MUSTER_STAGE_READY);
    }
    return joins;
}

/* Settle which plans workers may be sent: the next, and turns after it, unless
 * another code waits for its turn, or one that joins has to catch up with the
 * turns over a link that plans and shards fill. */
static void announce(muster_coordinator *c)
{
    uint32_t turns = c->shuffling.turns;
    if (turns > 0 && (c->recoding.code != NULL || somebody_joins(c))) {
        turns = 0;
    }
    uint32_t newest = muster_plan_number(c, (c->next.number != 0) + turns);
    uint32_t kept = c->plan.number + MUSTER_WORKER_PLANS - 1;
    if (turns > 0 && newest > kept) {
        newest = kept;
    }
    if (newest > c->shuffling.announced) {
        c->shuffling.announced = newest;
    }
}

/* Make the next plan, if one is wanted, and note the turns that are known to
 * follow. False: nothing has changed. */
static bool look_ahead(muster_coordinator *c, const muster_event *event,
                       muster_actions *actions)
{
    bool wanted = is_wanted(c, event, actions);
    if (wanted) {
        number_next(c, c->plan.number + 1);
    }
    const uint32_t *newest =
        c->next.number != 0 ? c->next.slot_of : c->plan.slot_of;
    uint32_t before = c->shuffling.turns;
    c->shuffling.turns =
        c->shuffling.policy == NULL || c->recoding.under_way
            ? 0
            : muster_shuffle_turns_ahead(c->shuffling.policy, c->step + 1,
                                         c->opts.last_step, newest);
    announce(c);
    return wanted || before != c->shuffling.turns;
}

static void tell_all(muster_coordinator *c, bool adopted,
                     const muster_event *event, muster_actions *actions)
{
    for (uint32_t id = 0; id < c->worker_count; id++) {
        if (c->workers[id].stage >= MUSTER_STAGE_PARTS && !c->end.begun) {
            muster_workers_follow(c, id, adopted, event, actions);
        }
    }
}

void muster_plan_change(muster_coordinator *c, const muster_event *event,
                        muster_actions *actions)
{
    if (c->end.begun) {
        return;
    }
    bool adopted = adopt(c, event, actions);
    bool changed = look_ahead(c, event, actions);
    if (adopted || changed) {
        tell_all(c, adopted, event, actions);
    }
}

muster_status muster_plan_follow(muster_coordinator *c, const muster_code *code,
                                 uint32_t number, const muster_event *event,
                                 muster_actions *actions)
{
    MUSTER_ASSERT(c->next.number == 0 && number > c->plan.number);
    muster_error error = {.text = ""};
    muster_status status = muster_recode_to(c, code, &error);
    if (status == MUSTER_OK) {
        muster_recode_begin(c);
        number_next(c, number);
        announce(c);
        tell_all(c, false, event, actions);
    }
    return status;
}

void muster_plan_adopt(muster_coordinator *c, uint64_t first_step,
                       const muster_event *event, muster_actions *actions)
{
    swap_plans(c, first_step);
    tell_all(c, true, event, actions);
}

/* That the worker straggles in the next step. */
static double chance(const muster_class *class_of)
{
    return class_of->lasting ? class_of->straggle_rate : class_of->probability;
}

void muster_plan_observe(muster_coordinator *c)
{
    if (c->shuffling.policy == NULL) {
        return;
    }
    const muster_classes *classes = muster_watch_classes(c->watch);
    for (uint32_t id = 0; id < c->worker_count; id++) {
        muster_class class_of = muster_classes_of(classes, id);
        bool gone = muster_watch_away(c->watch, id) >= GONE_STEPS;
        c->shuffling.seen[id] = (muster_shuffle_seen){
            .late = !muster_step_has_answered(c, id),
            .slow = gone || class_of.slow,
            .passing = !gone && !class_of.lasting,
            .straggle_rate = gone ? 1 : chance(&class_of)};
    }
    muster_shuffle_observe(c->shuffling.policy, c->plan.slot_of,
                           c->shuffling.seen);
}
