/*
 * barrier.c -- barriers of a node's workers. In a mesh the node enters the
 * barrier of all nodes when all its workers wait; mesh.c lets them pass.
 */
#include "base/assert.h"
#include "base/clock.h"
#include "ps/node/inside.h"

void muster_barrier_end_waits(muster_ps *ps)
{
    for (uint32_t i = 0; i < MUSTER_PS_WORKERS_MAX; i++) {
        muster_worker_end_wait(ps, i, &ps->barrier);
    }
}

/* If all workers of the node wait, let them pass, or in a mesh return true: the
 * caller then releases the lock and calls muster_mesh_enter_barrier(). The
 * driver takes the inbox's lock before this one, so no thread may take them the
 * other way round. */
static bool pass_if_complete(muster_ps *ps)
{
    muster_worker_barrier *barrier = &ps->barrier;
    uint32_t alive = atomic_load(&ps->shared.workers_alive);
    if (barrier->waiting == 0 || barrier->cancelled ||
        barrier->status != MUSTER_OK || barrier->waiting != alive) {
        return false;
    }
    barrier->waiting = 0;
    if (ps->mesh == NULL) {
        barrier->passed++;
        muster_barrier_end_waits(ps);
        (void)pthread_cond_broadcast(&barrier->changed);
    }
    return ps->mesh != NULL;
}

void muster_barrier_worker_left(muster_ps *ps)
{
    (void)pthread_mutex_lock(&ps->barrier.lock);
    uint32_t before = atomic_fetch_sub(&ps->shared.workers_alive, 1);
    MUSTER_ASSERT(before > 0);
    bool complete = pass_if_complete(ps);
    muster_ps_until until = ps->barrier.until;
    (void)pthread_mutex_unlock(&ps->barrier.lock);
    if (complete) {
        muster_mesh_enter_barrier(ps->mesh, until);
    }
}

/* Wait under barrier.lock, which is released for the mesh. */
static muster_status wait_to_pass(muster_ps *ps, muster_ps_until until)
{
    muster_worker_barrier *barrier = &ps->barrier;
    uint64_t before = barrier->passed;
    if (barrier->waiting == 0 || until < barrier->until) {
        barrier->until = until;
    }
    barrier->waiting++;
    if (pass_if_complete(ps)) {
        until = barrier->until;
        (void)pthread_mutex_unlock(&barrier->lock);
        muster_mesh_enter_barrier(ps->mesh, until);
        (void)pthread_mutex_lock(&barrier->lock);
    }
    // A loss is for good: a worker that comes after it does not wait.
    while (barrier->passed == before && !barrier->cancelled &&
           barrier->status == MUSTER_OK) {
        (void)pthread_cond_wait(&barrier->changed, &barrier->lock);
    }
    return barrier->cancelled ? MUSTER_ERR_CANCELLED : barrier->status;
}

muster_status muster_ps_barrier(muster_ps_worker *worker)
{
    return muster_ps_meet(worker, MUSTER_PS_SEEN);
}

muster_status muster_ps_meet(muster_ps_worker *worker, muster_ps_until until)
{
    if (worker == NULL || muster_worker_open_rows(worker) > 0) {
        return muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                    "barrier while a row is open");
    }
    if (until != MUSTER_PS_SEEN && until != MUSTER_PS_STORED &&
        until != MUSTER_PS_MET) {
        return muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                    "a barrier until %d", (int)until);
    }
    muster_ps *ps = worker->ps;
    muster_worker_flush_counts(worker);
    (void)pthread_mutex_lock(&ps->barrier.lock);
    muster_worker_set_waits(worker, &ps->barrier);
    // After a failure the waiting workers were sent on and may have ended.
    bool failed = ps->mesh != NULL && muster_mesh_has_failed(ps->mesh);
    int64_t start = muster_clock_ns();
    muster_status status =
        failed ? MUSTER_ERR_PEER_LOST : wait_to_pass(ps, until);
    (void)pthread_mutex_unlock(&ps->barrier.lock);
    muster_worker_set_waits(worker, NULL);
    atomic_fetch_add(&ps->shared.barrier_wait_ns,
                     (uint64_t)(muster_clock_ns() - start));
    if (status == MUSTER_OK) {
        return MUSTER_OK;
    }
    return muster_worker_refuse(worker, status, "barrier: %s",
                                status == MUSTER_ERR_PEER_LOST &&
                                        ps->mesh != NULL
                                    ? muster_mesh_failure(ps->mesh)
                                    : muster_status_text(status));
}

void muster_ps_barrier_cancel(muster_ps *ps)
{
    (void)pthread_mutex_lock(&ps->barrier.lock);
    ps->barrier.cancelled = true;
    (void)pthread_cond_broadcast(&ps->barrier.changed);
    (void)pthread_mutex_unlock(&ps->barrier.lock);
}
