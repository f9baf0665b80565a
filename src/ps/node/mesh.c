/*
 * mesh.c -- see mesh.h: what workers leave for the driver, and what the driver
 * does with the protocol's results. The driver's rounds are in drive.c,
 * connections in peers.c, beginning and end in mesh_open.c.
 *
 * With muster_ps_opts.survive, requests wait through the loss of other nodes.
 * Without it, and when the lead is lost, the mesh fails: every request under
 * way or yet to come ends with MUSTER_ERR_PEER_LOST.
 */
#define _GNU_SOURCE
#include "ps/node/mesh.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "ps/node/mesh_inside.h"

/* ---- for the driver ------------------------------------------------------ */

void muster_mesh_end_call(muster_mesh *mesh, muster_ps_call *call,
                          muster_status status)
{
    MUSTER_ASSERT(!call->ended);
    call->outcome = status;
    call->ended = true;
    call->next = mesh->driver.ended_calls;
    mesh->driver.ended_calls = call;
}

void muster_mesh_pass_barrier(muster_mesh *mesh, muster_status status)
{
    muster_worker_barrier *barrier = &mesh->ps->barrier;
    mesh->driver.at_barrier = false;
    (void)pthread_mutex_lock(&barrier->lock);
    barrier->passed++;
    barrier->status = status;
    muster_barrier_end_waits(mesh->ps);
    (void)pthread_cond_broadcast(&barrier->changed);
    (void)pthread_mutex_unlock(&barrier->lock);
}

/* The text is complete before other threads can see that the mesh failed. */
static void keep_failure(muster_mesh *mesh, uint16_t node, const char *reason)
{
    if (reason != NULL) {
        muster_log(MUSTER_LOG_ERROR, "node %u is lost: %s", node, reason);
        (void)snprintf(mesh->failure, sizeof(mesh->failure),
                       "node %u is lost: %s", node, reason);
    } else {
        (void)snprintf(mesh->failure, sizeof(mesh->failure),
                       "node %u has left the mesh", node);
    }
    atomic_store(&mesh->shared.failed, true);
}

void muster_mesh_fail(muster_mesh *mesh, uint16_t node, const char *reason)
{
    muster_mesh_driver *driver = &mesh->driver;
    if (driver->failed_node != 0) {
        return;
    }
    driver->failed_node = (uint16_t)(node + 1);
    keep_failure(mesh, node, reason);
    muster_ps_call **under_way = driver->under_way.data;
    for (size_t i = 0; i < driver->under_way.count; i++) {
        muster_mesh_end_call(mesh, under_way[i], MUSTER_ERR_PEER_LOST);
    }
    muster_vec_clear(&driver->under_way);
    muster_mesh_pass_barrier(mesh, MUSTER_ERR_PEER_LOST);
}

/* False: the mesh fails with the node. */
static bool survive_loss(muster_mesh *mesh, uint16_t node, const char *why)
{
    muster_mesh_peers_drop_unsent(mesh, node, true);
    if (!mesh->ps->opts.survive) {
        muster_mesh_fail(mesh, node, why);
        return false;
    }
    if (!atomic_load(&mesh->shared.stop)) {
        muster_log(MUSTER_LOG_WARN, "node %u is lost: %s", node, why);
    }
    return true;
}

static const char *cause_text(muster_loss_cause cause)
{
    switch (cause) {
    case MUSTER_LOSS_SILENT:
        return "nothing was heard of it for too long";
    case MUSTER_LOSS_STALLED:
        return "it lives, but a worker thread of it stood still for too long";
    case MUSTER_LOSS_NOT_FINITE:
        return "it sent values that are not finite; if the training diverged, "
               "try a smaller --lr";
    case MUSTER_LOSS_CLOSED:
        break;
    }
    return "its connection ended";
}

/* News of the members: log it, act on it, pass it on to the run. */
static void take_news(muster_mesh *mesh, const muster_membership_news *news)
{
    const muster_loss_hooks *loss = &mesh->ps->loss;
    const char *why = cause_text(news->cause);
    atomic_store(&mesh->shared.members,
                 muster_protocol_members(mesh->driver.protocol));
    switch (news->kind) {
    case MUSTER_NEWS_LOST:
        if (!survive_loss(mesh, news->node, why)) {
            return;
        }
        break;
    case MUSTER_NEWS_JOINED:
        muster_log(MUSTER_LOG_INFO, "node %u takes its place", news->node);
        break;
    case MUSTER_NEWS_RESUMED:
        muster_mesh_peers_send_members(mesh);
        atomic_store(&mesh->shared.entered, true);
        break;
    case MUSTER_NEWS_LEADLESS:
        muster_mesh_fail(mesh, 0, why);
        return;
    case MUSTER_NEWS_EXPELLED:
        muster_mesh_fail(mesh, mesh->self,
                         "the others gave this node up after it stood "
                         "still; it ends");
        return;
    }
    if (loss->news != NULL && !atomic_load(&mesh->shared.stop)) {
        loss->news(loss->context, news);
    }
}

static void end_finished_request(muster_mesh *mesh, muster_ps_call *call)
{
    muster_vec *under_way = &mesh->driver.under_way;
    muster_ps_call **calls = under_way->data;
    for (size_t i = 0; i < under_way->count; i++) {
        if (calls[i] == call) {
            calls[i] = calls[--under_way->count];
            muster_mesh_end_call(mesh, call, MUSTER_OK);
            return;
        }
    }
}

static void apply_out(muster_mesh *mesh)
{
    muster_mesh_driver *driver = &mesh->driver;
    muster_protocol_out *out = &driver->out;
    const muster_protocol_send *sends = out->sends.data;
    for (size_t i = 0; i < out->sends.count; i++) {
        muster_mesh_peers_send(mesh, &sends[i]);
    }
    muster_vec_clear(&out->sends);
    // News before finished requests: after a loss that the run does not
    // survive, a request that the protocol finished is no result any more.
    for (size_t i = 0; i < out->news.count; i++) {
        muster_membership_news news =
            ((muster_membership_news *)out->news.data)[i];
        take_news(mesh, &news);
    }
    muster_vec_clear(&out->news);
    muster_row_request **done = out->done.data;
    // After a failure every call has ended, and its worker may be gone.
    for (size_t i = 0; i < out->done.count && driver->failed_node == 0; i++) {
        end_finished_request(mesh, done[i]->context);
    }
    muster_vec_clear(&out->done);
    for (; driver->barriers_passed < out->released && driver->failed_node == 0;
         driver->barriers_passed++) {
        atomic_store(&mesh->shared.barrier_members, out->met);
        muster_mesh_pass_barrier(mesh, MUSTER_OK);
    }
    atomic_store(&mesh->shared.members_changing,
                 muster_protocol_changing(driver->protocol));
}

void muster_mesh_apply_step(muster_mesh *mesh, muster_status status)
{
    if (status != MUSTER_OK) {
        muster_log(MUSTER_LOG_ERROR, "parameter server: %s",
                   muster_status_text(status));
        muster_mesh_fail(mesh, mesh->self, muster_status_text(status));
    }
    apply_out(mesh);
}

/* ---- for workers --------------------------------------------------------- */

void muster_mesh_wake(muster_mesh *mesh)
{
    if (atomic_exchange(&mesh->shared.asleep, false)) {
        muster_net_wake(mesh->net);
    }
}

static void leave_request(muster_mesh *mesh, muster_ps_call *call)
{
    call->ended = false;
    (void)pthread_mutex_lock(&mesh->inbox_lock);
    bool kept = muster_vec_append(&mesh->inbox.requests, &call, 1);
    (void)pthread_mutex_unlock(&mesh->inbox_lock);
    if (!kept) {
        call->outcome = MUSTER_ERR_NO_MEMORY;
        call->ended = true;
        (void)sem_post(&call->finished);
    }
}

static void wait_asleep(muster_ps_call *call)
{
    while (sem_wait(&call->finished) != 0 && errno == EINTR) {
    }
}

void muster_mesh_submit_call(muster_mesh *mesh, muster_ps_call *call)
{
    leave_request(mesh, call);
    muster_mesh_wake(mesh);
}

void muster_mesh_wait_call(muster_mesh *mesh, muster_ps_call *call)
{
    (void)muster_mesh_drive(mesh, call);
    wait_asleep(call);
}

void muster_mesh_run_call(muster_mesh *mesh, muster_ps_call *call)
{
    leave_request(mesh, call);
    if (!muster_mesh_drive(mesh, call)) {
        muster_mesh_wake(mesh);
    }
    wait_asleep(call);
}

void muster_mesh_enter_barrier(muster_mesh *mesh, muster_ps_until until)
{
    (void)pthread_mutex_lock(&mesh->inbox_lock);
    mesh->inbox.barrier_entered = true;
    mesh->inbox.until = until;
    (void)pthread_mutex_unlock(&mesh->inbox_lock);
    muster_mesh_wake(mesh);
}

bool muster_mesh_has_failed(const muster_mesh *mesh)
{
    return atomic_load(&mesh->shared.failed);
}

const char *muster_mesh_failure(const muster_mesh *mesh)
{
    return atomic_load(&mesh->shared.failed) ? mesh->failure : "";
}

muster_status muster_mesh_add_worker(muster_mesh *mesh,
                                     muster_ps_worker *worker)
{
    (void)pthread_mutex_lock(&mesh->inbox_lock);
    bool kept = muster_vec_append(&mesh->inbox.workers, &worker, 1);
    (void)pthread_mutex_unlock(&mesh->inbox_lock);
    return kept ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
}

void muster_mesh_remove_worker(muster_mesh *mesh, muster_ps_worker *worker)
{
    (void)pthread_mutex_lock(&mesh->inbox_lock);
    muster_ps_worker **workers = mesh->inbox.workers.data;
    for (size_t i = 0; i < mesh->inbox.workers.count; i++) {
        if (workers[i] == worker) {
            workers[i] = workers[--mesh->inbox.workers.count];
            break;
        }
    }
    if (worker->intents != NULL &&
        !muster_vec_append(&mesh->inbox.orphaned_intents, &worker->intents,
                           1)) {
        muster_intents_free(worker->intents); // their rows stay where they are
    }
    worker->intents = NULL;
    (void)pthread_mutex_unlock(&mesh->inbox_lock);
    muster_mesh_wake(mesh);
}

muster_mesh_counters muster_mesh_count(muster_mesh *mesh)
{
    struct timespec used;
    clockid_t clock;
    (void)pthread_mutex_lock(&mesh->count_lock);
    muster_mesh_counters counters = mesh->counters;
    (void)pthread_mutex_unlock(&mesh->count_lock);
    if (mesh->thread_started &&
        pthread_getcpuclockid(mesh->thread, &clock) == 0 &&
        clock_gettime(clock, &used) == 0) {
        counters.network_ns =
            (uint64_t)used.tv_sec * MUSTER_NS_PER_S + (uint64_t)used.tv_nsec;
    }
    return counters;
}

/* ---- losses -------------------------------------------------------------- */

void muster_ps_set_loss_hooks(muster_ps *ps, const muster_loss_hooks *hooks)
{
    ps->loss = *hooks;
}

uint64_t muster_ps_barrier_members(const muster_ps *ps)
{
    return ps->mesh == NULL ? 1
                            : atomic_load(&ps->mesh->shared.barrier_members);
}

uint64_t muster_ps_lost_nodes(const muster_ps *ps)
{
    return ps == NULL || ps->mesh == NULL
               ? 0
               : UINT64_MAX >> (64 - ps->opts.nodes) &
                     ~atomic_load(&ps->mesh->shared.members);
}

bool muster_ps_admit(muster_ps *ps, uint32_t note)
{
    muster_mesh *mesh = ps->mesh;
    uint64_t ready = mesh == NULL ? 0 : atomic_load(&mesh->shared.join_ready);
    if (ready == 0) {
        return false;
    }
    muster_mesh_atomics *shared = &mesh->shared;
    uint32_t node = (uint32_t)__builtin_ctzll(ready);
    uint64_t asked = (uint64_t)note << 32 | (node + 1);
    const struct timespec nap = {.tv_nsec = MUSTER_NS_PER_MS};
    atomic_store(&shared->admit, asked);
    muster_net_wake(mesh->net);
    // Wait until the node is admitted or lost. A caller that went on earlier
    // could see the node enter at a moment when no node may.
    while (!atomic_load(&shared->failed) &&
           (atomic_load(&shared->admit) != 0 ||
            atomic_load(&shared->members_changing))) {
        (void)nanosleep(&nap, NULL);
    }
    return (atomic_load(&shared->members) >> node & 1) != 0;
}

uint32_t muster_ps_admit_note(muster_ps *ps)
{
    muster_mesh *mesh = ps->mesh;
    (void)pthread_mutex_lock(&mesh->drive_lock);
    uint32_t note = muster_protocol_note(mesh->driver.protocol);
    (void)pthread_mutex_unlock(&mesh->drive_lock);
    return note;
}

void muster_ps_abandon(muster_ps *ps)
{
    if (ps->mesh != NULL) {
        atomic_store(&ps->mesh->shared.quits, true);
    }
}
