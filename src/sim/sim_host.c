/*
 * sim_host.c -- a process: its role's events and actions, its timers, and its
 * one compute thread.
 */
#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "sim/sim_inside.h"

/* What of a role's state its events read at once: its begin. */
#define ROLE_BYTES    384u
#define PROCESS_BYTES 128u
#define PARCEL_BYTES  128u

/* Inlined, or the compiler drops calls that seem to do nothing. */
#define INLINED static inline __attribute__((always_inline))

INLINED void prefetch_bytes(const void *at, size_t bytes)
{
    for (size_t byte = 0; byte < bytes; byte += MUSTER_SIM_LINE) {
        __builtin_prefetch((const char *)at + byte);
    }
}

/* The connection that a process made last: a worker has no other. */
INLINED void prefetch_connection(const muster_sim *sim, muster_role_peer peer)
{
    if (peer != 0) {
        prefetch_bytes((muster_sim_connection *)sim->connections.data +
                           (peer - 1) / 2,
                       sizeof(muster_sim_connection));
    }
}

void muster_sim_prefetch(const muster_sim *sim, const muster_sim_item *item,
                         unsigned stage)
{
    const muster_sim_process *process = &sim->processes[item->host];
    const muster_role *role = &process->role;
    switch (stage) {
    case 3:
        prefetch_bytes(process, PROCESS_BYTES);
        if (item->parcel != NULL) {
            prefetch_bytes(item->parcel, PARCEL_BYTES);
        }
        prefetch_connection(sim, item->peer);
        if (sim->opts.compute.prefetch != NULL) {
            sim->opts.compute.prefetch(sim->opts.compute.context, item->host,
                                       item->kind == MUSTER_SIM_ROLE);
        }
        break;
    case 2:
        prefetch_bytes(role->state, role->state != NULL ? ROLE_BYTES : 0);
        prefetch_connection(sim, process->newest);
        break;
    default:
        if (role->ops != NULL && role->ops->prefetch != NULL) {
            role->ops->prefetch(role->state, item->peer, stage + 1);
        }
    }
}

static uint64_t progress_of(const muster_sim *sim, uint32_t host)
{
    const muster_sim_process *process = &sim->processes[host];
    if (!process->running || process->stuck) {
        return process->progress;
    }
    return process->progress +
           (uint64_t)((sim->now_ns - process->began_ns) / MUSTER_SIM_PIECE_NS);
}

static void push_job_end(muster_sim *sim, uint32_t host)
{
    muster_sim_process *process = &sim->processes[host];
    process->ticket = ++sim->tickets;
    if (process->stuck) {
        return; // it never ends
    }
    muster_sim_item item = {.kind = MUSTER_SIM_JOB_END,
                            .at_ns = process->ends_ns,
                            .host = host,
                            .life = process->life,
                            .as.ticket = process->ticket};
    muster_sim_push(sim, &item);
}

void muster_sim_job_shift(muster_sim *sim, uint32_t host, int64_t by_ns)
{
    muster_sim_process *process = &sim->processes[host];
    if (process->running) {
        process->began_ns += by_ns;
        process->sleep_ns += by_ns;
        process->ends_ns += by_ns;
        push_job_end(sim, host);
    }
}

/* Takes the job over. */
static void begin_job(muster_sim *sim, uint32_t host, muster_job *job)
{
    muster_sim_process *process = &sim->processes[host];
    process->running = true;
    process->cancelled = false;
    process->began_ns = sim->now_ns;
    process->job.id = job->id;
    process->job.kind = job->kind;
    process->job.step = job->step;
    process->job.shard = job->shard;
    process->job.stage = job->stage;
    const muster_sim_compute *compute = &sim->opts.compute;
    int64_t duration = compute->begin(compute->context, host, job);
    process->ends_ns = sim->now_ns + (duration > 0 ? duration : 0);
    process->sleep_ns =
        process->ends_ns -
        (compute->sleeps != NULL ? compute->sleeps(compute->context, host) : 0);
    push_job_end(sim, host);
}

static void begin_next_job(muster_sim *sim, uint32_t host)
{
    muster_vec *jobs = &sim->processes[host].jobs;
    muster_job *list = jobs->data;
    muster_job job = list[0];
    jobs->count--;
    sim->processes[host].waiting--;
    memmove(list, list + 1, jobs->count * sizeof(*list));
    begin_job(sim, host, &job);
}

/* When the piece of the running job that is under way ends. */
static int64_t piece_end(const muster_sim *sim, const muster_sim_process *at)
{
    int64_t piece_ns = (at->sleep_ns - at->began_ns) / MUSTER_SIM_PIECES;
    piece_ns = piece_ns < MUSTER_SIM_PIECE_NS ? piece_ns : MUSTER_SIM_PIECE_NS;
    if (piece_ns <= 0) {
        return sim->now_ns;
    }
    int64_t done = (sim->now_ns - at->began_ns) / piece_ns;
    return at->began_ns + (done + 1) * piece_ns;
}

static void cancel(muster_sim *sim, uint32_t host, uint64_t job_id)
{
    muster_sim_process *process = &sim->processes[host];
    // Roles cancel only what may be running; a queued job is let run.
    if (!process->running || process->job.id != job_id || process->cancelled) {
        return;
    }
    process->cancelled = true;
    int64_t soon_ns = piece_end(sim, process);
    soon_ns = soon_ns < process->sleep_ns ? soon_ns : process->sleep_ns;
    soon_ns = soon_ns > sim->now_ns ? soon_ns : sim->now_ns;
    if (process->ends_ns > soon_ns) {
        process->ends_ns = soon_ns;
        push_job_end(sim, host);
    } else {
        process->cancelled = false; // as good as finished
    }
}

static void submit(muster_sim *sim, uint32_t host, muster_job *job)
{
    muster_sim_process *process = &sim->processes[host];
    if (!process->running && process->waiting == 0) {
        begin_job(sim, host, job);
        return;
    }
    MUSTER_ASSERT(muster_vec_append(&process->jobs, job, 1));
    process->waiting++;
    if (!process->running) {
        begin_next_job(sim, host);
    } else if (process->job.kind == MUSTER_JOB_DECODE) {
        cancel(sim, host, process->job.id); // it gives way
    }
}

static void finish_running(muster_sim *sim, uint32_t host,
                           muster_job_result *result)
{
    muster_sim_process *process = &sim->processes[host];
    memset(result, 0, offsetof(muster_job_result, text));
    result->text[0] = 0;
    sim->opts.compute.end(sim->opts.compute.context, host, process->cancelled,
                          result);
    result->id = process->job.id;
    result->kind = process->job.kind;
    result->step = process->job.step;
    result->shard = process->job.shard;
    result->stage = process->job.stage;
    process->running = false;
}

void muster_sim_job_ended(muster_sim *sim, uint32_t host)
{
    muster_sim_process *process = &sim->processes[host];
    uint64_t life = process->life;
    muster_event event;
    event.kind = MUSTER_EVENT_COMPUTED;
    event.peer = 0;
    process->progress = progress_of(sim, host) + 1;
    finish_running(sim, host, &event.as.computed);
    muster_sim_feed(sim, host, &event, 0);
    muster_blob_unref(event.as.computed.output);
    if (process->up && process->life == life && !process->running &&
        process->waiting > 0) {
        begin_next_job(sim, host);
    }
}

static void set_timer(muster_sim *sim, uint32_t host,
                      const muster_action *action)
{
    muster_sim_process *process = &sim->processes[host];
    uint32_t id = action->as.timer.id;
    MUSTER_ASSERT(id < MUSTER_SIM_TIMERS);
    int64_t at_ns = action->as.timer.at_ns;
    if (at_ns >= 0 && at_ns < sim->now_ns) {
        at_ns = sim->now_ns;
    }
    process->timers[id] = at_ns;
    if (at_ns < 0) {
        return;
    }
    muster_sim_item item = {.kind = MUSTER_SIM_ROLE,
                            .at_ns = at_ns,
                            .host = host,
                            .life = process->life,
                            .from = host,
                            .event = MUSTER_EVENT_TIMER,
                            .as.timer = {id, at_ns}};
    muster_sim_push(sim, &item);
}

/* True: the role is done. */
static bool carry_out(muster_sim *sim, uint32_t host, muster_action *action)
{
    switch (action->kind) {
    case MUSTER_ACTION_SEND:
        muster_sim_send(sim, host, action);
        break;
    case MUSTER_ACTION_CONNECT:
        muster_sim_connect(sim, host, action);
        break;
    case MUSTER_ACTION_DROP:
        muster_sim_drop(sim, host, action->as.drop.peer, "connection closed");
        break;
    case MUSTER_ACTION_EXPECT:
        break; // its messages have any length
    case MUSTER_ACTION_SET_TIMER:
        set_timer(sim, host, action);
        break;
    case MUSTER_ACTION_COMPUTE:
        submit(sim, host, &action->as.job);
        action->as.job = (muster_job){0}; // taken over
        break;
    case MUSTER_ACTION_CANCEL:
        cancel(sim, host, action->as.cancel.job_id);
        break;
    case MUSTER_ACTION_REPORT:
        if (sim->opts.on_report != NULL) {
            sim->opts.on_report(sim->opts.context, host, &action->as.report);
        }
        break;
    case MUSTER_ACTION_STOP:
        if (sim->opts.on_stop != NULL) {
            sim->opts.on_stop(sim->opts.context, host, action->as.stop.status,
                              action->as.stop.reason);
        }
        return true;
    }
    return false;
}

/* How many actions ahead of a message its connection is asked for, and how many
 * its receiver: a coordinator sends to thousands at once. */
#define CONNECTION_AHEAD 8u
#define RECEIVER_AHEAD   4u

INLINED void look_at_sends(const muster_sim *sim, const muster_action *next,
                           size_t left)
{
    if (left > CONNECTION_AHEAD &&
        next[CONNECTION_AHEAD].kind == MUSTER_ACTION_SEND) {
        prefetch_connection(sim, next[CONNECTION_AHEAD].as.send.peer);
    }
    if (left > RECEIVER_AHEAD &&
        next[RECEIVER_AHEAD].kind == MUSTER_ACTION_SEND) {
        unsigned side = 0;
        const muster_sim_connection *connection = muster_sim_connection_of(
            sim, next[RECEIVER_AHEAD].as.send.peer, &side);
        if (connection != NULL) {
            prefetch_bytes(&sim->processes[connection->host[1 - side]],
                           PROCESS_BYTES);
        }
    }
}

/* The host's role takes an event; what it asks for is done. */
static void step(muster_sim *sim, uint32_t host, muster_event *event,
                 uint64_t digest)
{
    muster_sim_process *process = &sim->processes[host];
    event->now_ns = sim->now_ns;
    event->progress = progress_of(sim, host);
    muster_sim_note(sim, host, event, digest);
    process->role.ops->step(process->role.state, event, &sim->actions);
    muster_action *list = sim->actions.list.data;
    bool done = false;
    for (size_t i = 0; i < sim->actions.list.count && !done; i++) {
        look_at_sends(sim, &list[i], sim->actions.list.count - i);
        muster_sim_note_action(sim, &list[i]);
        if (sim->opts.on_action != NULL) {
            sim->opts.on_action(sim->opts.context, host, event, &list[i]);
        }
        done = carry_out(sim, host, &list[i]);
    }
    muster_actions_clear(&sim->actions);
    if (done) {
        muster_sim_process_down(sim, host);
    }
}

void muster_sim_feed(muster_sim *sim, uint32_t host, muster_event *event,
                     uint64_t digest)
{
    const muster_sim_process *process = &sim->processes[host];
    uint32_t life = process->life;
    step(sim, host, event, digest);
    // What was handed over at once is known at once: not by way of the queue.
    for (size_t i = 0; i < sim->sent.count && process->life == life; i++) {
        const muster_sim_sent *sent = (muster_sim_sent *)sim->sent.data + i;
        muster_event told;
        told.kind = MUSTER_EVENT_SENT;
        told.peer = sent->peer;
        told.as.sent.token = sent->token;
        told.as.sent.status = MUSTER_OK;
        step(sim, host, &told, 0);
    }
    muster_vec_clear(&sim->sent);
}

void muster_sim_process_down(muster_sim *sim, uint32_t host)
{
    muster_sim_process *process = &sim->processes[host];
    process->up = false;
    process->frozen = false;
    process->stuck = false;
    process->life++;
    muster_sim_drop_all(sim, host);
    muster_sim_echo_forget(sim, host);
    if (process->running) {
        muster_job_result result;
        process->cancelled = true;
        finish_running(sim, host, &result);
        muster_blob_unref(result.output);
    }
    muster_job *jobs = process->jobs.data;
    for (size_t i = 0; i < process->jobs.count; i++) {
        muster_job_fini(&jobs[i]);
    }
    muster_vec_clear(&process->jobs);
    process->waiting = 0;
    muster_sim_item *deferred = process->deferred.data;
    for (size_t i = 0; i < process->deferred.count; i++) {
        muster_sim_item_fini(sim, &deferred[i]);
    }
    muster_vec_clear(&process->deferred);
    process->role.ops->free(process->role.state);
    process->role = (muster_role){0};
}
