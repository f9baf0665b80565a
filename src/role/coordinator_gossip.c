/*
 * coordinator_gossip.c -- leads steps of gossip: models go between workers
 * (gossip.h), and the coordinator says who takes part and hears how it went.
 *
 * A step: PEERS, the list of those that are ready, goes to each of them; an
 * answer says that the worker has the mean of its neighbourhood. It has the
 * worker's loss; its model, too, where the mean of all is wanted: before an
 * evaluation or a checkpoint, at the end, and every COLLECT_STEPS. Where nobody
 * has a model, at the start and after a loss of all, MODEL goes out in place of
 * PEERS, and everybody begins with the model that was collected last.
 *
 * Invariants:
 *   1. staging.messages[i] is non-NULL when worker i's answer to the open step
 *      came and has something in it; `open.answers` counts these.
 *   2. Who takes part in a step is settled at its begin; a worker that becomes
 *      ready later is in the next, as a fresh one.
 *   3. A step ends when all that take part have answered or are lost.
 */
#include <stdio.h>

#include "base/mem.h"
#include "role/coordinator_inside.h"
#include "wire/peers.h"

/* Steps after which models are collected, asked for or not: what an
 * interruption may lose. */
#define COLLECT_STEPS 50u
#define SMALL_BYTES   (2 * sizeof(float))

typedef struct gossip_worker {
    bool takes_part; // in the open step
    bool answered;   // it
    bool has_model;
} gossip_worker;

struct muster_gossip_lead {
    gossip_worker *workers;
    muster_code_decode_term *terms; // scratch
    muster_peers peers;             // scratch
    bool collects;                  // the open step's answers have models
};

static bool is_here(const muster_coordinator *c, uint32_t id)
{
    return c->workers[id].stage == MUSTER_STAGE_READY;
}

/* Is the mean of the models wanted when the open step has ended? */
static bool is_collected(const muster_coordinator *c)
{
    uint64_t next = c->step + 1;
    uint64_t evaluate = c->opts.evaluate_every;
    uint64_t checkpoint = c->opts.checkpoint_every;
    return next >= c->opts.last_step || next % COLLECT_STEPS == 0 ||
           (evaluate > 0 && next % evaluate == 0) ||
           (checkpoint > 0 && next % checkpoint == 0);
}

/* Settle who takes part; false: none of them has a model. */
static bool choose_members(muster_coordinator *c)
{
    bool any = false;
    muster_peers *peers = &c->gossip->peers;
    muster_vec_clear(&peers->members);
    for (uint32_t id = 0; id < c->worker_count; id++) {
        gossip_worker *worker = &c->gossip->workers[id];
        worker->takes_part = is_here(c, id) && !c->workers[id].behind;
        worker->answered = false;
        if (worker->takes_part) {
            muster_peers_member *member = muster_vec_push(&peers->members);
            *member = (muster_peers_member){id, !worker->has_model};
            any = any || worker->has_model;
        }
    }
    return any;
}

static void send_all(muster_coordinator *c, muster_message_kind kind,
                     muster_blob *payload, muster_actions *actions)
{
    for (uint32_t id = 0; id < c->worker_count; id++) {
        if (!c->gossip->workers[id].takes_part) {
            continue;
        }
        muster_member_mail mail = {
            .message = {.kind = kind, .plan = c->plan.number, .step = c->step},
            .payload = muster_blob_ref(payload)};
        c->traffic.bytes_down +=
            muster_message_bytes(&mail.message) + payload->bytes;
        muster_member_send(&c->member, id, &mail, actions);
    }
}

void muster_gossip_lead_begin(muster_coordinator *c, int64_t now_ns,
                              muster_actions *actions)
{
    muster_gossip_lead *lead = c->gossip;
    c->phase = MUSTER_PHASE_COLLECT;
    c->open.begin_ns = now_ns;
    muster_act_timer(actions, MUSTER_TIMER_WAIT, -1); // of the start
    muster_act_report(actions, MUSTER_REPORT_STEP_BEGIN, now_ns)->step =
        c->step;
    bool going = choose_members(c);
    lead->collects = !going || is_collected(c);
    if (!going) {
        send_all(c, MUSTER_MSG_MODEL, c->model, actions);
        return;
    }
    lead->peers.wants_model = lead->collects;
    muster_blob *payload = muster_peers_write(&lead->peers);
    if (payload == NULL) {
        const muster_event event = {.now_ns = now_ns};
        muster_coordinator_end(c, MUSTER_ERR_NO_MEMORY, "no memory for a step",
                               &event, actions);
        return;
    }
    send_all(c, MUSTER_MSG_PEERS, payload, actions);
    muster_blob_unref(payload);
}

/* How many are still to answer, and how many take part. */
static uint32_t awaited(const muster_coordinator *c, uint32_t *here_out)
{
    uint32_t count = 0;
    *here_out = 0;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        const gossip_worker *worker = &c->gossip->workers[id];
        *here_out += worker->takes_part;
        count += worker->takes_part && !worker->answered;
    }
    return count;
}

/* The answers as a decoding: all count alike; NULL when out of memory. */
static muster_decoding *list_answers(muster_coordinator *c)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < c->worker_count; slot++) {
        if (c->staging.messages[c->plan.worker_of[slot]] != NULL) {
            c->gossip->terms[count++] =
                (muster_code_decode_term){.worker = slot, .weight = 1};
        }
    }
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    return muster_decoding_create(c->plan.code, MUSTER_OK, c->gossip->terms,
                                  count, &fit);
}

static void start_update(muster_coordinator *c, const muster_event *event,
                         muster_actions *actions)
{
    muster_decoding *decoding = list_answers(c);
    if (decoding == NULL || !muster_step_has_list(c, &c->open.messages)) {
        muster_decoding_unref(decoding);
        muster_coordinator_end(c, MUSTER_ERR_NO_MEMORY, "no memory for a step",
                               event, actions);
        return;
    }
    (void)muster_step_ask_update(c, decoding, actions);
    muster_decoding_unref(decoding);
}

void muster_gossip_lead_try(muster_coordinator *c, const muster_event *event,
                            muster_actions *actions)
{
    uint32_t here = 0;
    if (c->phase != MUSTER_PHASE_COLLECT || c->end.begun ||
        c->jobs.update != 0 || awaited(c, &here) > 0) {
        return;
    }
    if (c->open.answers > 0) {
        start_update(c, event, actions);
    } else if (c->joining.ready > 0) { // all that took part are gone
        muster_gossip_lead_begin(c, event->now_ns, actions);
    }
}

void muster_gossip_lead_lost(muster_coordinator *c, uint32_t id)
{
    c->gossip->workers[id] = (gossip_worker){.takes_part = false};
}

/* Something a correct worker never sends. */
static void reject(muster_coordinator *c, uint32_t id,
                   const muster_event *event, muster_actions *actions)
{
    c->workers[id].unusable++;
    muster_act_notice(actions, event->now_ns, MUSTER_LOG_WARN,
                      "worker %u sent an answer to what it was not asked, or "
                      "of the wrong length; dropped",
                      id);
    muster_step_reject(c, id, "an answer to what it was not asked", event,
                       actions);
}

void muster_gossip_lead_answer(muster_coordinator *c, uint32_t id,
                               const muster_event *event,
                               muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    muster_blob *payload = event->as.message.payload;
    gossip_worker *worker = &c->gossip->workers[id];
    size_t bytes = payload != NULL ? payload->bytes : 0;
    size_t right = c->gossip->collects ? c->answer_bytes : SMALL_BYTES;
    c->traffic.bytes_up += muster_message_bytes(message) + bytes;
    c->traffic.messages_up++;
    if (message->step < c->step || (worker->takes_part && worker->answered)) {
        return; // a second copy
    }
    if (message->step != c->step || message->plan != c->plan.number ||
        !worker->takes_part || (bytes != 0 && bytes != right)) {
        reject(c, id, event, actions);
        return;
    }
    muster_step_report_since(c, id, c->open.begin_ns, event, actions);
    if (c->balance != NULL) {
        muster_balance_time(c->balance, id,
                            (int64_t)message->as.gradient.compute_ns);
    }
    worker->answered = true;
    worker->has_model = bytes != 0;
    if (bytes != 0) {
        c->staging.messages[id] = muster_blob_ref(payload);
        c->open.answers++;
    }
    muster_gossip_lead_try(c, event, actions);
}

/* Drop the answers, and count whose samples the step had. */
static uint32_t end_answers(muster_coordinator *c)
{
    uint32_t heard = 0;
    c->open.parts_missing = c->plan.info.parts;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        const uint32_t *parts = NULL;
        uint32_t count = muster_assignment_parts(&c->plan, id, &parts);
        bool was_heard = c->staging.messages[id] != NULL;
        c->workers[id].answered = was_heard;
        heard += was_heard;
        for (uint32_t i = 0; was_heard && i < count; i++) {
            c->past.parts_received[parts[i]]++;
            c->open.parts_missing--;
        }
        muster_blob_unref(c->staging.messages[id]);
        c->staging.messages[id] = NULL;
    }
    c->open.answers = 0;
    return heard;
}

void muster_gossip_lead_updated(muster_coordinator *c,
                                const muster_event *event,
                                muster_actions *actions)
{
    const muster_job_result *result = &event->as.computed;
    const muster_step_outcome outcome = {.loss = result->loss,
                                         .grad_err = result->grad_err,
                                         .responders = end_answers(c)};
    c->open.inexact = outcome.responders < c->worker_count;
    muster_step_ended(c, &outcome, event, actions);
}

muster_status muster_gossip_lead_init(muster_coordinator *c)
{
    if (!c->opts.gossip) {
        return MUSTER_OK;
    }
    muster_gossip_lead *lead = muster_mem_array(1, sizeof(*lead));
    c->gossip = lead;
    if (lead == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    lead->peers =
        (muster_peers){.seed = c->opts.seed,
                       .partners = c->opts.partners,
                       .members = muster_vec_make(sizeof(muster_peers_member))};
    lead->workers = muster_mem_array(c->worker_count, sizeof(*lead->workers));
    lead->terms = muster_mem_array(c->worker_count, sizeof(*lead->terms));
    return lead->workers != NULL && lead->terms != NULL &&
                   muster_vec_reserve(&lead->peers.members, c->worker_count)
               ? MUSTER_OK
               : MUSTER_ERR_NO_MEMORY;
}

void muster_gossip_lead_fini(muster_coordinator *c)
{
    if (c->gossip != NULL) {
        muster_mem_free(c->gossip->workers);
        muster_mem_free(c->gossip->terms);
        muster_vec_fini(&c->gossip->peers.members);
        muster_mem_free(c->gossip);
    }
}
