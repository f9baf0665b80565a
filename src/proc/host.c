/*
 * host.c -- see host.h. Events come in here; actions go out by host_act.c.
 *
 * Invariants
 *   1. The role is stepped from deliver() only, and never while its actions
 *      are being carried out: what happens meanwhile (a send that fails, a
 *      `done`) waits in `pending`.
 *   2. After `stopped`, the role is not stepped again.
 */
#include "proc/host.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "proc/host_inside.h"
#include "wire/message.h"

#define FLUSH_NS        (250 * MUSTER_NS_PER_MS)
#define EVALUATIONS_MAX 4u // under way; a role has one at a time

/* Stepping the role */

/* Step the role with one event and do what it says. */
static void step_role(muster_host *host, muster_event *event)
{
    event->now_ns = muster_clock_ns();
    event->progress = muster_compute_progress(host->compute);
    if (host->evaluator != NULL) {
        event->progress += muster_compute_progress(host->evaluator);
    }
    host->role.ops->step(host->role.state, event, &host->actions);
    muster_action *all = host->actions.list.data;
    for (size_t i = 0; i < host->actions.list.count; i++) {
        muster_host_act(host, &all[i]);
    }
    muster_actions_clear(&host->actions); // drops the sends' references
}

/* Deal with what arose on the way; the list may grow meanwhile. */
static void drain_pending(muster_host *host)
{
    while (host->pending_next < host->pending.count && !host->stopped) {
        muster_host_pending *all = host->pending.data;
        muster_host_pending next = all[host->pending_next++];
        if (next.event.kind == MUSTER_EVENT_PEER_DOWN) {
            next.event.as.down.reason = next.reason;
        }
        step_role(host, &next.event);
    }
    muster_vec_clear(&host->pending);
    host->pending_next = 0;
}

static void deliver(muster_host *host, muster_event *event)
{
    MUSTER_ASSERT(!host->delivering);
    if (host->stopped) {
        return;
    }
    host->delivering = true;
    drain_pending(host); // what a `done` left behind comes first
    if (!host->stopped) {
        step_role(host, event);
    }
    drain_pending(host);
    host->delivering = false;
}

/* What the net tells */

static void on_up(void *context, muster_peer peer, int incoming)
{
    muster_host *host = context;
    muster_event event = {.kind = MUSTER_EVENT_PEER_UP, .peer = peer};
    event.as.up.incoming = incoming != 0;
    event.as.up.token = muster_host_take_dial(host, peer);
    deliver(host, &event);
}

static void on_begun(void *context, muster_peer peer,
                     const muster_net_message *received)
{
    muster_message message;
    muster_error error = {.text = ""};
    if (muster_message_read(received->header, received->header_bytes, &error,
                            &message) < 0) {
        return; // its end will tell
    }
    muster_event event = {.kind = MUSTER_EVENT_BEGUN, .peer = peer};
    event.as.message.message = &message;
    event.as.message.payload = received->payload;
    deliver(context, &event);
}

static void on_message(void *context, muster_peer peer,
                       const muster_net_message *received)
{
    muster_host *host = context;
    if (host->stopped) {
        return;
    }
    if (received->payload != NULL &&
        received->payload->bytes >= MUSTER_NET_BEGUN_BYTES) {
        muster_compute_more(host->compute); // on_bytes is not told of its end
    }
    muster_message message;
    muster_error error = {.text = ""};
    if (muster_message_read(received->header, received->header_bytes, &error,
                            &message) < 0) {
        muster_host_expel(host, peer, MUSTER_ERR_PROTOCOL, error.text);
        return; // the event waits in `pending` for the end of this turn
    }
    muster_event event = {.kind = MUSTER_EVENT_MESSAGE, .peer = peer};
    event.as.message.message = &message;
    event.as.message.payload = received->payload;
    deliver(host, &event);
}

static void on_down(void *context, muster_peer peer, muster_status status,
                    const char *reason)
{
    muster_host *host = context;
    uint64_t token = muster_host_take_dial(host, peer);
    muster_event event = {.kind = MUSTER_EVENT_PEER_DOWN, .peer = peer};
    event.as.down.status = status;
    event.as.down.reason = reason;
    event.as.down.token = token;
    deliver(host, &event);
}

static void on_bytes(void *context, muster_peer peer)
{
    muster_host *host = context;
    muster_compute_more(host->compute);
    muster_event event = {.kind = MUSTER_EVENT_HEARD, .peer = peer};
    deliver(host, &event);
}

/* The loop */

static void deliver_results(muster_host *host, muster_compute *from)
{
    muster_event event = {.kind = MUSTER_EVENT_COMPUTED};
    while (from != NULL && !host->stopped &&
           muster_compute_take(from, &event.as.computed)) {
        muster_blob *output = event.as.computed.output;
        deliver(host, &event);
        muster_blob_unref(output);
    }
}

static void deliver_timers(muster_host *host)
{
    uint32_t id = 0;
    while (!host->stopped &&
           muster_timers_pop(&host->timers, muster_clock_ns(), &id)) {
        muster_event event = {.kind = MUSTER_EVENT_TIMER};
        event.as.timer.id = id;
        deliver(host, &event);
    }
}

static void deliver_stop(muster_host *host)
{
    if (host->stop_given) {
        return;
    }
    host->stop_given = true;
    muster_event event = {.kind = MUSTER_EVENT_STOP};
    deliver(host, &event);
}

static int64_t time_left(int64_t until_ns)
{
    if (until_ns == MUSTER_TIMER_NEVER) {
        return -1;
    }
    int64_t left = until_ns - muster_clock_ns();
    return left > 0 ? left : 0;
}

static muster_status turn(muster_host *host)
{
    int64_t until_ns = MUSTER_TIMER_NEVER;
    bool stop = false;
    if (host->opts.on_turn != NULL) {
        stop = host->opts.on_turn(host->opts.context, muster_clock_ns(),
                                  &until_ns);
    }
    if (stop || host->failed) {
        deliver_stop(host);
    }
    if (host->stopped) {
        return MUSTER_OK;
    }
    if (host->timers.earliest_ns < until_ns) {
        until_ns = host->timers.earliest_ns;
    }
    muster_status status = muster_net_poll(host->net, time_left(until_ns));
    if (status < 0) {
        return status;
    }
    host->delivering = true;
    drain_pending(host);
    host->delivering = false;
    deliver_results(host, host->compute);
    deliver_results(host, host->evaluator);
    deliver_timers(host);
    return MUSTER_OK;
}

/* Let what was sent leave, for a bounded time. */
static void flush(muster_host *host)
{
    int64_t until_ns = muster_clock_ns() + FLUSH_NS;
    while (host->unsent > 0) {
        int64_t left = time_left(until_ns);
        if (left == 0 || muster_net_poll(host->net, left) < 0) {
            return;
        }
    }
}

static muster_status run_turns(muster_host *host, muster_error *error_out)
{
    muster_event start = {.kind = MUSTER_EVENT_START};
    deliver(host, &start);
    while (!host->stopped) {
        muster_status status = turn(host);
        if (status < 0) {
            return muster_error_set(error_out, status,
                                    "the network thread cannot wait: %s",
                                    muster_status_text(status));
        }
    }
    if (host->failed) {
        *error_out = host->failure;
        return host->failure.status;
    }
    if (host->stop_status < 0) {
        *error_out = host->stop_error;
    }
    return host->stop_status;
}

static void wake_net(void *net)
{
    muster_net_wake(net);
}

static muster_status start_threads(muster_host *host,
                                   const muster_host_work *work,
                                   muster_error *error_out)
{
    muster_compute_opts opts = {
        .engine = work->engine,
        .slowness = work->slowness,
        .queue_max = work->queue_max,
        .wake = wake_net,
        .wake_context = host->net,
    };
    muster_status status =
        muster_compute_start(&opts, error_out, &host->compute);
    if (status == MUSTER_OK && work->evaluator.self != NULL) {
        opts.engine = work->evaluator;
        opts.slowness = (muster_slowness)MUSTER_SLOWNESS_NONE;
        opts.queue_max = EVALUATIONS_MAX;
        opts.yields = true; // to workers on this machine
        status = muster_compute_start(&opts, error_out, &host->evaluator);
    }
    return status;
}

muster_status muster_host_run(muster_host *host, const muster_host_work *work,
                              muster_error *error_out)
{
    muster_error unheard;
    if (error_out == NULL) {
        error_out = &unheard;
    }
    muster_status status = start_threads(host, work, error_out);
    if (status == MUSTER_OK) {
        host->role = work->role;
        status = run_turns(host, error_out);
        flush(host);
    }
    muster_compute_stop(host->evaluator);
    muster_compute_stop(host->compute);
    host->evaluator = host->compute = NULL;
    return status;
}

void muster_host_fail(muster_host *host, const muster_error *error)
{
    if (host->failed) {
        return;
    }
    host->failed = true;
    host->failure = *error;
}

muster_status muster_host_open(const muster_host_opts *opts,
                               muster_error *error_out, muster_host **host_out)
{
    static const muster_net_callbacks callbacks = {on_up, on_message, on_down,
                                                   on_bytes, on_begun};
    muster_host *host = muster_mem_array(1, sizeof *host);
    if (host == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for the network thread");
    }
    host->opts = *opts;
    host->timers = muster_timers_make();
    host->actions = muster_actions_make();
    host->pending = muster_vec_make(sizeof(muster_host_pending));
    host->dials = muster_vec_make(sizeof(muster_host_dial));
    muster_status status =
        muster_net_open(&opts->net, &callbacks, host, error_out, &host->net);
    if (status < 0) {
        muster_mem_free(host);
        return status;
    }
    *host_out = host;
    return MUSTER_OK;
}

void muster_host_close(muster_host *host)
{
    if (host == NULL) {
        return;
    }
    muster_host_tell_expelled(host);
    muster_net_close(host->net); // calls every `done` that is left
    while (host->free_tickets != NULL) {
        muster_host_ticket *next = host->free_tickets->next_free;
        muster_mem_free(host->free_tickets);
        host->free_tickets = next;
    }
    muster_timers_fini(&host->timers);
    muster_actions_fini(&host->actions);
    muster_vec_fini(&host->pending);
    muster_vec_fini(&host->dials);
    muster_mem_free(host);
}

muster_net *muster_host_net(muster_host *host)
{
    return host->net;
}

static muster_blob *make_blob(void *context, size_t bytes)
{
    muster_host *host = context;
    return muster_net_blob(host->net, bytes);
}

muster_executor_alloc muster_host_alloc(muster_host *host)
{
    muster_executor_alloc alloc = {make_blob, host};
    return alloc;
}
