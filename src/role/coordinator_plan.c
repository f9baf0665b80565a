/*
 * coordinator_plan.c -- the next plan: wanted by the shuffle, made ready while
 * steps go on, adopted between two of them.
 *
 * Invariants:
 *   1. At most one next plan. Once begun it is adopted, never given up: a
 *      worker keeps two plans, so a third would push out the one in force.
 *   2. It is adopted when every ready worker has confirmed it and its parts.
 *      One that is lost meanwhile is not waited for; one that becomes ready
 *      meanwhile, under the present plan, makes itself ready for the next too.
 *   3. Parts are forgotten only after the plan that needed them is out of
 *      force. A worker that is not READY yet at an adoption starts again from
 *      PLAN; it keeps the parts that it was sent.
 */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "role/coordinator_inside.h"

/* A worker that was not there for so many steps is not expected back soon: its
 * parts are moved as those of a slow one are. */
#define GONE_STEPS 16u

void muster_plan_prepare(muster_coordinator *c, uint32_t id,
                         const muster_event *event, muster_actions *actions)
{
    if (muster_workers_send_plan(c, id, &c->next, event, actions)) {
        c->workers[id].next_stage = MUSTER_NEXT_PLAN;
    }
}

static bool all_ready_are_ahead(const muster_coordinator *c)
{
    for (uint32_t id = 0; id < c->worker_count; id++) {
        if (c->workers[id].stage == MUSTER_STAGE_READY &&
            c->workers[id].next_stage != MUSTER_NEXT_DONE) {
            return false;
        }
    }
    return true;
}

/* The plan in force and the next change places. */
static void swap_plans(muster_coordinator *c)
{
    c->plan_first_step = c->step;
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

void muster_plan_adopt(muster_coordinator *c, const muster_event *event,
                       muster_actions *actions)
{
    if (c->next.number == 0 || !all_ready_are_ahead(c)) {
        return;
    }
    swap_plans(c);
    muster_act_notice(actions, event->now_ns, MUSTER_LOG_DEBUG,
                      "plan %u from step %llu on", c->plan.number,
                      (unsigned long long)c->step);
    for (uint32_t id = 0; id < c->worker_count; id++) {
        muster_worker_record *worker = &c->workers[id];
        worker->next_stage = MUSTER_NEXT_NONE;
        if (worker->stage == MUSTER_STAGE_READY) {
            muster_workers_tidy(c, id, actions);
        } else if (worker->stage == MUSTER_STAGE_PLAN ||
                   worker->stage == MUSTER_STAGE_PARTS) {
            worker->stage = MUSTER_STAGE_PLAN;
            if (!muster_workers_send_plan(c, id, &c->plan, event, actions)) {
                return;
            }
        }
    }
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

void muster_plan_consider(muster_coordinator *c, const muster_event *event,
                          muster_actions *actions)
{
    if (c->next.number != 0 || c->end.begun) {
        return;
    }
    bool wanted = muster_recode_wanted(c) || wants_sizes(c, event, actions) ||
                  (c->shuffling.policy != NULL &&
                   muster_shuffle_next(c->shuffling.policy, c->step,
                                       c->plan.slot_of, c->next.slot_of));
    if (!wanted) {
        return;
    }
    c->next.number = c->plan.number + 1;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        c->next.worker_of[c->next.slot_of[id]] = id;
    }
    for (uint32_t id = 0; id < c->worker_count && !c->end.begun; id++) {
        if (c->workers[id].stage == MUSTER_STAGE_READY) {
            muster_plan_prepare(c, id, event, actions);
        }
    }
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
            .late = c->workers[id].message == NULL,
            .slow = gone || (class_of.slow && class_of.lasting),
            .straggle_rate = gone ? 1 : class_of.straggle_rate};
    }
    muster_shuffle_observe(c->shuffling.policy, c->plan.slot_of,
                           c->shuffling.seen);
}
