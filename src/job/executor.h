/*
 * job/executor.h -- carries out the jobs that roles ask for.
 *
 * The arithmetic behind role/job.h, without threads, clocks or sockets: the
 * runtime drives it on its compute thread, the simulator in virtual time. Long
 * jobs are done in pieces of a few milliseconds, so that the driver can look at
 * a cancel flag, or sleep, between them.
 *
 *     muster_executor_begin(executor, &job);
 *     while (muster_executor_piece(executor) == MUSTER_IN_PROGRESS) { ... }
 *     muster_executor_end(executor, &result);
 *
 *   Promise      After SETUP, the result of a job depends on its inputs only:
 *                an executor holds parts, plan, model shape and (coordinator)
 *                theta, optimiser state and the data set.
 *   Lifecycle    create; jobs one after another; free. A job in the middle may
 *                be ended early with muster_executor_end: MUSTER_ERR_CANCELLED.
 *   Ownership    begin takes over the job's references. The result's output is
 *                the caller's reference.
 *   Allocation   SETUP, ADOPT, LOAD allocate. GRADIENT and UPDATE take their
 *                output blob from `alloc` and nothing else.
 */
#ifndef MUSTER_JOB_EXECUTOR_H
#define MUSTER_JOB_EXECUTOR_H

#include "muster/status.h"
#include "role/job.h"

typedef struct muster_executor muster_executor;

/* Where outputs live: net blobs in a process, heap blobs in the simulator. */
typedef struct muster_executor_alloc {
    muster_blob *(*make)(void *context, size_t bytes);
    void *context;
} muster_executor_alloc;

/* A worker's executor: knows nothing until SETUP. */
MUSTER_CHECKED muster_status muster_executor_create_worker(
    const muster_executor_alloc *alloc, muster_executor **executor_out);

void muster_executor_free(muster_executor *executor);

/* Start a job. Failures come out of end(). */
void muster_executor_begin(muster_executor *executor, muster_job *job);

/* Do a piece (about 5 ms at most). MUSTER_IN_PROGRESS: call again; anything
 * else: call end. */
muster_status muster_executor_piece(muster_executor *executor);

/* Finish, or cancel when pieces are left; fills result_out (status included).
 */
void muster_executor_end(muster_executor *executor,
                         muster_job_result *result_out);

#endif // MUSTER_JOB_EXECUTOR_H
