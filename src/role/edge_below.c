/*
 * edge_below.c -- an edge and its workers: when they are enough, and the step
 * that they are asked for.
 *
 * Invariants:
 *   1. The coordinator below lives from the first plan to the next welcome
 *      above. Its steps ascend, and their models are all of one life above.
 *   2. Its phases are GATHER (no step is open), COLLECT and UPDATE (the COMBINE
 *      job runs), and those of the end.
 *   3. The edge is `ready` above only while the ready workers, with the answers
 *      of an open step, suffice for the inner code.
 */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "role/edge_inside.h"
#include "role/member_inside.h"
#include "wire/edge_answers.h"

/* What workers did is told when so many answers have come, or after this time;
 * kept are at most so many. */
#define ANSWERS_TOLD 64u
#define ANSWERS_NS   (50 * MUSTER_NS_PER_MS)
#define ANSWERS_MAX  65536u

static void have(muster_edge *edge, uint32_t plan, muster_actions *actions)
{
    muster_member_mail mail = {
        .message = {.kind = MUSTER_MSG_HAVE, .plan = plan}};
    edge->plan_told = plan;
    mail.message.as.have.shard = MUSTER_ID_ANY;
    muster_member_send(&edge->above, MUSTER_ID_LEADER, &mail, actions);
}

/* Too few workers are left: the coordinator must not wait for this edge. */
static void withdraw(muster_edge *edge, const muster_event *event,
                     muster_actions *actions)
{
    const muster_coordinator *c = muster_edge_below(edge);
    muster_edge_forget_plans(edge);
    muster_act_notice(actions, event->now_ns, MUSTER_LOG_WARN,
                      "edge %u has %u of %u workers, too few for %s (s = %u); "
                      "it joins again when enough are back",
                      edge->above.id, c->joining.ready, c->worker_count,
                      c->plan.info.name, c->plan.info.stragglers);
    muster_member_drop(&edge->above, MUSTER_ID_LEADER, event, actions);
}

/* Ready above for the next plan, when enough workers are. */
static void confirm_next(muster_edge *edge, muster_actions *actions)
{
    muster_coordinator *c = muster_edge_below(edge);
    if (c->next.number > edge->plan_told && muster_plan_is_ready(c)) {
        have(edge, c->next.number, actions);
    }
}

void muster_edge_review(muster_edge *edge, const muster_event *event,
                        muster_actions *actions)
{
    muster_coordinator *c = muster_edge_below(edge);
    if (c->phase == MUSTER_PHASE_UPDATE) {
        return; // looked at again when the step's message is sent
    }
    bool all = c->joining.ready == c->worker_count;
    bool reachable = all || muster_step_reachable(c);
    if (edge->ready && !reachable) {
        withdraw(edge, event, actions);
        return;
    }
    if (edge->ready) {
        confirm_next(edge, actions);
        return;
    }
    if (!reachable || edge->plan == 0) {
        return;
    }
    int64_t begin_ns = c->joining.ready_ns + c->opts.grace_ns;
    if (!all && event->now_ns < begin_ns) {
        muster_act_timer(actions, MUSTER_TIMER_GRACE, begin_ns);
        return;
    }
    edge->ready = true;
    have(edge, edge->plan, actions);
}

static void ask(muster_edge *edge, uint32_t shard, muster_actions *actions)
{
    muster_member_mail mail = {.message = {.kind = MUSTER_MSG_WANT,
                                           .plan = edge->plan,
                                           .step = ++edge->want_stamp,
                                           .as.shard.shard = shard}};
    muster_member_send(&edge->above, MUSTER_ID_LEADER, &mail, actions);
}

bool muster_edge_want(muster_edge *edge, uint32_t shard,
                      muster_actions *actions)
{
    if (!muster_vec_append(&edge->wants, &shard, 1)) {
        return false;
    }
    ask(edge, shard, actions);
    return true;
}

/* Takes the shard off the list; false: nobody has asked for it. */
static bool take_want(muster_edge *edge, uint32_t shard)
{
    uint32_t *wants = edge->wants.data;
    for (size_t i = 0; i < edge->wants.count; i++) {
        if (wants[i] == shard) {
            wants[i] = wants[--edge->wants.count];
            return true;
        }
    }
    return false;
}

void muster_edge_shard(muster_edge *edge, const muster_event *event,
                       muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    muster_coordinator *c = muster_edge_below(edge);
    if (event->as.message.payload == NULL || c == NULL ||
        !take_want(edge, message->as.shard.shard)) {
        return;
    }
    // To the coordinator below, it was made.
    muster_event made = {.kind = MUSTER_EVENT_COMPUTED,
                         .now_ns = event->now_ns,
                         .progress = event->progress};
    made.as.computed.id = ++c->jobs.ids;
    made.as.computed.kind = MUSTER_JOB_SHARD;
    made.as.computed.shard = message->as.shard.shard;
    made.as.computed.output = event->as.message.payload;
    muster_edge_feed(edge, &made, actions);
}

static uint32_t to_us(double ms)
{
    return ms > 0 ? (uint32_t)fmin(ms * 1e3, UINT32_MAX) : 0;
}

void muster_edge_answered(muster_edge *edge, const muster_report *report)
{
    const muster_coordinator *c = muster_edge_below(edge);
    const muster_classes *classes = muster_watch_classes(c->watch);
    uint32_t id = report->as.answer.worker;
    muster_edge_answer answer = {
        .step = report->step,
        .worker = id + c->layer.first,
        .compute_us = to_us(report->as.answer.compute_ms),
        .arrive_us = to_us(report->as.answer.arrive_ms),
        .late = report->as.answer.late,
        .slow = muster_classes_of(classes, id).slow,
    };
    if (edge->answers.count < ANSWERS_MAX) { // else records lack it
        (void)muster_vec_append(&edge->answers, &answer, 1);
    }
}

void muster_edge_tell(muster_edge *edge, int64_t now_ns,
                      muster_actions *actions)
{
    size_t count = edge->answers.count;
    if (count == 0) {
        return;
    }
    muster_blob *payload = muster_blob_create(count * MUSTER_EDGE_ANSWER_BYTES);
    const muster_edge_answer *all = edge->answers.data;
    for (size_t i = 0; payload != NULL && i < count; i++) {
        muster_edge_answer_write(&all[i], (uint8_t *)payload->data +
                                              i * MUSTER_EDGE_ANSWER_BYTES);
    }
    edge->told_ns = now_ns;
    muster_vec_clear(&edge->answers);
    if (payload != NULL) {
        muster_member_mail mail = {
            .message = {.kind = MUSTER_MSG_ANSWERS, .plan = edge->plan},
            .payload = payload};
        muster_member_send(&edge->above, MUSTER_ID_LEADER, &mail, actions);
    }
}

/* Tell what workers did, some steps at a time. */
static void tell_answers(muster_edge *edge, int64_t now_ns,
                         muster_actions *actions)
{
    bool due = edge->answers.count >= ANSWERS_TOLD || edge->told_ns == 0 ||
               now_ns - edge->told_ns >= ANSWERS_NS;
    if (due) {
        muster_edge_tell(edge, now_ns, actions);
    }
}

void muster_edge_begin(muster_edge *edge, const muster_event *event,
                       muster_actions *actions)
{
    muster_coordinator *c = muster_edge_below(edge);
    const muster_message *message = event->as.message.message;
    muster_blob *payload = event->as.message.payload;
    bool adopts =
        c != NULL && c->next.number != 0 && message->plan == c->next.number;
    if (c == NULL || !edge->ready || (message->plan != edge->plan && !adopts) ||
        payload == NULL || (edge->step_seen && message->step <= c->step)) {
        return; // of another plan, or overtaken by a newer one
    }
    muster_step_abandon(c, actions);
    muster_blob_unref(c->model);
    c->model = muster_blob_ref(payload);
    c->step = message->step;
    edge->step_seen = true;
    if (adopts) {
        muster_edge_adopt(edge, c->step, event, actions);
    }
    if (c->end.begun) {
        return; // no memory for the workers' plan
    }
    muster_step_begin(c, event->now_ns, actions);
    tell_answers(edge, event->now_ns, actions);
    if (adopts || c->next.number != 0) {
        muster_edge_review(edge, event, actions);
    }
}

/* What the edge itself took for a step, behind its workers' answers. */
static void note_own(muster_edge *edge, const muster_job_result *result)
{
    muster_edge_answer own = {.step = result->step,
                              .worker = MUSTER_ID_ANY,
                              .compute_us =
                                  to_us((double)result->busy_ns * 1e-6)};
    if (edge->answers.count < ANSWERS_MAX) {
        (void)muster_vec_append(&edge->answers, &own, 1);
    }
}

void muster_edge_combined(muster_edge *edge, const muster_event *event,
                          muster_actions *actions)
{
    const muster_coordinator *c = muster_edge_below(edge);
    const muster_job_result *result = &event->as.computed;
    muster_member_mail mail = {.message = {.kind = MUSTER_MSG_GRADIENT,
                                           .plan = edge->plan,
                                           .step = result->step},
                               .payload = muster_blob_ref(result->output)};
    mail.message.as.gradient.compute_ns =
        (uint64_t)(event->now_ns - c->open.begin_ns);
    muster_member_send(&edge->above, MUSTER_ID_LEADER, &mail, actions);
    note_own(edge, result);
    tell_answers(edge, event->now_ns, actions);
    muster_edge_review(edge, event, actions);
}

void muster_edge_feed(muster_edge *edge, const muster_event *event,
                      muster_actions *actions)
{
    if (edge->below.state == NULL) {
        return;
    }
    edge->below.ops->step(edge->below.state, event, actions);
    if (muster_edge_below(edge)->phase == MUSTER_PHASE_OVER) {
        edge->over = true; // its STOP action is the edge's
    }
}

void muster_edge_close(muster_edge *edge, muster_actions *actions)
{
    muster_coordinator *c = muster_edge_below(edge);
    if (c == NULL) {
        return;
    }
    muster_step_abandon(c, actions);
    const muster_link *links = c->member.links.data;
    for (size_t i = 0; i < c->member.links.count; i++) {
        if (links[i].state != MUSTER_LINK_GONE) {
            muster_act_drop(actions, links[i].peer);
        }
    }
    for (uint32_t id = MUSTER_TIMER_ROLE; id <= MUSTER_TIMER_OFFER; id++) {
        muster_act_timer(actions, id, -1);
    }
    muster_act_timer(actions, MUSTER_TIMER_MEMBER, -1);
    edge->job_ids = c->jobs.ids;
    edge->below.ops->free(c);
    edge->below = (muster_role){0};
    muster_vec_clear(&edge->wants);
}
