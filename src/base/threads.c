/*
 * threads.c -- see threads.h.
 *
 * One mutex guards everything but `next`, the number to take. A run is open
 * from its start until the caller finds no number left; a thread that wakes
 * later finds it closed and sleeps on, so that nobody waits for it. Threads
 * look for a new run for a short while before they sleep: runs come one right
 * after another, and waking up takes as long as a small product.
 *
 * Invariants
 *   1. `task`, `context` and `count` change only while no run is open and
 *      nobody is `active`.
 *   2. `runs` counts the runs so far: a thread joins each at most once.
 */
#define _GNU_SOURCE
#include "base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/assert.h"
#include "base/mem.h"

#define LOOKS 2000u // about 50 microseconds

struct muster_threads {
    pthread_mutex_t mutex;
    pthread_cond_t opened; // a run began, or the end
    pthread_cond_t idle;   // nobody is active
    pthread_t threads[MUSTER_THREADS_MAX];
    uint32_t started; // of them: all but the caller
    bool is_ending;
    bool is_open;
    uint32_t active; // threads in the run
    _Atomic uint32_t runs;
    muster_threads_task task;
    void *context;
    uint32_t count;
    _Atomic uint32_t next;
};

uint32_t muster_threads_here(void)
{
    cpu_set_t here;
    int count = 0;
    if (sched_getaffinity(0, sizeof(here), &here) == 0) {
        count = CPU_COUNT(&here);
    }
    uint32_t some = count > 0 ? (uint32_t)count : 1;
    return some < MUSTER_THREADS_MAX ? some : MUSTER_THREADS_MAX;
}

static void work(muster_threads *pool)
{
    for (;;) {
        uint32_t index =
            atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (index >= pool->count) {
            return;
        }
        pool->task(pool->context, index);
    }
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void look_for_run(const muster_threads *pool, uint32_t seen)
{
    for (uint32_t i = 0; i < LOOKS; i++) {
        if (atomic_load_explicit(&pool->runs, memory_order_relaxed) != seen) {
            return;
        }
        relax();
    }
}

static void *serve(void *argument)
{
    muster_threads *pool = argument;
    uint32_t seen = 0;
    for (;;) {
        look_for_run(pool, seen);
        pthread_mutex_lock(&pool->mutex);
        while (!pool->is_ending && (!pool->is_open || pool->runs == seen)) {
            pthread_cond_wait(&pool->opened, &pool->mutex);
        }
        if (pool->is_ending) {
            pthread_mutex_unlock(&pool->mutex);
            return NULL;
        }
        seen = pool->runs;
        pool->active++;
        pthread_mutex_unlock(&pool->mutex);
        work(pool);
        pthread_mutex_lock(&pool->mutex);
        if (--pool->active == 0) {
            pthread_cond_signal(&pool->idle);
        }
        pthread_mutex_unlock(&pool->mutex);
    }
}

/* Signals are the program's own threads' business. */
static bool start_thread(muster_threads *pool)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started =
        pthread_create(&pool->threads[pool->started], NULL, serve, pool) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pool->started += is_started;
    return is_started;
}

muster_status muster_threads_create(uint32_t threads, muster_threads **pool_out)
{
    MUSTER_ASSERT(threads > 0 && threads <= MUSTER_THREADS_MAX);
    muster_threads *pool = muster_mem_array(1, sizeof(*pool));
    if (pool == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    // Never fail on Linux: attributes are the default ones.
    int failed = pthread_mutex_init(&pool->mutex, NULL);
    failed |= pthread_cond_init(&pool->opened, NULL);
    failed |= pthread_cond_init(&pool->idle, NULL);
    MUSTER_ASSERT(failed == 0);
    while (pool->started + 1 < threads) {
        if (!start_thread(pool)) {
            muster_threads_free(pool);
            return MUSTER_ERR_NO_MEMORY;
        }
    }
    *pool_out = pool;
    return MUSTER_OK;
}

void muster_threads_free(muster_threads *pool)
{
    if (pool == NULL) {
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    pool->is_ending = true;
    pthread_cond_broadcast(&pool->opened);
    pthread_mutex_unlock(&pool->mutex);
    for (uint32_t i = 0; i < pool->started; i++) {
        pthread_join(pool->threads[i], NULL);
    }
    pthread_cond_destroy(&pool->idle);
    pthread_cond_destroy(&pool->opened);
    pthread_mutex_destroy(&pool->mutex);
    muster_mem_free(pool);
}

uint32_t muster_threads_count(const muster_threads *pool)
{
    return pool != NULL ? pool->started + 1 : 1;
}

void muster_threads_run(muster_threads *pool, uint32_t count,
                        muster_threads_task task, void *context)
{
    if (pool == NULL || pool->started == 0 || count < 2) {
        for (uint32_t i = 0; i < count; i++) {
            task(context, i);
        }
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    MUSTER_ASSERT(!pool->is_open && pool->active == 0);
    pool->task = task;
    pool->context = context;
    pool->count = count;
    pool->next = 0;
    pool->is_open = true;
    pool->runs++;
    pthread_cond_broadcast(&pool->opened);
    pthread_mutex_unlock(&pool->mutex);
    work(pool);
    pthread_mutex_lock(&pool->mutex);
    pool->is_open = false;
    while (pool->active > 0) {
        pthread_cond_wait(&pool->idle, &pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
}

uint64_t muster_threads_part(uint64_t size, uint32_t parts, uint32_t index)
{
    uint64_t groups = (size + 15) / 16;
    uint64_t begin = groups * index / parts * 16;
    return begin < size ? begin : size;
}
