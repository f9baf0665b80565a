/*
 * host_act.c -- what a role's actions become: sends, connections, timers, jobs.
 *
 * Invariants
 *   1. No action steps the role. What comes of one at once (a send that fails,
 *      a connection that cannot be made) waits in `pending`.
 *   2. `unsent` counts the sends whose `done` has not come.
 *   3. Tickets of sends are used again: a steady step allocates none.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "proc/host_inside.h"
#include "wire/message.h"

static void out_of_memory(muster_host *host)
{
    muster_error error;
    (void)muster_error_set(&error, MUSTER_ERR_NO_MEMORY,
                           "out of memory in the network thread");
    muster_host_fail(host, &error);
}

/* Queue an event behind the one that is being handled; `reason` is copied. */
static void add_pending(muster_host *host, const muster_event *event,
                        const char *reason)
{
    muster_host_pending *added = muster_vec_push(&host->pending);
    if (added == NULL) {
        out_of_memory(host);
        return;
    }
    added->event = *event;
    if (reason[0] != '\0') {
        (void)snprintf(added->reason, sizeof added->reason, "%.159s", reason);
    }
}

uint64_t muster_host_take_dial(muster_host *host, muster_peer peer)
{
    muster_host_dial *all = host->dials.data;
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

/* Name at most one a second, and count the others: strangers may come in
 * floods. */
static void tell_expelled(muster_host *host, muster_peer peer,
                          const char *reason)
{
    int64_t now_ns = muster_clock_ns();
    if (host->expelled_told_ns != 0 &&
        now_ns - host->expelled_told_ns < MUSTER_NS_PER_S) {
        host->expelled_untold++;
        return;
    }
    muster_host_tell_expelled(host);
    muster_log(MUSTER_LOG_WARN, "dropping %s: %s",
               muster_net_peer_name(host->net, peer), reason);
    host->expelled_told_ns = now_ns;
}

void muster_host_tell_expelled(muster_host *host)
{
    if (host->expelled_untold > 0) {
        muster_log(MUSTER_LOG_WARN, "%u more were dropped meanwhile",
                   host->expelled_untold);
    }
    host->expelled_untold = 0;
}

void muster_host_expel(muster_host *host, muster_peer peer,
                       muster_status status, const char *reason)
{
    tell_expelled(host, peer, reason);
    muster_net_drop(host->net, peer);
    muster_event event = {.kind = MUSTER_EVENT_PEER_DOWN, .peer = peer};
    event.as.down.status = status;
    event.as.down.token = muster_host_take_dial(host, peer);
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
    muster_host_ticket *done = argument;
    muster_host *host = done->host;
    muster_event event = {.kind = MUSTER_EVENT_SENT, .peer = done->peer};
    event.as.sent.token = done->token;
    event.as.sent.status = status;
    done->next_free = host->free_tickets;
    host->free_tickets = done;
    host->unsent--;
    add_pending(host, &event, "");
}

static muster_host_ticket *take_ticket(muster_host *host)
{
    muster_host_ticket *free_one = host->free_tickets;
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
    muster_host_ticket *used = NULL;
    if (action->as.send.token != 0) {
        used = take_ticket(host);
        if (used == NULL) {
            out_of_memory(host);
            return;
        }
        *used = (muster_host_ticket){host, NULL, peer, action->as.send.token};
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
        muster_host_expel(host, peer, status,
                          "its queue is full: it reads too slowly");
    } else if (status != MUSTER_ERR_AGAIN && status != MUSTER_ERR_PEER_LOST) {
        muster_host_expel(host, peer, status, muster_status_text(status));
    }
}

static void do_connect(muster_host *host, const muster_action *action)
{
    muster_error error = {.text = ""};
    muster_host_dial *added = muster_vec_push(&host->dials);
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
    event.as.computed.shard = job->shard;
    bool apart = job->kind == MUSTER_JOB_EVALUATE && host->evaluator != NULL;
    muster_status status =
        muster_compute_submit(apart ? host->evaluator : host->compute, job);
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

void muster_host_act(muster_host *host, muster_action *action)
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
        (void)muster_host_take_dial(host, action->as.drop.peer);
        break;
    case MUSTER_ACTION_EXPECT:
        muster_net_expect(host->net, action->as.expect.payload_bytes_max);
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
        if (host->evaluator != NULL) {
            muster_compute_cancel(host->evaluator, action->as.cancel.job_id);
        }
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
