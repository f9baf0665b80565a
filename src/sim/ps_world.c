/*
 * ps_world.c -- see ps_world.h.
 *
 * Invariants
 *  1. Every chance is a draw from the world's own stream, in the order of
 *     events, so that a history depends on nothing but seed and calls.
 *  2. A process handles nothing while it is stopped or down, and nothing that
 *     was sent to an earlier incarnation of it.
 *  3. A message has one payload reference for as long as it is under way.
 */
#include "sim/ps_world.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/vec.h"

#define MS          1000000ll
#define SLOW_ONE_IN 10u       // messages
#define FAST_MAX_NS (2 * MS)  // time that most messages take
#define SLOW_MAX_NS (60 * MS) // and the slow ones
#define DOWN_MAX_NS (5 * MS)  // until the next peer sees the end
#define LOST_ONE_IN 2u        // messages of a killed process
#define STREAM      11u       // of the draws
#define FNV_OFFSET  0xcbf29ce484222325u
#define FNV_PRIME   0x100000001b3u

typedef struct flight {
    int64_t at_ns;
    muster_protocol_send send;
    uint16_t from;
    uint32_t from_incarnation;
    uint32_t to_incarnation;
} flight;

struct muster_ps_world {
    muster_ps_world_opts opts;
    muster_rng rng;
    int64_t now_ns;
    uint64_t hash;
    muster_vec flights; // flight
    muster_ps_process at[MUSTER_PS_WORLD_NODES_MAX];
};

uint64_t muster_ps_world_below(muster_ps_world *world, uint64_t bound)
{
    return muster_rng_below(&world->rng, bound);
}

int64_t muster_ps_world_now(const muster_ps_world *world)
{
    return world->now_ns;
}

uint64_t muster_ps_world_hash(const muster_ps_world *world)
{
    return world->hash;
}

uint16_t muster_ps_world_nodes(const muster_ps_world *world)
{
    return world->opts.protocol.nodes;
}

muster_ps_process *muster_ps_world_process(muster_ps_world *world,
                                           uint16_t node)
{
    MUSTER_ASSERT(node < world->opts.protocol.nodes);
    return &world->at[node];
}

bool muster_ps_world_runs(const muster_ps_world *world, uint16_t node)
{
    const muster_ps_process *process = &world->at[node];
    return process->up && process->stopped_until_ns <= world->now_ns;
}

muster_status muster_ps_world_create(const muster_ps_world_opts *opts,
                                     muster_ps_world **world_out)
{
    muster_ps_world *world = muster_mem_array(1, sizeof(*world));
    if (world == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    world->opts = *opts;
    world->rng = muster_rng_make(opts->seed, STREAM);
    world->now_ns = MS;
    world->hash = FNV_OFFSET;
    world->flights = muster_vec_make(sizeof(flight));
    *world_out = world;
    return MUSTER_OK;
}

void muster_ps_world_set_nodes(muster_ps_world *world, uint16_t nodes,
                               muster_ps_manage manage,
                               uint32_t message_entries)
{
    MUSTER_ASSERT(nodes > 0 && nodes <= MUSTER_PS_WORLD_NODES_MAX);
    world->opts.protocol.nodes = nodes;
    world->opts.protocol.manage = manage;
    world->opts.protocol.message_entries = message_entries;
}

/* ---- processes ----------------------------------------------------------- */

static muster_blob *make_payload(void *context, size_t bytes)
{
    (void)context;
    return muster_blob_create(bytes);
}

static bool prepared(void *context)
{
    const muster_ps_process *process = context;
    const muster_ps_world_hooks *hooks = &process->world->opts.hooks;
    return hooks->prepared == NULL ||
           hooks->prepared(hooks->context, process->node);
}

static bool restore(void *context, uint32_t table, uint32_t key, float *row)
{
    const muster_ps_process *process = context;
    const muster_ps_world_hooks *hooks = &process->world->opts.hooks;
    (void)table; // there is one
    return hooks->restore != NULL &&
           hooks->restore(hooks->context, process->node, key, row);
}

static uint64_t updates(void *context)
{
    const muster_ps_process *process = context;
    const muster_ps_world_hooks *hooks = &process->world->opts.hooks;
    return hooks->updates == NULL
               ? 0
               : hooks->updates(hooks->context, process->node);
}

void muster_ps_world_start(muster_ps_world *world, uint16_t node, bool joins)
{
    muster_ps_process *process = muster_ps_world_process(world, node);
    MUSTER_ASSERT(!process->up);
    // A node that joins begins without rows.
    muster_ps_table_share share = {.node = joins ? UINT32_MAX : node,
                                   .nodes = world->opts.protocol.nodes,
                                   .seed = 1};
    process->world = world;
    process->node = node;
    process->up = true;
    process->incarnation++;
    process->stopped_until_ns = 0;
    muster_status status =
        muster_ps_table_create(&world->opts.table, &share, &process->table);
    MUSTER_ASSERT(status == MUSTER_OK);
    muster_protocol_opts opts = world->opts.protocol;
    opts.node = node;
    opts.tables = &process->table;
    opts.table_count = 1;
    opts.make = make_payload;
    opts.joins = joins;
    opts.prepared = prepared;
    opts.restore = restore;
    opts.updates = updates;
    opts.host = process;
    status = muster_protocol_create(&opts, &process->protocol);
    MUSTER_ASSERT(status == MUSTER_OK);
    process->out = muster_protocol_out_make();
}

static void end_process(muster_ps_world *world, muster_ps_process *process)
{
    const muster_ps_world_hooks *hooks = &world->opts.hooks;
    if (hooks->on_end != NULL) {
        hooks->on_end(hooks->context, process->node);
    }
    muster_protocol_free(process->protocol);
    muster_protocol_out_fini(&process->out);
    muster_ps_table_free(process->table);
    process->protocol = NULL;
    process->up = false;
}

void muster_ps_world_free(muster_ps_world *world)
{
    if (world == NULL) {
        return;
    }
    const flight *flights = world->flights.data;
    for (size_t i = 0; i < world->flights.count; i++) {
        muster_blob_unref(flights[i].send.message.payload);
    }
    muster_vec_fini(&world->flights);
    for (uint16_t i = 0; i < world->opts.protocol.nodes; i++) {
        if (world->at[i].up) {
            end_process(world, &world->at[i]);
        }
    }
    muster_mem_free(world);
}

/* ---- the network --------------------------------------------------------- */

static int64_t draw_travel_ns(muster_ps_world *world)
{
    bool slow = muster_ps_world_below(world, SLOW_ONE_IN) == 0;
    int64_t max_ns = slow ? SLOW_MAX_NS : FAST_MAX_NS;
    return (int64_t)muster_ps_world_below(world, (uint64_t)max_ns) + 1;
}

static void send_later(muster_ps_world *world, uint16_t from,
                       const muster_protocol_send *send)
{
    MUSTER_ASSERT(world->flights.count < MUSTER_PS_WORLD_FLIGHTS_MAX);
    MUSTER_ASSERT(send->to < world->opts.protocol.nodes && send->to != from);
    flight *added = muster_vec_push(&world->flights);
    MUSTER_ASSERT(added != NULL);
    *added = (flight){.at_ns = world->now_ns + draw_travel_ns(world),
                      .send = *send,
                      .from = from,
                      .from_incarnation = world->at[from].incarnation,
                      .to_incarnation = world->at[send->to].incarnation};
    added->send.message.from = from;
}

/* Take over the results of a step; an expelled process ends. */
static void take_results(muster_ps_world *world, muster_ps_process *process)
{
    const muster_ps_world_hooks *hooks = &world->opts.hooks;
    const muster_protocol_send *sends = process->out.sends.data;
    for (size_t i = 0; i < process->out.sends.count; i++) {
        send_later(world, process->node, &sends[i]);
    }
    muster_vec_clear(&process->out.sends);
    // News first: a request that is sent again may end in the same step.
    bool expelled = false;
    const muster_membership_news *news = process->out.news.data;
    for (size_t i = 0; i < process->out.news.count; i++) {
        expelled = expelled || news[i].kind == MUSTER_NEWS_EXPELLED;
        if (hooks->on_news != NULL) {
            hooks->on_news(hooks->context, process->node, &news[i]);
        }
    }
    muster_vec_clear(&process->out.news);
    muster_row_request **done = process->out.done.data;
    for (size_t i = 0; i < process->out.done.count; i++) {
        if (hooks->on_done != NULL) {
            hooks->on_done(hooks->context, process->node, done[i]);
        }
    }
    muster_vec_clear(&process->out.done);
    if (expelled) {
        end_process(world, process);
    }
}

/* The step has run: it fails only when memory runs out. */
static void finish_step(muster_ps_world *world, muster_ps_process *process,
                        muster_status status)
{
    MUSTER_ASSERT(status == MUSTER_OK);
    take_results(world, process);
}

static void mix(uint64_t *hash, uint64_t value)
{
    *hash = (*hash ^ value) * FNV_PRIME;
    *hash ^= *hash >> 29;
}

static void hash_delivery(muster_ps_world *world, const flight *arrived)
{
    const muster_rowmsg *message = &arrived->send.message;
    const uint64_t fields[] = {
        (uint64_t)world->now_ns, arrived->from,  arrived->send.to,
        message->kind,           message->op,    message->table,
        message->origin,         message->count, message->link,
        message->request,        message->epoch, message->mask,
        message->value};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        mix(&world->hash, fields[i]);
    }
    if (message->payload != NULL) {
        const uint32_t *words = message->payload->data;
        for (size_t i = 0; i < message->payload->bytes / sizeof(*words); i++) {
            mix(&world->hash, words[i]);
        }
    }
}

static void handle(muster_ps_world *world, const flight *arrived)
{
    const muster_ps_world_hooks *hooks = &world->opts.hooks;
    muster_ps_process *to = &world->at[arrived->send.to];
    const muster_ps_process *from = &world->at[arrived->from];
    muster_ps_delivery delivery = {.from = arrived->from,
                                   .to = arrived->send.to,
                                   .from_current = from->incarnation ==
                                                   arrived->from_incarnation,
                                   .message = &arrived->send.message};
    hash_delivery(world, arrived);
    if (hooks->on_delivery != NULL) {
        hooks->on_delivery(hooks->context, &delivery);
    }
    finish_step(world, to,
                muster_protocol_message(to->protocol, world->now_ns,
                                        &arrived->send.message, &to->out));
}

static void deliver(muster_ps_world *world, size_t index)
{
    flight *flights = world->flights.data;
    flight arrived = flights[index];
    const muster_ps_process *to = &world->at[arrived.send.to];
    if (to->up && to->stopped_until_ns > world->now_ns) {
        flights[index].at_ns = to->stopped_until_ns + draw_travel_ns(world);
        return;
    }
    if (muster_ps_world_below(world, world->opts.duplicate_one_in) == 0) {
        (void)muster_blob_ref(arrived.send.message.payload);
        flights[index].at_ns = world->now_ns + draw_travel_ns(world);
    } else {
        flights[index] = flights[--world->flights.count];
    }
    if (to->up && to->incarnation == arrived.to_incarnation &&
        to->closed[arrived.from] < arrived.from_incarnation) {
        handle(world, &arrived);
    }
    muster_blob_unref(arrived.send.message.payload);
}

static void tick_all(muster_ps_world *world)
{
    for (uint16_t i = 0; i < world->opts.protocol.nodes; i++) {
        muster_ps_process *process = &world->at[i];
        if (muster_ps_world_runs(world, i)) {
            finish_step(world, process,
                        muster_protocol_tick(process->protocol, world->now_ns,
                                             &process->out));
        }
    }
}

static size_t first_flight(const muster_ps_world *world)
{
    const flight *flights = world->flights.data;
    size_t first = 0;
    for (size_t i = 1; i < world->flights.count; i++) {
        first = flights[i].at_ns < flights[first].at_ns ? i : first;
    }
    return first;
}

void muster_ps_world_pass(muster_ps_world *world, int64_t for_ns)
{
    int64_t until_ns = world->now_ns + for_ns;
    int64_t tick_ns = world->opts.tick_ns;
    for (;;) {
        const flight *flights = world->flights.data;
        int64_t tick = (world->now_ns / tick_ns + 1) * tick_ns;
        size_t first = first_flight(world);
        bool arrives = world->flights.count > 0 && flights[first].at_ns < tick;
        int64_t next = arrives ? flights[first].at_ns : tick;
        if (next > until_ns) {
            world->now_ns = until_ns;
            return;
        }
        world->now_ns = next > world->now_ns ? next : world->now_ns;
        if (arrives) {
            deliver(world, first);
        } else {
            tick_all(world);
        }
    }
}

/* ---- faults -------------------------------------------------------------- */

static void lose_messages_of(muster_ps_world *world, uint16_t node)
{
    flight *flights = world->flights.data;
    for (size_t i = 0; i < world->flights.count;) {
        if (flights[i].from == node &&
            muster_ps_world_below(world, LOST_ONE_IN) == 0) {
            muster_blob_unref(flights[i].send.message.payload);
            flights[i] = flights[--world->flights.count];
        } else {
            i++;
        }
    }
}

void muster_ps_world_kill(muster_ps_world *world, uint16_t node)
{
    muster_ps_process *killed = muster_ps_world_process(world, node);
    MUSTER_ASSERT(killed->up);
    lose_messages_of(world, node);
    uint32_t incarnation = killed->incarnation;
    end_process(world, killed);
    for (uint16_t i = 0; i < world->opts.protocol.nodes; i++) {
        muster_ps_process *peer = &world->at[i];
        muster_ps_world_pass(
            world, (int64_t)muster_ps_world_below(world, DOWN_MAX_NS));
        if (i != node && muster_ps_world_runs(world, i)) {
            peer->closed[node] = incarnation;
            finish_step(world, peer,
                        muster_protocol_down(peer->protocol, world->now_ns,
                                             node, &peer->out));
        }
    }
}

void muster_ps_world_stop(muster_ps_world *world, uint16_t node,
                          int64_t until_ns)
{
    muster_ps_world_process(world, node)->stopped_until_ns = until_ns;
}

/* ---- workers ------------------------------------------------------------- */

void muster_ps_world_request(muster_ps_world *world, uint16_t node,
                             muster_row_request *request)
{
    muster_ps_process *process = muster_ps_world_process(world, node);
    finish_step(world, process,
                muster_protocol_request(process->protocol, world->now_ns,
                                        request, &process->out));
}

void muster_ps_world_localize(muster_ps_world *world, uint16_t node,
                              const muster_localize_request *request)
{
    muster_ps_process *process = muster_ps_world_process(world, node);
    finish_step(world, process,
                muster_protocol_localize(process->protocol, world->now_ns,
                                         request, &process->out));
}

void muster_ps_world_intend(muster_ps_world *world, uint16_t node,
                            const muster_localize_request *request, bool begins)
{
    muster_ps_process *process = muster_ps_world_process(world, node);
    finish_step(world, process,
                muster_protocol_intend(process->protocol, world->now_ns,
                                       request, begins, &process->out));
}

void muster_ps_world_barrier(muster_ps_world *world, uint16_t node,
                             muster_ps_until until)
{
    muster_ps_process *process = muster_ps_world_process(world, node);
    finish_step(world, process,
                muster_protocol_barrier(process->protocol, world->now_ns, until,
                                        &process->out));
}

void muster_ps_world_admit(muster_ps_world *world, uint16_t node, uint32_t note)
{
    muster_ps_process *lead = muster_ps_world_process(world, 0);
    finish_step(world, lead,
                muster_protocol_admit(lead->protocol, world->now_ns, node, note,
                                      &lead->out));
}

/* ---- rest ---------------------------------------------------------------- */

bool muster_ps_world_at_rest(const muster_ps_world *world)
{
    uint16_t nodes = world->opts.protocol.nodes;
    uint64_t up = 0;
    for (uint16_t i = 0; i < nodes; i++) {
        const muster_ps_process *process = &world->at[i];
        up |= process->up ? 1ull << i : 0;
        if (process->up && (!muster_ps_world_runs(world, i) ||
                            !muster_protocol_idle(process->protocol))) {
            return false;
        }
    }
    for (uint16_t i = 0; i < nodes; i++) {
        if (world->at[i].up &&
            muster_protocol_members(world->at[i].protocol) != up) {
            return false;
        }
    }
    const flight *flights = world->flights.data;
    for (size_t i = 0; i < world->flights.count; i++) {
        if (flights[i].send.message.kind != MUSTER_ROWMSG_HEARTBEAT) {
            return false;
        }
    }
    return true;
}
