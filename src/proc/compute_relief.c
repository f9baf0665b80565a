/*
 * compute_relief.c -- the second thread of a compute that yields.
 *
 * The first one runs where a processor is idle. When others leave none idle it
 * gets nowhere, so this one, of low priority but not the lowest, looks every
 * 100 ms while a job runs. When no piece was done meanwhile it wants the job.
 * The first hands it over after the piece that it is in, and waits for the end.
 * So the engine is always one thread's, and changes hands under the mutex.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/threads.h"
#include "proc/compute_inside.h"

#define LOOK_NS (100 * MUSTER_NS_PER_MS)

void muster_relief_tell(muster_compute *compute)
{
    if (compute->opts.yields) {
        (void)pthread_cond_signal(&compute->relief.changed);
    }
}

muster_status muster_relief_hand_over(muster_compute *compute)
{
    muster_compute_lock(compute);
    compute->relief.handed = true;
    (void)pthread_cond_signal(&compute->relief.changed);
    while (compute->relief.handed) {
        (void)pthread_cond_wait(&compute->changed, &compute->mutex);
    }
    muster_status status = compute->relief.status;
    muster_compute_unlock(compute);
    return status;
}

/* The second thread: what is left of the job, or until it is cancelled. */
static void do_the_rest(muster_compute *compute)
{
    const muster_compute_engine *engine = &compute->opts.engine;
    muster_status status = MUSTER_IN_PROGRESS;
    muster_compute_unlock(compute);
    while (status == MUSTER_IN_PROGRESS && !muster_compute_cancelled(compute)) {
        status = engine->piece(engine->self);
        muster_compute_made_progress(compute);
    }
    muster_compute_lock(compute);
    compute->relief.status = status;
    compute->relief.handed = false;
    (void)pthread_cond_broadcast(&compute->changed);
}

/* Wait for LOOK_NS: has the running job got nowhere meanwhile? */
static bool is_starved(muster_compute *compute)
{
    uint64_t seen = muster_compute_progress(compute);
    uint64_t job = compute->running_id;
    int64_t until_ns = muster_clock_ns() + LOOK_NS;
    struct timespec at = {(time_t)(until_ns / MUSTER_NS_PER_S),
                          (long)(until_ns % MUSTER_NS_PER_S)};
    int failed = 0;
    while (compute->running && compute->running_id == job &&
           !compute->stopping && failed == 0) {
        failed = pthread_cond_timedwait(&compute->relief.changed,
                                        &compute->mutex, &at);
    }
    return failed == ETIMEDOUT && muster_compute_progress(compute) == seen;
}

void *muster_relief_work(void *argument)
{
    muster_compute *compute = argument;
    muster_threads_give_way();
    muster_compute_lock(compute);
    while (!compute->stopping) {
        if (!compute->running) {
            (void)pthread_cond_wait(&compute->relief.changed, &compute->mutex);
        } else if (is_starved(compute)) {
            atomic_store_explicit(&compute->relief.wanted, true,
                                  memory_order_relaxed);
            while (compute->running && !compute->relief.handed) {
                (void)pthread_cond_wait(&compute->relief.changed,
                                        &compute->mutex);
            }
            atomic_store_explicit(&compute->relief.wanted, false,
                                  memory_order_relaxed);
            if (compute->relief.handed) {
                do_the_rest(compute);
            }
        }
    }
    muster_compute_unlock(compute);
    return NULL;
}
