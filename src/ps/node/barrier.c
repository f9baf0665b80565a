/*
 * barrier.c -- barriers of a node's workers.
 */
#include "ps/node/inside.h"

/* Let those who wait pass, if all have come. True: this node's are complete and
 * must meet the other nodes; to be told once the lock is released, since the
 * mesh's driver takes the two locks the other way round. */
static bool pass_if_complete(muster_ps *ps)
{
    if (ps->barrier_waiting == 0 || ps->barrier_cancelled ||
        ps->barrier_status != MUSTER_OK ||
        ps->barrier_waiting != atomic_load(&ps->workers_alive)) {
        return false;
    }
    ps->barrier_waiting = 0;
    if (ps->mesh == NULL) {
        ps->barrier_passed++;
        (void)pthread_cond_broadcast(&ps->barrier_cond);
    }
    return ps->mesh != NULL;
}

void muster_barrier_worker_left(muster_ps *ps)
{
    (void)pthread_mutex_lock(&ps->barrier_lock);
    atomic_fetch_sub(&ps->workers_alive, 1);
    bool complete = pass_if_complete(ps);
    (void)pthread_mutex_unlock(&ps->barrier_lock);
    if (complete) {
        muster_mesh_enter_barrier(ps->mesh);
    }
}

muster_status muster_ps_barrier(muster_ps_worker *worker)
{
    if (worker == NULL || muster_worker_open_rows(worker) > 0) {
        return MUSTER_ERR_INVALID;
    }
    muster_ps *ps = worker->ps;
    muster_worker_flush_counts(worker);
    (void)pthread_mutex_lock(&ps->barrier_lock);
    if (ps->mesh != NULL && muster_mesh_has_failed(ps->mesh)) {
        // Those who wait were sent off and others may be gone: nobody comes.
        (void)pthread_mutex_unlock(&ps->barrier_lock);
        return MUSTER_ERR_PEER_LOST;
    }
    uint64_t mine = ps->barrier_passed;
    ps->barrier_waiting++;
    if (pass_if_complete(ps)) {
        (void)pthread_mutex_unlock(&ps->barrier_lock);
        muster_mesh_enter_barrier(ps->mesh);
        (void)pthread_mutex_lock(&ps->barrier_lock);
    }
    // A loss is for good: whoever comes after it waits for nobody.
    while (ps->barrier_passed == mine && !ps->barrier_cancelled &&
           ps->barrier_status == MUSTER_OK) {
        (void)pthread_cond_wait(&ps->barrier_cond, &ps->barrier_lock);
    }
    muster_status status =
        ps->barrier_cancelled ? MUSTER_ERR_CANCELLED : ps->barrier_status;
    (void)pthread_mutex_unlock(&ps->barrier_lock);
    return status;
}

void muster_ps_barrier_cancel(muster_ps *ps)
{
    (void)pthread_mutex_lock(&ps->barrier_lock);
    ps->barrier_cancelled = true;
    (void)pthread_cond_broadcast(&ps->barrier_cond);
    (void)pthread_mutex_unlock(&ps->barrier_lock);
}
