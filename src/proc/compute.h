/*
 * proc/compute.h -- the compute thread of a process.
 *
 * Jobs go in from the network thread, are carried out one after another by an
 * engine (the executor) in pieces of a few milliseconds, and their results come
 * back in order. Between pieces the thread looks at a cancel flag. On every
 * result `wake` is called, so that the network thread comes to take it.
 *
 *   Promise      Every submitted job gives exactly one result, also when it
 *                was cancelled, before stop. A cancelled job that had not
 *                finished ends with MUSTER_ERR_CANCELLED and no output.
 *   Lifecycle    start; submit, cancel, take; stop (cancels and drops what is
 *                left, and joins the thread).
 *   Ownership    submit takes over the job's references, also when it refuses.
 *                A taken result's output is the caller's reference. The
 *                engine is lent until stop.
 *   Threads      All functions: the network thread. progress and busy: any.
 *   Allocation   At start only: the queue is bounded.
 *
 * A DECODE job, which waits for messages that are still arriving, gives way to
 * every other: it ends with MUSTER_ERR_CANCELLED when one is submitted. While
 * nothing has come since it last looked (muster_compute_more), it sleeps.
 *
 * A job's busy time begins when it was submitted, or when the job before it
 * ended: what the thread then waits for a core is its own time too.
 *
 * Slowness on demand: after the pieces of each GRADIENT or COMBINE job the
 * thread sleeps until muster_slowness_until_ns(), and with a factor also before
 * them, muster_slowness_before_ns() by the last such job. The sleep counts as
 * busy time, counts as progress every 100 ms, and ends at once when the job is
 * cancelled: a slow machine also stops when told so.
 */
#ifndef MUSTER_PROC_COMPUTE_H
#define MUSTER_PROC_COMPUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/slowness.h"
#include "job/executor.h"
#include "muster/status.h"
#include "role/job.h"

typedef struct muster_compute muster_compute;

/* What carries out a job: begin, pieces until one is neither MUSTER_IN_PROGRESS
 * nor MUSTER_ERR_AGAIN or the job is cancelled, end. The contract is that of
 * job/executor.h. */
typedef struct muster_compute_engine {
    void *self;
    void (*begin)(void *self, muster_job *job);
    muster_status (*piece)(void *self);
    void (*end)(void *self, muster_job_result *result_out);
} muster_compute_engine;

/* The engine that an executor is. */
muster_compute_engine muster_compute_engine_of(muster_executor *executor);

typedef struct muster_compute_opts {
    muster_compute_engine engine;
    muster_slowness slowness; // its delay: the compute thread's until stop
    uint32_t queue_max;       // jobs submitted and not yet taken
    bool yields;              // the thread gives way to others: base/threads.h
    void (*wake)(void *net);  // called on the compute thread
    void *wake_context;
} muster_compute_opts;

MUSTER_CHECKED muster_status
muster_compute_start(const muster_compute_opts *opts, muster_error *error_out,
                     muster_compute **compute_out);
void muster_compute_stop(muster_compute *compute);

/* MUSTER_ERR_AGAIN: queue_max jobs are under way; the job was dropped. */
MUSTER_CHECKED muster_status muster_compute_submit(muster_compute *compute,
                                                   muster_job *job);

/* Of a job that is queued or running; unknown ids are fine. */
void muster_compute_cancel(muster_compute *compute, uint64_t job_id);

/* More of a message has come: a job that waits for it looks again. */
void muster_compute_more(muster_compute *compute);

/* The next result, if there is one. */
bool muster_compute_take(muster_compute *compute,
                         muster_job_result *result_out);

/* Pieces of work done since start: what heartbeats carry. */
uint64_t muster_compute_progress(const muster_compute *compute);
bool muster_compute_busy(const muster_compute *compute);

#endif // MUSTER_PROC_COMPUTE_H
