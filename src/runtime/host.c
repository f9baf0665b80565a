/*
 * host.c -- see host.h.
 *
 * Invariants
 *   1. The role is stepped from deliver() only, and never while its actions
 *      are being carried out: what happens meanwhile (a send that fails, a
 *      `done`) waits in `pending`.
 *   2. After `stopped`, the role is not stepped again.
 *   3. `unsent` counts the sends whose `done` has not come.
 */
#include "runtime/host.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/vec.h"
#include "runtime/timers.h"
#include "wire/message.h"

#define FLUSH_NS (250 * MUSTER_NS_PER_MS)

/* A connection being made, until it is up or down. */
typedef struct dial {
    muster_peer peer;
    uint64_t token;
} dial;

/* A send whose end the role wants to know. */
typedef struct ticket {
    muster_host *host;
    struct ticket *next_free;
    muster_peer peer;
    uint64_t token;
} ticket;

/* An event that arose while another was being dealt with. */
typedef struct pending_event {
    muster_event event;
    char reason[160];
} pending_event;

struct muster_host {
    muster_host_opts opts;
    muster_net *net;
    muster_role role;
    muster_compute *compute;
    muster_timers timers;
    muster_actions actions;
    muster_vec pending; // of pending_event
    size_t pending_next;
    muster_vec dials; // of dial
    ticket *free_tickets;
    size_t unsent;
    bool delivering;
    bool stop_given;
    bool stopped;
    muster_status stop_status;
    muster_error stop_error;
    bool failed; // by muster_host_fail
    muster_error failure;
};

/* Events in, actions out */

static void out_of_memory(muster_host *host)
{
    muster_error error;
    (void)muster_error_set(&error, MUSTER_ERR_NO_MEMORY,
                           "out of memory in the network thread");
    muster_host_fail(host, &error);
}

/* Put an event behind the one being dealt with; `reason` is copied. */
static void add_pending(muster_host *host, const muster_event *event,
                        const char *reason)
{
    pending_event *added = muster_vec_push(&host->pending);
    if (added == NULL) {
        out_of_memory(host);
        return;
    }
    added->event = *event;
    if (reason[0] != '\0') {
        (void)snprintf(added->reason, sizeof added->reason, "%.159s", reason);
    }
}

/* The token of a connection being made, 0 when there is no such one. */
static uint64_t take_dial(muster_host *host, muster_peer peer)
{
    dial *all = host->dials.data;
    for (size_t i = 0; i < host->dials.count; i++) {
        if (all[i].peer == peer) {
            uint64_t token = all[i].token;
            all[i] = all[host->dials.count - 1];
            host->dials.count--;
            return token;
        }
    }
    return 0;
}

/* Drop a peer that cannot go on, and tell the role. */
static void expel(muster_host *host, muster_peer peer, muster_status status,
                  const char *reason)
{
    muster_log(MUSTER_LOG_WARN, "dropping %s: %s",
               muster_net_peer_name(host->net, peer), reason);
    muster_net_drop(host->net, peer);
    muster_event event = {.kind = MUSTER_EVENT_PEER_DOWN, .peer = peer};
    event.as.down.status = status;
    event.as.down.token = take_dial(host, peer);
    add_pending(host, &event, reason);
}

static void sent(void *argument, muster_status status)
{
    (void)status;
    muster_host *host = argument;
    host->unsent--;
}

static void ticket_sent(void *argument, muster_status status)
{
    ticket *done = argument;
    muster_host *host = done->host;
    muster_event event = {.kind = MUSTER_EVENT_SENT, .peer = done->peer};
    event.as.sent.token = done->token;
    event.as.sent.status = status;
    done->next_free = host->free_tickets;
    host->free_tickets = done;
    host->unsent--;
    add_pending(host, &event, "");
}

static ticket *take_ticket(muster_host *host)
{
    ticket *free_one = host->free_tickets;
    if (free_one == NULL) {
        return muster_mem_array(1, sizeof *free_one);
    }
    host->free_tickets = free_one->next_free;
    return free_one;
}

static void do_send(muster_host *host, muster_action *action)
{
    uint8_t bytes[MUSTER_MESSAGE_BYTES_MAX];
    muster_peer peer = action->as.send.peer;
    muster_net_send_opts opts = {
        .header = bytes,
        .header_bytes = muster_message_write(&action->as.send.message, bytes),
        .payload = action->as.send.payload,
        .replace_slot = action->as.send.replace_slot,
        .done = sent,
        .argument = host,
    };
    ticket *used = NULL;
    if (action->as.send.token != 0) {
        used = take_ticket(host);
        if (used == NULL) {
            out_of_memory(host);
            return;
        }
        *used = (ticket){host, NULL, peer, action->as.send.token};
        opts.done = ticket_sent;
        opts.argument = used;
    }
    host->unsent++;
    muster_status status = muster_net_send(host->net, peer, &opts);
    if (status == MUSTER_OK) {
        return;
    }
    if (used != NULL) {
        ticket_sent(used, status);
    } else {
        host->unsent--;
    }
    // A lost peer's end is, or was, told by on_down. What is replaced anyway
    // may be left out: its SENT says so.
    if (status == MUSTER_ERR_AGAIN && opts.replace_slot == 0) {
        expel(host, peer, status, "its queue is full: it reads too slowly");
    } else if (status != MUSTER_ERR_AGAIN && status != MUSTER_ERR_PEER_LOST) {
        expel(host, peer, status, muster_status_text(status));
    }
}

static void do_connect(muster_host *host, const muster_action *action)
{
    muster_error error = {.text = ""};
    dial *added = muster_vec_push(&host->dials);
    if (added == NULL) {
        out_of_memory(host);
        return;
    }
    added->token = action->as.connect.token;
    muster_status status = muster_net_connect(
        host->net, action->as.connect.address, &error, &added->peer);
    if (status < 0) {
        host->dials.count--;
        muster_event event = {.kind = MUSTER_EVENT_PEER_DOWN};
        event.as.down.status = status;
        event.as.down.token = action->as.connect.token;
        add_pending(host, &event, error.text);
    }
}

static void do_compute(muster_host *host, muster_action *action)
{
    muster_job *job = &action->as.job;
    muster_event event = {.kind = MUSTER_EVENT_COMPUTED};
    event.as.computed.id = job->id;
    event.as.computed.kind = job->kind;
    event.as.computed.step = job->step;
    event.as.computed.part = job->part;
    muster_status status = muster_compute_submit(host->compute, job);
    memset(job, 0, sizeof *job); // its references were taken over
    if (status == MUSTER_OK) {
        return;
    }
    event.as.computed.status = status;
    (void)snprintf(event.as.computed.text, sizeof event.as.computed.text,
                   "the queue of the compute thread is full");
    add_pending(host, &event, "");
}

static void do_stop(muster_host *host, const muster_action *action)
{
    host->stopped = true;
    host->stop_status = action->as.stop.status;
    if (action->as.stop.status < 0) {
        (void)muster_error_set(&host->stop_error, action->as.stop.status, "%s",
                               action->as.stop.reason);
    }
}

static void carry_out(muster_host *host, muster_action *action)
{
    switch (action->kind) {
    case MUSTER_ACTION_SEND:
        do_send(host, action);
        break;
    case MUSTER_ACTION_CONNECT:
        do_connect(host, action);
        break;
    case MUSTER_ACTION_DROP:
        muster_net_drop(host->net, action->as.drop.peer);
        (void)take_dial(host, action->as.drop.peer);
        break;
    case MUSTER_ACTION_SET_TIMER:
        if (muster_timers_set(&host->timers, action->as.timer.id,
                              action->as.timer.at_ns) < 0) {
            out_of_memory(host);
        }
        break;
    case MUSTER_ACTION_COMPUTE:
        do_compute(host, action);
        break;
    case MUSTER_ACTION_CANCEL:
        muster_compute_cancel(host->compute, action->as.cancel.job_id);
        break;
    case MUSTER_ACTION_REPORT:
        if (host->opts.on_report != NULL) {
            host->opts.on_report(host->opts.context, &action->as.report);
        }
        break;
    case MUSTER_ACTION_STOP:
        do_stop(host, action);
        break;
    }
}

/* Step the role with one event and do what it says. */
static void step_role(muster_host *host, muster_event *event)
{
    event->now_ns = muster_clock_ns();
    event->progress = muster_compute_progress(host->compute);
    host->role.ops->step(host->role.state, event, &host->actions);
    muster_action *all = host->actions.list.data;
    for (size_t i = 0; i < host->actions.list.count; i++) {
        carry_out(host, &all[i]);
    }
    muster_actions_clear(&host->actions); // drops the sends' references
}

/* Deal with what arose on the way; the list may grow meanwhile. */
static void drain_pending(muster_host *host)
{
    while (host->pending_next < host->pending.count && !host->stopped) {
        pending_event *all = host->pending.data;
        pending_event next = all[host->pending_next++];
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
    event.as.up.token = take_dial(host, peer);
    deliver(host, &event);
}

static void on_message(void *context, muster_peer peer,
                       const muster_net_message *received)
{
    muster_host *host = context;
    if (host->stopped) {
        return;
    }
    muster_message message;
    muster_error error = {.text = ""};
    if (muster_message_read(received->header, received->header_bytes, &error,
                            &message) < 0) {
        expel(host, peer, MUSTER_ERR_PROTOCOL, error.text);
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
    uint64_t token = take_dial(host, peer);
    muster_event event = {.kind = MUSTER_EVENT_PEER_DOWN, .peer = peer};
    event.as.down.status = status;
    event.as.down.reason = reason;
    event.as.down.token = token;
    deliver(host, &event);
}

static void on_bytes(void *context, muster_peer peer)
{
    muster_event event = {.kind = MUSTER_EVENT_HEARD, .peer = peer};
    deliver(context, &event);
}

/* The loop */

static void deliver_results(muster_host *host)
{
    muster_event event = {.kind = MUSTER_EVENT_COMPUTED};
    while (!host->stopped &&
           muster_compute_take(host->compute, &event.as.computed)) {
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
    deliver_results(host);
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

muster_status muster_host_run(muster_host *host, const muster_host_work *work,
                              muster_error *error_out)
{
    muster_error unheard;
    if (error_out == NULL) {
        error_out = &unheard;
    }
    muster_compute_opts opts = {
        .engine = work->engine,
        .slowness = work->slowness,
        .queue_max = work->queue_max,
        .wake = wake_net,
        .wake_context = host->net,
    };
    muster_status status =
        muster_compute_start(&opts, error_out, &host->compute);
    if (status < 0) {
        return status;
    }
    host->role = work->role;
    status = run_turns(host, error_out);
    flush(host);
    muster_compute_stop(host->compute);
    host->compute = NULL;
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
                                                   on_bytes};
    muster_host *host = muster_mem_array(1, sizeof *host);
    if (host == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for the network thread");
    }
    host->opts = *opts;
    host->timers = muster_timers_make();
    host->actions = muster_actions_make();
    host->pending = muster_vec_make(sizeof(pending_event));
    host->dials = muster_vec_make(sizeof(dial));
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
    muster_net_close(host->net); // calls every `done` that is left
    while (host->free_tickets != NULL) {
        ticket *next = host->free_tickets->next_free;
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
