/*
 * peers.c -- the connections of a mesh: who connects to whom, first words
 * and last ones.
 *
 * A node listens at its place (mesh_address.h) and connects to every lower one,
 * trying again until patience ends. The first message of a connection, HELLO,
 * says who is there. A node that replaces a lost one connects to all others;
 * each answers with a HELLO, and when all members have, it tells the lead that
 * it stands ready.
 *
 * A connection that breaks is the protocol's affair (role/psnode); LEAVE and
 * QUIT tell an end that is meant from one that is not.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "ps/node/mesh_address.h"
#include "ps/node/mesh_inside.h"

#define RETRY_NS   (20 * MUSTER_NS_PER_MS)
#define UNSENT_MAX 65536u // messages to one node; with more it does not read

/* What a HELLO is about: its value. */
enum { HELLO_MEET = 0, HELLO_JOIN = 1, HELLO_KNOWN = 2, HELLO_READY = 3 };

/* A queue was full. What waits stays in order: the numbers of messages must
 * not run ahead by more than a node remembers. A heartbeat need not wait: what
 * is before it says as much. */
static bool keep(muster_mesh *mesh, const muster_protocol_send *send)
{
    if (send->message.kind == MUSTER_ROWMSG_HEARTBEAT) {
        return false;
    }
    if (mesh->waiting[send->to] >= UNSENT_MAX ||
        !muster_vec_append(&mesh->unsent, send, 1)) {
        mesh->clogged |= 1ull << send->to; // a message is lost: so is the node
        return false;
    }
    mesh->waiting[send->to]++;
    return true;
}

void muster_mesh_peers_send(muster_mesh *mesh, const muster_protocol_send *send)
{
    uint8_t header[MUSTER_ROWMSG_BYTES];
    muster_rowmsg_write(&send->message, header);
    muster_net_send_opts opts = {.header = header,
                                 .header_bytes = sizeof(header),
                                 .payload = send->message.payload};
    muster_status status = MUSTER_ERR_AGAIN;
    if (mesh->waiting[send->to] == 0) {
        status = muster_net_send(mesh->net, mesh->peers[send->to], &opts);
    }
    if (status == MUSTER_ERR_AGAIN && keep(mesh, send)) {
        return; // the reference stays with it
    }
    muster_blob_unref(send->message.payload);
}

void muster_mesh_peers_drop_unsent(muster_mesh *mesh, uint16_t node,
                                   bool but_expel)
{
    muster_protocol_send *sends = mesh->unsent.data;
    size_t kept = 0;
    mesh->waiting[node] = 0;
    for (size_t i = 0; i < mesh->unsent.count; i++) {
        bool last = but_expel && sends[i].message.kind == MUSTER_ROWMSG_EXPEL;
        if (sends[i].to == node && !last) {
            muster_blob_unref(sends[i].message.payload);
            continue;
        }
        mesh->waiting[node] += sends[i].to == node;
        sends[kept++] = sends[i];
    }
    mesh->unsent.count = kept;
}

static void say(muster_mesh *mesh, muster_rowmsg_kind kind, uint16_t to,
                uint64_t value)
{
    muster_protocol_send word = {
        .to = to,
        .message = {.kind = kind,
                    .from = mesh->self,
                    .origin = to,
                    .value = value,
                    .mask = atomic_load(&mesh->members)}};
    muster_mesh_peers_send(mesh, &word);
}

/* ---- who connects to whom ------------------------------------------------ */

static void meet(muster_mesh *mesh, uint16_t node, muster_peer peer)
{
    mesh->peers[node] = peer;
    atomic_fetch_or(&mesh->come, 1ull << node);
}

uint64_t muster_mesh_peers_missing(const muster_mesh *mesh)
{
    uint64_t all = UINT64_MAX >> (64 - mesh->nodes);
    return all & ~(atomic_load(&mesh->come) | 1ull << mesh->self);
}

/* Once for each node. A socket that is not there yet is nothing to tell of, a
 * host that nobody knows is. */
static void tell_no_address(muster_mesh *mesh, uint16_t node,
                            const char *address, const muster_error *error)
{
    uint64_t bit = 1ull << node;
    if (strncmp(address, "tcp:", 4) == 0 && (mesh->told & bit) == 0) {
        mesh->told |= bit;
        muster_log(MUSTER_LOG_WARN, "node %u: %s; trying on", node,
                   error->text);
    }
}

void muster_mesh_peers_connect(muster_mesh *mesh)
{
    int64_t now = muster_clock_ns();
    bool joins = mesh->ps->loss.joins;
    uint16_t end = joins ? mesh->nodes : mesh->self;
    bool complete = joins ? atomic_load(&mesh->entered) != 0
                          : muster_mesh_peers_missing(mesh) == 0;
    for (uint16_t i = 0; i < end && !complete; i++) {
        char address[MUSTER_NET_ADDRESS_MAX];
        muster_error error = {.text = ""};
        if (i == mesh->self || mesh->peers[i] != 0 || mesh->trying[i] != 0 ||
            now < mesh->retry_ns[i] || mesh->lost != 0) {
            continue;
        }
        muster_mesh_address_of(mesh->ps->places, i, address);
        mesh->retry_ns[i] = now + RETRY_NS;
        if (muster_net_connect(mesh->net, address, &error, &mesh->trying[i]) !=
            MUSTER_OK) {
            mesh->trying[i] = 0;
            tell_no_address(mesh, i, address, &error);
        }
    }
}

static void on_up(void *context, muster_peer peer, int incoming)
{
    muster_mesh *mesh = context;
    for (uint16_t i = 0; !incoming && i < mesh->nodes; i++) {
        if (mesh->trying[i] == peer) {
            meet(mesh, i, peer);
            say(mesh, MUSTER_ROWMSG_HELLO, i,
                mesh->ps->loss.joins ? HELLO_JOIN : HELLO_MEET);
        }
    }
}

static void on_down(void *context, muster_peer peer, muster_status status,
                    const char *reason)
{
    muster_mesh *mesh = context;
    (void)status;
    for (uint16_t i = 0; i < mesh->nodes; i++) {
        if (mesh->trying[i] == peer) {
            mesh->trying[i] = 0;
            mesh->retry_ns[i] = muster_clock_ns() + RETRY_NS;
        }
        if (mesh->peers[i] != peer) {
            continue;
        }
        mesh->peers[i] = 0;
        muster_mesh_peers_drop_unsent(mesh, i, false);
        atomic_fetch_and(&mesh->ready, ~(1ull << i));
        mesh->greeted &= ~(1ull << i);
        if (mesh->left[i]) {
            muster_mesh_fail(mesh, i, NULL);
        } else if (i == 0 && mesh->lost == 0) {
            muster_mesh_fail(mesh, i, reason);
        } else if (mesh->lost == 0) {
            muster_mesh_apply_step(mesh, muster_protocol_down(mesh->node,
                                                              muster_clock_ns(),
                                                              i, &mesh->out));
        }
    }
}

void muster_mesh_peers_send_unsent(muster_mesh *mesh)
{
    muster_vec old = mesh->unsent;
    mesh->unsent = muster_vec_make(sizeof(muster_protocol_send));
    memset(mesh->waiting, 0, sizeof(mesh->waiting));
    const muster_protocol_send *sends = old.data;
    for (size_t i = 0; i < old.count; i++) {
        muster_mesh_peers_send(mesh, &sends[i]);
    }
    muster_vec_fini(&old);
    for (; mesh->clogged != 0; mesh->clogged &= mesh->clogged - 1) {
        muster_peer peer = mesh->peers[__builtin_ctzll(mesh->clogged)];
        if (peer != 0) {
            muster_net_drop(mesh->net, peer);
            on_down(mesh, peer, MUSTER_ERR_PEER_LOST,
                    "it does not read what is sent to it");
        }
    }
}

void muster_mesh_peers_send_members(muster_mesh *mesh)
{
    uint64_t members = atomic_load(&mesh->members);
    for (uint16_t i = 1; i < mesh->nodes && mesh->self == 0; i++) {
        if (mesh->peers[i] != 0 && (members >> i & 1) == 0) {
            say(mesh, MUSTER_ROWMSG_HELLO, i, HELLO_KNOWN);
        }
    }
}

/* A joiner heard who the members are, or one of them. */
static void on_known(muster_mesh *mesh, const muster_rowmsg *hello)
{
    mesh->greeted |= 1ull << hello->from;
    mesh->wanted = hello->from == 0 ? hello->mask : mesh->wanted;
    if (mesh->wanted != 0 && (mesh->wanted & ~mesh->greeted) == 0) {
        say(mesh, MUSTER_ROWMSG_HELLO, 0, HELLO_READY);
    }
}

static void on_hello(muster_mesh *mesh, muster_peer peer,
                     const muster_rowmsg *hello)
{
    uint16_t from = hello->from;
    uint64_t bit = 1ull << from;
    if (hello->origin != mesh->self) {
        muster_log(MUSTER_LOG_WARN,
                   "node %u takes this one, node %u, for node %u: do all nodes "
                   "have the same mesh, each with a place of its own?",
                   from, mesh->self, hello->origin);
        muster_net_drop(mesh->net, peer);
        return;
    }
    if (from == mesh->self || from == 0) {
        if (hello->value == HELLO_KNOWN && from == 0 && mesh->ps->loss.joins) {
            on_known(mesh, hello);
        }
        return;
    }
    if (hello->value == HELLO_JOIN && mesh->ps->opts.survive != 0 &&
        (atomic_load(&mesh->members) & bit) == 0) {
        // What remains of the node it replaces is not listened to any more.
        muster_net_drop(mesh->net, mesh->peers[from]);
        muster_mesh_peers_drop_unsent(mesh, from, false);
        mesh->peers[from] = peer;
        mesh->left[from] = false;
        say(mesh, MUSTER_ROWMSG_HELLO, from, HELLO_KNOWN);
    } else if (hello->value == HELLO_JOIN) {
        muster_log(MUSTER_LOG_WARN,
                   "refused a second node %u: that one is alive", from);
        muster_net_drop(mesh->net, peer);
    } else if (hello->value == HELLO_KNOWN && mesh->ps->loss.joins) {
        on_known(mesh, hello);
    } else if (hello->value == HELLO_READY && mesh->peers[from] == peer) {
        atomic_fetch_or(&mesh->ready, bit);
    } else if (hello->value == HELLO_MEET && from > mesh->self &&
               mesh->peers[from] == 0) {
        meet(mesh, from, peer);
    }
}

/* A node goes: after the work is done, or in the middle of it. */
static void on_farewell(muster_mesh *mesh, const muster_rowmsg *word)
{
    uint16_t from = word->from;
    bool quits = word->kind == MUSTER_ROWMSG_QUIT;
    mesh->left[from] = mesh->left[from] || !quits || from == 0;
    if (quits && from == 0) {
        muster_mesh_fail(mesh, 0, NULL);
    } else if (quits && mesh->lost == 0) {
        muster_mesh_apply_step(mesh, muster_protocol_down(mesh->node,
                                                          muster_clock_ns(),
                                                          from, &mesh->out));
    }
}

static void on_message(void *context, muster_peer peer,
                       const muster_net_message *raw)
{
    muster_mesh *mesh = context;
    muster_rowmsg message;
    if (muster_rowmsg_read(raw->header, raw->header_bytes, &message) !=
            MUSTER_OK ||
        message.from >= mesh->nodes) {
        muster_net_drop(mesh->net, peer);
        return;
    }
    if (message.kind == MUSTER_ROWMSG_HELLO) {
        on_hello(mesh, peer, &message);
        return;
    }
    if (mesh->peers[message.from] != peer) {
        return; // a connection that was replaced, or said no HELLO
    }
    if (message.kind == MUSTER_ROWMSG_LEAVE ||
        message.kind == MUSTER_ROWMSG_QUIT) {
        on_farewell(mesh, &message);
        return;
    }
    if (mesh->lost != 0) {
        return; // the buffers of requests are no longer ours
    }
    message.payload = raw->payload;
    muster_mesh_apply_step(mesh, muster_protocol_message(mesh->node,
                                                         muster_clock_ns(),
                                                         &message, &mesh->out));
}

const muster_net_callbacks muster_mesh_callbacks = {
    .on_up = on_up, .on_message = on_message, .on_down = on_down};

/* ---- the end ------------------------------------------------------------- */

void muster_mesh_peers_send_leave(muster_mesh *mesh)
{
    muster_rowmsg_kind last =
        atomic_load(&mesh->quits) ? MUSTER_ROWMSG_QUIT : MUSTER_ROWMSG_LEAVE;
    for (uint16_t i = 0; i < mesh->nodes; i++) {
        if (mesh->peers[i] != 0) {
            say(mesh, last, i, 0);
        }
    }
}

bool muster_mesh_peers_all_left(const muster_mesh *mesh)
{
    uint64_t members = atomic_load(&mesh->members);
    for (uint16_t i = 0; i < mesh->nodes; i++) {
        if (i != mesh->self && mesh->peers[i] != 0 && !mesh->left[i] &&
            (members >> i & 1) != 0) {
            return false;
        }
    }
    return true;
}
