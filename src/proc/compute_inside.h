/*
 * proc/compute_inside.h -- what compute.c and compute_relief.c share.
 */
#ifndef MUSTER_PROC_COMPUTE_INSIDE_H
#define MUSTER_PROC_COMPUTE_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/assert.h"
#include "proc/compute.h"

typedef struct slot {
    muster_job job;
    muster_job_result result;
    int64_t given_ns; // when it was submitted
    bool cancelled;   // while it still waited
} slot;

struct muster_compute {
    muster_compute_opts opts;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed; // a job came, or a cancel, or more of a message,
                            // or the end
    slot *slots;            // opts.queue_max of them
    uint64_t taken, done, submitted;
    bool stopping;
    uint64_t arrivals;   // how often more of a message has come
    bool awaits_more;    // the running job sleeps until then
    uint64_t running_id; // valid while `running`
    bool running;
    struct { // with `yields`: the second thread
        pthread_t thread;
        pthread_cond_t changed; // a job began, was handed over, or ended
        bool handed;            // the running job is the second thread's
        muster_status status;   // of its last piece
        _Atomic bool wanted;    // the thread shall hand the job over
    } relief;
    // The thread's own:
    int64_t free_ns; // when the last job ended
    struct {         // the last job whose CPU time was taken
        muster_job_kind kind;
        uint32_t stage;
        int64_t cpu_ns;
    } timed;
    _Atomic bool cancel_running;
    _Atomic uint64_t progress;
    _Atomic bool busy;
};

static inline void muster_compute_lock(muster_compute *compute)
{
    int failed = pthread_mutex_lock(&compute->mutex);
    MUSTER_ASSERT(failed == 0);
}

static inline void muster_compute_unlock(muster_compute *compute)
{
    int failed = pthread_mutex_unlock(&compute->mutex);
    MUSTER_ASSERT(failed == 0);
}

static inline bool muster_compute_cancelled(const muster_compute *compute)
{
    return atomic_load_explicit(&compute->cancel_running, memory_order_relaxed);
}

static inline void muster_compute_made_progress(muster_compute *compute)
{
    atomic_fetch_add_explicit(&compute->progress, 1, memory_order_relaxed);
}

/* With `yields`: the other thread (compute_relief.c).
 * A job began or ended. */
void muster_relief_tell(muster_compute *compute);
/* It wants the job: wait for the pieces; the status of the last one. */
muster_status muster_relief_hand_over(muster_compute *compute);
/* What it does, from start to stop. */
void *muster_relief_work(void *compute);

#endif // MUSTER_PROC_COMPUTE_INSIDE_H
