/*
 * compute.c -- see compute.h.
 *
 * One mutex guards a ring of slots. A slot is filled by submit, worked on by
 * the thread, and emptied by take; the three positions chase each other:
 *
 *     taken <= done <= submitted <= taken + capacity
 *
 * Invariants
 *   1. Slots taken..done-1 hold results, done..submitted-1 hold jobs.
 *   2. The thread alone touches the engine, and never under the mutex.
 *   3. `cancel_running` is set under the mutex and read between pieces; it is
 *      cleared when the next job begins.
 */
#define _POSIX_C_SOURCE 200809L
#include "proc/compute.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/threads.h"

#define NAP_NS (100 * MUSTER_NS_PER_MS)

typedef struct slot {
    muster_job job;
    muster_job_result result;
    int64_t given_ns; // when it was submitted
    bool cancelled;   // while it still waited
} slot;

struct muster_compute {
    muster_compute_opts opts;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed; // a job came, or a cancel, or more of a message,
                            // or the end
    slot *slots;            // opts.queue_max of them
    uint64_t taken, done, submitted;
    bool stopping;
    uint64_t arrivals;   // how often more of a message has come
    bool awaits_more;    // the running job sleeps until then
    uint64_t running_id; // valid while `running`
    bool running;
    // The thread's own:
    int64_t free_ns; // when the last job ended
    struct {         // the last job whose CPU time was taken
        muster_job_kind kind;
        uint32_t stage;
        int64_t cpu_ns;
    } timed;
    _Atomic bool cancel_running;
    _Atomic uint64_t progress;
    _Atomic bool busy;
};

static void executor_begin(void *self, muster_job *job)
{
    muster_executor_begin(self, job);
}

static muster_status executor_piece(void *self)
{
    return muster_executor_piece(self);
}

static void executor_end(void *self, muster_job_result *result_out)
{
    muster_executor_end(self, result_out);
}

muster_compute_engine muster_compute_engine_of(muster_executor *executor)
{
    muster_compute_engine engine = {executor, executor_begin, executor_piece,
                                    executor_end};
    return engine;
}

static slot *slot_at(muster_compute *compute, uint64_t position)
{
    return &compute->slots[position % compute->opts.queue_max];
}

static void lock(muster_compute *compute)
{
    int failed = pthread_mutex_lock(&compute->mutex);
    MUSTER_ASSERT(failed == 0);
}

static void unlock(muster_compute *compute)
{
    int failed = pthread_mutex_unlock(&compute->mutex);
    MUSTER_ASSERT(failed == 0);
}

static bool cancelled(const muster_compute *compute)
{
    return atomic_load_explicit(&compute->cancel_running, memory_order_relaxed);
}

static void made_progress(muster_compute *compute)
{
    atomic_fetch_add_explicit(&compute->progress, 1, memory_order_relaxed);
}

/* Sleep until until_ns or a cancel, counting progress now and then. */
static void nap_until(muster_compute *compute, int64_t until_ns)
{
    lock(compute);
    for (;;) {
        int64_t now = muster_clock_ns();
        if (now >= until_ns || cancelled(compute)) {
            break;
        }
        int64_t wake = until_ns - now > NAP_NS ? now + NAP_NS : until_ns;
        struct timespec at = {(time_t)(wake / MUSTER_NS_PER_S),
                              (long)(wake % MUSTER_NS_PER_S)};
        (void)pthread_cond_timedwait(&compute->changed, &compute->mutex, &at);
        made_progress(compute);
    }
    unlock(compute);
}

static void be_slow(muster_compute *compute, uint64_t step, int64_t start_ns,
                    const muster_delay_work *work)
{
    int64_t now_ns = muster_clock_ns();
    int64_t until_ns = muster_slowness_until_ns(&compute->opts.slowness, step,
                                                work, start_ns, now_ns);
    if (until_ns > now_ns) {
        nap_until(compute, until_ns);
    }
}

/* Some of a factor's sleep comes before the work, as the last of its like
 * was. */
static void be_slow_before(muster_compute *compute, const muster_job *job,
                           int64_t start_ns)
{
    if (job->kind == compute->timed.kind &&
        job->stage == compute->timed.stage) {
        nap_until(compute, start_ns + muster_slowness_before_ns(
                                          &compute->opts.slowness, job->step,
                                          compute->timed.cpu_ns));
    }
}

static void note_time(muster_compute *compute, const muster_job *job,
                      int64_t cpu_ns)
{
    compute->timed.kind = job->kind;
    compute->timed.stage = job->stage;
    compute->timed.cpu_ns = cpu_ns;
}

/* Of a whole gradient, of which the job's answer is a part. */
static double gradient_bytes(const muster_job_result *result)
{
    return result->output != NULL && result->message > 0
               ? (double)result->output->bytes / result->message
               : 0;
}

static void fail_result(const muster_job *job, muster_status status,
                        muster_job_result *result_out)
{
    memset(result_out, 0, sizeof *result_out);
    result_out->id = job->id;
    result_out->kind = job->kind;
    result_out->status = status;
    result_out->step = job->step;
    result_out->shard = job->shard;
    result_out->stage = job->stage;
}

/* Does another job wait? A DECODE gives way to it. */
static bool is_pressed(const muster_compute *compute)
{
    return compute->submitted > compute->done + 1 || compute->stopping;
}

/* A piece of a job that waits for messages. What comes while it is done counts
 * as come after it. */
static muster_status decode_some(muster_compute *compute)
{
    lock(compute);
    uint64_t seen = compute->arrivals;
    bool pressed = is_pressed(compute);
    unlock(compute);
    if (pressed) {
        return MUSTER_ERR_CANCELLED;
    }
    const muster_compute_engine *engine = &compute->opts.engine;
    muster_status status = engine->piece(engine->self);
    if (status != MUSTER_ERR_AGAIN) {
        return status;
    }
    lock(compute);
    compute->awaits_more = true;
    while (compute->arrivals == seen && !is_pressed(compute) &&
           !cancelled(compute)) {
        (void)pthread_cond_wait(&compute->changed, &compute->mutex);
    }
    compute->awaits_more = false;
    unlock(compute);
    return MUSTER_IN_PROGRESS;
}

/* Carry out one job, the thread's since start_ns, from begin to end. */
static void run_job(muster_compute *compute, muster_job *job, int64_t start_ns,
                    muster_job_result *result_out)
{
    const muster_compute_engine *engine = &compute->opts.engine;
    muster_job known = *job; // ids only: begin takes over the references
    bool slow =
        job->kind == MUSTER_JOB_GRADIENT || job->kind == MUSTER_JOB_COMBINE;
    // A system call, so only when a factor needs it.
    bool timed = slow && muster_slowness_multiplies(&compute->opts.slowness);
    if (timed) {
        be_slow_before(compute, &known, start_ns);
    }
    int64_t cpu_ns = timed ? muster_clock_thread_cpu_ns() : 0;

    engine->begin(engine->self, job);
    muster_status status = MUSTER_IN_PROGRESS;
    while (status == MUSTER_IN_PROGRESS && !cancelled(compute)) {
        status = known.kind == MUSTER_JOB_DECODE ? decode_some(compute)
                                                 : engine->piece(engine->self);
        made_progress(compute);
    }
    engine->end(engine->self, result_out);
    if (slow && result_out->status >= 0 && !cancelled(compute)) {
        muster_delay_work work = {
            .share = result_out->share,
            .message = result_out->message,
            .follows = known.follows,
            .compute_ns = timed ? muster_clock_thread_cpu_ns() - cpu_ns : 0,
            .bytes = gradient_bytes(result_out)};
        note_time(compute, &known, work.compute_ns);
        be_slow(compute, known.step, start_ns, &work);
    }
    if (slow && cancelled(compute) && result_out->status >= 0) {
        muster_blob_unref(result_out->output);
        fail_result(&known, MUSTER_ERR_CANCELLED, result_out);
    }
    compute->free_ns = muster_clock_ns();
    result_out->busy_ns = compute->free_ns - start_ns;
}

/* Work on the job at `done`; called and left with the mutex held. */
static void work_one(muster_compute *compute)
{
    slot *next = slot_at(compute, compute->done);
    muster_job job = next->job;
    int64_t start_ns =
        next->given_ns > compute->free_ns ? next->given_ns : compute->free_ns;
    bool skip = next->cancelled || compute->stopping;
    compute->running_id = job.id;
    compute->running = true;
    atomic_store_explicit(&compute->cancel_running, false,
                          memory_order_relaxed);
    atomic_store_explicit(&compute->busy, true, memory_order_relaxed);
    unlock(compute);

    muster_job_result result;
    if (skip) {
        fail_result(&job, MUSTER_ERR_CANCELLED, &result);
        muster_job_fini(&job);
    } else {
        run_job(compute, &job, start_ns, &result);
    }

    lock(compute);
    next->result = result;
    compute->running = false;
    compute->done++;
    atomic_store_explicit(&compute->busy, compute->done < compute->submitted,
                          memory_order_relaxed);
}

static void *work(void *argument)
{
    muster_compute *compute = argument;
    if (compute->opts.yields) {
        muster_threads_give_way();
    }
    lock(compute);
    while (!compute->stopping || compute->done < compute->submitted) {
        if (compute->done == compute->submitted) {
            (void)pthread_cond_wait(&compute->changed, &compute->mutex);
            continue;
        }
        work_one(compute);
        unlock(compute);
        compute->opts.wake(compute->opts.wake_context);
        lock(compute);
    }
    unlock(compute);
    return NULL;
}

static bool init_locks(muster_compute *compute)
{
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic) != 0) {
        return false;
    }
    bool ok = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0 &&
              pthread_mutex_init(&compute->mutex, NULL) == 0;
    if (ok && pthread_cond_init(&compute->changed, &monotonic) != 0) {
        (void)pthread_mutex_destroy(&compute->mutex);
        ok = false;
    }
    (void)pthread_condattr_destroy(&monotonic);
    return ok;
}

/* Signals are the network thread's: the new thread starts with all blocked.
 * Returns 0 or an errno. */
static int start_thread(muster_compute *compute)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    int failed = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (failed == 0) {
        failed = pthread_create(&compute->thread, NULL, work, compute);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    return failed;
}

static muster_status refuse_start(int failed, muster_error *error_out)
{
    char hint[MUSTER_LIMITS_HINT_BYTES];
    return muster_error_set(
        error_out, failed == ENOMEM ? MUSTER_ERR_NO_MEMORY : MUSTER_ERR_SYSTEM,
        "cannot start the compute thread: %s%s", strerror(failed),
        muster_limits_hint(failed, hint));
}

muster_status muster_compute_start(const muster_compute_opts *opts,
                                   muster_error *error_out,
                                   muster_compute **compute_out)
{
    MUSTER_ASSERT(opts->queue_max > 0 && opts->wake != NULL);
    int failed = ENOMEM;
    muster_compute *compute = muster_mem_array(1, sizeof *compute);
    if (compute == NULL) {
        goto out;
    }
    compute->opts = *opts;
    compute->slots = muster_mem_array(opts->queue_max, sizeof(slot));
    if (compute->slots == NULL) {
        goto out_compute;
    }
    if (!init_locks(compute)) {
        goto out_slots;
    }
    failed = start_thread(compute);
    if (failed != 0) {
        goto out_locks;
    }
    *compute_out = compute;
    return MUSTER_OK;

out_locks:
    (void)pthread_cond_destroy(&compute->changed);
    (void)pthread_mutex_destroy(&compute->mutex);
out_slots:
    muster_mem_free(compute->slots);
out_compute:
    muster_mem_free(compute);
out:
    return refuse_start(failed, error_out);
}

void muster_compute_stop(muster_compute *compute)
{
    if (compute == NULL) {
        return;
    }
    lock(compute);
    compute->stopping = true;
    atomic_store_explicit(&compute->cancel_running, true, memory_order_relaxed);
    (void)pthread_cond_broadcast(&compute->changed);
    unlock(compute);
    int failed = pthread_join(compute->thread, NULL);
    MUSTER_ASSERT(failed == 0);
    muster_job_result result;
    while (muster_compute_take(compute, &result)) {
        muster_blob_unref(result.output);
    }
    (void)pthread_cond_destroy(&compute->changed);
    (void)pthread_mutex_destroy(&compute->mutex);
    muster_mem_free(compute->slots);
    muster_mem_free(compute);
}

muster_status muster_compute_submit(muster_compute *compute, muster_job *job)
{
    int64_t now_ns = muster_clock_ns();
    lock(compute);
    bool full = compute->submitted - compute->taken == compute->opts.queue_max;
    if (!full) {
        slot *added = slot_at(compute, compute->submitted);
        added->job = *job;
        added->given_ns = now_ns;
        added->cancelled = false;
        compute->submitted++;
        atomic_store_explicit(&compute->busy, true, memory_order_relaxed);
    }
    unlock(compute);
    if (full) {
        muster_job_fini(job);
        return MUSTER_ERR_AGAIN;
    }
    // Outside the lock, or the thread would wake up only to wait for it.
    (void)pthread_cond_signal(&compute->changed);
    return MUSTER_OK;
}

void muster_compute_cancel(muster_compute *compute, uint64_t job_id)
{
    lock(compute);
    if (compute->running && compute->running_id == job_id) {
        atomic_store_explicit(&compute->cancel_running, true,
                              memory_order_relaxed);
        (void)pthread_cond_broadcast(&compute->changed);
    }
    for (uint64_t i = compute->done; i < compute->submitted; i++) {
        slot *waiting = slot_at(compute, i);
        if (waiting->job.id == job_id) {
            waiting->cancelled = true;
        }
    }
    unlock(compute);
}

void muster_compute_more(muster_compute *compute)
{
    lock(compute);
    compute->arrivals++;
    bool awaited = compute->awaits_more;
    unlock(compute);
    if (awaited) {
        (void)pthread_cond_signal(&compute->changed);
    }
}

bool muster_compute_take(muster_compute *compute, muster_job_result *result_out)
{
    lock(compute);
    bool any = compute->taken < compute->done;
    if (any) {
        *result_out = slot_at(compute, compute->taken)->result;
        compute->taken++;
    }
    unlock(compute);
    return any;
}

uint64_t muster_compute_progress(const muster_compute *compute)
{
    return atomic_load_explicit(&compute->progress, memory_order_relaxed);
}

bool muster_compute_busy(const muster_compute *compute)
{
    return atomic_load_explicit(&compute->busy, memory_order_relaxed);
}
