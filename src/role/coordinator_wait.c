/*
 * coordinator_wait.c -- how long a step waits, and for which workers.
 *
 * An exact code waits until its answers determine the gradient. With a deadline
 * that was given it waits until then, and goes on with the least-squares best
 * of what came, one answer at least. An approximate code waits for n - s
 * answers where s > 0: a lost worker is one of the s. It waits no longer than
 * until the deadline, by its own timer, and then for a quorum. Nobody waits
 * when all that are there have answered. The deadline is given, or follows from
 * when the answers of the last steps came; while that is not known, it is three
 * times the delay with which the quorum of this step came. An exact code that
 * lacks workers for good and may go on without them waits for all that are
 * there.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "role/coordinator_inside.h"

/* A step is called long after so many usual ones, and so much time. */
#define WAIT_MEDIANS 10
#define WAIT_MIN_NS  (5 * MUSTER_NS_PER_S)
#define NAMES_LISTED 6u
/* While no deadline is known. */
#define QUORUM_TIMES 3

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t muster_wait_median_ns(const muster_coordinator *c)
{
    int64_t sorted[MUSTER_STEP_TIMES];
    size_t count = c->past.steps < MUSTER_STEP_TIMES ? (size_t)c->past.steps
                                                     : MUSTER_STEP_TIMES;
    for (size_t i = 0; i < count; i++) {
        sorted[i] = c->past.step_ns[i];
    }
    qsort(sorted, count, sizeof(sorted[0]), ascending);
    return count > 0 ? sorted[count / 2] : 0;
}

/* Answers without which no deadline counts: half of the ready workers. */
static uint32_t quorum(const muster_coordinator *c)
{
    return c->opts.deadline_ns > 0 ? 1 : (c->joining.ready + 1) / 2;
}

bool muster_wait_may_fall_short(const muster_coordinator *c)
{
    return !c->plan.info.exact || c->opts.deadline_ns > 0;
}

/* Did n - s workers answer? An approximate code has no use for more. Lost
 * workers are among the s, as every worker that does not answer is. */
static bool enough_answered(const muster_coordinator *c)
{
    uint32_t tolerated = c->plan.info.stragglers;
    return !c->plan.info.exact && tolerated > 0 && c->open.answers > 0 &&
           c->open.answers + tolerated >= c->worker_count;
}

static void set_deadline(muster_coordinator *c, int64_t at_ns,
                         muster_actions *actions)
{
    c->open.deadline_set = true;
    muster_act_timer(actions, MUSTER_TIMER_DEADLINE, at_ns);
}

void muster_wait_begin(muster_coordinator *c, int64_t now_ns,
                       muster_actions *actions)
{
    int64_t usual_ns = WAIT_MEDIANS * muster_wait_median_ns(c);
    c->open.wait_ns = usual_ns > WAIT_MIN_NS ? usual_ns : WAIT_MIN_NS;
    muster_act_timer(actions, MUSTER_TIMER_WAIT, now_ns + c->open.wait_ns);
    c->open.deadline_set = false;
    c->open.deadline_over = false;
    if (!muster_wait_may_fall_short(c)) {
        return;
    }
    int64_t after_ns = c->opts.deadline_ns > 0
                           ? c->opts.deadline_ns
                           : muster_arrivals_deadline_ns(&c->past.arrivals);
    if (after_ns >= 0) {
        set_deadline(c, now_ns + after_ns, actions);
    }
}

void muster_wait_answered(muster_coordinator *c, int64_t now_ns,
                          muster_actions *actions)
{
    if (!c->plan.info.exact && !c->open.deadline_set &&
        c->open.answers >= quorum(c)) {
        int64_t passed_ns = now_ns - c->open.begin_ns;
        set_deadline(c, c->open.begin_ns + QUORUM_TIMES * passed_ns, actions);
    }
}

void muster_wait_decoded(muster_coordinator *c, muster_actions *actions)
{
    if (c->open.deadline_set) {
        muster_act_timer(actions, MUSTER_TIMER_DEADLINE, -1);
    }
    if (c->plan.info.exact) {
        return;
    }
    bool cut_off = c->open.deadline_over || enough_answered(c);
    for (uint32_t id = 0; id < c->worker_count; id++) {
        const muster_worker_record *worker = &c->workers[id];
        if (muster_step_has_answered(c, id)) {
            muster_arrivals_add(&c->past.arrivals, worker->arrival_ns);
        } else if (worker->stage == MUSTER_STAGE_READY && cut_off) {
            muster_arrivals_add(&c->past.arrivals, MUSTER_ARRIVAL_NEVER);
        }
    }
}

bool muster_wait_all_heard(const muster_coordinator *c)
{
    if (c->staging.stages > 1) {
        return muster_staging_all_heard(c);
    }
    for (uint32_t id = 0; id < c->worker_count; id++) {
        if (c->workers[id].stage == MUSTER_STAGE_READY &&
            !muster_step_has_answered(c, id) &&
            !muster_step_is_withdrawn(c, id)) {
            return false;
        }
    }
    return c->open.answers > 0;
}

bool muster_wait_is_over(const muster_coordinator *c)
{
    if (!muster_wait_may_fall_short(c) && !c->degraded) {
        return false;
    }
    return muster_wait_all_heard(c) || enough_answered(c) ||
           (c->open.deadline_over && c->open.answers >= quorum(c) &&
            c->open.answers > 0);
}

/* "3 (busy), 5 (idle)": the ready workers that have not answered. */
static void list_awaited(muster_coordinator *c, char *text, size_t room)
{
    uint32_t count = 0;
    size_t used = 0;
    text[0] = 0;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        if (c->workers[id].stage != MUSTER_STAGE_READY ||
            muster_step_has_answered(c, id) || count++ >= NAMES_LISTED ||
            used >= room) {
            continue;
        }
        const muster_link *link = muster_member_link(&c->member, id);
        int wrote = snprintf(text + used, room - used, "%s%u (%s)",
                             count > 1 ? ", " : "", id + c->layer.first,
                             link != NULL && link->busy ? "busy" : "idle");
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    if (count > NAMES_LISTED && used < room) {
        snprintf(text + used, room - used, " and %u more",
                 count - NAMES_LISTED);
    }
}

void muster_wait_tell(muster_coordinator *c, const muster_event *event,
                      muster_actions *actions)
{
    if (c->phase != MUSTER_PHASE_COLLECT || c->paused || c->end.begun) {
        return;
    }
    char names[128];
    list_awaited(c, names, sizeof(names));
    muster_act_notice(
        actions, event->now_ns, MUSTER_LOG_WARN,
        "step %llu has waited %.1f s for %ss %s; %s tolerates %u, more "
        "--stragglers would go on without them",
        (unsigned long long)c->step,
        (double)(event->now_ns - c->open.begin_ns) * 1e-9,
        muster_coordinator_noun(c), names, c->plan.info.name,
        c->plan.info.stragglers);
    c->open.wait_ns *= 2;
    muster_act_timer(actions, MUSTER_TIMER_WAIT,
                     event->now_ns + c->open.wait_ns);
}
