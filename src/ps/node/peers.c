/*
 * peers.c -- the connections of a mesh: which node connects to which, the first
 * message of a connection and the last.
 *
 * A node listens at its address (mesh_address.h) and connects to every node
 * with a lower number, trying again until patience ends. The first message of a
 * connection, HELLO, names its sender. A node that replaces a lost one connects
 * to all others. Each answers with a HELLO; when all members have answered, the
 * new node tells the lead that it is ready to be admitted.
 *
 * The protocol decides what a broken connection means (ps/protocol). LEAVE and
 * QUIT tell it that the end was meant.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "ps/node/mesh_address.h"
#include "ps/node/mesh_inside.h"

#define RETRY_NS   (20 * MUSTER_NS_PER_MS)
#define UNSENT_MAX 65536u // messages kept for one node; with more it is lost

/* What a HELLO is about: its value. */
enum { HELLO_MEET = 0, HELLO_JOIN = 1, HELLO_KNOWN = 2, HELLO_READY = 3 };

/* ---- sending ------------------------------------------------------------- */

/* Keep a message for which a queue was full. Kept messages stay in order: the
 * numbers of messages must not run ahead by more than a node remembers. A
 * heartbeat is not kept: the messages before it say as much. */
static bool keep_unsent(muster_mesh *mesh, const muster_protocol_send *send)
{
    muster_mesh_links *links = &mesh->driver.links;
    if (send->message.kind == MUSTER_ROWMSG_HEARTBEAT) {
        return false;
    }
    if (links->unsent_count[send->to] >= UNSENT_MAX ||
        !muster_vec_append(&links->unsent, send, 1)) {
        // This message is lost, and so is the node.
        links->overfull |= 1ull << send->to;
        return false;
    }
    links->unsent_count[send->to]++;
    return true;
}

void muster_mesh_peers_send(muster_mesh *mesh, const muster_protocol_send *send)
{
    muster_mesh_links *links = &mesh->driver.links;
    uint8_t header[MUSTER_ROWMSG_BYTES];
    muster_rowmsg_write(&send->message, header);
    muster_net_send_opts opts = {.header = header,
                                 .header_bytes = sizeof(header),
                                 .payload = send->message.payload};
    muster_status status = MUSTER_ERR_AGAIN;
    if (links->unsent_count[send->to] == 0) {
        status = muster_net_send(mesh->net, links->peers[send->to], &opts);
    }
    if (status == MUSTER_ERR_AGAIN && keep_unsent(mesh, send)) {
        return; // with the reference to the payload
    }
    muster_blob_unref(send->message.payload);
}

void muster_mesh_peers_drop_unsent(muster_mesh *mesh, uint16_t node,
                                   bool but_expel)
{
    muster_mesh_links *links = &mesh->driver.links;
    muster_protocol_send *sends = links->unsent.data;
    size_t kept = 0;
    uint32_t dropped = 0;
    for (size_t i = 0; i < links->unsent.count; i++) {
        bool expel = but_expel && sends[i].message.kind == MUSTER_ROWMSG_EXPEL;
        if (sends[i].to == node && !expel) {
            muster_blob_unref(sends[i].message.payload);
            dropped++;
            continue;
        }
        sends[kept++] = sends[i];
    }
    MUSTER_ASSERT(dropped <= links->unsent_count[node]);
    links->unsent_count[node] -= dropped;
    links->unsent.count = kept;
}

static void send_word(muster_mesh *mesh, muster_rowmsg_kind kind, uint16_t to,
                      uint64_t value)
{
    muster_protocol_send word = {
        .to = to,
        .message = {.kind = kind,
                    .from = mesh->self,
                    .origin = to,
                    .value = value,
                    .mask = atomic_load(&mesh->shared.members)}};
    muster_mesh_peers_send(mesh, &word);
}

/* ---- connecting ---------------------------------------------------------- */

static void set_connected(muster_mesh *mesh, uint16_t node, muster_peer peer)
{
    mesh->driver.links.peers[node] = peer;
    atomic_fetch_or(&mesh->shared.connected, 1ull << node);
}

uint64_t muster_mesh_peers_missing(const muster_mesh *mesh)
{
    uint64_t all = UINT64_MAX >> (64 - mesh->nodes);
    return all & ~(atomic_load(&mesh->shared.connected) | 1ull << mesh->self);
}

/* Log a bad address, once for each node. A Unix socket that does not exist yet
 * is no news; a host that cannot be resolved is. */
static void warn_address(muster_mesh *mesh, uint16_t node, const char *address,
                         const muster_error *error)
{
    uint64_t bit = 1ull << node;
    if (strncmp(address, "tcp:", 4) == 0 &&
        (mesh->driver.links.warned & bit) == 0) {
        mesh->driver.links.warned |= bit;
        muster_log(MUSTER_LOG_WARN, "node %u: %s; trying on", node,
                   error->text);
    }
}

static void try_connect(muster_mesh *mesh, uint16_t node, int64_t now)
{
    muster_mesh_links *links = &mesh->driver.links;
    char address[MUSTER_NET_ADDRESS_MAX];
    muster_error error = {.text = ""};
    muster_mesh_address_of(mesh->ps->addresses, node, address);
    links->retry_ns[node] = now + RETRY_NS;
    if (muster_net_connect(mesh->net, address, &error,
                           &links->connecting[node]) != MUSTER_OK) {
        links->connecting[node] = 0;
        warn_address(mesh, node, address, &error);
    }
}

void muster_mesh_peers_connect(muster_mesh *mesh)
{
    const muster_mesh_links *links = &mesh->driver.links;
    int64_t now = muster_clock_ns();
    bool joins = mesh->ps->loss.joins;
    uint16_t end = joins ? mesh->nodes : mesh->self;
    bool complete = joins ? atomic_load(&mesh->shared.entered)
                          : muster_mesh_peers_missing(mesh) == 0;
    if (complete || mesh->driver.failed_node != 0) {
        return;
    }
    for (uint16_t i = 0; i < end; i++) {
        if (i != mesh->self && links->peers[i] == 0 &&
            links->connecting[i] == 0 && now >= links->retry_ns[i]) {
            try_connect(mesh, i, now);
        }
    }
}

static void on_up(void *context, muster_peer peer, int incoming)
{
    muster_mesh *mesh = context;
    for (uint16_t i = 0; !incoming && i < mesh->nodes; i++) {
        if (mesh->driver.links.connecting[i] == peer) {
            set_connected(mesh, i, peer);
            send_word(mesh, MUSTER_ROWMSG_HELLO, i,
                      mesh->ps->loss.joins ? HELLO_JOIN : HELLO_MEET);
        }
    }
}

/* Tell the protocol that a node's connection has ended. */
static void report_down(muster_mesh *mesh, uint16_t node)
{
    muster_mesh_apply_step(mesh, muster_protocol_down(mesh->driver.protocol,
                                                      muster_clock_ns(), node,
                                                      &mesh->driver.out));
}

static void node_down(muster_mesh *mesh, uint16_t node, const char *reason)
{
    muster_mesh_links *links = &mesh->driver.links;
    links->peers[node] = 0;
    muster_mesh_peers_drop_unsent(mesh, node, false);
    atomic_fetch_and(&mesh->shared.join_ready, ~(1ull << node));
    links->greeted &= ~(1ull << node);
    if (links->left[node]) {
        muster_mesh_fail(mesh, node, NULL);
    } else if (node == 0) {
        muster_mesh_fail(mesh, node, reason);
    } else if (mesh->driver.failed_node == 0) {
        report_down(mesh, node);
    }
}

/* A node that has another key or version will not have another one later. */
static void note_refusal(muster_mesh *mesh, uint16_t node, const char *reason)
{
    if (!atomic_load(&mesh->shared.refused)) {
        (void)snprintf(mesh->refusal, sizeof(mesh->refusal), "node %u, %s",
                       node, reason);
        atomic_store(&mesh->shared.refused, true);
    }
}

static void on_down(void *context, muster_peer peer, muster_status status,
                    const char *reason)
{
    muster_mesh *mesh = context;
    muster_mesh_links *links = &mesh->driver.links;
    for (uint16_t i = 0; i < mesh->nodes; i++) {
        if (links->connecting[i] == peer && status == MUSTER_ERR_REFUSED) {
            note_refusal(mesh, i, reason);
        }
        if (links->connecting[i] == peer) {
            links->connecting[i] = 0;
            links->retry_ns[i] = muster_clock_ns() + RETRY_NS;
        }
        if (links->peers[i] == peer) {
            node_down(mesh, i, reason);
        }
    }
}

void muster_mesh_peers_send_unsent(muster_mesh *mesh)
{
    muster_mesh_links *links = &mesh->driver.links;
    muster_vec old = links->unsent;
    links->unsent = muster_vec_make(sizeof(muster_protocol_send));
    memset(links->unsent_count, 0, sizeof(links->unsent_count));
    const muster_protocol_send *sends = old.data;
    for (size_t i = 0; i < old.count; i++) {
        muster_mesh_peers_send(mesh, &sends[i]);
    }
    muster_vec_fini(&old);
    for (; links->overfull != 0; links->overfull &= links->overfull - 1) {
        muster_peer peer = links->peers[__builtin_ctzll(links->overfull)];
        if (peer != 0) {
            muster_net_drop(mesh->net, peer);
            on_down(mesh, peer, MUSTER_ERR_PEER_LOST,
                    "it does not read what is sent to it");
        }
    }
}

/* ---- messages ------------------------------------------------------------ */

void muster_mesh_peers_send_members(muster_mesh *mesh)
{
    uint64_t members = atomic_load(&mesh->shared.members);
    for (uint16_t i = 1; i < mesh->nodes && mesh->self == 0; i++) {
        if (mesh->driver.links.peers[i] != 0 && (members >> i & 1) == 0) {
            send_word(mesh, MUSTER_ROWMSG_HELLO, i, HELLO_KNOWN);
        }
    }
}

/* A connection's first message says which node it is, and it is that one
 * alone. Anything else on it ends it; at most one a second is named. */
static void refuse(muster_mesh *mesh, muster_peer peer, uint16_t from,
                   const char *reason)
{
    muster_mesh_links *links = &mesh->driver.links;
    int64_t now = muster_clock_ns();
    if (links->refused_ns == 0 || now - links->refused_ns > MUSTER_NS_PER_S) {
        links->refused_ns = now;
        muster_log(MUSTER_LOG_WARN, "refused %s, as node %u: %s",
                   muster_net_peer_name(mesh->net, peer), from, reason);
    }
    for (uint16_t i = 0; i < mesh->nodes; i++) {
        if (links->peers[i] == peer) { // a member: it is lost by this
            muster_net_drop(mesh->net, peer);
            on_down(mesh, peer, MUSTER_ERR_PROTOCOL, reason);
            return;
        }
    }
    muster_net_drop(mesh->net, peer);
}

/* Joining: a node has answered; the lead's answer says who the members are. */
static void on_known(muster_mesh *mesh, const muster_rowmsg *hello)
{
    muster_mesh_links *links = &mesh->driver.links;
    links->greeted |= 1ull << hello->from;
    links->members_wanted =
        hello->from == 0 ? hello->mask : links->members_wanted;
    if (links->members_wanted != 0 &&
        (links->members_wanted & ~links->greeted) == 0) {
        send_word(mesh, MUSTER_ROWMSG_HELLO, 0, HELLO_READY);
    }
}

/* A node that replaces a lost one has connected. */
static void on_join(muster_mesh *mesh, muster_peer peer, uint16_t from)
{
    muster_mesh_links *links = &mesh->driver.links;
    uint64_t bit = 1ull << from;
    if (!mesh->ps->opts.survive ||
        (atomic_load(&mesh->shared.members) & bit) != 0) {
        refuse(mesh, peer, from, "that one is alive");
        return;
    }
    // The connection of the lost node is not listened to any more.
    muster_net_drop(mesh->net, links->peers[from]);
    muster_mesh_peers_drop_unsent(mesh, from, false);
    links->peers[from] = peer;
    links->left[from] = false;
    send_word(mesh, MUSTER_ROWMSG_HELLO, from, HELLO_KNOWN);
}

/* Of a node whose connection this is. */
static void on_known_hello(muster_mesh *mesh, const muster_rowmsg *hello)
{
    if (hello->value == HELLO_KNOWN && mesh->ps->loss.joins) {
        on_known(mesh, hello);
    } else if (hello->value == HELLO_READY && hello->from != 0) {
        atomic_fetch_or(&mesh->shared.join_ready, 1ull << hello->from);
    }
}

/* Does a connection belong to a node already? */
static bool is_member(const muster_mesh *mesh, muster_peer peer)
{
    bool found = false;
    for (uint16_t i = 0; i < mesh->nodes; i++) {
        found = found || mesh->driver.links.peers[i] == peer;
    }
    return found;
}

static void on_hello(muster_mesh *mesh, muster_peer peer,
                     const muster_rowmsg *hello)
{
    uint16_t from = hello->from;
    muster_mesh_links *links = &mesh->driver.links;
    if (hello->origin != mesh->self) {
        muster_log(MUSTER_LOG_WARN,
                   "node %u takes this one, node %u, for node %u: do all nodes "
                   "have the same mesh, each with an address of its own?",
                   from, mesh->self, hello->origin);
        muster_net_drop(mesh->net, peer);
    } else if (links->peers[from] == peer) {
        on_known_hello(mesh, hello);
    } else if (from == mesh->self || from == 0 || is_member(mesh, peer)) {
        // The lead connects to no node, and nobody to itself.
        refuse(mesh, peer, from, "it cannot be that one");
    } else if (hello->value == HELLO_JOIN) {
        on_join(mesh, peer, from);
    } else if (hello->value == HELLO_MEET && from > mesh->self &&
               links->peers[from] == 0) {
        set_connected(mesh, from, peer);
    } else {
        refuse(mesh, peer, from, "that one is connected");
    }
}

/* A node ends: after the work (LEAVE), or in the middle of it (QUIT). */
static void on_leave(muster_mesh *mesh, const muster_rowmsg *word)
{
    muster_mesh_links *links = &mesh->driver.links;
    uint16_t from = word->from;
    bool quits = word->kind == MUSTER_ROWMSG_QUIT;
    links->left[from] = links->left[from] || !quits || from == 0;
    if (quits && from == 0) {
        muster_mesh_fail(mesh, 0, NULL);
    } else if (quits && mesh->driver.failed_node == 0) {
        report_down(mesh, from);
    }
}

static void on_message(void *context, muster_peer peer,
                       const muster_net_message *raw)
{
    muster_mesh *mesh = context;
    muster_mesh_driver *driver = &mesh->driver;
    muster_rowmsg message;
    if (muster_rowmsg_read(raw->header, raw->header_bytes, &message) !=
            MUSTER_OK ||
        message.from >= mesh->nodes) {
        refuse(mesh, peer, mesh->nodes, "it sent what is no message of a node");
        return;
    }
    if (message.kind == MUSTER_ROWMSG_HELLO) {
        on_hello(mesh, peer, &message);
        return;
    }
    if (driver->links.peers[message.from] != peer) {
        refuse(mesh, peer, message.from, "it did not say so at first");
        return;
    }
    if (message.kind == MUSTER_ROWMSG_LEAVE ||
        message.kind == MUSTER_ROWMSG_QUIT) {
        on_leave(mesh, &message);
        return;
    }
    if (driver->failed_node != 0) {
        return; // calls have ended: their buffers are their workers' again
    }
    message.payload = raw->payload;
    muster_mesh_apply_step(
        mesh, muster_protocol_message(driver->protocol, muster_clock_ns(),
                                      &message, &driver->out));
}

const muster_net_callbacks muster_mesh_callbacks = {
    .on_up = on_up, .on_message = on_message, .on_down = on_down};

/* ---- the end ------------------------------------------------------------- */

void muster_mesh_peers_send_leave(muster_mesh *mesh)
{
    muster_rowmsg_kind last = atomic_load(&mesh->shared.quits)
                                  ? MUSTER_ROWMSG_QUIT
                                  : MUSTER_ROWMSG_LEAVE;
    for (uint16_t i = 0; i < mesh->nodes; i++) {
        if (mesh->driver.links.peers[i] != 0) {
            send_word(mesh, last, i, 0);
        }
    }
}

bool muster_mesh_peers_all_left(const muster_mesh *mesh)
{
    const muster_mesh_links *links = &mesh->driver.links;
    uint64_t members = atomic_load(&mesh->shared.members);
    for (uint16_t i = 0; i < mesh->nodes; i++) {
        if (i != mesh->self && links->peers[i] != 0 && !links->left[i] &&
            (members >> i & 1) != 0) {
            return false;
        }
    }
    return true;
}
