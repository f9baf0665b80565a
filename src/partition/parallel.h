/*
 * partition/parallel.h -- run numbered tasks on some threads.
 *
 * Threads take the lowest number that is left, so tasks must not depend on one
 * another, nor on which thread runs them. The calling thread takes part; where
 * a thread cannot be started the others do its work.
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
