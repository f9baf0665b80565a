/*
 * base/threads.h -- a few threads that do numbered tasks together, again and
 * again.
 *
 *     muster_threads_create(4, &pool);
 *     muster_threads_run(pool, 7, task, context);  // task(context, 0) .. 6
 *     muster_threads_free(pool);
 *
 * The calling thread takes part. Threads take the lowest number that is left,
 * so tasks must not depend on one another, nor on which thread runs them.
 * Who waits, for a run or for its end, looks for some milliseconds and then
 * sleeps: a task may take minutes, and runs of microseconds wake nobody.
 * Short work is shared by the threads that are awake; nobody is woken for it:
 *
 *     parts = muster_threads_parts(pool, work_us);
 *     muster_threads_run_some(pool, parts, work_us, task, context);
 *
 *   Ownership    The context is lent until run returns.
 *   Threads      A pool belongs to one thread at a time; tasks may not use it.
 *   Allocation   create alone.
 */
#ifndef MUSTER_BASE_THREADS_H
#define MUSTER_BASE_THREADS_H

#include <stdint.h>

#include "muster/status.h"

#define MUSTER_THREADS_MAX 64u

typedef struct muster_threads muster_threads;
typedef void (*muster_threads_task)(void *context, uint32_t index);

/* Processors that this program may use: 1 to MUSTER_THREADS_MAX. */
uint32_t muster_threads_here(void);

/* `threads`, the caller's among them: 1 to MUSTER_THREADS_MAX.
 * MUSTER_ERR_NO_MEMORY: the system has no memory or no threads left. */
MUSTER_CHECKED muster_status muster_threads_create(uint32_t threads,
                                                   muster_threads **pool_out);
/* The same, and all threads but the caller give way as below. */
MUSTER_CHECKED muster_status
muster_threads_create_yielding(uint32_t threads, muster_threads **pool_out);

/* From now on the calling thread, it alone, gives way to others, as nice(1)
 * makes a process. */
void muster_threads_give_way(void);

/* NULL is allowed and does nothing. */
void muster_threads_free(muster_threads *pool);

/* The caller's among them; NULL: 1. */
uint32_t muster_threads_count(const muster_threads *pool);

/* Every task has been done when it returns. NULL: the caller does all. */
void muster_threads_run(muster_threads *pool, uint32_t count,
                        muster_threads_task task, void *context);

/* How many parts are worth a thread each, of work that takes one thread
 * `work_us` microseconds: 1 to the number of threads. A guess from sizes, never
 * a clock's reading, so that the same work has the same parts. */
uint32_t muster_threads_parts(const muster_threads *pool, double work_us);

/* Run them: threads that sleep are woken where that is worth it. */
void muster_threads_run_some(muster_threads *pool, uint32_t count,
                             double work_us, muster_threads_task task,
                             void *context);

/* Where part `index` of `parts` of 0..size-1 begins; all but the last end at a
 * multiple of 16. Part `parts` begins at `size`. */
uint64_t muster_threads_part(uint64_t size, uint32_t parts, uint32_t index);

#endif // MUSTER_BASE_THREADS_H
