/*
 * sim_net.c -- connections.
 *
 * A connection has two sides, each with its own peer number, so that one side
 * may still think it stands when the other has gone. Every message draws its
 * own delay: nothing keeps two of them in order. PEER_DOWN draws one too, so it
 * may overtake what was sent before; whatever comes after it is lost.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "sim/sim_inside.h"

#define CONNECT_TIMEOUT_NS MUSTER_NS_PER_S

static muster_role_peer peer_of(size_t connection, unsigned side)
{
    return 2 * connection + side + 1;
}

muster_sim_connection *muster_sim_connection_of(const muster_sim *sim,
                                                muster_role_peer peer,
                                                unsigned *side_out)
{
    size_t index = (size_t)(peer - 1) / 2;
    if (peer == 0 || index >= sim->connections.count) {
        return NULL;
    }
    *side_out = (unsigned)((peer - 1) % 2);
    return (muster_sim_connection *)sim->connections.data + index;
}

int64_t muster_sim_delay_ns(muster_sim *sim, uint32_t from, uint32_t to)
{
    const muster_sim_link *a = sim->processes[from].link;
    const muster_sim_link *b = sim->processes[to].link;
    int64_t delay = a->latency_ns + b->latency_ns;
    int64_t jitter = a->jitter_ns + b->jitter_ns;
    if (jitter > 0) {
        delay += (int64_t)muster_rng_below(&sim->rng, (uint64_t)jitter + 1);
    }
    return delay;
}

static muster_sim_item item_for(const muster_sim *sim, uint32_t host,
                                uint32_t from, muster_event_kind kind)
{
    return (muster_sim_item){.kind = MUSTER_SIM_ROLE,
                             .host = host,
                             .life = sim->processes[host].life,
                             .from = from,
                             .event = kind};
}

/* The message had nowhere to go. */
static void push_unsent(muster_sim *sim, uint32_t host,
                        const muster_action *action)
{
    muster_sim_item item = item_for(sim, host, host, MUSTER_EVENT_SENT);
    item.at_ns = sim->now_ns;
    item.peer = action->as.send.peer;
    item.as.sent.token = action->as.send.token;
    item.as.sent.status = MUSTER_ERR_PEER_LOST;
    muster_sim_push(sim, &item);
}

void muster_sim_send(muster_sim *sim, uint32_t host,
                     const muster_action *action)
{
    unsigned side = 0;
    muster_sim_connection *connection =
        muster_sim_connection_of(sim, action->as.send.peer, &side);
    MUSTER_ASSERT(connection == NULL || connection->host[side] == host);
    if (connection != NULL && connection->up[side]) {
        muster_sim_nic_send(sim, connection, side, action);
    } else if (action->as.send.token != 0) {
        push_unsent(sim, host, action);
    }
}

static void push_unreachable(muster_sim *sim, uint32_t host, uint64_t token,
                             int64_t delay)
{
    muster_sim_item item = item_for(sim, host, host, MUSTER_EVENT_PEER_DOWN);
    item.at_ns = sim->now_ns + delay;
    item.as.down.status = MUSTER_ERR_PEER_LOST;
    item.as.down.reason = "cannot be reached";
    item.as.down.token = token;
    muster_sim_push(sim, &item);
}

void muster_sim_connect(muster_sim *sim, uint32_t host,
                        const muster_action *action)
{
    const char *address = action->as.connect.address;
    uint64_t token = action->as.connect.token;
    unsigned long to = strncmp(address, "sim:", 4) == 0
                           ? strtoul(address + 4, NULL, 10)
                           : sim->hosts;
    if (to >= sim->hosts || !sim->processes[to].up) {
        push_unreachable(sim, host, token, MUSTER_NS_PER_MS);
        return;
    }
    if (sim->processes[to].cut || sim->processes[host].cut) {
        push_unreachable(sim, host, token, CONNECT_TIMEOUT_NS);
        return;
    }
    size_t index = sim->connections.count;
    muster_sim_connection *connection = muster_vec_push(&sim->connections);
    MUSTER_ASSERT(connection != NULL);
    *connection = (muster_sim_connection){
        .host = {host, (uint32_t)to}, .up = {true, true}, .token = token};
    for (unsigned side = 0; side < 2; side++) {
        muster_sim_process *process = &sim->processes[connection->host[side]];
        connection->before[side] = (uint32_t)process->newest;
        process->newest = peer_of(index, side);
    }
    // The listener knows first; only then may the other side speak.
    int64_t there = muster_sim_delay_ns(sim, host, (uint32_t)to);
    int64_t back = there + muster_sim_delay_ns(sim, (uint32_t)to, host);
    for (unsigned side = 0; side < 2; side++) {
        muster_sim_item item =
            item_for(sim, connection->host[side], connection->host[1 - side],
                     MUSTER_EVENT_PEER_UP);
        item.at_ns = sim->now_ns + (side == 1 ? there : back);
        item.peer = peer_of(index, side);
        item.as.up.incoming = side == 1;
        item.as.up.token = side == 1 ? 0 : token;
        muster_sim_push(sim, &item);
    }
}

void muster_sim_drop(muster_sim *sim, uint32_t host, muster_role_peer peer,
                     const char *reason)
{
    unsigned side = 0;
    muster_sim_connection *connection =
        muster_sim_connection_of(sim, peer, &side);
    if (connection == NULL || !connection->up[side]) {
        return;
    }
    connection->up[side] = false;
    if (!connection->up[1 - side]) {
        return;
    }
    uint32_t other = connection->host[1 - side];
    muster_sim_item item = item_for(sim, other, host, MUSTER_EVENT_PEER_DOWN);
    item.at_ns = sim->now_ns + muster_sim_delay_ns(sim, host, other);
    item.peer = peer_of((size_t)(peer - 1) / 2, 1 - side);
    item.as.down.status = MUSTER_ERR_PEER_LOST;
    item.as.down.reason = reason;
    muster_sim_push(sim, &item);
}

void muster_sim_drop_all(muster_sim *sim, uint32_t host)
{
    muster_role_peer peer = sim->processes[host].newest;
    sim->processes[host].newest = 0;
    while (peer != 0) {
        unsigned side = 0;
        const muster_sim_connection *connection =
            muster_sim_connection_of(sim, peer, &side);
        muster_sim_drop(sim, host, peer, "process ended");
        peer = connection->before[side];
    }
}

void muster_sim_break(muster_sim *sim, uint32_t a, uint32_t b)
{
    for (size_t i = 0; i < sim->connections.count; i++) {
        muster_sim_connection *connection =
            (muster_sim_connection *)sim->connections.data + i;
        bool theirs = (connection->host[0] == a && connection->host[1] == b) ||
                      (connection->host[0] == b && connection->host[1] == a);
        for (unsigned side = 0; theirs && side < 2; side++) {
            if (!connection->up[side]) {
                continue;
            }
            sim->processes[connection->host[side]].touched_ns = sim->now_ns;
            muster_sim_item item =
                item_for(sim, connection->host[side],
                         connection->host[1 - side], MUSTER_EVENT_PEER_DOWN);
            item.at_ns = sim->now_ns;
            item.peer = peer_of(i, side);
            item.as.down.status = MUSTER_ERR_PEER_LOST;
            item.as.down.reason = "connection reset";
            muster_sim_push(sim, &item);
        }
    }
}

bool muster_sim_pass(muster_sim *sim, muster_sim_item *item)
{
    muster_event_kind kind = item->event;
    bool about_peer =
        kind == MUSTER_EVENT_MESSAGE || kind == MUSTER_EVENT_HEARD ||
        kind == MUSTER_EVENT_BEGUN || kind == MUSTER_EVENT_PEER_UP ||
        kind == MUSTER_EVENT_PEER_DOWN;
    if (!about_peer || item->peer == 0) {
        return true;
    }
    unsigned side = 0;
    muster_sim_connection *connection =
        muster_sim_connection_of(sim, item->peer, &side);
    MUSTER_ASSERT(connection != NULL);
    if (!connection->up[side]) {
        return false;
    }
    if (kind == MUSTER_EVENT_PEER_UP) {
        connection->told[side] = true;
    } else if (kind == MUSTER_EVENT_PEER_DOWN) {
        connection->up[side] = false;
        if (!connection->told[side]) {
            // It never stood: a failed connect, or nothing at all.
            item->as.down.token = connection->token;
            return side == 0;
        }
    }
    return true;
}
