/*
 * mesh.c -- see mesh.h: what workers leave for the mesh, and what the
 * protocol tells it. It is made and ended in mesh_open.c, its turns are in
 * turn.c, connections in peers.c.
 *
 * Requests wait through the loss of other nodes when the run is to survive it
 * (muster_ps_opts.survive); otherwise, and when the lead is lost, every request
 * under way or yet to come ends with MUSTER_ERR_PEER_LOST.
 */
#define _GNU_SOURCE
#include "ps/node/mesh.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "ps/node/mesh_inside.h"

void muster_mesh_end_call(muster_mesh *mesh, muster_ps_call *call,
                          muster_status status)
{
    call->outcome = status;
    call->ended = true;
    call->next = mesh->ended;
    mesh->ended = call;
}

void muster_mesh_pass_barrier(muster_mesh *mesh, muster_status status)
{
    muster_ps *ps = mesh->ps;
    mesh->at_barrier = false;
    (void)pthread_mutex_lock(&ps->barrier_lock);
    ps->barrier_passed++;
    ps->barrier_status = status;
    (void)pthread_cond_broadcast(&ps->barrier_cond);
    (void)pthread_mutex_unlock(&ps->barrier_lock);
}

void muster_mesh_fail(muster_mesh *mesh, uint16_t node, const char *reason)
{
    if (mesh->lost != 0) {
        return;
    }
    mesh->lost = (uint16_t)(node + 1);
    atomic_store(&mesh->over, true);
    if (reason != NULL) {
        muster_log(MUSTER_LOG_ERROR, "node %u is lost: %s", node, reason);
    }
    muster_ps_call **open = mesh->open.data;
    for (size_t i = 0; i < mesh->open.count; i++) {
        muster_mesh_end_call(mesh, open[i], MUSTER_ERR_PEER_LOST);
    }
    muster_vec_clear(&mesh->open);
    muster_mesh_pass_barrier(mesh, MUSTER_ERR_PEER_LOST);
}

/* News of the members: tell, act. */
static void hear(muster_mesh *mesh, const muster_membership_news *news)
{
    const muster_loss_hooks *loss = &mesh->ps->loss;
    bool survive = mesh->ps->opts.survive != 0;
    const char *why = news->cause == MUSTER_LOSS_SILENT
                          ? "nothing was heard of it for too long"
                          : "its connection ended";
    atomic_store(&mesh->members, muster_protocol_members(mesh->node));
    switch (news->kind) {
    case MUSTER_NEWS_LOST:
        muster_mesh_peers_drop_unsent(mesh, news->node, true);
        if (!survive) {
            muster_mesh_fail(mesh, news->node, why);
            return;
        }
        if (!atomic_load(&mesh->stop)) {
            muster_log(MUSTER_LOG_WARN, "node %u is lost: %s", news->node, why);
        }
        break;
    case MUSTER_NEWS_JOINED:
        muster_log(MUSTER_LOG_INFO, "node %u takes its place", news->node);
        break;
    case MUSTER_NEWS_RESUMED:
        muster_mesh_peers_send_members(mesh);
        atomic_store(&mesh->entered, 1);
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
    if (loss->news != NULL && !atomic_load(&mesh->stop)) {
        loss->news(loss->context, news);
    }
}

static void take_out(muster_mesh *mesh)
{
    const muster_protocol_send *sends = mesh->out.sends.data;
    for (size_t i = 0; i < mesh->out.sends.count; i++) {
        muster_mesh_peers_send(mesh, &sends[i]);
    }
    muster_vec_clear(&mesh->out.sends);
    // News before ends: where a loss is not to be survived, what the protocol
    // made of it is no answer any more.
    for (size_t i = 0; i < mesh->out.news.count; i++) {
        muster_membership_news news =
            ((muster_membership_news *)mesh->out.news.data)[i];
        hear(mesh, &news);
    }
    muster_vec_clear(&mesh->out.news);
    muster_row_request **done = mesh->out.done.data;
    // After a loss every call has ended, and its worker may be gone.
    for (size_t i = 0; i < mesh->out.done.count && mesh->lost == 0; i++) {
        muster_ps_call *call = done[i]->context;
        muster_ps_call **open = mesh->open.data;
        for (size_t j = 0; j < mesh->open.count; j++) {
            if (open[j] == call) {
                open[j] = open[--mesh->open.count];
                muster_mesh_end_call(mesh, call, MUSTER_OK);
                break;
            }
        }
    }
    muster_vec_clear(&mesh->out.done);
    for (; mesh->released < mesh->out.released && mesh->lost == 0;
         mesh->released++) {
        atomic_store(&mesh->met, mesh->out.met);
        muster_mesh_pass_barrier(mesh, MUSTER_OK);
    }
    atomic_store(&mesh->changing, muster_protocol_changing(mesh->node));
}

void muster_mesh_apply_step(muster_mesh *mesh, muster_status status)
{
    if (status != MUSTER_OK) {
        muster_log(MUSTER_LOG_ERROR, "parameter server: %s",
                   muster_status_text(status));
        muster_mesh_fail(mesh, mesh->self, muster_status_text(status));
    }
    take_out(mesh);
}

/* ---- for workers --------------------------------------------------------- */

void muster_mesh_wake(muster_mesh *mesh)
{
    if (atomic_exchange(&mesh->asleep, false)) {
        muster_net_wake(mesh->net);
    }
}

static void leave_request(muster_mesh *mesh, muster_ps_call *call)
{
    call->ended = false;
    (void)pthread_mutex_lock(&mesh->lock);
    bool kept = muster_vec_append(&mesh->requests, &call, 1);
    (void)pthread_mutex_unlock(&mesh->lock);
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

void muster_mesh_enter_barrier(muster_mesh *mesh)
{
    (void)pthread_mutex_lock(&mesh->lock);
    mesh->barrier_asked = true;
    (void)pthread_mutex_unlock(&mesh->lock);
    muster_mesh_wake(mesh);
}

bool muster_mesh_has_failed(const muster_mesh *mesh)
{
    return atomic_load(&mesh->over);
}

muster_status muster_mesh_add_worker(muster_mesh *mesh,
                                     muster_ps_worker *worker)
{
    (void)pthread_mutex_lock(&mesh->lock);
    bool kept = muster_vec_append(&mesh->workers, &worker, 1);
    (void)pthread_mutex_unlock(&mesh->lock);
    return kept ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
}

void muster_mesh_remove_worker(muster_mesh *mesh, muster_ps_worker *worker)
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
    muster_mesh_wake(mesh);
}

muster_protocol_counters muster_mesh_count(muster_mesh *mesh)
{
    (void)pthread_mutex_lock(&mesh->count_lock);
    muster_protocol_counters counters = mesh->counters;
    (void)pthread_mutex_unlock(&mesh->count_lock);
    return counters;
}

/* ---- losses -------------------------------------------------------------- */

void muster_ps_set_loss_hooks(muster_ps *ps, const muster_loss_hooks *loss)
{
    ps->loss = *loss;
}

uint64_t muster_ps_barrier_members(const muster_ps *ps)
{
    return ps->mesh == NULL ? 1 : atomic_load(&ps->mesh->met);
}

uint64_t muster_ps_lost_nodes(const muster_ps *ps)
{
    return ps == NULL || ps->mesh == NULL
               ? 0
               : UINT64_MAX >> (64 - ps->opts.nodes) &
                     ~atomic_load(&ps->mesh->members);
}

bool muster_ps_admit(muster_ps *ps, uint32_t note)
{
    muster_mesh *mesh = ps->mesh;
    uint64_t ready = mesh == NULL ? 0 : atomic_load(&mesh->ready);
    if (ready == 0) {
        return false;
    }
    uint32_t node = (uint32_t)__builtin_ctzll(ready);
    uint64_t asked = (uint64_t)note << 32 | (node + 1);
    const struct timespec nap = {.tv_nsec = MUSTER_NS_PER_MS};
    atomic_store(&mesh->admit, asked);
    muster_net_wake(mesh->net);
    // Once asked for it happens, or the node is lost: no waiting in between
    // may end with a node that comes in at the wrong moment.
    while (!atomic_load(&mesh->over) &&
           (atomic_load(&mesh->admit) != 0 || atomic_load(&mesh->changing))) {
        (void)nanosleep(&nap, NULL);
    }
    return (atomic_load(&mesh->members) >> node & 1) != 0;
}

uint32_t muster_ps_admit_note(const muster_ps *ps)
{
    return muster_protocol_note(ps->mesh->node);
}

void muster_ps_abandon(muster_ps *ps)
{
    if (ps->mesh != NULL) {
        atomic_store(&ps->mesh->quits, true);
    }
}
