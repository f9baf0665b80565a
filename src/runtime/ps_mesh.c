/*
 * ps_mesh.c -- see ps_mesh.h.
 *
 * Node i listens at FOLDER/node-i and connects to every lower one, trying again
 * until patience ends. The first message of a connection says who is there.
 * When a node is lost, every request under way or yet to come ends with
 * MUSTER_ERR_PEER_LOST: which rows went with it is not known here.
 */
#define _GNU_SOURCE
#include "runtime/ps_mesh.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/net.h"
#include "runtime/ps_inside.h"
#include "runtime/ps_wishes.h"

#define POLL_MAX_NS (200 * MUSTER_NS_PER_MS)
#define RETRY_NS    (20 * MUSTER_NS_PER_MS)
#define FAREWELL_NS (2 * MUSTER_NS_PER_S)
#define ROUND_NS    MUSTER_NS_PER_MS // between looks at workers' clocks

/* A row that two nodes ask for within this time would travel to and fro. */
#define CONTEST_NS (5 * MUSTER_NS_PER_MS)

struct muster_psmesh {
    muster_ps *ps;
    muster_net *net;
    muster_psnode *node;
    muster_psnode_out out;
    pthread_t thread;
    bool started;
    bool wished; // for the rows of MUSTER_PS_STATIC
    uint16_t self, nodes;
    muster_peer peers[MUSTER_PS_NODES_MAX]; // 0: not connected
    int64_t retry_ns[MUSTER_PS_NODES_MAX];
    muster_peer trying[MUSTER_PS_NODES_MAX];
    bool left[MUSTER_PS_NODES_MAX]; // it said that it goes
    muster_vec unsent;              // muster_psnode_send: a queue was full
    _Atomic uint32_t connected;
    _Atomic bool stop;
    _Atomic bool asleep;
    // Under the lock: what workers leave for the thread.
    pthread_mutex_t lock;
    muster_vec requests; // muster_ps_call *
    muster_vec workers;  // muster_ps_worker *: whose wishes are read
    muster_vec orphans;  // muster_intents *: of workers that are gone
    bool barrier_asked;
    muster_psnode_counters counters;
    // The thread's own.
    muster_vec taken; // muster_ps_call *
    muster_vec open;  // muster_ps_call *: requests under way
    int64_t round_ns; // when clocks are looked at next; INT64_MAX: need not be
    uint64_t released;
    uint16_t lost; // node + 1, or 0
};

static void address_of(const muster_psmesh *mesh, uint16_t node, char *out)
{
    (void)snprintf(out, MUSTER_NET_ADDRESS_MAX, "unix:%s/node-%u",
                   mesh->ps->folder, node);
}

/* ---- sockets ------------------------------------------------------------- */

static void send_message(muster_psmesh *mesh, const muster_psnode_send *send)
{
    uint8_t header[MUSTER_ROWMSG_BYTES];
    muster_rowmsg_write(&send->message, header);
    muster_net_send_opts opts = {.header = header,
                                 .header_bytes = sizeof(header),
                                 .payload = send->message.payload};
    muster_status status =
        muster_net_send(mesh->net, mesh->peers[send->to], &opts);
    if (status == MUSTER_ERR_AGAIN &&
        muster_vec_append(&mesh->unsent, send, 1)) {
        return; // the reference stays with it
    }
    muster_blob_unref(send->message.payload);
}

static void say(muster_psmesh *mesh, muster_rowmsg_kind kind, uint16_t to)
{
    muster_psnode_send word = {.to = to,
                               .message = {.kind = kind, .from = mesh->self}};
    send_message(mesh, &word);
}

static void met(muster_psmesh *mesh, uint16_t node, muster_peer peer)
{
    mesh->peers[node] = peer;
    atomic_fetch_add(&mesh->connected, 1);
}

static void on_up(void *context, muster_peer peer, int incoming)
{
    muster_psmesh *mesh = context;
    for (uint16_t i = 0; !incoming && i < mesh->self; i++) {
        if (mesh->trying[i] == peer) {
            met(mesh, i, peer);
            say(mesh, MUSTER_ROWMSG_HELLO, i);
        }
    }
}

static void finish(muster_ps_call *call, muster_status status)
{
    call->outcome = status;
    (void)sem_post(&call->finished);
}

static void pass_barrier(muster_psmesh *mesh, muster_status status)
{
    muster_ps *ps = mesh->ps;
    (void)pthread_mutex_lock(&ps->barrier_lock);
    ps->barrier_passed++;
    ps->barrier_status = status;
    (void)pthread_cond_broadcast(&ps->barrier_cond);
    (void)pthread_mutex_unlock(&ps->barrier_lock);
}

/* Nothing that needs another node can be promised any more. */
static void lose(muster_psmesh *mesh, uint16_t node, const char *reason)
{
    if (mesh->lost != 0) {
        return;
    }
    mesh->lost = (uint16_t)(node + 1);
    if (!mesh->left[node]) {
        muster_log(MUSTER_LOG_ERROR, "node %u is lost: %s", node, reason);
    }
    muster_ps_call **open = mesh->open.data;
    for (size_t i = 0; i < mesh->open.count; i++) {
        finish(open[i], MUSTER_ERR_PEER_LOST);
    }
    muster_vec_clear(&mesh->open);
    pass_barrier(mesh, MUSTER_ERR_PEER_LOST);
}

static void on_down(void *context, muster_peer peer, muster_status status,
                    const char *reason)
{
    muster_psmesh *mesh = context;
    (void)status;
    for (uint16_t i = 0; i < mesh->nodes; i++) {
        if (mesh->peers[i] == peer) {
            mesh->peers[i] = 0;
            lose(mesh, i, reason);
        } else if (mesh->trying[i] == peer) {
            mesh->trying[i] = 0;
            mesh->retry_ns[i] = muster_clock_ns() + RETRY_NS;
        }
    }
}

static void take_out(muster_psmesh *mesh)
{
    const muster_psnode_send *sends = mesh->out.sends.data;
    for (size_t i = 0; i < mesh->out.sends.count; i++) {
        send_message(mesh, &sends[i]);
    }
    muster_vec_clear(&mesh->out.sends);
    muster_psreq **done = mesh->out.done.data;
    for (size_t i = 0; i < mesh->out.done.count; i++) {
        muster_ps_call *call = done[i]->context;
        muster_ps_call **open = mesh->open.data;
        for (size_t j = 0; j < mesh->open.count; j++) {
            if (open[j] == call) {
                open[j] = open[--mesh->open.count];
                finish(call, MUSTER_OK);
                break;
            }
        }
    }
    muster_vec_clear(&mesh->out.done);
    for (; mesh->released < mesh->out.released; mesh->released++) {
        pass_barrier(mesh, MUSTER_OK);
    }
}

static void must_go_on(muster_psmesh *mesh, muster_status status)
{
    if (status != MUSTER_OK) {
        muster_log(MUSTER_LOG_ERROR, "parameter server: %s",
                   muster_status_text(status));
        lose(mesh, mesh->self, muster_status_text(status));
    }
}

static void on_message(void *context, muster_peer peer,
                       const muster_net_message *raw)
{
    muster_psmesh *mesh = context;
    muster_rowmsg message;
    if (muster_rowmsg_read(raw->header, raw->header_bytes, &message) !=
            MUSTER_OK ||
        message.from >= mesh->nodes) {
        muster_net_drop(mesh->net, peer);
        return;
    }
    if (message.kind == MUSTER_ROWMSG_LEAVE) {
        mesh->left[message.from] = true;
        return;
    }
    if (message.kind == MUSTER_ROWMSG_HELLO) {
        if (message.from > mesh->self && mesh->peers[message.from] == 0) {
            met(mesh, message.from, peer);
        }
        return;
    }
    if (mesh->peers[message.from] != peer || mesh->lost != 0) {
        return; // after a loss the buffers of requests are no longer ours
    }
    message.payload = raw->payload;
    must_go_on(mesh, muster_psnode_message(mesh->node, muster_clock_ns(),
                                           &message, &mesh->out));
    take_out(mesh);
}

static void connect_lower(muster_psmesh *mesh)
{
    int64_t now = muster_clock_ns();
    for (uint16_t i = 0; i < mesh->self; i++) {
        char address[MUSTER_NET_ADDRESS_MAX];
        if (mesh->peers[i] != 0 || mesh->trying[i] != 0 ||
            now < mesh->retry_ns[i] || mesh->lost != 0) {
            continue;
        }
        address_of(mesh, i, address);
        mesh->retry_ns[i] = now + RETRY_NS;
        if (muster_net_connect(mesh->net, address, NULL, &mesh->trying[i]) !=
            MUSTER_OK) {
            mesh->trying[i] = 0;
        }
    }
}

/* ---- workers ------------------------------------------------------------- */

static void take_requests(muster_psmesh *mesh)
{
    bool barrier;
    (void)pthread_mutex_lock(&mesh->lock);
    muster_vec swap = mesh->requests;
    mesh->requests = mesh->taken;
    mesh->taken = swap;
    barrier = mesh->barrier_asked;
    mesh->barrier_asked = false;
    mesh->counters = muster_psnode_count(mesh->node);
    (void)pthread_mutex_unlock(&mesh->lock);
    muster_ps_call **taken = mesh->taken.data;
    for (size_t i = 0; i < mesh->taken.count; i++) {
        if (mesh->lost != 0 || !muster_vec_append(&mesh->open, &taken[i], 1)) {
            finish(taken[i], MUSTER_ERR_PEER_LOST);
            continue;
        }
        must_go_on(mesh, muster_psnode_request(mesh->node, muster_clock_ns(),
                                               &taken[i]->request, &mesh->out));
        take_out(mesh);
    }
    muster_vec_clear(&mesh->taken);
    if (barrier && mesh->lost != 0) {
        pass_barrier(mesh, MUSTER_ERR_PEER_LOST);
    } else if (barrier) {
        must_go_on(mesh, muster_psnode_barrier(mesh->node, muster_clock_ns(),
                                               &mesh->out));
        take_out(mesh);
    }
}

static void stepped(void *context, muster_status status)
{
    muster_psmesh *mesh = context;
    must_go_on(mesh, status);
    take_out(mesh);
}

/* Wishes, and intents that are due; true when there was something. */
static bool take_wishes(muster_psmesh *mesh)
{
    muster_ps_reader_host host = {.node = mesh->lost == 0 ? mesh->node : NULL,
                                  .out = &mesh->out,
                                  .stepped = stepped,
                                  .context = mesh};
    if (!mesh->wished && mesh->lost == 0 &&
        atomic_load(&mesh->connected) + 1u == mesh->nodes) {
        mesh->wished = true;
        muster_ps_wish_all(&host, &mesh->ps->replicated);
    }
    bool any = false;
    bool intents = false;
    int64_t now = muster_clock_ns();
    bool round = now >= mesh->round_ns;
    (void)pthread_mutex_lock(&mesh->lock);
    muster_ps_worker **workers = mesh->workers.data;
    for (size_t i = 0; i < mesh->workers.count; i++) {
        any = muster_ps_wishes_read(&host, workers[i]) || any;
        intents = muster_ps_intents_act(&host, workers[i], round) || intents;
    }
    muster_intents **orphans = mesh->orphans.data;
    for (size_t i = 0; i < mesh->orphans.count; i++) {
        muster_ps_intents_end(&host, orphans[i]);
    }
    muster_vec_clear(&mesh->orphans);
    any = any || mesh->requests.count > 0 || mesh->barrier_asked;
    (void)pthread_mutex_unlock(&mesh->lock);
    if (!intents) {
        mesh->round_ns = INT64_MAX;
    } else if (round || mesh->round_ns == INT64_MAX) {
        mesh->round_ns = now + ROUND_NS;
    }
    return any;
}

static void send_unsent(muster_psmesh *mesh)
{
    muster_vec old = mesh->unsent;
    mesh->unsent = muster_vec_make(sizeof(muster_psnode_send));
    const muster_psnode_send *sends = old.data;
    for (size_t i = 0; i < old.count; i++) {
        send_message(mesh, &sends[i]);
    }
    muster_vec_fini(&old);
}

/* Every other node has said that it goes, or is gone. */
static bool all_left(const muster_psmesh *mesh)
{
    for (uint16_t i = 0; i < mesh->nodes; i++) {
        if (i != mesh->self && mesh->peers[i] != 0 && !mesh->left[i]) {
            return false;
        }
    }
    return true;
}

/* One turn of the thread: what workers left, what is due, what arrived. */
static void turn(muster_psmesh *mesh)
{
    connect_lower(mesh);
    if (mesh->unsent.count > 0) {
        send_unsent(mesh);
    }
    take_requests(mesh);
    int64_t now = muster_clock_ns();
    if (mesh->lost == 0) {
        must_go_on(mesh, muster_psnode_tick(mesh->node, now, &mesh->out));
        take_out(mesh);
    }
    // Announce the sleep, then look once more: a wish made in between either
    // is seen here or finds the announcement and wakes us.
    atomic_store(&mesh->asleep, true);
    int64_t due = muster_psnode_due_ns(mesh->node);
    int64_t wait = due - now < POLL_MAX_NS ? due - now : POLL_MAX_NS;
    bool restless = atomic_load(&mesh->connected) + 1u < mesh->nodes ||
                    atomic_load(&mesh->stop);
    wait = restless && wait > RETRY_NS ? RETRY_NS : wait;
    bool busy = take_wishes(mesh);
    wait = mesh->round_ns - now < wait ? mesh->round_ns - now : wait;
    wait = busy || wait < 0 ? 0 : wait;
    muster_status status = muster_net_poll(mesh->net, wait);
    atomic_store(&mesh->asleep, false);
    if (status < 0) {
        must_go_on(mesh, status);
    }
}

/* Let the others know that our end is no loss, and serve them until they go as
 * well: one that is still between barrier and farewell may need our rows. */
static void take_leave(muster_psmesh *mesh)
{
    int64_t end = muster_clock_ns() + FAREWELL_NS;
    for (uint16_t i = 0; i < mesh->nodes; i++) {
        if (mesh->peers[i] != 0) {
            say(mesh, MUSTER_ROWMSG_LEAVE, i);
        }
    }
    do {
        turn(mesh);
    } while (!all_left(mesh) && muster_clock_ns() < end);
}

static void *serve(void *argument)
{
    muster_psmesh *mesh = argument;
    while (!atomic_load(&mesh->stop)) {
        turn(mesh);
    }
    take_leave(mesh);
    return NULL;
}

/* ---- for workers --------------------------------------------------------- */

void muster_psmesh_wake(muster_psmesh *mesh)
{
    if (atomic_exchange(&mesh->asleep, false)) {
        muster_net_wake(mesh->net);
    }
}

void muster_psmesh_submit(muster_psmesh *mesh, muster_ps_call *call)
{
    (void)pthread_mutex_lock(&mesh->lock);
    bool kept = muster_vec_append(&mesh->requests, &call, 1);
    (void)pthread_mutex_unlock(&mesh->lock);
    if (!kept) {
        finish(call, MUSTER_ERR_NO_MEMORY);
        return;
    }
    muster_psmesh_wake(mesh);
}

void muster_psmesh_barrier(muster_psmesh *mesh)
{
    (void)pthread_mutex_lock(&mesh->lock);
    mesh->barrier_asked = true;
    (void)pthread_mutex_unlock(&mesh->lock);
    muster_psmesh_wake(mesh);
}

muster_status muster_psmesh_join(muster_psmesh *mesh, muster_ps_worker *worker)
{
    (void)pthread_mutex_lock(&mesh->lock);
    bool kept = muster_vec_append(&mesh->workers, &worker, 1);
    (void)pthread_mutex_unlock(&mesh->lock);
    return kept ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
}

void muster_psmesh_leave(muster_psmesh *mesh, muster_ps_worker *worker)
{
    (void)pthread_mutex_lock(&mesh->lock);
    muster_ps_worker **workers = mesh->workers.data;
    for (size_t i = 0; i < mesh->workers.count; i++) {
        if (workers[i] == worker) {
            workers[i] = workers[--mesh->workers.count];
            break;
        }
    }
    if (worker->intents != NULL &&
        !muster_vec_append(&mesh->orphans, &worker->intents, 1)) {
        muster_intents_free(worker->intents); // rows stay; nobody is misled
    }
    worker->intents = NULL;
    (void)pthread_mutex_unlock(&mesh->lock);
    muster_psmesh_wake(mesh);
}

muster_psnode_counters muster_psmesh_count(muster_psmesh *mesh)
{
    (void)pthread_mutex_lock(&mesh->lock);
    muster_psnode_counters counters = mesh->counters;
    (void)pthread_mutex_unlock(&mesh->lock);
    return counters;
}

/* ---- life ---------------------------------------------------------------- */

static muster_blob *make_payload(void *context, size_t bytes)
{
    return muster_net_blob(context, bytes);
}

static muster_status open_node(muster_psmesh *mesh, muster_error *error_out)
{
    static const muster_net_callbacks callbacks = {
        .on_up = on_up, .on_message = on_message, .on_down = on_down};
    const muster_net_opts net_opts = MUSTER_NET_OPTS_INIT;
    char address[MUSTER_NET_ADDRESS_MAX];
    char heard[MUSTER_NET_ADDRESS_MAX];
    const muster_ps_opts *opts = &mesh->ps->opts;
    muster_status status =
        muster_net_open(&net_opts, &callbacks, mesh, error_out, &mesh->net);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_psnode_opts node_opts = {.node = mesh->self,
                                    .nodes = mesh->nodes,
                                    .tables = mesh->ps->tables,
                                    .table_count = mesh->ps->table_count,
                                    .manage = (muster_psmanage)opts->manage,
                                    .replicated = &mesh->ps->replicated,
                                    .sync_ns = opts->staleness_ms *
                                               MUSTER_NS_PER_MS / 2,
                                    .contest_ns = CONTEST_NS,
                                    .make = make_payload,
                                    .make_context = mesh->net};
    status = muster_psnode_create(&node_opts, &mesh->node);
    if (status != MUSTER_OK) {
        return muster_error_set(error_out, status,
                                "parameter server: out of memory");
    }
    address_of(mesh, mesh->self, address);
    return muster_net_listen(mesh->net, address, error_out, heard);
}

static muster_status wait_for_all(muster_psmesh *mesh, muster_error *error_out)
{
    int64_t end =
        muster_clock_ns() + mesh->ps->opts.patience_ms * MUSTER_NS_PER_MS;
    const struct timespec nap = {.tv_nsec = MUSTER_NS_PER_MS};
    while (atomic_load(&mesh->connected) + 1u < mesh->nodes) {
        if (muster_clock_ns() > end) {
            return muster_error_set(
                error_out, MUSTER_ERR_TIMED_OUT,
                "parameter server: node %u met %u of %u others within %u ms",
                mesh->self, atomic_load(&mesh->connected), mesh->nodes - 1u,
                mesh->ps->opts.patience_ms);
        }
        (void)nanosleep(&nap, NULL);
    }
    return MUSTER_OK;
}

muster_status muster_psmesh_create(muster_ps *ps, muster_error *error_out,
                                   muster_psmesh **mesh_out)
{
    muster_psmesh *mesh = muster_mem_array(1, sizeof(*mesh));
    if (mesh == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "parameter server: out of memory");
    }
    mesh->ps = ps;
    mesh->self = (uint16_t)ps->opts.node;
    mesh->nodes = (uint16_t)ps->opts.nodes;
    mesh->out = muster_psnode_out_make();
    mesh->unsent = muster_vec_make(sizeof(muster_psnode_send));
    mesh->requests = muster_vec_make(sizeof(muster_ps_call *));
    mesh->workers = muster_vec_make(sizeof(muster_ps_worker *));
    mesh->orphans = muster_vec_make(sizeof(muster_intents *));
    mesh->round_ns = INT64_MAX;
    mesh->taken = muster_vec_make(sizeof(muster_ps_call *));
    mesh->open = muster_vec_make(sizeof(muster_ps_call *));
    (void)pthread_mutex_init(&mesh->lock, NULL);
    muster_status status = open_node(mesh, error_out);
    if (status == MUSTER_OK) {
        int failed = pthread_create(&mesh->thread, NULL, serve, mesh);
        mesh->started = failed == 0;
        status = failed == 0 ? wait_for_all(mesh, error_out)
                             : muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                                "cannot start a thread: %s",
                                                strerror(failed));
    }
    if (status != MUSTER_OK) {
        muster_psmesh_free(mesh);
        return status;
    }
    *mesh_out = mesh;
    return MUSTER_OK;
}

void muster_psmesh_free(muster_psmesh *mesh)
{
    if (mesh == NULL) {
        return;
    }
    atomic_store(&mesh->stop, true);
    if (mesh->started) {
        muster_net_wake(mesh->net);
        (void)pthread_join(mesh->thread, NULL);
    }
    const muster_psnode_send *sends = mesh->unsent.data;
    for (size_t i = 0; i < mesh->unsent.count; i++) {
        muster_blob_unref(sends[i].message.payload);
    }
    muster_psnode_free(mesh->node);
    muster_psnode_out_fini(&mesh->out);
    muster_net_close(mesh->net);
    muster_vec_fini(&mesh->unsent);
    muster_vec_fini(&mesh->requests);
    muster_vec_fini(&mesh->workers);
    muster_intents **orphans = mesh->orphans.data;
    for (size_t i = 0; i < mesh->orphans.count; i++) {
        muster_intents_free(orphans[i]);
    }
    muster_vec_fini(&mesh->orphans);
    muster_vec_fini(&mesh->taken);
    muster_vec_fini(&mesh->open);
    (void)pthread_mutex_destroy(&mesh->lock);
    muster_mem_free(mesh);
}
