/*
 * mesh_open.c -- a mesh's beginning and end: the node opens its ear, starts
 * the thread of mesh.c and waits until it has met all others.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "ps/node/mesh.h"
#include "ps/node/mesh_address.h"
#include "ps/node/mesh_inside.h"

/* A row that two nodes ask for within this time would travel to and fro. */
#define CONTEST_NS (5 * MUSTER_NS_PER_MS)

#define NAP_NS (200 * MUSTER_NS_PER_MS)

static muster_blob *make_payload(void *context, size_t bytes)
{
    return muster_net_blob(context, bytes);
}

static muster_status open_node(muster_mesh *mesh, muster_error *error_out)
{
    const muster_net_opts net_opts = MUSTER_NET_OPTS_INIT;
    char address[MUSTER_NET_ADDRESS_MAX];
    char heard[MUSTER_NET_ADDRESS_MAX];
    const muster_ps_opts *opts = &mesh->ps->opts;
    const muster_loss_hooks *loss = &mesh->ps->loss;
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
        // The way to the owner and back takes the rest.
        .sync_ns = opts->staleness_ms * MUSTER_NS_PER_MS * 3 / 4,
        .contest_ns = CONTEST_NS,
        .make = make_payload,
        .make_context = mesh->net,
        .heartbeat_ns = opts->heartbeat_ms * MUSTER_NS_PER_MS,
        .joins = loss->joins,
        .prepared = loss->prepared,
        .restore = loss->restore,
        .updates = loss->updates,
        .host = loss->context};
    status = muster_protocol_create(&node_opts, &mesh->node);
    if (status != MUSTER_OK) {
        return muster_error_set(error_out, status,
                                "parameter server: out of memory");
    }
    atomic_store(&mesh->members, muster_protocol_members(mesh->node));
    muster_mesh_address_of(mesh->ps->places, mesh->self, address);
    // Refused while another lives there; what a lost one left is removed.
    return muster_net_listen(mesh->net, address, error_out, heard);
}

/* Who is awaited in failed_spins: one of them, by name and place. */
static muster_status tell_missing(const muster_mesh *mesh, uint64_t missing,
                                  muster_error *error_out)
{
    char address[MUSTER_NET_ADDRESS_MAX];
    uint32_t first = (uint32_t)__builtin_ctzll(missing);
    muster_mesh_address_of(mesh->ps->places, first, address);
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

static muster_status wait_for_all(muster_mesh *mesh, muster_error *error_out)
{
    int64_t end =
        muster_clock_ns() + mesh->ps->opts.patience_ms * MUSTER_NS_PER_MS;
    const struct timespec nap = {.tv_nsec = MUSTER_NS_PER_MS};
    while (!muster_mesh_all_met(mesh) && !stopped(mesh)) {
        if (atomic_load(&mesh->over)) {
            return muster_error_set(error_out, MUSTER_ERR_PEER_LOST,
                                    "parameter server: a node ended before "
                                    "node %u had met all others",
                                    mesh->self);
        }
        if (muster_clock_ns() > end) {
            // The last one may have come just now.
            uint64_t missing = muster_mesh_peers_missing(mesh);
            if (missing != 0) {
                return tell_missing(mesh, missing, error_out);
            }
        }
        (void)nanosleep(&nap, NULL);
    }
    // A node that joins is taken in between two epochs, whenever that is.
    while (mesh->ps->loss.joins && atomic_load(&mesh->entered) == 0 &&
           !stopped(mesh)) {
        if (atomic_load(&mesh->over) ||
            (atomic_load(&mesh->come) == 0 && muster_clock_ns() > end)) {
            return muster_error_set(
                error_out, MUSTER_ERR_PEER_LOST,
                "parameter server: node %u was not taken in", mesh->self);
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
    mesh->out = muster_protocol_out_make();
    mesh->unsent = muster_vec_make(sizeof(muster_protocol_send));
    mesh->requests = muster_vec_make(sizeof(muster_ps_call *));
    mesh->workers = muster_vec_make(sizeof(muster_ps_worker *));
    mesh->orphans = muster_vec_make(sizeof(muster_intents *));
    mesh->round_ns = INT64_MAX;
    atomic_init(&mesh->sleep_max_ns, NAP_NS);
    mesh->taken = muster_vec_make(sizeof(muster_ps_call *));
    mesh->open = muster_vec_make(sizeof(muster_ps_call *));
    (void)pthread_mutex_init(&mesh->lock, NULL);
    (void)pthread_mutex_init(&mesh->count_lock, NULL);
    (void)pthread_mutex_init(&mesh->turn, NULL);
    muster_status status = open_node(mesh, error_out);
    if (status == MUSTER_OK) {
        int failed =
            pthread_create(&mesh->thread, NULL, muster_mesh_thread_run, mesh);
        mesh->started = failed == 0;
        status = failed == 0 ? wait_for_all(mesh, error_out)
                             : muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                                "cannot start a thread: %s",
                                                strerror(failed));
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
    atomic_store(&mesh->stop, true);
    if (mesh->started) {
        muster_net_wake(mesh->net);
        (void)pthread_join(mesh->thread, NULL);
    }
    const muster_protocol_send *sends = mesh->unsent.data;
    for (size_t i = 0; i < mesh->unsent.count; i++) {
        muster_blob_unref(sends[i].message.payload);
    }
    muster_protocol_free(mesh->node);
    muster_protocol_out_fini(&mesh->out);
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
    (void)pthread_mutex_destroy(&mesh->count_lock);
    (void)pthread_mutex_destroy(&mesh->turn);
    muster_mem_free(mesh);
}
