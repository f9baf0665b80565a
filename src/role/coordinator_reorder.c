/*
 * coordinator_reorder.c -- the order of a code in stages follows who is slow.
 *
 * With order=speeds and no speeds given, nothing is known of the workers at
 * first. As the run goes on their classes say who is slow (watch.h). A PLAN job
 * then makes the same code for workers of which those are slow: their shares
 * come early in the orders of others, and others hold what they held. It is
 * adopted as every other code is: coordinator_recode.c.
 *
 * Classes are looked at every eighth step; a change counts when two looks in a
 * row see the same. Who is not there is slow.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "code/numbers.h"
#include "role/coordinator_inside.h"

#define LOOK_STEPS 8u
/* Of a slow worker, where others have 1. */
#define SLOW_SPEED 0.25
#define NAMED_MAX  8u

/* Does the order of the code in force follow who is slow? */
static bool is_wanted(const muster_coordinator *c)
{
    return c->async == NULL && c->gossip == NULL && c->edge == NULL &&
           c->shuffling.policy == NULL && !c->opts.replan &&
           muster_code_order(c->plan.code) == MUSTER_CODE_ORDER_LEARNT;
}

muster_status muster_reorder_init(muster_coordinator *c)
{
    muster_reordering *at = &c->reordering;
    if (!is_wanted(c)) {
        return MUSTER_OK;
    }
    at->next_step = c->step + LOOK_STEPS;
    at->slow = muster_mem_array(c->worker_count, sizeof(*at->slow));
    at->seen = muster_mem_array(c->worker_count, sizeof(*at->seen));
    return at->slow != NULL && at->seen != NULL ? MUSTER_OK
                                                : MUSTER_ERR_NO_MEMORY;
}

void muster_reorder_fini(muster_coordinator *c)
{
    muster_mem_free(c->reordering.slow);
    muster_mem_free(c->reordering.seen);
    c->reordering = (muster_reordering){0};
}

static bool is_slow(const muster_coordinator *c, uint32_t id)
{
    return c->workers[id].stage != MUSTER_STAGE_READY ||
           muster_classes_of(muster_watch_classes(c->watch), id).slow;
}

/* Look at the workers. True: others are slow than in the order in force, and
 * were at the last look. */
static bool look(muster_coordinator *c)
{
    muster_reordering *at = &c->reordering;
    bool changed = false, same = true;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        bool slow = is_slow(c, id);
        same = same && slow == at->seen[id];
        changed = changed || slow != at->slow[id];
        at->seen[id] = slow;
    }
    return changed && same;
}

static muster_blob *speeds_blob(const muster_coordinator *c)
{
    muster_blob *blob = muster_blob_create(c->worker_count * sizeof(double));
    for (uint32_t id = 0; blob != NULL && id < c->worker_count; id++) {
        double *speeds = blob->data;
        speeds[c->plan.slot_of[id]] = c->reordering.slow[id] ? SLOW_SPEED : 1;
    }
    return blob;
}

void muster_reorder_ask(muster_coordinator *c, muster_actions *actions)
{
    muster_reordering *at = &c->reordering;
    bool busy = at->job != 0 || c->recoding.code != NULL || c->next.number != 0;
    if (at->slow == NULL || busy || c->step < at->next_step ||
        c->step + 2 >= c->opts.last_step) {
        return;
    }
    at->next_step = c->step + LOOK_STEPS;
    if (!look(c)) {
        return;
    }
    memcpy(at->slow, at->seen, c->worker_count * sizeof(*at->slow));
    at->job = ++c->jobs.ids;
    muster_job *job = muster_act_compute(actions, MUSTER_JOB_PLAN, at->job);
    job->step = c->step;
    job->code = c->plan.code;
    job->input = speeds_blob(c);
}

/* The slow ones by their numbers; "nobody" where there is none. */
static void name_slow(const muster_coordinator *c, char *text, size_t size)
{
    uint32_t count = 0;
    size_t at = 0;
    (void)snprintf(text, size, "nobody");
    for (uint32_t id = 0; id < c->worker_count; id++) {
        if (c->reordering.slow[id] && count++ < NAMED_MAX && at < size) {
            int length = snprintf(text + at, size - at, "%s%u",
                                  at > 0 ? ", " : "", id + c->layer.first);
            at += length > 0 ? (size_t)length : 0;
        }
    }
    if (count > NAMED_MAX && at < size) {
        (void)snprintf(text + at, size - at, " and %u more", count - NAMED_MAX);
    }
}

void muster_reorder_done(muster_coordinator *c, const muster_event *event,
                         muster_actions *actions)
{
    const muster_job_result *result = &event->as.computed;
    muster_error error = {.text = ""};
    char names[128];
    if (result->id != c->reordering.job || c->end.begun) {
        return;
    }
    c->reordering.job = 0;
    if (result->status < 0) {
        muster_act_notice(actions, event->now_ns, MUSTER_LOG_WARN,
                          "step %llu: the order of the shares stays: %.120s",
                          (unsigned long long)c->step, result->text);
        return;
    }
    muster_status status = muster_recode_to(c, result->code, &error);
    if (status < 0) {
        muster_coordinator_end(c, status, "no memory for another order", event,
                               actions);
        return;
    }
    name_slow(c, names, sizeof(names));
    muster_act_notice(actions, event->now_ns, MUSTER_LOG_INFO,
                      "step %llu: another order of the shares, for slow are: "
                      "%s",
                      (unsigned long long)c->step, names);
}
