/*
 * sim_net.c -- connections and messages.
 *
 * A connection has two sides, each with its own peer number, so that one side
 * may still think it stands when the other has gone. Every message draws its
 * own delay: nothing keeps two of them in order. PEER_DOWN draws one too, so it
 * may overtake what was sent before; whatever comes after it is lost.
 *
 * Where there is a bandwidth, what one side sends leaves one after another. A
 * message with a replace slot takes the place of an earlier one that has not
 * begun to leave: that one's arrival is void, and its SENT says CANCELLED.
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

static muster_sim_connection *
connection_of(const muster_sim *sim, muster_role_peer peer, unsigned *side_out)
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
    const muster_sim_link *a = &sim->processes[from].link;
    const muster_sim_link *b = &sim->processes[to].link;
    int64_t delay = a->latency_ns + b->latency_ns;
    int64_t jitter = a->jitter_ns + b->jitter_ns;
    if (jitter > 0) {
        delay += (int64_t)muster_rng_below(&sim->rng, (uint64_t)jitter + 1);
    }
    return delay;
}

/* How long so many bytes take to leave. */
static int64_t leaving_ns(const muster_sim *sim, uint32_t from, uint32_t to,
                          size_t bytes)
{
    double rate = sim->processes[from].link.bytes_per_s;
    double other = sim->processes[to].link.bytes_per_s;
    if (rate <= 0 || (other > 0 && other < rate)) {
        rate = other;
    }
    return rate > 0 ? (int64_t)((double)bytes / rate * 1e9) : 0;
}

static muster_sim_item item_for(const muster_sim *sim, uint32_t host,
                                uint32_t from, muster_event_kind kind)
{
    muster_sim_item item = {.kind = MUSTER_SIM_ROLE,
                            .host = host,
                            .life = sim->processes[host].life,
                            .from = from};
    item.event.kind = kind;
    return item;
}

static void push_sent(muster_sim *sim, uint32_t host,
                      const muster_action *action, int64_t at_ns,
                      uint64_t ticket)
{
    muster_sim_item item = item_for(sim, host, host, MUSTER_EVENT_SENT);
    item.at_ns = at_ns;
    item.ticket = ticket;
    item.event.peer = action->as.send.peer;
    item.event.as.sent.token = action->as.send.token;
    item.event.as.sent.status = ticket != 0 ? MUSTER_OK : MUSTER_ERR_PEER_LOST;
    muster_sim_push(sim, &item);
}

/* When a message of this slot begins to leave: in its turn, or in the place of
 * an earlier one that has not begun to. */
static int64_t take_turn(muster_sim *sim, muster_sim_lane *lane, uint32_t slot,
                         int64_t leaving)
{
    MUSTER_ASSERT(slot < MUSTER_SIM_SLOTS);
    if (slot != 0 && lane->slots[slot].begins_ns > sim->now_ns) {
        muster_sim_void *replaced = muster_vec_push(&sim->voided);
        MUSTER_ASSERT(replaced != NULL);
        replaced->ticket = lane->slots[slot].ticket;
        replaced->items = lane->slots[slot].items;
        return lane->slots[slot].begins_ns;
    }
    int64_t begins_ns =
        lane->free_ns > sim->now_ns ? lane->free_ns : sim->now_ns;
    lane->free_ns = begins_ns + leaving;
    return begins_ns;
}

void muster_sim_send(muster_sim *sim, uint32_t host,
                     const muster_action *action)
{
    unsigned side = 0;
    bool told = action->as.send.token != 0;
    muster_sim_connection *connection =
        connection_of(sim, action->as.send.peer, &side);
    MUSTER_ASSERT(connection == NULL || connection->host[side] == host);
    if (connection == NULL || !connection->up[side]) {
        if (told) {
            push_sent(sim, host, action, sim->now_ns, 0);
        }
        return;
    }
    size_t index =
        (size_t)(connection - (muster_sim_connection *)sim->connections.data);
    uint32_t to = connection->host[1 - side];
    uint32_t slot = action->as.send.replace_slot;
    muster_sim_lane *lane = &connection->lanes[side];
    size_t bytes = muster_message_bytes(&action->as.send.message);
    bytes +=
        action->as.send.payload != NULL ? action->as.send.payload->bytes : 0;
    int64_t leaving = leaving_ns(sim, host, to, bytes);
    int64_t begins_ns = take_turn(sim, lane, slot, leaving);
    uint64_t ticket = ++sim->tickets;
    uint64_t digest = muster_sim_digest(sim, action->as.send.payload);
    bool twice = sim->opts.duplicate > 0 &&
                 muster_rng_uniform(&sim->rng) < sim->opts.duplicate;
    lane->slots[slot].ticket = ticket;
    lane->slots[slot].begins_ns = begins_ns;
    lane->slots[slot].items = 1u + (twice ? 1u : 0u) + (told ? 1u : 0u);
    for (int copy = 0; copy <= twice; copy++) {
        muster_sim_item item = item_for(sim, to, host, MUSTER_EVENT_MESSAGE);
        item.at_ns = begins_ns + leaving + muster_sim_delay_ns(sim, host, to);
        item.ticket = ticket;
        item.event.peer = peer_of(index, 1 - side);
        item.message = action->as.send.message;
        item.payload = muster_blob_ref(action->as.send.payload);
        item.digest = digest;
        muster_sim_push(sim, &item);
    }
    if (told) {
        push_sent(sim, host, action, begins_ns, ticket);
    }
}

/* Was the message of this item replaced? Each item of it asks once. */
static bool is_void(muster_sim *sim, const muster_sim_item *item)
{
    muster_sim_void *voided = sim->voided.data;
    for (size_t i = 0; i < sim->voided.count; i++) {
        if (voided[i].ticket == item->ticket) {
            if (--voided[i].items == 0) {
                voided[i] = voided[--sim->voided.count];
            }
            return true;
        }
    }
    return false;
}

static void push_unreachable(muster_sim *sim, uint32_t host, uint64_t token,
                             int64_t delay)
{
    muster_sim_item item = item_for(sim, host, host, MUSTER_EVENT_PEER_DOWN);
    item.at_ns = sim->now_ns + delay;
    item.event.as.down.status = MUSTER_ERR_PEER_LOST;
    item.event.as.down.reason = "cannot be reached";
    item.event.as.down.token = token;
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
    // The listener knows first; only then may the other side speak.
    int64_t there = muster_sim_delay_ns(sim, host, (uint32_t)to);
    int64_t back = there + muster_sim_delay_ns(sim, (uint32_t)to, host);
    for (unsigned side = 0; side < 2; side++) {
        muster_sim_item item =
            item_for(sim, connection->host[side], connection->host[1 - side],
                     MUSTER_EVENT_PEER_UP);
        item.at_ns = sim->now_ns + (side == 1 ? there : back);
        item.event.peer = peer_of(index, side);
        item.event.as.up.incoming = side == 1;
        item.event.as.up.token = side == 1 ? 0 : token;
        muster_sim_push(sim, &item);
    }
}

void muster_sim_drop(muster_sim *sim, uint32_t host, muster_role_peer peer,
                     const char *reason)
{
    unsigned side = 0;
    muster_sim_connection *connection = connection_of(sim, peer, &side);
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
    item.event.peer = peer_of((size_t)(peer - 1) / 2, 1 - side);
    item.event.as.down.status = MUSTER_ERR_PEER_LOST;
    item.event.as.down.reason = reason;
    muster_sim_push(sim, &item);
}

void muster_sim_drop_all(muster_sim *sim, uint32_t host)
{
    for (size_t i = 0; i < sim->connections.count; i++) {
        const muster_sim_connection *connection =
            (muster_sim_connection *)sim->connections.data + i;
        for (unsigned side = 0; side < 2; side++) {
            if (connection->host[side] == host) {
                muster_sim_drop(sim, host, peer_of(i, side), "process ended");
            }
        }
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
            item.event.peer = peer_of(i, side);
            item.event.as.down.status = MUSTER_ERR_PEER_LOST;
            item.event.as.down.reason = "connection reset";
            muster_sim_push(sim, &item);
        }
    }
}

bool muster_sim_pass(muster_sim *sim, muster_sim_item *item)
{
    muster_event_kind kind = item->event.kind;
    if (kind == MUSTER_EVENT_SENT && is_void(sim, item)) {
        item->event.as.sent.status = MUSTER_ERR_CANCELLED;
    } else if (kind == MUSTER_EVENT_MESSAGE && is_void(sim, item)) {
        return false;
    }
    bool about_peer = kind == MUSTER_EVENT_MESSAGE ||
                      kind == MUSTER_EVENT_PEER_UP ||
                      kind == MUSTER_EVENT_PEER_DOWN;
    if (!about_peer || item->event.peer == 0) {
        return true;
    }
    unsigned side = 0;
    muster_sim_connection *connection =
        connection_of(sim, item->event.peer, &side);
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
            item->event.as.down.token = connection->token;
            return side == 0;
        }
    }
    return true;
}
