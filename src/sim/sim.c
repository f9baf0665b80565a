/*
 * sim.c -- the clock, the run loop and the faults; see sim.h.
 */
#include "sim/sim.h"

#include "base/assert.h"
#include "base/mem.h"
#include "sim/sim_inside.h"

void muster_sim_item_fini(muster_sim *sim, muster_sim_item *item)
{
    muster_sim_parcel_unref(sim, item->parcel);
    item->parcel = NULL;
}

muster_status muster_sim_create(const muster_sim_opts *opts, uint32_t hosts,
                                muster_sim **sim_out)
{
    muster_sim *sim = muster_mem_array(1, sizeof(*sim));
    muster_sim_process *processes =
        muster_mem_lines(hosts, sizeof(*sim->processes));
    if (sim == NULL || processes == NULL) {
        muster_mem_free(processes);
        muster_mem_free(sim);
        return MUSTER_ERR_NO_MEMORY;
    }
    sim->opts = *opts;
    sim->rng = muster_rng_make(opts->seed, 0x73696d);
    sim->hash = 0xcbf29ce484222325u;
    sim->hosts = hosts;
    sim->processes = processes;
    sim->connections = muster_vec_make_lines(sizeof(muster_sim_connection));
    sim->held = muster_vec_make(sizeof(muster_sim_item));
    sim->slabs = muster_vec_make(sizeof(muster_sim_parcel *));
    sim->free_parcels = muster_vec_make(sizeof(muster_sim_parcel *));
    sim->sent = muster_vec_make(sizeof(muster_sim_sent));
    sim->actions = muster_actions_make();
    muster_sim_queue_init(&sim->queue);
    for (uint32_t host = 0; host < hosts; host++) {
        processes[host].link = &sim->opts.link;
        for (unsigned way = 0; way < 2; way++) {
            processes[host].ways[way].due_ns = INT64_MAX;
            processes[host].ways[way].flows =
                muster_vec_make(sizeof(muster_sim_flow));
        }
        processes[host].jobs = muster_vec_make(sizeof(muster_job));
        processes[host].deferred = muster_vec_make(sizeof(muster_sim_item));
    }
    if (opts->echo > 0) {
        sim->echoes =
            muster_mem_array((size_t)hosts * hosts, sizeof(*sim->echoes));
        if (sim->echoes == NULL) {
            muster_sim_free(sim);
            return MUSTER_ERR_NO_MEMORY;
        }
    }
    *sim_out = sim;
    return MUSTER_OK;
}

void muster_sim_free(muster_sim *sim)
{
    if (sim == NULL) {
        return;
    }
    for (uint32_t host = 0; host < sim->hosts; host++) {
        if (sim->processes[host].up) {
            muster_sim_process_down(sim, host);
        }
        muster_vec_fini(&sim->processes[host].ways[MUSTER_SIM_OUT].flows);
        muster_vec_fini(&sim->processes[host].ways[MUSTER_SIM_IN].flows);
        muster_vec_fini(&sim->processes[host].jobs);
        muster_vec_fini(&sim->processes[host].deferred);
    }
    muster_sim_item *held = sim->held.data;
    for (size_t i = 0; i < sim->held.count; i++) {
        muster_sim_item_fini(sim, &held[i]);
    }
    muster_vec_fini(&sim->held);
    muster_vec_fini(&sim->connections);
    muster_vec_fini(&sim->sent);
    muster_sim_echo_fini(sim);
    muster_blob_unref(sim->digested);
    muster_actions_fini(&sim->actions);
    muster_sim_queue_fini(sim);
    muster_sim_parcels_fini(sim);
    muster_mem_free(sim->processes);
    muster_mem_free(sim);
}

static void push_simple(muster_sim *sim, uint32_t host, muster_event_kind kind)
{
    muster_sim_item item = {.kind = MUSTER_SIM_ROLE,
                            .at_ns = sim->now_ns,
                            .host = host,
                            .life = sim->processes[host].life,
                            .from = host,
                            .event = kind};
    muster_sim_push(sim, &item);
}

void muster_sim_start(muster_sim *sim, uint32_t host, muster_role role)
{
    muster_sim_process *process = &sim->processes[host];
    MUSTER_ASSERT(!process->up);
    process->up = true;
    process->touched_ns = sim->now_ns;
    process->life++;
    process->role = role;
    process->progress = 0;
    for (uint32_t id = 0; id < MUSTER_SIM_TIMERS; id++) {
        process->timers[id] = -1;
    }
    sim->opts.compute.reset(sim->opts.compute.context, host);
    push_simple(sim, host, MUSTER_EVENT_START);
}

bool muster_sim_is_up(const muster_sim *sim, uint32_t host)
{
    return sim->processes[host].up;
}

int64_t muster_sim_well_since(const muster_sim *sim, uint32_t host)
{
    const muster_sim_process *process = &sim->processes[host];
    bool well =
        process->up && !process->frozen && !process->stuck && !process->cut;
    return well ? process->touched_ns : -1;
}

muster_role muster_sim_role(const muster_sim *sim, uint32_t host)
{
    return sim->processes[host].role;
}

void muster_sim_kill(muster_sim *sim, uint32_t host)
{
    if (sim->processes[host].up) {
        muster_sim_process_down(sim, host);
    }
}

void muster_sim_stop(muster_sim *sim, uint32_t host)
{
    muster_sim_process *process = &sim->processes[host];
    if (process->up && !process->frozen) {
        process->frozen = true;
        process->frozen_ns = sim->now_ns;
        process->touched_ns = sim->now_ns;
    }
}

void muster_sim_cont(muster_sim *sim, uint32_t host)
{
    muster_sim_process *process = &sim->processes[host];
    if (!process->frozen) {
        return;
    }
    process->frozen = false;
    process->touched_ns = sim->now_ns;
    muster_sim_item *deferred = process->deferred.data;
    for (size_t i = 0; i < process->deferred.count; i++) {
        // What came from outside is there now. A job goes on where it stood.
        if (deferred[i].kind != MUSTER_SIM_JOB_END) {
            deferred[i].at_ns = sim->now_ns;
            muster_sim_push(sim, &deferred[i]);
        }
    }
    muster_vec_clear(&process->deferred);
    muster_sim_job_shift(sim, host, sim->now_ns - process->frozen_ns);
}

void muster_sim_stick(muster_sim *sim, uint32_t host)
{
    muster_sim_process *process = &sim->processes[host];
    if (process->up) {
        process->stuck = true;
        process->touched_ns = sim->now_ns;
        process->ticket = 0; // the end that was scheduled is not its any more
    }
}

void muster_sim_interrupt(muster_sim *sim, uint32_t host)
{
    if (sim->processes[host].up) {
        push_simple(sim, host, MUSTER_EVENT_STOP);
    }
}

void muster_sim_cut(muster_sim *sim, uint32_t host, bool cut)
{
    sim->cuts += cut;
    sim->cuts -= sim->processes[host].cut;
    sim->processes[host].cut = cut;
    sim->processes[host].touched_ns = sim->now_ns;
    muster_sim_item *held = sim->held.data;
    size_t kept = 0;
    for (size_t i = 0; i < sim->held.count; i++) {
        if (sim->processes[held[i].host].cut ||
            sim->processes[held[i].from].cut) {
            held[kept++] = held[i];
        } else {
            held[i].at_ns = sim->now_ns;
            muster_sim_push(sim, &held[i]);
        }
    }
    sim->held.count = kept;
}

void muster_sim_set_link(muster_sim *sim, uint32_t host, muster_sim_link link)
{
    sim->processes[host].own_link = link;
    sim->processes[host].link = &sim->processes[host].own_link;
}

void muster_sim_at(muster_sim *sim, int64_t at_ns, muster_sim_call call,
                   void *context, uint64_t value)
{
    muster_sim_item item = {.kind = MUSTER_SIM_CALL,
                            .at_ns = at_ns > sim->now_ns ? at_ns : sim->now_ns,
                            .as.call = {call, context, value}};
    muster_sim_push(sim, &item);
}

static bool is_held_back(muster_sim *sim, const muster_sim_item *item)
{
    const muster_sim_process *process = &sim->processes[item->host];
    muster_vec *list = NULL;
    if (sim->cuts > 0 && item->from != item->host &&
        item->kind == MUSTER_SIM_ROLE &&
        (process->cut || sim->processes[item->from].cut)) {
        list = &sim->held;
    } else if (process->frozen) {
        list = &sim->processes[item->host].deferred;
    }
    if (list == NULL) {
        return false;
    }
    MUSTER_ASSERT(muster_vec_append(list, item, 1));
    return true;
}

/* Hand the event of an item to the host's role. */
static void feed_item(muster_sim *sim, const muster_sim_item *item)
{
    muster_event event;
    event.kind = item->event;
    event.peer = item->peer;
    uint64_t digest = 0;
    switch (item->event) {
    case MUSTER_EVENT_PEER_UP:
        event.as.up.incoming = item->as.up.incoming;
        event.as.up.token = item->as.up.token;
        break;
    case MUSTER_EVENT_PEER_DOWN:
        event.as.down.status = item->as.down.status;
        event.as.down.reason = item->as.down.reason;
        event.as.down.token = item->as.down.token;
        break;
    case MUSTER_EVENT_MESSAGE:
        event.as.message.message = &item->parcel->message;
        event.as.message.payload = muster_sim_parcel_whole(item->parcel);
        digest = item->parcel->digest;
        muster_sim_echo(sim, item);
        break;
    case MUSTER_EVENT_BEGUN:
        event.as.message.message = &item->parcel->message;
        event.as.message.payload = item->parcel->coming;
        break;
    case MUSTER_EVENT_TIMER:
        event.as.timer.id = item->as.timer.id;
        sim->processes[item->host].timers[item->as.timer.id] = -1;
        break;
    case MUSTER_EVENT_SENT:
        event.as.sent.token = item->as.sent.token;
        event.as.sent.status = item->as.sent.status;
        break;
    case MUSTER_EVENT_START:
    case MUSTER_EVENT_STOP:
    case MUSTER_EVENT_HEARD:
    case MUSTER_EVENT_COMPUTED:
        break;
    }
    muster_sim_feed(sim, item->host, &event, digest);
}

static void take_event(muster_sim *sim, muster_sim_item *item)
{
    bool stale = item->event == MUSTER_EVENT_TIMER &&
                 sim->processes[item->host].timers[item->as.timer.id] !=
                     item->as.timer.set_ns;
    if (!stale && muster_sim_pass(sim, item)) {
        feed_item(sim, item);
    }
    muster_sim_item_fini(sim, item);
}

static void take(muster_sim *sim, muster_sim_item *item)
{
    const muster_sim_process *process = &sim->processes[item->host];
    if (item->kind == MUSTER_SIM_CALL) {
        item->as.call.call(sim, item->as.call.context, item->as.call.value);
    } else if (item->kind == MUSTER_SIM_NIC) {
        muster_sim_nic_due(sim, item);
    } else if (item->life != process->life) {
        muster_sim_item_fini(sim, item);
    } else if (is_held_back(sim, item)) {
        return;
    } else if (item->kind == MUSTER_SIM_ROLE) {
        take_event(sim, item);
    } else if (item->as.ticket == process->ticket) {
        muster_sim_job_ended(sim, item->host);
    }
}

bool muster_sim_run(muster_sim *sim, int64_t until_ns)
{
    muster_sim_item item;
    sim->halted = false;
    while (!sim->halted && muster_sim_pop(sim, until_ns, &item)) {
        sim->now_ns = item.at_ns;
        take(sim, &item);
    }
    return sim->halted;
}

void muster_sim_halt(muster_sim *sim)
{
    sim->halted = true;
}

int64_t muster_sim_now(const muster_sim *sim)
{
    return sim->now_ns;
}

uint64_t muster_sim_hash(const muster_sim *sim)
{
    return sim->hash;
}

uint64_t muster_sim_events(const muster_sim *sim)
{
    return sim->events;
}
