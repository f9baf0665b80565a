/*
 * parallel.c -- one counter, and threads that take numbers from it.
 */
#include "partition/parallel.h"

#include <pthread.h>
#include <stddef.h>

#include "base/mem.h"

typedef struct parallel_run {
    muster_parallel_task task;
    void *context;
    uint32_t count;
    pthread_mutex_t mutex; // guards what follows
    uint32_t next;
    uint32_t failed; // number of the failed task
    muster_status status;
} parallel_run;

/* The next number, or `count` when there is nothing left to begin. */
static uint32_t take_number(parallel_run *run)
{
    pthread_mutex_lock(&run->mutex);
    uint32_t index = run->count;
    if (run->status == MUSTER_OK && run->next < run->count) {
        index = run->next++;
    }
    pthread_mutex_unlock(&run->mutex);
    return index;
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

static void *run_tasks(void *argument)
{
    parallel_run *run = argument;
    for (;;) {
        uint32_t index = take_number(run);
        if (index == run->count) {
            return NULL;
        }
        muster_status status = run->task(run->context, index);
        if (status != MUSTER_OK) {
            note_failure(run, index, status);
        }
    }
}

muster_status muster_parallel_run(uint32_t threads, uint32_t count,
                                  muster_parallel_task task, void *context)
{
    parallel_run run = {.task = task, .context = context, .count = count};
    uint32_t others = threads > count ? count : threads;
    others = others > 0 ? others - 1 : 0;
    pthread_t *started = muster_mem_array(others, sizeof(*started));
    if (started == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    if (pthread_mutex_init(&run.mutex, NULL) != 0) {
        muster_mem_free(started);
        return MUSTER_ERR_NO_MEMORY;
    }
    uint32_t running = 0;
    while (running < others &&
           pthread_create(&started[running], NULL, run_tasks, &run) == 0) {
        running++;
    }
    run_tasks(&run);
    for (uint32_t i = 0; i < running; i++) {
        pthread_join(started[i], NULL);
    }
    pthread_mutex_destroy(&run.mutex);
    muster_mem_free(started);
    return run.status;
}
