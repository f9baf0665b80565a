/*
 * coordinator.c -- events, pause and patience, the end.
 *
 * Phases: GATHER, then COLLECT and UPDATE in turn, then CLOSE (last jobs),
 * FAREWELL (STOP sent, waiting for the workers to hang up), OVER. Membership
 * runs beside them: workers come, become ready and go in any phase. A pause is
 * not a phase: the step stays open, and a worker that becomes ready gets its
 * model.
 */
#include "role/coordinator.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "role/coordinator_inside.h"
#include "role/edge_inside.h"

#define FAREWELL_NS  MUSTER_NS_PER_S
#define NAMES_LISTED 8u
/* How often in a row patience begins again while somebody loads its shards. A
 * shard that was confirmed begins the row anew. */
#define PATIENCES_MAX 10u
/* Which workers are missing at the start is said after the first of these
 * times, and then again each time the second has passed. */
#define MISSING_FIRST_NS (5 * MUSTER_NS_PER_S)
#define MISSING_NEXT_NS  (30 * MUSTER_NS_PER_S)

/* "2, 5 and 3 more": the workers that are not ready. */
static void list_missing(const muster_coordinator *c, char *text, size_t room)
{
    uint32_t missing = 0;
    size_t used = 0;
    text[0] = 0;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        bool dropped =
            c->phase == MUSTER_PHASE_COLLECT && muster_step_is_withdrawn(c, id);
        if (c->workers[id].stage == MUSTER_STAGE_READY && !dropped) {
            continue;
        }
        if (missing++ < NAMES_LISTED && used < room) {
            int wrote = snprintf(text + used, room - used, "%s%u",
                                 missing > 1 ? ", " : "", id + c->layer.first);
            used += wrote > 0 ? (size_t)wrote : 0;
        }
    }
    if (missing > NAMES_LISTED && used < room) {
        snprintf(text + used, room - used, " and %u more",
                 missing - NAMES_LISTED);
    }
}

/* The run has not begun: say which workers are missing. */
static void tell_missing(muster_coordinator *c, const muster_event *event,
                         muster_actions *actions)
{
    char names[128];
    if (c->joining.ready == c->worker_count) {
        return; // an edge's, between two steps
    }
    list_missing(c, names, sizeof(names));
    muster_act_notice(actions, event->now_ns, MUSTER_LOG_INFO,
                      "%u of %u %ss are ready; missing: %s", c->joining.ready,
                      c->worker_count, muster_coordinator_noun(c), names);
    muster_act_timer(actions, MUSTER_TIMER_WAIT,
                     event->now_ns + MISSING_NEXT_NS);
}

static void begin(muster_coordinator *c, const muster_event *event,
                  muster_actions *actions)
{
    muster_act_timer(actions, MUSTER_TIMER_GRACE, -1);
    muster_act_timer(actions, MUSTER_TIMER_PATIENCE, -1);
    if (c->joining.ready < c->worker_count) {
        char names[128];
        list_missing(c, names, sizeof(names));
        muster_act_notice(actions, event->now_ns, MUSTER_LOG_WARN,
                          "starting with %u of %u %ss, without %s",
                          c->joining.ready, c->worker_count,
                          muster_coordinator_noun(c), names);
    }
    muster_plan_change(c, event, actions);
    if (!c->end.begun) {
        muster_step_begin(c, event->now_ns, actions);
    }
}

static void review_gathering(muster_coordinator *c, const muster_event *event,
                             muster_actions *actions)
{
    if (c->joining.ready == c->worker_count) {
        begin(c, event, actions);
        return;
    }
    // Whether those that are ready suffice is looked at once no more come.
    int64_t begin_ns = c->joining.ready_ns + c->opts.grace_ns;
    if (event->now_ns < begin_ns) {
        muster_act_timer(actions, MUSTER_TIMER_GRACE, begin_ns);
    } else if (muster_step_reachable(c)) {
        begin(c, event, actions);
    }
}

/* The run ends because the workers that are ready are too few. */
static void end_with_too_few(muster_coordinator *c, const muster_event *event,
                             muster_actions *actions)
{
    char names[128];
    char reason[256];
    list_missing(c, names, sizeof(names));
    snprintf(reason, sizeof(reason),
             "step %llu: %u of %u %ss are ready, too few for %s (s = %u); "
             "missing: %s",
             (unsigned long long)c->step, c->joining.ready, c->worker_count,
             muster_coordinator_noun(c), c->plan.info.name,
             c->plan.info.stragglers, names);
    muster_coordinator_end(c, MUSTER_ERR_QUORUM, reason, event, actions);
}

static void pause_run(muster_coordinator *c, const muster_event *event,
                      muster_actions *actions)
{
    char names[128];
    list_missing(c, names, sizeof(names));
    c->paused = true;
    muster_act_timer(actions, MUSTER_TIMER_PATIENCE,
                     event->now_ns + c->opts.patience_ns);
    muster_act_notice(
        actions, event->now_ns, MUSTER_LOG_WARN,
        "paused at step %llu: %s (s = %u) cannot do without %ss %s; goes "
        "on when one of them, or a replacement, joins within %.0f s",
        (unsigned long long)c->step, c->plan.info.name, c->plan.info.stragglers,
        muster_coordinator_noun(c), names, (double)c->opts.patience_ns * 1e-9);
}

/* Models are averaged with fewer workers, or with all of them again. */
static void tell_averaging(const muster_coordinator *c, bool all,
                           const muster_event *event, muster_actions *actions)
{
    char names[128];
    list_missing(c, names, sizeof(names));
    bool local = c->async == NULL && c->gossip == NULL;
    muster_act_notice(
        actions, event->now_ns, all ? MUSTER_LOG_INFO : MUSTER_LOG_WARN,
        "step %llu %s %s%s", (unsigned long long)c->step,
        local ? "averages" : (all ? "has" : "goes on"),
        all ? "all workers again" : "without workers ", all ? "" : names);
}

/* Too few workers for the code, but some are ready: go on with them, and say
 * so. */
static void degrade(muster_coordinator *c, bool exact,
                    const muster_event *event, muster_actions *actions)
{
    if (exact == !c->degraded) {
        return;
    }
    if (c->opts.averages) {
        tell_averaging(c, exact, event, actions);
    } else if (exact) {
        muster_act_notice(actions, event->now_ns, MUSTER_LOG_INFO,
                          "exact again at step %llu, with %u of %u %ss",
                          (unsigned long long)c->step, c->joining.ready,
                          c->worker_count, muster_coordinator_noun(c));
    } else {
        char names[128];
        list_missing(c, names, sizeof(names));
        muster_act_notice(
            actions, event->now_ns, MUSTER_LOG_WARN,
            "step %llu goes on approximately: %s (s = %u) cannot do without "
            "%ss %s; grad_err says how far off each step is",
            (unsigned long long)c->step, c->plan.info.name,
            c->plan.info.stragglers, muster_coordinator_noun(c), names);
    }
    c->degraded = !exact;
}

void muster_coordinator_review(muster_coordinator *c, const muster_event *event,
                               muster_actions *actions)
{
    if (c->end.begun) {
        return;
    }
    if (c->edge != NULL) {
        muster_edge_review(c->edge, event, actions);
        return;
    }
    if (c->phase == MUSTER_PHASE_GATHER) {
        review_gathering(c, event, actions);
        return;
    }
    if (c->phase != MUSTER_PHASE_COLLECT) {
        return; // looked at again when the next step begins
    }
    // Of all workers no answer was dropped: no need to ask each.
    bool all = c->joining.ready == c->worker_count && c->open.withdrawn == 0;
    bool reachable = all || muster_step_reachable(c);
    if (c->opts.degrade &&
        (reachable || c->joining.ready + c->open.answers > 0)) {
        degrade(c, reachable, event, actions);
        reachable = true;
    }
    if (!reachable && c->opts.stop_on_loss) {
        end_with_too_few(c, event, actions);
    } else if (!reachable && !c->paused) {
        pause_run(c, event, actions);
    } else if (reachable && c->paused) {
        c->paused = false;
        muster_act_timer(actions, MUSTER_TIMER_PATIENCE, -1);
        muster_act_notice(actions, event->now_ns, MUSTER_LOG_INFO,
                          "going on at step %llu with %u of %u %ss",
                          (unsigned long long)c->step, c->joining.ready,
                          c->worker_count, muster_coordinator_noun(c));
    }
    if (c->degraded) {
        muster_step_try(c, event,
                        actions); // all that are ready may have answered
    }
}

/* Does one that joins go on loading its shards? Both can take longer than
 * patience lasts: receiving them over a slow link, when it is not busy, and
 * reading them. One that reads makes progress. Of one that is not busy nothing
 * tells whether its shards are still on their way or it never confirms them;
 * it owes no answer, so it is not lost for that. PATIENCES_MAX ends the wait.
 */
static bool somebody_loads(muster_coordinator *c, int64_t now_ns)
{
    for (uint32_t id = 0; id < c->worker_count; id++) {
        const muster_worker_record *worker = &c->workers[id];
        const muster_link *link = worker->under_way_count > 0
                                      ? muster_member_link(&c->member, id)
                                      : NULL;
        if (link != NULL &&
            (!link->busy || now_ns - link->progress_ns < c->opts.patience_ns)) {
            return true;
        }
    }
    return false;
}

static void out_of_patience(muster_coordinator *c, const muster_event *event,
                            muster_actions *actions)
{
    bool waiting = c->phase == MUSTER_PHASE_GATHER || c->paused;
    if (!waiting || c->end.begun || c->edge != NULL) {
        return;
    }
    bool enough =
        muster_step_reachable(c) || (c->opts.degrade && c->joining.ready > 0);
    if (enough && c->phase == MUSTER_PHASE_GATHER) {
        begin(c, event, actions);
        muster_coordinator_review(c, event, actions);
        return;
    }
    if (!enough && c->patiences < PATIENCES_MAX &&
        somebody_loads(c, event->now_ns)) {
        c->patiences++;
        muster_act_timer(actions, MUSTER_TIMER_PATIENCE,
                         event->now_ns + c->opts.patience_ns);
        return;
    }
    end_with_too_few(c, event, actions);
}

static void over(muster_coordinator *c, muster_actions *actions)
{
    c->phase = MUSTER_PHASE_OVER;
    muster_act_stop(actions, c->end.status, c->end.reason);
}

static bool anybody_here(const muster_coordinator *c)
{
    return c->member.links_member > 0;
}

static void farewell(muster_coordinator *c, const muster_event *event,
                     muster_actions *actions)
{
    c->phase = MUSTER_PHASE_FAREWELL;
    muster_member_close(&c->member, "the run is over");
    for (uint32_t id = 0; id < c->worker_count; id++) {
        muster_member_mail mail = {.message = {.kind = MUSTER_MSG_STOP,
                                               .plan = c->plan.number,
                                               .step = c->step}};
        mail.message.as.stop.status = c->end.status < 0 ? c->end.status : 0;
        snprintf(mail.message.as.stop.text, sizeof(mail.message.as.stop.text),
                 "%.199s", c->end.reason);
        muster_member_send(&c->member, id, &mail, actions);
    }
    if (anybody_here(c)) {
        muster_act_timer(actions, MUSTER_TIMER_FAREWELL,
                         event->now_ns + FAREWELL_NS);
    } else {
        over(c, actions);
    }
}

uint64_t muster_coordinator_snapshot(muster_coordinator *c,
                                     muster_actions *actions)
{
    muster_job *job =
        muster_act_compute(actions, MUSTER_JOB_SNAPSHOT, ++c->jobs.ids);
    job->step = c->step;
    job->is_last = c->phase == MUSTER_PHASE_CLOSE;
    // Without it a restart counts incarnations anew and begins with plan 1.
    job->input = muster_coordinator_saved(c);
    return job->id;
}

/* The last jobs, one after another, and then the farewell. */
static void close_next(muster_coordinator *c, const muster_event *event,
                       muster_actions *actions)
{
    if (c->jobs.evaluate != 0) {
        return; // muster_coordinator_close_on()
    }
    if (c->end.status == MUSTER_OK && c->opts.evaluate_at_end &&
        !c->end.evaluated) {
        c->end.evaluated = true;
        c->jobs.closing = ++c->jobs.ids;
        muster_job *job =
            muster_act_compute(actions, MUSTER_JOB_EVALUATE, c->jobs.closing);
        job->step = c->step;
        job->input = muster_blob_ref(c->model);
    } else if (!c->end.saved) {
        c->end.saved = true;
        c->jobs.closing = muster_coordinator_snapshot(c, actions);
    } else {
        c->jobs.closing = 0;
        farewell(c, event, actions);
    }
}

void muster_coordinator_close(muster_coordinator *c, const muster_event *event,
                              muster_actions *actions)
{
    c->phase = MUSTER_PHASE_CLOSE;
    muster_act_timer(actions, MUSTER_TIMER_GRACE, -1);
    muster_act_timer(actions, MUSTER_TIMER_PATIENCE, -1);
    muster_act_timer(actions, MUSTER_TIMER_WAIT, -1);
    muster_act_timer(actions, MUSTER_TIMER_DEADLINE, -1);
    muster_staging_stop(c, actions);
    muster_verify_now(c, actions);
    if (c->jobs.evaluate != 0 && c->end.status != MUSTER_OK) {
        muster_act_cancel(actions, c->jobs.evaluate);
    }
    close_next(c, event, actions);
}

void muster_coordinator_close_on(muster_coordinator *c,
                                 const muster_event *event,
                                 muster_actions *actions)
{
    if (c->phase == MUSTER_PHASE_CLOSE && c->jobs.closing == 0) {
        close_next(c, event, actions);
    }
}

void muster_coordinator_end(muster_coordinator *c, muster_status status,
                            const char *reason, const muster_event *event,
                            muster_actions *actions)
{
    if (c->end.begun) {
        return;
    }
    c->end.begun = true;
    c->end.status = status;
    snprintf(c->end.reason, sizeof(c->end.reason), "%s", reason);
    if (c->jobs.update == 0) {
        muster_coordinator_close(c, event, actions);
    }
}

/* Ends after which the user is told of a checkpoint to go on from. */
static bool promises_checkpoint(muster_status status)
{
    return status == MUSTER_OK || status == MUSTER_ERR_INTERRUPTED ||
           status == MUSTER_ERR_QUORUM;
}

/* A last job failed. What was lost by that matters more than why the run was
 * about to end, unless that was a failure itself. */
static void closing_failed(muster_coordinator *c, const muster_event *event,
                           muster_actions *actions)
{
    const muster_job_result *result = &event->as.computed;
    bool is_worse = result->kind == MUSTER_JOB_SNAPSHOT
                        ? promises_checkpoint(c->end.status)
                        : c->end.status == MUSTER_OK;
    const char *other = is_worse ? c->end.reason : result->text;
    if (c->end.status != MUSTER_OK) { // two reasons, and STOP has room for one
        muster_act_notice(actions, event->now_ns, MUSTER_LOG_ERROR, "%s",
                          other);
    }
    if (is_worse) {
        c->end.status = result->status;
        snprintf(c->end.reason, sizeof(c->end.reason), "%s", result->text);
    }
}

static void closing_done(muster_coordinator *c, const muster_event *event,
                         muster_actions *actions)
{
    const muster_job_result *result = &event->as.computed;
    if (result->status < 0) {
        closing_failed(c, event, actions);
    } else if (result->kind == MUSTER_JOB_EVALUATE) {
        muster_report *report =
            muster_act_report(actions, MUSTER_REPORT_RESULT, event->now_ns);
        report->step = c->step;
        report->as.result.loss = result->loss;
        report->as.result.theta_norm = result->theta_norm;
        report->as.result.test_loss = result->test_loss;
        report->as.result.test_accuracy = result->test_accuracy;
        report->as.result.test_auc = result->test_auc;
    }
    close_next(c, event, actions);
}

static void on_computed(muster_coordinator *c, const muster_event *event,
                        muster_actions *actions)
{
    const muster_job_result *result = &event->as.computed;
    if (result->id == c->jobs.closing) {
        closing_done(c, event, actions);
    } else if (result->id == c->jobs.evaluate) {
        muster_evaluate_done(c, event, actions);
    } else if (result->kind == MUSTER_JOB_UPDATE ||
               result->kind == MUSTER_JOB_COMBINE) {
        muster_step_updated(c, event, actions);
    } else if (result->kind == MUSTER_JOB_DECODE) {
        muster_begun_decoded(c, event, actions);
    } else if (result->kind == MUSTER_JOB_VERIFY) {
        muster_verify_done(c, event, actions);
    } else if (result->kind == MUSTER_JOB_SHARD) {
        muster_workers_shard_made(c, event, actions);
    } else if (result->kind == MUSTER_JOB_PLAN) {
        muster_replan_done(c, event, actions);
        muster_reorder_done(c, event, actions);
    } else if (result->status < 0) { // a checkpoint on the way
        muster_coordinator_end(c, result->status, result->text, event, actions);
    }
}

static void on_timer(muster_coordinator *c, const muster_event *event,
                     muster_actions *actions)
{
    if (event->as.timer.id == MUSTER_TIMER_GRACE) {
        muster_coordinator_review(c, event, actions);
    } else if (event->as.timer.id == MUSTER_TIMER_PATIENCE) {
        out_of_patience(c, event, actions);
    } else if (event->as.timer.id == MUSTER_TIMER_WAIT &&
               c->phase == MUSTER_PHASE_GATHER && !c->end.begun) {
        tell_missing(c, event, actions);
    } else if (event->as.timer.id == MUSTER_TIMER_WAIT) {
        muster_wait_tell(c, event, actions);
    } else if (event->as.timer.id == MUSTER_TIMER_DEADLINE) {
        c->open.deadline_over = true;
        muster_step_try(c, event, actions);
    } else if (event->as.timer.id == MUSTER_TIMER_OFFER) {
        muster_step_offer_again(c, event->now_ns, actions);
    } else if (event->as.timer.id == MUSTER_TIMER_MISSING) {
        muster_staging_ask(c, event, actions);
    } else if (event->as.timer.id == MUSTER_TIMER_FAREWELL &&
               c->phase == MUSTER_PHASE_FAREWELL) {
        over(c, actions);
    }
}

static void on_message(muster_coordinator *c, uint32_t id,
                       const muster_event *event, muster_actions *actions)
{
    if (c->phase >= MUSTER_PHASE_CLOSE) {
        return;
    }
    if (event->as.message.message->kind == MUSTER_MSG_GRADIENT ||
        event->as.message.message->kind == MUSTER_MSG_STAGE) {
        muster_step_answer(c, id, event, actions);
    } else if (event->as.message.message->kind == MUSTER_MSG_HAVE) {
        muster_workers_have(c, id, event, actions);
    } else if (event->as.message.message->kind == MUSTER_MSG_WANT) {
        muster_workers_want(c, id, event, actions);
    } else if (event->as.message.message->kind == MUSTER_MSG_ANSWERS) {
        muster_edges_answers(c, id, event, actions);
    }
}

static void on_news(muster_coordinator *c, const muster_event *event,
                    muster_actions *actions)
{
    for (size_t i = 0; i < c->member.news.count; i++) {
        // A copy: dropping a member writes to the list.
        muster_news news = ((const muster_news *)c->member.news.data)[i];
        if (news.kind == MUSTER_NEWS_JOINED) {
            muster_workers_joined(c, news.id, event, actions);
        } else if (news.kind == MUSTER_NEWS_LOST) {
            muster_workers_lost(c, news.id, muster_news_reason(&news), event,
                                actions);
        } else if (news.kind == MUSTER_NEWS_MESSAGE) {
            on_message(c, news.id, event, actions);
        }
    }
    if (c->phase == MUSTER_PHASE_FAREWELL && !anybody_here(c)) {
        over(c, actions);
    }
}

static void on_start(muster_coordinator *c, const muster_event *event,
                     muster_actions *actions)
{
    c->joining.ready_ns = event->now_ns;
    muster_act_expect(actions, c->opts.message_dim);
    if (c->edge != NULL) {
        return; // the run's coordinator has the patience
    }
    muster_act_timer(actions, MUSTER_TIMER_PATIENCE,
                     event->now_ns + c->opts.patience_ns);
    muster_act_timer(actions, MUSTER_TIMER_WAIT,
                     event->now_ns + MISSING_FIRST_NS);
    if (c->step >= c->opts.last_step) {
        muster_coordinator_end(c, MUSTER_OK, "nothing left to do", event,
                               actions);
    }
}

/* A message that member has dropped: of an earlier life, or a second HELLO. A
 * correct worker sends none. */
static void tell_stray(muster_coordinator *c, const muster_event *event,
                       muster_actions *actions)
{
    for (uint32_t id = 0; id < c->worker_count; id++) {
        if (c->member.places[id].peer != event->peer) {
            continue;
        }
        bool first = c->workers[id].unusable++ == 0;
        muster_act_notice(actions, event->now_ns,
                          first ? MUSTER_LOG_WARN : MUSTER_LOG_DEBUG,
                          "%s %u sent a %s of an earlier life; dropped",
                          muster_coordinator_noun(c), id + c->layer.first,
                          muster_message_name(event->as.message.message->kind));
    }
}

void muster_coordinator_step(void *state, const muster_event *event,
                             muster_actions *actions)
{
    muster_coordinator *c = state;
    if (c->phase == MUSTER_PHASE_OVER) {
        return;
    }
    c->member.busy = c->jobs.update != 0;
    uint64_t strays = c->member.strays;
    muster_member_step(&c->member, event, actions);
    if (c->member.strays > strays) {
        tell_stray(c, event, actions);
    }
    on_news(c, event, actions);
    switch (event->kind) {
    case MUSTER_EVENT_START:
        on_start(c, event, actions);
        break;
    case MUSTER_EVENT_TIMER:
        on_timer(c, event, actions);
        break;
    case MUSTER_EVENT_COMPUTED:
        on_computed(c, event, actions);
        break;
    case MUSTER_EVENT_SENT:
        muster_step_sent(c, event, actions);
        break;
    case MUSTER_EVENT_STOP:
        muster_coordinator_end(c, MUSTER_ERR_INTERRUPTED, "interrupted", event,
                               actions);
        break;
    case MUSTER_EVENT_BEGUN:
        muster_begun_answer(c, event, actions);
        break;
    case MUSTER_EVENT_PEER_UP:
    case MUSTER_EVENT_PEER_DOWN:
    case MUSTER_EVENT_MESSAGE:
    case MUSTER_EVENT_HEARD:
        break; // all of it is news
    }
}
