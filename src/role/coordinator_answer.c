/*
 * coordinator_answer.c -- answers: which are taken, and what they tell.
 *
 * An answer is accepted once per worker, stage and step, only while the step is
 * open, only for (plan, step) and with the exact length. member has checked run
 * and incarnation. What comes late is counted and tells how slow its worker is.
 */
#include "role/coordinator_inside.h"
#include "role/edge_inside.h"

bool muster_step_has_answered(const muster_coordinator *c, uint32_t id)
{
    bool all = true;
    for (uint32_t t = 0; t < c->staging.own; t++) {
        all = all && *muster_step_message(c, id, t) != NULL;
    }
    return all;
}

int64_t muster_step_begun_ns(const muster_coordinator *c, uint64_t step)
{
    uint64_t behind = c->step - step;
    if (behind >= MUSTER_STEPS_REMEMBERED) {
        behind = MUSTER_STEPS_REMEMBERED - 1;
    }
    return c->past.begun_ns[(c->step - behind) % MUSTER_STEPS_REMEMBERED];
}

void muster_step_report_since(const muster_coordinator *c, uint32_t id,
                              int64_t since_ns, const muster_event *event,
                              muster_actions *actions)
{
    muster_report *report =
        muster_act_report(actions, MUSTER_REPORT_ANSWER, event->now_ns);
    report->step = c->step;
    report->as.answer.worker = id;
    report->as.answer.compute_ms =
        (double)event->as.message.message->as.gradient.compute_ns * 1e-6;
    report->as.answer.arrive_ms = (double)(event->now_ns - since_ns) * 1e-6;
}

/* What is known of an answer. */
typedef struct answer {
    uint32_t stage;
    bool open;  // it is one to the step at hand, in time
    bool whole; // its worker's own share is complete with it
} answer;

static void report_answer(const muster_coordinator *c, uint32_t id,
                          const answer *given, const muster_event *event,
                          muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    int64_t compute_ns = given->whole
                             ? c->workers[id].own_ns
                             : (int64_t)message->as.gradient.compute_ns;
    muster_report *report =
        muster_act_report(actions, MUSTER_REPORT_ANSWER, event->now_ns);
    report->step = message->step;
    report->as.answer.worker = id;
    report->as.answer.late = !given->open;
    report->as.answer.stage = given->stage;
    report->as.answer.partial = !given->whole;
    report->as.answer.compute_ms = (double)compute_ns * 1e-6;
    report->as.answer.arrive_ms =
        (double)(event->now_ns - muster_step_begun_ns(c, message->step)) * 1e-6;
    if (message->plan == c->plan.number) {
        report->as.answer.code = muster_coordinator_code(c);
        report->as.answer.first_shard = c->plan.first_shard;
    }
    if (c->edge != NULL) {
        muster_edge_answered(c->edge, report);
    }
}

void muster_step_reject(muster_coordinator *c, uint32_t id, const char *what,
                        const muster_event *event, muster_actions *actions)
{
    muster_member_drop(&c->member, id, event, actions);
    muster_workers_lost(c, id, what, event, actions);
}

/* Something a correct worker never sends: end its connection and say so. */
static void reject(muster_coordinator *c, uint32_t id, const char *what,
                   const muster_event *event, muster_actions *actions)
{
    c->workers[id].unusable++;
    muster_act_notice(actions, event->now_ns, MUSTER_LOG_WARN,
                      "%s %u sent %s for step %llu; dropped",
                      muster_coordinator_noun(c), id + c->layer.first, what,
                      (unsigned long long)event->as.message.message->step);
    muster_step_reject(c, id, what, event, actions);
}

/* Too late for the decoding under way; it serves when that has to be done
 * anew. */
static void keep_spare(muster_coordinator *c, uint32_t id, uint32_t stage,
                       const muster_event *event)
{
    if (c->phase == MUSTER_PHASE_UPDATE &&
        event->as.message.message->step == c->step &&
        *muster_step_message(c, id, stage) == NULL) {
        *muster_step_message(c, id, stage) =
            muster_blob_ref(event->as.message.payload);
        muster_begun_forget(c, id);
    }
}

/* Is it an answer that its worker was asked for? Else it is dropped, and its
 * worker lost. */
static bool is_asked_for(muster_coordinator *c, uint32_t id,
                         const muster_event *event, muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    const muster_blob *payload = event->as.message.payload;
    size_t bytes = payload != NULL ? payload->bytes : 0;
    // Answers to steps of another code, which come late, have its length.
    bool before = message->step < c->plan_first_step;
    if (bytes != c->answer_bytes && !(c->recoding.done && before)) {
        reject(c, id, "an answer of the wrong length", event, actions);
        return false;
    }
    // An answer to a step is of the plan that the step was under.
    bool staged = message->kind == MUSTER_MSG_STAGE;
    bool strange =
        before
            ? message->plan >= c->plan.number
            : message->plan != c->plan.number ||
                  staged != (c->staging.stages > 1) ||
                  (staged && message->as.gradient.stage >= c->staging.stages);
    if (message->step > c->step || strange ||
        c->workers[id].stage != MUSTER_STAGE_READY) {
        reject(c, id, "an answer to what it was not asked", event, actions);
        return false;
    }
    return true;
}

/* Note the answer; true: it came before. */
static bool is_second(muster_coordinator *c, uint32_t id,
                      const muster_message *message, const answer *given)
{
    muster_worker_record *worker = &c->workers[id];
    uint64_t bit = UINT64_C(1) << given->stage;
    if (message->step + 1 > worker->heard_steps) {
        worker->heard_steps = message->step + 1;
        worker->heard_stages = 0;
        worker->own_ns = 0;
    }
    bool newest = message->step + 1 == worker->heard_steps;
    bool second =
        (newest && (worker->heard_stages & bit) != 0) ||
        (given->open && *muster_step_message(c, id, given->stage) != NULL);
    worker->heard_stages |= newest ? bit : 0;
    return second;
}

/* Does the answer complete its worker's own share? Adds up what that took. */
static bool completes(muster_coordinator *c, uint32_t id,
                      const muster_message *message, uint32_t stage)
{
    muster_worker_record *worker = &c->workers[id];
    uint32_t own = c->staging.own;
    if (message->kind == MUSTER_MSG_GRADIENT) {
        worker->own_ns = (int64_t)message->as.gradient.compute_ns;
        return true;
    }
    if (stage >= own || message->step + 1 != worker->heard_steps) {
        return false;
    }
    uint64_t share = own >= 64 ? UINT64_MAX : (UINT64_C(1) << own) - 1;
    worker->own_ns += (int64_t)message->as.gradient.compute_ns;
    return (worker->heard_stages & share) == share;
}

static void tell_second(muster_coordinator *c, uint32_t id,
                        const muster_event *event, muster_actions *actions)
{
    bool first = c->workers[id].unusable++ == 0;
    muster_act_notice(actions, event->now_ns,
                      first ? MUSTER_LOG_WARN : MUSTER_LOG_DEBUG,
                      "%s %u answered step %llu twice; dropped",
                      muster_coordinator_noun(c), id + c->layer.first,
                      (unsigned long long)event->as.message.message->step);
}

/* What the workers' times tell. */
static void learn_times(muster_coordinator *c, uint32_t id,
                        const muster_message *message, int64_t now_ns)
{
    if (c->balance != NULL && message->plan == c->plan.number) {
        muster_balance_time(c->balance, id, c->workers[id].own_ns);
    }
    muster_replan_answer(c, id, message, now_ns);
}

/* An answer to the open step. */
static void accept(muster_coordinator *c, uint32_t id, const answer *given,
                   const muster_event *event, muster_actions *actions)
{
    muster_worker_record *worker = &c->workers[id];
    uint32_t slot = c->plan.slot_of[id];
    c->open.unsolved = false;
    *muster_step_message(c, id, given->stage) =
        muster_blob_ref(event->as.message.payload);
    muster_begun_forget(c, id);
    muster_code_progress_add(c->open.progress,
                             slot * c->staging.stages + given->stage);
    muster_staging_take(c, id, given->stage);
    if (given->whole) {
        muster_watch_answered(c->watch, id, event->now_ns);
        worker->arrival_ns = event->now_ns - worker->offered_ns;
        c->open.answers++;
        muster_wait_answered(c, event->now_ns, actions);
    }
    muster_step_try(c, event, actions);
    muster_staging_answered(c, id, given->stage, given->whole, event, actions);
}

void muster_step_answer(muster_coordinator *c, uint32_t id,
                        const muster_event *event, muster_actions *actions)
{
    if (c->async != NULL) {
        muster_async_answer(c, id, event, actions);
        return;
    }
    if (c->gossip != NULL) {
        muster_gossip_lead_answer(c, id, event, actions);
        return;
    }
    const muster_message *message = event->as.message.message;
    const muster_blob *payload = event->as.message.payload;
    c->traffic.bytes_up +=
        muster_message_bytes(message) + (payload != NULL ? payload->bytes : 0);
    c->traffic.messages_up++;
    muster_member_paid(&c->member, event->peer);
    if (!is_asked_for(c, id, event, actions)) {
        return;
    }
    answer given = {.open = c->phase == MUSTER_PHASE_COLLECT &&
                            message->step == c->step};
    if (message->kind == MUSTER_MSG_STAGE) {
        given.stage = message->as.gradient.stage;
        c->traffic.stages_dropped += message->as.gradient.dropped;
    }
    if (is_second(c, id, message, &given)) {
        // The second copy of an answer adds nothing.
        tell_second(c, id, event, actions);
        return;
    }
    given.whole = completes(c, id, message, given.stage);
    report_answer(c, id, &given, event, actions);
    if (given.whole) {
        learn_times(c, id, message, event->now_ns);
    }
    muster_verify_answer(c, id, event, actions);
    if (given.open) {
        accept(c, id, &given, event, actions);
        return;
    }
    if (given.whole) {
        muster_watch_late(c->watch, id, message->step, event->now_ns);
    }
    keep_spare(c, id, given.stage, event);
}
