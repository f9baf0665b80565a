/*
 * coordinator_async.c -- gradients applied as they come: ssp:BOUND and async.
 *
 * A worker is offered the newest model, answers with the gradient of a batch of
 * its own samples, and is offered the next one when its gradient was applied.
 * Its clock counts its answers; MODEL and GRADIENT carry it as their step, so
 * that the worker draws another batch each time. A worker that would be more
 * than `bound` clocks ahead of the slowest one that is ready waits. One UPDATE
 * runs at a time; gradients that come meanwhile go into the next one together.
 *
 * Weights. Worker j has n_j of the N samples. Work is counted in samples: an
 * answer of worker j adds n_j, and N are a step of the run, as in sync. An
 * answer counts n_j / N times the work done since the worker's last one, in
 * steps. So over any time worker j's weights add up to n_j / N for each
 * step, whatever its speed: the expected gradient is that of all samples. Where
 * all are equally fast, or bounded, the weights are n_j / N. Work while a
 * worker was away is not made up for.
 *
 * A gradient moves the model by one whole step at once at most. The rest of a
 * larger weight is due: the gradient is kept and counts again in the updates
 * that follow, by one step for each step of work at most. A worker's newer
 * gradient takes over what is due of the older one. A step adds n_j / N to what
 * is due and may take away 1, so that it does not pile up.
 *
 * Invariants:
 *   1. staging.messages[i] is non-NULL while worker i's gradient waits or is in
 *      the UPDATE under way; `open.answers` counts them. Worker i is not
 *      offered a model then. A kept gradient is not among them.
 *   2. An answer is accepted once for each offer: of exactly the clock and the
 *      plan that were offered. member has checked run and incarnation.
 *   3. The phase is COLLECT from the first step to CLOSE, except while a step
 *      waits for an evaluation: nothing is offered or updated then.
 *   4. `kept` is non-NULL exactly when `due` is above 0. Both change when an
 *      update has ended well, or when a newer gradient goes into one.
 *
 * An update allocates its decoding, for its weights are its own; it costs a
 * pass over the workers.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "role/coordinator_inside.h"

/* One gradient is a whole step at most. */
#define WEIGHT_MAX 1.0

typedef struct async_worker {
    uint64_t clock;    // answers so far, or as many as others had then
    uint64_t rows;     // n_j, when it was last offered a model
    uint64_t since;    // work done at its last answer
    muster_blob *kept; // its last gradient; NULL: it has counted in full
    double due;        // weight that `kept` is still to count
    double weight;     // of its gradient in the update under way
    double rest;       // of that gradient, due after the update
    bool is_used;      // the gradient in the update is a new one
    uint32_t plan;     // that its model was offered under
    bool is_in;        // it was offered a model in this life
    bool is_asked;     // its answer is awaited
    bool heard;        // a gradient of it is in the step at hand
    int64_t asked_ns;  // when
} async_worker;

struct muster_async {
    async_worker *workers;          // by worker number
    uint64_t *before;               // samples before each shard, and N
    muster_code_decode_term *terms; // scratch
    uint64_t work;                  // samples applied, of this life
    uint64_t first_step;            // of this life
    double loss_sum, weight_sum;    // of the step at hand
    double weight;                  // of the update under way
};

static uint64_t all_rows(const muster_coordinator *c)
{
    return c->async->before[c->plan.shards];
}

/* Samples of a worker under the plan in force. */
static uint64_t rows_of(const muster_coordinator *c, uint32_t id)
{
    const uint32_t *parts = NULL;
    uint32_t count = muster_assignment_parts(&c->plan, id, &parts);
    const uint64_t *before = c->async->before;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < count; i++) {
        rows += before[c->plan.first_shard[parts[i] + 1]] -
                before[c->plan.first_shard[parts[i]]];
    }
    return rows;
}

static bool may_be_offered(const muster_worker_record *worker)
{
    return worker->stage == MUSTER_STAGE_READY && !worker->behind;
}

/* The clock of the slowest worker that takes part; UINT64_MAX: none does. */
static uint64_t slowest_clock(const muster_coordinator *c)
{
    uint64_t slowest = UINT64_MAX;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        const async_worker *worker = &c->async->workers[id];
        if (c->workers[id].stage == MUSTER_STAGE_READY && worker->is_in &&
            worker->clock < slowest) {
            slowest = worker->clock;
        }
    }
    return slowest;
}

/* A worker takes part from now on: where the slowest is, and as if it were in
 * the middle between two answers. */
static void enter(muster_coordinator *c, uint32_t id, uint64_t slowest)
{
    async_worker *worker = &c->async->workers[id];
    uint64_t half = (all_rows(c) - rows_of(c, id)) / 2;
    if (slowest != UINT64_MAX && worker->clock < slowest) {
        worker->clock = slowest;
    }
    worker->is_in = true;
    worker->since = c->async->work - half; // modulo: only differences count
}

static void send_model(muster_coordinator *c, uint32_t id, int64_t now_ns,
                       muster_actions *actions)
{
    async_worker *worker = &c->async->workers[id];
    muster_member_mail mail = {.message = {.kind = MUSTER_MSG_MODEL,
                                           .plan = c->plan.number,
                                           .step = worker->clock},
                               .payload = muster_blob_ref(c->model),
                               .replace_slot = MUSTER_SLOT_MODEL,
                               .token = worker->clock + 1};
    worker->rows = rows_of(c, id);
    worker->plan = c->plan.number;
    worker->is_asked = true;
    worker->asked_ns = now_ns;
    c->workers[id].unoffered = false;
    muster_member_send(&c->member, id, &mail, actions);
}

/* Offer the newest model, unless the worker has work, has none to do, or is too
 * far ahead. */
static void offer(muster_coordinator *c, uint32_t id, uint64_t slowest,
                  int64_t now_ns, muster_actions *actions)
{
    async_worker *worker = &c->async->workers[id];
    bool has_work = worker->is_asked && !c->workers[id].unoffered;
    if (!may_be_offered(&c->workers[id]) || has_work ||
        c->staging.messages[id] != NULL || rows_of(c, id) == 0) {
        return;
    }
    if (!worker->is_in) {
        enter(c, id, slowest);
    }
    if (slowest == UINT64_MAX || worker->clock <= slowest ||
        worker->clock - slowest <= c->opts.bound) {
        send_model(c, id, now_ns, actions);
    }
}

static void offer_all(muster_coordinator *c, int64_t now_ns,
                      muster_actions *actions)
{
    uint64_t slowest = slowest_clock(c);
    for (uint32_t id = 0; id < c->worker_count; id++) {
        if (!c->workers[id].unoffered) { // it has a timer
            offer(c, id, slowest, now_ns, actions);
        }
    }
}

void muster_async_offer(muster_coordinator *c, uint32_t id, int64_t now_ns,
                        muster_actions *actions)
{
    offer(c, id, slowest_clock(c), now_ns, actions);
}

void muster_async_begin(muster_coordinator *c, int64_t now_ns,
                        muster_actions *actions)
{
    c->phase = MUSTER_PHASE_COLLECT;
    c->open.begin_ns = now_ns;
    c->async->loss_sum = c->async->weight_sum = 0;
    muster_act_timer(actions, MUSTER_TIMER_WAIT, -1); // of the start
    for (uint32_t id = 0; id < c->worker_count; id++) {
        c->async->workers[id].heard = false;
    }
    muster_act_report(actions, MUSTER_REPORT_STEP_BEGIN, now_ns)->step =
        c->step;
    offer_all(c, now_ns, actions);
}

void muster_async_lost(muster_coordinator *c, uint32_t id)
{
    async_worker *worker = &c->async->workers[id];
    worker->is_in = worker->is_asked = false;
    c->workers[id].unoffered = false;
}

/* The second copy of an answer adds nothing. */
static void drop_copy(muster_coordinator *c, uint32_t id,
                      const muster_event *event, muster_actions *actions)
{
    bool first = c->workers[id].unusable++ == 0;
    muster_act_notice(actions, event->now_ns,
                      first ? MUSTER_LOG_WARN : MUSTER_LOG_DEBUG,
                      "worker %u sent its gradient %llu twice; dropped", id,
                      (unsigned long long)event->as.message.message->step);
}

/* Something a correct worker never sends. */
static void reject(muster_coordinator *c, uint32_t id, const char *what,
                   const muster_event *event, muster_actions *actions)
{
    c->workers[id].unusable++;
    muster_act_notice(actions, event->now_ns, MUSTER_LOG_WARN,
                      "worker %u sent %s; dropped", id, what);
    muster_step_reject(c, id, what, event, actions);
}

void muster_async_answer(muster_coordinator *c, uint32_t id,
                         const muster_event *event, muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    const muster_blob *payload = event->as.message.payload;
    async_worker *worker = &c->async->workers[id];
    size_t bytes = payload != NULL ? payload->bytes : 0;
    c->traffic.bytes_up += muster_message_bytes(message) + bytes;
    c->traffic.messages_up++;
    muster_member_paid(&c->member, event->peer);
    if (worker->is_in && message->step < worker->clock) {
        drop_copy(c, id, event, actions);
        return;
    }
    if (bytes != c->answer_bytes || !worker->is_asked ||
        message->step != worker->clock || message->plan != worker->plan) {
        reject(c, id,
               bytes != c->answer_bytes ? "an answer of the wrong length"
                                        : "an answer to what it was not asked",
               event, actions);
        return;
    }
    muster_step_report_since(c, id, worker->asked_ns, event, actions);
    if (c->balance != NULL && message->plan == c->plan.number) {
        muster_balance_time(c->balance, id,
                            (int64_t)message->as.gradient.compute_ns);
    }
    worker->is_asked = false;
    worker->clock++;
    c->staging.messages[id] = muster_blob_ref(event->as.message.payload);
    c->open.answers++;
    muster_async_try(c, event, actions);
}

/* The share of the samples whose workers are not ready. */
static double missing_share(const muster_coordinator *c)
{
    uint64_t missing = 0;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        if (c->workers[id].stage != MUSTER_STAGE_READY) {
            missing += rows_of(c, id);
        }
    }
    return (double)missing / (double)all_rows(c);
}

/* Work that the gradients at hand add. */
static uint64_t waiting_rows(const muster_coordinator *c)
{
    uint64_t rows = 0;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        rows +=
            c->staging.messages[id] != NULL ? c->async->workers[id].rows : 0;
    }
    return rows;
}

/*
 * How much a worker's gradient counts in an update that brings the work to
 * `work`, `added` of it new: a new one by the work since the last, a kept one
 * by what is due. Returns whether it counts at all.
 */
static bool weigh_one(const muster_coordinator *c, uint32_t id, uint64_t work,
                      uint64_t added)
{
    async_worker *worker = &c->async->workers[id];
    const double all = (double)all_rows(c);
    double max = (double)added / all;
    worker->is_used = c->staging.messages[id] != NULL;
    worker->rest = worker->due;
    if (worker->is_used) {
        max = WEIGHT_MAX;
        worker->rest +=
            (double)worker->rows / all * ((double)(work - worker->since) / all);
    }
    worker->weight = worker->rest < max ? worker->rest : max;
    worker->rest -= worker->weight;
    return worker->is_used || worker->weight > 0;
}

/* The weights of the gradients at hand, by slot; NULL when out of memory. */
static muster_decoding *weigh(muster_coordinator *c)
{
    muster_async *async = c->async;
    uint64_t added = waiting_rows(c);
    uint32_t count = 0;
    async->weight = 0;
    for (uint32_t slot = 0; slot < c->worker_count; slot++) {
        uint32_t id = c->plan.worker_of[slot];
        if (weigh_one(c, id, async->work + added, added)) {
            double weight = async->workers[id].weight;
            async->weight += weight;
            async->terms[count++] =
                (muster_code_decode_term){.worker = slot, .weight = weight};
        }
    }
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    fit.residual = missing_share(c);
    return muster_decoding_create(c->plan.code, MUSTER_OK, async->terms, count,
                                  &fit);
}

static uint64_t step_ends_at(const muster_coordinator *c)
{
    return (c->step + 1 - c->async->first_step) * all_rows(c);
}

/* An update takes its gradients from the messages of the step. */
static void show_kept(muster_coordinator *c, bool shown)
{
    for (uint32_t id = 0; id < c->worker_count; id++) {
        const async_worker *worker = &c->async->workers[id];
        if (!worker->is_used && worker->kept != NULL) {
            c->staging.messages[id] = shown ? worker->kept : NULL;
        }
    }
}

static void start_update(muster_coordinator *c, const muster_event *event,
                         muster_actions *actions)
{
    muster_decoding *decoding = weigh(c);
    if (decoding == NULL || !muster_step_has_list(c, &c->open.messages)) {
        muster_decoding_unref(decoding);
        muster_coordinator_end(c, MUSTER_ERR_NO_MEMORY,
                               "no memory for an update", event, actions);
        return;
    }
    show_kept(c, true);
    muster_job *job = muster_step_ask_update(c, decoding, actions);
    show_kept(c, false);
    job->fraction = (double)c->open.answers / c->worker_count;
    job->partial = c->async->work + waiting_rows(c) < step_ends_at(c);
    muster_decoding_unref(decoding);
}

void muster_async_try(muster_coordinator *c, const muster_event *event,
                      muster_actions *actions)
{
    if (c->phase != MUSTER_PHASE_COLLECT || c->end.begun) {
        return;
    }
    offer_all(c, event->now_ns, actions);
    if (c->jobs.update == 0 && c->open.answers > 0) {
        start_update(c, event, actions);
    }
}

/* A gradient is in the model, with its weight. */
static void release_one(muster_coordinator *c, uint32_t id)
{
    async_worker *worker = &c->async->workers[id];
    if (worker->is_used) {
        worker->since = c->async->work;
        worker->heard = true;
        muster_blob_unref(worker->kept);
        worker->kept = c->staging.messages[id];
        c->staging.messages[id] = NULL;
        c->open.answers--;
    }
    worker->due = worker->rest;
    if (!(worker->due > 0)) {
        muster_blob_unref(worker->kept);
        worker->kept = NULL;
    }
}

/* The gradients of the update are in the model. */
static void release(muster_coordinator *c)
{
    const muster_decoding *decoding = c->open.decoding;
    muster_async *async = c->async;
    for (uint32_t i = 0; i < decoding->used_count; i++) {
        const async_worker *worker =
            &async->workers[c->plan.worker_of[decoding->used[i]]];
        async->work += worker->is_used ? worker->rows : 0;
    }
    for (uint32_t i = 0; i < decoding->used_count; i++) {
        release_one(c, c->plan.worker_of[decoding->used[i]]);
    }
}

/* Which parts the step's gradients were of; returns how many workers. */
static uint32_t count_heard(muster_coordinator *c)
{
    uint32_t heard = 0;
    c->open.parts_missing = c->plan.info.parts;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        const uint32_t *parts = NULL;
        uint32_t count = muster_assignment_parts(&c->plan, id, &parts);
        bool was_heard = c->async->workers[id].heard;
        c->workers[id].answered = was_heard;
        heard += was_heard;
        for (uint32_t i = 0; was_heard && i < count; i++) {
            c->past.parts_received[parts[i]]++;
            c->open.parts_missing--;
        }
    }
    return heard;
}

void muster_async_updated(muster_coordinator *c, const muster_event *event,
                          muster_actions *actions)
{
    const muster_job_result *result = &event->as.computed;
    muster_async *async = c->async;
    release(c);
    async->loss_sum += result->loss * async->weight;
    async->weight_sum += async->weight;
    if (async->work >= step_ends_at(c)) {
        c->open.inexact = c->joining.ready < c->worker_count;
        const muster_step_outcome outcome = {.loss = async->loss_sum /
                                                     async->weight_sum,
                                             .grad_err = result->grad_err,
                                             .responders = count_heard(c)};
        muster_step_ended(c, &outcome, event, actions);
    } else if (c->end.begun) {
        muster_coordinator_close(c, event, actions);
        return;
    }
    muster_async_try(c, event, actions);
}

/* All shards are alike where nothing is known of them. */
static void count_rows(muster_coordinator *c)
{
    for (uint32_t shard = 0; shard <= c->plan.shards; shard++) {
        c->async->before[shard] =
            c->opts.rows_before != NULL ? c->opts.rows_before[shard] : shard;
    }
}

muster_status muster_async_init(muster_coordinator *c)
{
    if (!c->opts.async) {
        return MUSTER_OK;
    }
    muster_async *async = muster_mem_array(1, sizeof(*async));
    c->async = async;
    if (async == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    async->workers = muster_mem_array(c->worker_count, sizeof(*async->workers));
    async->terms = muster_mem_array(c->worker_count, sizeof(*async->terms));
    async->before =
        muster_mem_array((size_t)c->plan.shards + 1, sizeof(*async->before));
    if (async->workers == NULL || async->terms == NULL ||
        async->before == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    async->first_step = c->step;
    for (uint32_t id = 0; id < c->worker_count; id++) {
        async->workers[id].clock = c->step;
    }
    count_rows(c);
    return MUSTER_OK;
}

void muster_async_fini(muster_coordinator *c)
{
    if (c->async != NULL) {
        for (uint32_t id = 0; c->async->workers != NULL && id < c->worker_count;
             id++) {
            muster_blob_unref(c->async->workers[id].kept);
        }
        muster_mem_free(c->async->workers);
        muster_mem_free(c->async->terms);
        muster_mem_free(c->async->before);
        muster_mem_free(c->async);
    }
}
