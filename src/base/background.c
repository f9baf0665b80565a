/*
 * A thread, and a flag under a mutex that says that its task has ended.
 */
#define _POSIX_C_SOURCE 200809L
#include "base/background.h"

#include <signal.h>
#include <time.h>

#include "base/assert.h"

static void *run(void *argument)
{
    muster_background *background = argument;
    background->task(background->context);
    pthread_mutex_lock(&background->mutex);
    background->has_ended = true;
    pthread_cond_signal(&background->ended);
    pthread_mutex_unlock(&background->mutex);
    return NULL;
}

static void prepare(muster_background *background)
{
    // Never fail on Linux: a clock that exists, otherwise default attributes.
    pthread_condattr_t monotonic;
    int failed = pthread_mutex_init(&background->mutex, NULL);
    failed |= pthread_condattr_init(&monotonic);
    failed |= pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    failed |= pthread_cond_init(&background->ended, &monotonic);
    failed |= pthread_condattr_destroy(&monotonic);
    MUSTER_ASSERT(failed == 0);
}

static void release(muster_background *background)
{
    pthread_cond_destroy(&background->ended);
    pthread_mutex_destroy(&background->mutex);
}

bool muster_background_start(muster_background *background,
                             void (*task)(void *context), void *context)
{
    MUSTER_ASSERT(!background->is_running);
    sigset_t all;
    sigset_t before;
    background->task = task;
    background->context = context;
    background->has_ended = false;
    prepare(background);
    // Signals are the program's own threads' business.
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    background->is_running =
        pthread_create(&background->thread, NULL, run, background) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!background->is_running) {
        release(background);
    }
    return background->is_running;
}

static struct timespec after_ms(uint32_t wait_ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += wait_ms / 1000;
    at.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

bool muster_background_wait(muster_background *background, uint32_t wait_ms)
{
    if (!background->is_running) {
        return true;
    }
    const struct timespec until = after_ms(wait_ms);
    int failed = 0;
    pthread_mutex_lock(&background->mutex);
    while (!background->has_ended && failed == 0) {
        failed = wait_ms == UINT32_MAX
                     ? pthread_cond_wait(&background->ended, &background->mutex)
                     : pthread_cond_timedwait(&background->ended,
                                              &background->mutex, &until);
    }
    bool has_ended = background->has_ended;
    pthread_mutex_unlock(&background->mutex);
    if (has_ended) {
        pthread_join(background->thread, NULL);
        release(background);
        background->is_running = false;
    }
    return has_ended;
}
