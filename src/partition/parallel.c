/*
 * parallel.c -- a pool of base/threads.h for one loop, and the status of its
 * tasks.
 */
#include "partition/parallel.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/threads.h"

typedef struct parallel_run {
    muster_parallel_task task;
    void *context;
    pthread_mutex_t mutex; // guards what follows
    uint32_t failed;       // number of the failed task
    muster_status status;
} parallel_run;

static bool has_failed(parallel_run *run)
{
    pthread_mutex_lock(&run->mutex);
    bool failed = run->status != MUSTER_OK;
    pthread_mutex_unlock(&run->mutex);
    return failed;
}

static void note_failure(parallel_run *run, uint32_t index,
                         muster_status status)
{
    pthread_mutex_lock(&run->mutex);
    if (run->status == MUSTER_OK || index < run->failed) {
        run->status = status;
        run->failed = index;
    }
    pthread_mutex_unlock(&run->mutex);
}

static void run_task(void *context, uint32_t index)
{
    parallel_run *run = context;
    if (has_failed(run)) {
        return;
    }
    muster_status status = run->task(run->context, index);
    if (status != MUSTER_OK) {
        note_failure(run, index, status);
    }
}

muster_status muster_parallel_run(uint32_t threads, uint32_t count,
                                  muster_parallel_task task, void *context)
{
    parallel_run run = {.task = task, .context = context};
    muster_threads *pool = NULL;
    threads = threads < count ? threads : count;
    threads = threads < MUSTER_THREADS_MAX ? threads : MUSTER_THREADS_MAX;
    if (pthread_mutex_init(&run.mutex, NULL) != 0) {
        return MUSTER_ERR_NO_MEMORY;
    }
    if (threads > 1 && muster_threads_create(threads, &pool) != MUSTER_OK) {
        pool = NULL; // the caller does all
    }
    muster_threads_run(pool, count, run_task, &run);
    muster_threads_free(pool);
    pthread_mutex_destroy(&run.mutex);
    return run.status;
}
