/*
 * partition/parallel.h -- run numbered tasks that may fail on some threads.
 *
 * Threads and the order of tasks are those of base/threads.h; where the system
 * gives no threads the caller does all.
 *
 *   Determinism  The status is that of the failed task of lowest number among
 *                those that ran; after a failure no new task is begun.
 */
#ifndef MUSTER_PARTITION_PARALLEL_H
#define MUSTER_PARTITION_PARALLEL_H

#include <stdint.h>

#include "muster/status.h"

typedef muster_status (*muster_parallel_task)(void *context, uint32_t index);

/* threads 0 counts as 1. MUSTER_OK, MUSTER_ERR_NO_MEMORY, or what a task
 * said. */
MUSTER_CHECKED muster_status muster_parallel_run(uint32_t threads,
                                                 uint32_t count,
                                                 muster_parallel_task task,
                                                 void *context);

#endif // MUSTER_PARTITION_PARALLEL_H
