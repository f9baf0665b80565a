/*
 * mesh_open.c -- a mesh's beginning and end: the node listens, starts its
 * network thread (drive.c) and waits until it is connected to all other nodes.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"
#include "ps/node/mesh.h"
#include "ps/node/mesh_address.h"
#include "ps/node/mesh_inside.h"

/* A row that two nodes ask for within this time would move to and fro. */
#define CONTEST_NS (5 * MUSTER_NS_PER_MS)

/* Of one call's rows and keys, sent to one node. */
#define CALL_BYTES_MAX ((size_t)1 << 30)

/* For so many times the silence that counts as loss a node may do no work. */
#define STALL_HEARTBEATS 5

#define SLEEP_MAX_NS (200 * MUSTER_NS_PER_MS)

int64_t muster_ps_stall_ns(const muster_ps *ps)
{
    return ps->opts.heartbeat_ms * MUSTER_NS_PER_MS * STALL_HEARTBEATS;
}

static muster_blob *make_payload(void *context, size_t bytes)
{
    return muster_net_blob(context, bytes);
}

/* What one node may send another at once: all rows there are, and as much for
 * calls that name a row many times. */
static size_t payload_bytes_max(const muster_ps *ps)
{
    size_t bytes = CALL_BYTES_MAX;
    for (uint32_t i = 0; i < ps->table_count; i++) {
        bytes += (size_t)ps->tables[i]->keys * muster_ps_row_floats(ps, i) *
                 sizeof(float);
    }
    return bytes;
}

static muster_status open_node(muster_mesh *mesh, muster_error *error_out)
{
    muster_net_opts net_opts = MUSTER_NET_OPTS_INIT;
    char address[MUSTER_NET_ADDRESS_MAX];
    char heard[MUSTER_NET_ADDRESS_MAX];
    const muster_ps_opts *opts = &mesh->ps->opts;
    const muster_loss_hooks *loss = &mesh->ps->loss;
    net_opts.key = mesh->ps->has_key ? &mesh->ps->key : NULL;
    net_opts.insecure = opts->insecure;
    net_opts.engine = opts->engine;
    muster_status status = muster_net_open(&net_opts, &muster_mesh_callbacks,
                                           mesh, error_out, &mesh->net);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_protocol_opts node_opts = {
        .node = mesh->self,
        .nodes = mesh->nodes,
        .tables = mesh->ps->tables,
        .table_count = mesh->ps->table_count,
        .manage = (muster_ps_manage)opts->manage,
        .replicated = &mesh->ps->replicated,
        // A message to the owner and its answer take the rest.
        .sync_ns = opts->staleness_ms * MUSTER_NS_PER_MS * 3 / 4,
        .contest_ns = CONTEST_NS,
        .hot_factor = opts->hot_factor,
        .make = make_payload,
        .make_context = mesh->net,
        .heartbeat_ns = opts->heartbeat_ms * MUSTER_NS_PER_MS,
        .joins = loss->joins,
        .prepared = loss->prepared,
        .restore = loss->restore,
        .updates = loss->updates,
        .stalled_ms = loss->stalled_ms,
        .stall_ns = muster_ps_stall_ns(mesh->ps),
        .host = loss->context};
    status = muster_protocol_create(&node_opts, &mesh->driver.protocol);
    if (status != MUSTER_OK) {
        return muster_error_set(error_out, status,
                                "parameter server: out of memory");
    }
    atomic_store(&mesh->shared.members,
                 muster_protocol_members(mesh->driver.protocol));
    muster_net_expect(mesh->net, payload_bytes_max(mesh->ps));
    muster_mesh_address_of(mesh->ps->addresses, mesh->self, address);
    // Refused while another node listens there; a socket that a lost node left
    // is removed.
    return muster_net_listen(mesh->net, address, error_out, heard);
}

/* Name one of the nodes that did not connect, and its address. */
static muster_status fail_missing(const muster_mesh *mesh, uint64_t missing,
                                  muster_error *error_out)
{
    char address[MUSTER_NET_ADDRESS_MAX];
    uint32_t first = (uint32_t)__builtin_ctzll(missing);
    muster_mesh_address_of(mesh->ps->addresses, first, address);
    return muster_error_set(
        error_out, MUSTER_ERR_TIMED_OUT,
        "parameter server: node %u met %u of %u others within %u ms; node %u, "
        "at %s, is missing",
        mesh->self, mesh->nodes - 1u - (uint32_t)__builtin_popcountll(missing),
        mesh->nodes - 1u, mesh->ps->opts.patience_ms, first, address);
}

static bool stopped(const muster_mesh *mesh)
{
    return mesh->ps->loss.stopped != NULL && mesh->ps->loss.stopped();
}

/* Is it known that they will never all meet? */
static muster_status check_meeting(const muster_mesh *mesh,
                                   muster_error *error_out)
{
    const muster_loss_hooks *loss = &mesh->ps->loss;
    if (atomic_load(&mesh->shared.refused)) {
        return muster_error_set(error_out, MUSTER_ERR_REFUSED,
                                "parameter server: %s", mesh->refusal);
    }
    if (atomic_load(&mesh->shared.failed)) {
        return muster_error_set(error_out, MUSTER_ERR_PEER_LOST,
                                "parameter server: a node ended before node %u "
                                "had met all others",
                                mesh->self);
    }
    uint32_t ended = loss->ended != NULL ? loss->ended(loss->context) : 0;
    if (ended != 0) {
        return muster_error_set(error_out, MUSTER_ERR_PEER_LOST,
                                "parameter server: node %u ended before all "
                                "nodes had met",
                                ended);
    }
    return MUSTER_OK;
}

static muster_status wait_for_all(muster_mesh *mesh, muster_error *error_out)
{
    int64_t end =
        muster_clock_ns() + mesh->ps->opts.patience_ms * MUSTER_NS_PER_MS;
    const struct timespec nap = {.tv_nsec = MUSTER_NS_PER_MS};
    while (!muster_mesh_all_met(mesh) && !stopped(mesh)) {
        muster_status status = check_meeting(mesh, error_out);
        if (status != MUSTER_OK) {
            return status;
        }
        if (muster_clock_ns() > end) {
            // The last node may have connected just now.
            uint64_t missing = muster_mesh_peers_missing(mesh);
            if (missing != 0) {
                return fail_missing(mesh, missing, error_out);
            }
        }
        (void)nanosleep(&nap, NULL);
    }
    // A node that joins is admitted between two epochs, whenever that is.
    while (mesh->ps->loss.joins && !atomic_load(&mesh->shared.entered) &&
           !stopped(mesh)) {
        if (atomic_load(&mesh->shared.failed) ||
            (atomic_load(&mesh->shared.connected) == 0 &&
             muster_clock_ns() > end)) {
            return muster_error_set(
                error_out, MUSTER_ERR_PEER_LOST,
                "parameter server: node %u was not admitted", mesh->self);
        }
        (void)nanosleep(&nap, NULL);
    }
    return !stopped(mesh) ? MUSTER_OK
                          : muster_error_set(error_out, MUSTER_ERR_INTERRUPTED,
                                             "interrupted before all nodes "
                                             "had met");
}

muster_status muster_mesh_create(muster_ps *ps, muster_error *error_out,
                                 muster_mesh **mesh_out)
{
    muster_mesh *mesh = muster_mem_array(1, sizeof(*mesh));
    if (mesh == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "parameter server: out of memory");
    }
    mesh->ps = ps;
    mesh->self = (uint16_t)ps->opts.node;
    mesh->nodes = (uint16_t)ps->opts.nodes;
    mesh->driver.out = muster_protocol_out_make();
    mesh->driver.links.unsent = muster_vec_make(sizeof(muster_protocol_send));
    mesh->inbox.requests = muster_vec_make(sizeof(muster_ps_call *));
    mesh->inbox.workers = muster_vec_make(sizeof(muster_ps_worker *));
    mesh->inbox.orphaned_intents = muster_vec_make(sizeof(muster_intents *));
    mesh->driver.clocks_due_ns = INT64_MAX;
    atomic_init(&mesh->shared.sleep_max_ns, SLEEP_MAX_NS);
    mesh->driver.taken = muster_vec_make(sizeof(muster_ps_call *));
    mesh->driver.under_way = muster_vec_make(sizeof(muster_ps_call *));
    (void)pthread_mutex_init(&mesh->inbox_lock, NULL);
    (void)pthread_mutex_init(&mesh->count_lock, NULL);
    (void)pthread_mutex_init(&mesh->drive_lock, NULL);
    muster_status status = open_node(mesh, error_out);
    if (status == MUSTER_OK) {
        int failed =
            pthread_create(&mesh->thread, NULL, muster_mesh_thread_run, mesh);
        char hint[MUSTER_LIMITS_HINT_BYTES];
        mesh->thread_started = failed == 0;
        status = failed == 0
                     ? wait_for_all(mesh, error_out)
                     : muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                        "cannot start a thread: %s%s",
                                        strerror(failed),
                                        muster_limits_hint(failed, hint));
    }
    if (status != MUSTER_OK) {
        muster_mesh_free(mesh);
        return status;
    }
    *mesh_out = mesh;
    return MUSTER_OK;
}

void muster_mesh_free(muster_mesh *mesh)
{
    if (mesh == NULL) {
        return;
    }
    atomic_store(&mesh->shared.stop, true);
    if (mesh->thread_started) {
        muster_net_wake(mesh->net);
        (void)pthread_join(mesh->thread, NULL);
    }
    const muster_protocol_send *sends = mesh->driver.links.unsent.data;
    for (size_t i = 0; i < mesh->driver.links.unsent.count; i++) {
        muster_blob_unref(sends[i].message.payload);
    }
    muster_protocol_free(mesh->driver.protocol);
    muster_protocol_out_fini(&mesh->driver.out);
    muster_net_close(mesh->net);
    muster_vec_fini(&mesh->driver.links.unsent);
    muster_vec_fini(&mesh->inbox.requests);
    muster_vec_fini(&mesh->inbox.workers);
    muster_intents **orphaned = mesh->inbox.orphaned_intents.data;
    for (size_t i = 0; i < mesh->inbox.orphaned_intents.count; i++) {
        muster_intents_free(orphaned[i]);
    }
    muster_vec_fini(&mesh->inbox.orphaned_intents);
    muster_vec_fini(&mesh->driver.taken);
    muster_vec_fini(&mesh->driver.under_way);
    (void)pthread_mutex_destroy(&mesh->inbox_lock);
    (void)pthread_mutex_destroy(&mesh->count_lock);
    (void)pthread_mutex_destroy(&mesh->drive_lock);
    muster_mem_free(mesh);
}
