/*
 * coordinator_step.c -- one step: offer, answers, decode, update.
 *
 * Invariants:
 *   1. A message of worker i and stage t is kept exactly when this answer to
 *      the open step was accepted; `answers` counts the workers whose own share
 *      is there. The messages of a worker that is lost afterwards stay: they
 *      are still right. They are dropped when the step has ended: until then
 *      one may turn out to be no gradient, and the step is decoded anew without
 *      it.
 *   2. An answer is accepted once per worker, stage and step, only in COLLECT,
 *      only for (plan, step) and with the exact length. member has checked run
 *      and incarnation.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "role/coordinator_inside.h"
#include "role/edge_inside.h"

/* After which a model that found its queue full is offered again. */
#define OFFER_AGAIN_NS (20 * MUSTER_NS_PER_MS)

/* SENT of a model comes back with its step, so that what never left (it was
 * replaced by a newer one) is not counted as sent. */
static uint64_t model_token(uint64_t step)
{
    return step + 1;
}

void muster_step_offer(muster_coordinator *c, uint32_t id, int64_t now_ns,
                       muster_actions *actions)
{
    if (c->async != NULL) {
        muster_async_offer(c, id, now_ns, actions);
        return;
    }
    if (c->gossip != NULL) {
        return; // in the next step
    }
    c->workers[id].offered_ns = now_ns;
    c->workers[id].unoffered = false;
    muster_watch_offered(c->watch, id, now_ns);
    muster_replan_offered(c, id, now_ns);
    muster_member_mail mail = {.message = {.kind = MUSTER_MSG_MODEL,
                                           .plan = c->plan.number,
                                           .step = c->step},
                               .payload = muster_blob_ref(c->model),
                               .replace_slot = MUSTER_SLOT_MODEL,
                               .token = model_token(c->step)};
    if (muster_verify_is_asked(c)) {
        mail.message.plan |= MUSTER_PLAN_CHECK;
    }
    if (c->staging.calm) {
        mail.message.plan |= MUSTER_PLAN_OWN;
    }
    muster_member_send(&c->member, id, &mail, actions);
}

void muster_step_sent(muster_coordinator *c, const muster_event *event,
                      muster_actions *actions)
{
    bool newest =
        c->async != NULL || event->as.sent.token == model_token(c->step);
    if (event->as.sent.status == MUSTER_OK) {
        muster_message model = {.kind = MUSTER_MSG_MODEL};
        c->traffic.bytes_down += muster_message_bytes(&model) + c->model->bytes;
        muster_member_owes(&c->member, event->peer, event->now_ns);
    } else if (event->as.sent.status == MUSTER_ERR_AGAIN && newest &&
               c->phase == MUSTER_PHASE_COLLECT) {
        for (uint32_t id = 0; id < c->worker_count; id++) {
            c->workers[id].unoffered |=
                c->member.places[id].peer == event->peer;
        }
        muster_act_timer(actions, MUSTER_TIMER_OFFER,
                         event->now_ns + OFFER_AGAIN_NS);
    }
}

static bool may_be_offered(const muster_worker_record *worker)
{
    return worker->stage == MUSTER_STAGE_READY && !worker->behind;
}

void muster_step_offer_again(muster_coordinator *c, int64_t now_ns,
                             muster_actions *actions)
{
    for (uint32_t id = 0; id < c->worker_count; id++) {
        if (c->workers[id].unoffered && c->phase == MUSTER_PHASE_COLLECT &&
            may_be_offered(&c->workers[id])) {
            muster_step_offer(c, id, now_ns, actions);
        }
    }
}

void muster_step_begin(muster_coordinator *c, int64_t now_ns,
                       muster_actions *actions)
{
    if (c->async != NULL) {
        muster_async_begin(c, now_ns, actions);
        return;
    }
    if (c->gossip != NULL) {
        muster_gossip_lead_begin(c, now_ns, actions);
        return;
    }
    c->phase = MUSTER_PHASE_COLLECT;
    c->open.begin_ns = now_ns;
    c->past.begun_ns[c->step % MUSTER_STEPS_REMEMBERED] = now_ns;
    c->open.answers = 0;
    c->open.withdrawn = 0;
    c->open.decodes = false;
    c->open.unsolved = false;
    c->open.verified = false;
    muster_code_progress_reset(c->open.progress);
    muster_verify_begin(c, actions);
    muster_wait_begin(c, now_ns, actions);
    muster_staging_begin(c, actions);
    muster_watch_begin(c->watch, c->step, now_ns);
    muster_act_report(actions, MUSTER_REPORT_STEP_BEGIN, now_ns)->step =
        c->step;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        if (may_be_offered(&c->workers[id])) {
            muster_step_offer(c, id, now_ns, actions);
        }
    }
}

/* Count what a worker has answered. */
static void add_answers(const muster_coordinator *c, uint32_t id,
                        muster_code_progress *progress)
{
    uint32_t stages = c->staging.stages;
    for (uint32_t t = 0; t < stages; t++) {
        if (*muster_step_message(c, id, t) != NULL) {
            muster_code_progress_add(progress,
                                     c->plan.slot_of[id] * stages + t);
        }
    }
}

bool muster_step_reachable(muster_coordinator *c)
{
    if (c->open.unsolved && muster_wait_all_heard(c)) {
        return false; // they should be enough, and are not
    }
    muster_code_progress_reset(c->open.reach);
    bool open = c->phase == MUSTER_PHASE_COLLECT;
    uint32_t count = 0;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        bool answered = open && muster_step_has_answered(c, id);
        bool may_answer = c->workers[id].stage == MUSTER_STAGE_READY &&
                          !(open && muster_step_is_withdrawn(c, id));
        if (may_answer) {
            muster_staging_add_all(&c->staging, c->open.reach,
                                   c->plan.slot_of[id]);
        } else if (open) {
            add_answers(c, id, c->open.reach);
        }
        count += answered || may_answer;
    }
    // A code that may fall short makes do with anybody, but an exact one does
    // not begin so.
    bool any = c->phase == MUSTER_PHASE_GATHER ? !c->plan.info.exact
                                               : muster_wait_may_fall_short(c);
    return muster_code_progress_ready(c->open.reach) || (any && count > 0);
}

static uint32_t list_responders(muster_coordinator *c)
{
    uint32_t stages = c->staging.stages;
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < c->worker_count; slot++) {
        for (uint32_t t = 0; t < stages; t++) {
            if (*muster_step_message(c, c->plan.worker_of[slot], t) != NULL) {
                c->staging.responders[count++] = slot * stages + t;
            }
        }
    }
    return count;
}

/* Note which parts the sum has; returns how many it lacks. An answer without
 * weight, which a least-squares best may have, adds none. */
static uint32_t count_parts(muster_coordinator *c,
                            const muster_decoding *decoding)
{
    uint64_t *received = c->past.parts_received;
    uint32_t missing = c->plan.info.parts;
    if (decoding->status == MUSTER_OK) {
        for (uint32_t part = 0; part < c->plan.info.parts; part++) {
            received[part]++;
        }
        return 0;
    }
    for (uint32_t i = 0; i < decoding->used_count; i++) {
        const uint32_t *parts = NULL;
        uint32_t count =
            muster_assignment_answer(&c->plan, decoding->used[i], &parts);
        for (uint32_t j = 0; j < count; j++) {
            received[parts[j]] += !c->past.counted[parts[j]];
            missing -= !c->past.counted[parts[j]];
            c->past.counted[parts[j]] = true;
        }
    }
    memset(c->past.counted, 0, c->plan.info.parts * sizeof(*c->past.counted));
    return missing;
}

bool muster_step_is_withdrawn(const muster_coordinator *c, uint32_t id)
{
    const muster_worker_record *worker = &c->workers[id];
    bool withdrawn = false;
    for (uint32_t t = 0; t < c->staging.stages; t++) {
        withdrawn = withdrawn || (*muster_step_message(c, id, t) == NULL &&
                                  (worker->heard_stages >> t & 1) != 0);
    }
    return withdrawn && worker->heard_steps == c->step + 1;
}

/* Whole ones, and one that has begun. */
static void drop_messages_of(muster_coordinator *c, uint32_t id)
{
    muster_begun_forget(c, id);
    for (uint32_t t = 0; t < c->staging.stages; t++) {
        muster_blob_unref(*muster_step_message(c, id, t));
        *muster_step_message(c, id, t) = NULL;
    }
}

void muster_step_withdraw(muster_coordinator *c, uint32_t id)
{
    drop_messages_of(c, id);
    c->open.withdrawn++;
    c->open.answers = 0;
    muster_code_progress_reset(c->open.progress);
    for (uint32_t other = 0; other < c->worker_count; other++) {
        c->open.answers += muster_step_has_answered(c, other);
        add_answers(c, other, c->open.progress);
    }
    muster_staging_recount(c);
}

static void drop_messages(muster_coordinator *c)
{
    for (uint32_t id = 0; id < c->worker_count; id++) {
        muster_worker_record *worker = &c->workers[id];
        worker->answered = muster_step_has_answered(c, id);
        if (!worker->answered) {
            worker->answered_row = 0;
        } else if (worker->answered_row < UINT8_MAX) {
            worker->answered_row++;
        }
        drop_messages_of(c, id);
    }
}

void muster_step_abandon(muster_coordinator *c, muster_actions *actions)
{
    if (c->open.deadline_set) {
        muster_act_timer(actions, MUSTER_TIMER_DEADLINE, -1);
    }
    muster_staging_stop(c, actions);
    if (c->jobs.update != 0) {
        muster_act_cancel(actions, c->jobs.update);
        c->jobs.update = 0;
    }
    drop_messages(c);
    c->open.answers = 0;
    c->phase = MUSTER_PHASE_GATHER;
}

/* The list of the last job serves again, unless that still has it. */
bool muster_step_has_list(muster_coordinator *c, muster_job_list **list)
{
    uint32_t room = c->worker_count * c->staging.stages;
    if (*list == NULL || (*list)->room < room ||
        !muster_job_list_is_free(*list)) {
        muster_job_list_unref(*list);
        *list = muster_job_list_create(room);
    }
    return *list != NULL;
}

void muster_step_fill_job(const muster_coordinator *c,
                          muster_decoding *decoding, muster_job_list *list,
                          muster_job *job)
{
    job->block = muster_coordinator_block_floats(c);
    job->step = c->step;
    job->plan = c->plan.number;
    job->decoding = muster_decoding_ref(decoding);
    job->list = muster_job_list_ref(list);
    job->messages = list->blobs;
    job->message_count = decoding->used_count;
    for (uint32_t i = 0; i < decoding->used_count; i++) {
        uint32_t stages = c->staging.stages;
        uint32_t worker = c->plan.worker_of[decoding->used[i] / stages];
        muster_blob *whole =
            *muster_step_message(c, worker, decoding->used[i] % stages);
        job->messages[i] =
            muster_blob_ref(whole != NULL ? whole : c->workers[worker].begun);
    }
}

muster_job *muster_step_ask_update(muster_coordinator *c,
                                   muster_decoding *decoding,
                                   muster_actions *actions)
{
    c->jobs.update = ++c->jobs.ids;
    muster_job_kind kind =
        c->edge != NULL ? MUSTER_JOB_COMBINE : MUSTER_JOB_UPDATE;
    muster_job *job = muster_act_compute(actions, kind, c->jobs.update);
    muster_step_fill_job(c, decoding, c->open.messages, job);
    muster_decoding_unref(c->open.decoding);
    c->open.decoding = muster_decoding_ref(decoding);
    return job;
}

static void start_update(muster_coordinator *c, muster_decoding *decoding,
                         int64_t now_ns, muster_actions *actions)
{
    (void)muster_step_ask_update(c, decoding, actions);
    c->open.inexact = decoding->status == MUSTER_INEXACT;
    muster_wait_decoded(c, actions);
    muster_staging_decoded(c, actions);
    muster_watch_decoded(c->watch, c->open.deadline_over, now_ns);
    muster_plan_observe(c);
    c->phase = MUSTER_PHASE_UPDATE;
}

/* The answers do not give the whole gradient: is the step to wait for more? */
static bool is_unsolved(muster_coordinator *c, const muster_event *event,
                        muster_actions *actions)
{
    if (c->plan.info.exact && c->open.answers == c->worker_count) {
        muster_coordinator_end(c, MUSTER_ERR_UNSUPPORTED,
                               "this code loses the gradient to rounding even "
                               "with every answer; use another code",
                               event, actions);
        return true;
    }
    if (muster_wait_is_over(c)) {
        return false;
    }
    if (muster_wait_all_heard(c) && !c->open.unsolved) {
        c->open.unsolved = true;
        muster_coordinator_review(c, event, actions);
    }
    return true; // `ready` was too hopeful: wait for one more
}

/* An exact code's step was cut off by the deadline: said once, for every such
 * step is reported as degraded. */
static void tell_cut_off(muster_coordinator *c, int64_t now_ns,
                         muster_actions *actions)
{
    if (c->told_cut_off || c->degraded || !c->plan.info.exact) {
        return;
    }
    c->told_cut_off = true;
    muster_act_notice(
        actions, now_ns, MUSTER_LOG_WARN,
        "step %llu goes on approximately: %u of %u answers after %.3f s are "
        "too few for %s (s = %u), as may be in later steps; grad_err says how "
        "far off each step is",
        (unsigned long long)c->step, c->open.answers, c->worker_count,
        (double)(now_ns - c->open.begin_ns) * 1e-9, c->plan.info.name,
        c->plan.info.stragglers);
}

void muster_step_try(muster_coordinator *c, const muster_event *event,
                     muster_actions *actions)
{
    if (c->async != NULL) {
        muster_async_try(c, event, actions);
        return;
    }
    if (c->gossip != NULL) {
        muster_gossip_lead_try(c, event, actions);
        return;
    }
    if (c->phase != MUSTER_PHASE_COLLECT || c->end.begun) {
        return;
    }
    if (!muster_code_progress_ready(c->open.progress) &&
        !muster_wait_is_over(c)) {
        return;
    }
    if (muster_verify_holds(c, actions)) {
        return;
    }
    muster_decoding *decoding = NULL;
    muster_status status = muster_code_cache_get(
        c->decodings, c->staging.responders, list_responders(c), &decoding);
    if (status == MUSTER_INEXACT && is_unsolved(c, event, actions)) {
        return;
    }
    if (status >= 0 && !muster_step_has_list(c, &c->open.messages)) {
        status = MUSTER_ERR_NO_MEMORY;
    }
    if (status < 0) {
        muster_coordinator_end(c, status, "a step could not be decoded", event,
                               actions);
        return;
    }
    if (status == MUSTER_INEXACT) {
        tell_cut_off(c, event->now_ns, actions);
    }
    start_update(c, decoding, event->now_ns, actions);
}

static void report_end(muster_coordinator *c,
                       const muster_step_outcome *outcome,
                       const muster_event *event, muster_actions *actions)
{
    muster_report *report =
        muster_act_report(actions, MUSTER_REPORT_STEP_END, event->now_ns);
    report->step = c->step;
    report->as.end.loss = outcome->loss;
    report->as.end.grad_err = outcome->grad_err;
    report->as.end.step_ms = (double)(event->now_ns - c->open.begin_ns) * 1e-6;
    report->as.end.responders = outcome->responders;
    report->as.end.stragglers = c->worker_count - outcome->responders;
    report->as.end.parts_missing = c->open.parts_missing;
    report->as.end.inexact = c->open.inexact;
    report->as.end.degraded = c->open.inexact && c->plan.info.exact;
    report->as.end.plan = c->plan.number;
    report->as.end.parts_received = c->past.parts_received;
    report->as.end.part_count = c->plan.info.parts;
    report->as.end.code = muster_coordinator_code(c);
    report->as.end.first_shard = c->plan.first_shard;
    report->as.end.classes = muster_watch_classes(c->watch);
    report->as.end.bytes_up = c->traffic.bytes_up;
    report->as.end.bytes_down = c->traffic.bytes_down;
    report->as.end.messages_up = c->traffic.messages_up;
    report->as.end.bytes_moved = c->traffic.bytes_moved;
    report->as.end.stages_dropped = c->traffic.stages_dropped;
    c->traffic = (muster_step_traffic){0};
}

/* The optimiser may have moved on while the model has not: what is there is no
 * state to go on from. The checkpoints before it are. */
static void failed_update(muster_coordinator *c, const muster_event *event,
                          muster_actions *actions)
{
    const muster_job_result *result = &event->as.computed;
    c->end.saved = true;
    if (c->end
            .begun) { // asked to end meanwhile: that would promise a checkpoint
        c->end.status = result->status;
        snprintf(c->end.reason, sizeof(c->end.reason), "%s", result->text);
        muster_coordinator_close(c, event, actions);
    } else {
        muster_coordinator_end(c, result->status, result->text, event, actions);
    }
}

void muster_step_updated(muster_coordinator *c, const muster_event *event,
                         muster_actions *actions)
{
    const muster_job_result *result = &event->as.computed;
    if (result->id != c->jobs.update) {
        return; // of a step that was abandoned
    }
    c->jobs.update = 0;
    if (result->status == MUSTER_INEXACT) {
        muster_verify_not_finite(c, event, actions);
        return;
    }
    if (result->status < 0) {
        failed_update(c, event, actions);
        return;
    }
    if (c->async != NULL) {
        muster_blob_unref(c->model);
        c->model = muster_blob_ref(result->output);
        muster_async_updated(c, event, actions);
        return;
    }
    if (c->gossip != NULL) {
        muster_blob_unref(c->model);
        c->model = muster_blob_ref(result->output);
        muster_gossip_lead_updated(c, event, actions);
        return;
    }
    c->open.parts_missing = count_parts(c, c->open.decoding);
    drop_messages(c);
    if (c->edge != NULL) {
        c->phase = MUSTER_PHASE_GATHER;
        muster_edge_combined(c->edge, event, actions);
        return;
    }
    muster_blob_unref(c->model);
    c->model = muster_blob_ref(result->output);
    const muster_step_outcome outcome = {.loss = result->loss,
                                         .grad_err = result->grad_err,
                                         .responders = c->open.answers};
    muster_step_ended(c, &outcome, event, actions);
}

void muster_step_ended(muster_coordinator *c,
                       const muster_step_outcome *outcome,
                       const muster_event *event, muster_actions *actions)
{
    c->past.step_ns[c->past.steps++ % MUSTER_STEP_TIMES] =
        event->now_ns - c->open.begin_ns;
    report_end(c, outcome, event, actions);
    c->step++;
    // Twenty median steps without progress: stuck, however slow the steps are.
    int64_t stall_ns = 20 * muster_wait_median_ns(c);
    c->member.opts.stall_ns =
        stall_ns > c->opts.stall_ns ? stall_ns : c->opts.stall_ns;
    if (c->end.begun) {
        muster_coordinator_close(c, event, actions);
        return;
    }
    if (c->opts.checkpoint_every > 0 && c->step < c->opts.last_step &&
        c->step % c->opts.checkpoint_every == 0) {
        muster_coordinator_snapshot(c, actions);
    }
    if (c->step >= c->opts.last_step) {
        muster_coordinator_end(c, MUSTER_OK, "done", event, actions);
        return;
    }
    if (!muster_evaluate_holds(c, event, actions)) {
        muster_step_go_on(c, event, actions);
    }
}

void muster_step_go_on(muster_coordinator *c, const muster_event *event,
                       muster_actions *actions)
{
    muster_replan_ask(c, event->now_ns, actions);
    muster_reorder_ask(c, actions);
    muster_plan_change(c, event, actions);
    if (c->end.begun) {
        return;
    }
    muster_step_begin(c, event->now_ns, actions);
    muster_coordinator_review(c, event, actions);
}
