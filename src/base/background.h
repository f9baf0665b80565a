/*
 * base/background.h -- one task on a thread of its own; its owner goes on.
 *
 *     muster_background_start(&background, task, context);
 *     .. muster_background_wait(&background, 0) ..   // true: it has ended
 *
 *   Lifecycle    A struct of zeros is idle. Every start is followed by waits
 *                until one says that the task has ended; then it is idle again.
 *   Ownership    The struct and the context are lent until then.
 *   Threads      start and wait: the owner's.
 */
#ifndef MUSTER_BASE_BACKGROUND_H
#define MUSTER_BASE_BACKGROUND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct muster_background {
    bool is_running; // the owner's: started, and not yet known to have ended
    bool has_ended;  // under the mutex
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    void (*task)(void *context);
    void *context;
} muster_background;

/* False: the system has no thread left, and nothing was started. */
bool muster_background_start(muster_background *background,
                             void (*task)(void *context), void *context);

/* Wait up to so many milliseconds (UINT32_MAX: for ever) for the end. True: it
 * has ended, or nothing was started. */
bool muster_background_wait(muster_background *background, uint32_t wait_ms);

#endif // MUSTER_BASE_BACKGROUND_H
