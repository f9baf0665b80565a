/*
 * compute_test.c -- the compute thread with a toy engine: order, exactly one
 * result per job, cancelling between pieces and inside a sleep, a full queue,
 * and stopping in the middle. Threads meet on conditions, never on time.
 */
#define _POSIX_C_SOURCE 200809L
#include "proc/compute.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"

/* A job of the toy engine has `shard` pieces; FOREVER never ends by itself. */
#define FOREVER 1000000000u

typedef struct toy {
    muster_job job;
    uint32_t pieces_left;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t begun;   // jobs
    uint64_t results; // wakes
    uint64_t come;    // pieces that a DECODE may do so far
    uint64_t starved; // how often one could not
    int priority;     // of the thread that began the last job
} toy;

static void signal_change(toy *shared, uint64_t *counter)
{
    pthread_mutex_lock(&shared->mutex);
    (*counter)++;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->mutex);
}

static void wait_for(toy *shared, const uint64_t *counter, uint64_t value)
{
    pthread_mutex_lock(&shared->mutex);
    while (*counter < value) {
        pthread_cond_wait(&shared->changed, &shared->mutex);
    }
    pthread_mutex_unlock(&shared->mutex);
}

static void toy_begin(void *self, muster_job *job)
{
    toy *shared = self;
    shared->job = *job;
    shared->pieces_left = job->shard;
    shared->priority = getpriority(PRIO_PROCESS, 0);
    signal_change(shared, &shared->begun);
}

static bool toy_is_starved(toy *shared)
{
    pthread_mutex_lock(&shared->mutex);
    uint32_t done = shared->job.shard - shared->pieces_left;
    bool starved =
        shared->job.kind == MUSTER_JOB_DECODE && done >= shared->come;
    pthread_mutex_unlock(&shared->mutex);
    return starved;
}

static muster_status toy_piece(void *self)
{
    toy *shared = self;
    if (toy_is_starved(shared)) {
        signal_change(shared, &shared->starved);
        return MUSTER_ERR_AGAIN;
    }
    if (shared->job.shard != FOREVER) {
        shared->pieces_left--;
    }
    return shared->pieces_left > 0 ? MUSTER_IN_PROGRESS : MUSTER_OK;
}

static void toy_end(void *self, muster_job_result *result_out)
{
    toy *shared = self;
    bool finished = shared->pieces_left == 0;
    memset(result_out, 0, sizeof *result_out);
    result_out->id = shared->job.id;
    result_out->kind = shared->job.kind;
    result_out->step = shared->job.step;
    result_out->status = finished ? MUSTER_OK : MUSTER_ERR_CANCELLED;
    result_out->output = finished ? muster_blob_create(8) : NULL;
    muster_job_fini(&shared->job);
}

static void toy_wake(void *context)
{
    toy *shared = context;
    signal_change(shared, &shared->results);
}

static muster_compute *start_with(toy *shared, muster_compute_opts opts)
{
    memset(shared, 0, sizeof *shared);
    pthread_mutex_init(&shared->mutex, NULL);
    pthread_cond_init(&shared->changed, NULL);
    opts.engine =
        (muster_compute_engine){shared, toy_begin, toy_piece, toy_end};
    opts.wake = toy_wake;
    opts.wake_context = shared;
    muster_compute *compute = NULL;
    assert_int_equal(muster_compute_start(&opts, NULL, &compute), MUSTER_OK);
    return compute;
}

static muster_compute *start(toy *shared, uint32_t queue_max,
                             muster_slowness slowness)
{
    return start_with(shared, (muster_compute_opts){.slowness = slowness,
                                                    .queue_max = queue_max});
}

static void stop(toy *shared, muster_compute *compute)
{
    muster_compute_stop(compute);
    pthread_cond_destroy(&shared->changed);
    pthread_mutex_destroy(&shared->mutex);
}

static void submit(muster_compute *compute, uint64_t id, uint32_t pieces,
                   muster_job_kind kind)
{
    muster_job job = {.id = id, .kind = kind, .step = id, .shard = pieces};
    job.input = muster_blob_create(16);
    assert_int_equal(muster_compute_submit(compute, &job), MUSTER_OK);
}

static muster_job_result take(muster_compute *compute)
{
    muster_job_result result;
    assert_true(muster_compute_take(compute, &result));
    muster_blob_unref(result.output);
    return result;
}

static const muster_slowness not_slow = MUSTER_SLOWNESS_NONE;

static void results_come_back_in_order_once_each(void **state)
{
    (void)state;
    toy shared;
    muster_compute *compute = start(&shared, 8, not_slow);
    for (uint64_t lap = 0; lap < 50; lap++) {
        for (uint64_t i = 0; i < 8; i++) {
            submit(compute, lap * 8 + i, 3, MUSTER_JOB_UPDATE);
        }
        wait_for(&shared, &shared.results, (lap + 1) * 8);
        for (uint64_t i = 0; i < 8; i++) {
            muster_job_result result = take(compute);
            assert_int_equal(result.id, lap * 8 + i);
            assert_int_equal(result.status, MUSTER_OK);
            assert_non_null(result.output);
        }
        muster_job_result none;
        assert_false(muster_compute_take(compute, &none));
    }
    assert_int_equal(muster_compute_progress(compute), 50 * 8 * 3);
    assert_false(muster_compute_busy(compute));
    stop(&shared, compute);
}

static void a_running_job_is_cancelled_between_pieces(void **state)
{
    (void)state;
    toy shared;
    muster_compute *compute = start(&shared, 4, not_slow);
    submit(compute, 1, FOREVER, MUSTER_JOB_GRADIENT);
    submit(compute, 2, 2, MUSTER_JOB_GRADIENT);
    wait_for(&shared, &shared.begun, 1);
    muster_compute_cancel(compute, 1);
    wait_for(&shared, &shared.results, 2);
    muster_job_result first = take(compute);
    assert_int_equal(first.status, MUSTER_ERR_CANCELLED);
    assert_null(first.output);
    assert_int_equal(take(compute).status, MUSTER_OK);
    stop(&shared, compute);
}

static void a_waiting_job_is_cancelled_without_being_begun(void **state)
{
    (void)state;
    toy shared;
    muster_compute *compute = start(&shared, 4, not_slow);
    submit(compute, 1, FOREVER, MUSTER_JOB_EVALUATE);
    submit(compute, 2, 1, MUSTER_JOB_EVALUATE);
    muster_compute_cancel(compute, 2);
    muster_compute_cancel(compute, 77); // nobody's id
    wait_for(&shared, &shared.begun, 1);
    muster_compute_cancel(compute, 1);
    wait_for(&shared, &shared.results, 2);
    assert_int_equal(take(compute).status, MUSTER_ERR_CANCELLED);
    muster_job_result second = take(compute);
    assert_int_equal(second.id, 2);
    assert_int_equal(second.kind, MUSTER_JOB_EVALUATE);
    assert_int_equal(second.status, MUSTER_ERR_CANCELLED);
    assert_int_equal(shared.begun, 1);
    stop(&shared, compute);
}

static void a_full_queue_refuses_and_drops_the_job(void **state)
{
    (void)state;
    toy shared;
    muster_compute *compute = start(&shared, 2, not_slow);
    submit(compute, 1, 1, MUSTER_JOB_UPDATE);
    submit(compute, 2, 1, MUSTER_JOB_UPDATE);
    wait_for(&shared, &shared.results, 2);
    // Both are done but not taken: the ring is still full.
    muster_job job = {.id = 3, .kind = MUSTER_JOB_UPDATE, .shard = 1};
    job.input = muster_blob_create(16); // freed by the refusal, or a leak
    assert_int_equal(muster_compute_submit(compute, &job), MUSTER_ERR_AGAIN);
    assert_int_equal(take(compute).id, 1);
    submit(compute, 4, 1, MUSTER_JOB_UPDATE);
    stop(&shared, compute);
}

/* An hour of sleep that a cancel, or the end, cuts short; no other job kind
 * sleeps. */
static void slowness_sleeps_until_cancelled(void **state)
{
    (void)state;
    toy shared;
    muster_slowness hour = {.sleep_ns = 3600 * MUSTER_NS_PER_S, .factor = 1};
    muster_compute *compute = start(&shared, 4, hour);
    submit(compute, 1, 1, MUSTER_JOB_UPDATE);
    wait_for(&shared, &shared.results, 1);
    assert_int_equal(take(compute).status, MUSTER_OK);
    submit(compute, 2, 1, MUSTER_JOB_GRADIENT);
    wait_for(&shared, &shared.begun, 2);
    muster_compute_cancel(compute, 2);
    wait_for(&shared, &shared.results, 2);
    muster_job_result cut = take(compute);
    assert_int_equal(cut.status, MUSTER_ERR_CANCELLED);
    assert_null(cut.output);
    submit(compute, 3, 1, MUSTER_JOB_GRADIENT);
    wait_for(&shared, &shared.begun, 3);
    stop(&shared, compute);
}

static void sleep_counts_as_busy_time(void **state)
{
    (void)state;
    toy shared;
    muster_slowness nap = {.sleep_ns = 20 * MUSTER_NS_PER_MS, .factor = 1};
    muster_compute *compute = start(&shared, 4, nap);
    submit(compute, 1, 1, MUSTER_JOB_GRADIENT);
    wait_for(&shared, &shared.results, 1);
    muster_job_result result = take(compute);
    assert_int_equal(result.status, MUSTER_OK);
    assert_true(result.busy_ns >= 20 * MUSTER_NS_PER_MS);
    stop(&shared, compute);
}

static void a_delay_model_sleeps_by_worker_and_step(void **state)
{
    (void)state;
    toy shared;
    muster_slowness late = MUSTER_SLOWNESS_NONE;
    late.worker = 1;
    assert_int_equal(
        muster_delay_create("iid:p=0.5,delay=30ms", 2, 7, NULL, &late.delay),
        MUSTER_OK);
    muster_compute *compute = start(&shared, 4, late);
    int64_t slept = 0, meant = 0;
    for (uint64_t step = 1; step <= 6; step++) {
        submit(compute, step, 1, MUSTER_JOB_GRADIENT);
        wait_for(&shared, &shared.results, step);
        muster_job_result result = take(compute);
        int64_t delay = muster_delay_ns(late.delay, 1, result.step);
        assert_true(result.busy_ns >= delay);
        slept += result.busy_ns;
        meant += delay;
    }
    assert_true(meant > 0 && slept >= meant);
    stop(&shared, compute);
    muster_delay_free(late.delay);
}

static void more_comes(toy *shared, muster_compute *compute)
{
    signal_change(shared, &shared->come);
    muster_compute_more(compute);
}

static void a_decoding_goes_on_when_more_has_come(void **state)
{
    (void)state;
    toy shared;
    muster_compute *compute = start(&shared, 4, not_slow);
    submit(compute, 1, 3, MUSTER_JOB_DECODE);
    for (uint64_t i = 1; i <= 3; i++) {
        wait_for(&shared, &shared.starved, i);
        assert_int_equal(shared.results, 0);
        more_comes(&shared, compute);
    }
    wait_for(&shared, &shared.results, 1);
    assert_int_equal(take(compute).status, MUSTER_OK);
    muster_compute_more(compute); // nobody waits for it
    stop(&shared, compute);
}

static void a_decoding_gives_way_to_any_other_job(void **state)
{
    (void)state;
    toy shared;
    muster_compute *compute = start(&shared, 4, not_slow);
    // One that sleeps, and one that has much to do.
    submit(compute, 1, 1, MUSTER_JOB_DECODE);
    wait_for(&shared, &shared.starved, 1);
    submit(compute, 2, 1, MUSTER_JOB_UPDATE);
    wait_for(&shared, &shared.results, 2);
    assert_int_equal(take(compute).status, MUSTER_ERR_CANCELLED);
    assert_int_equal(take(compute).status, MUSTER_OK);
    more_comes(&shared, compute);
    submit(compute, 3, FOREVER, MUSTER_JOB_DECODE);
    wait_for(&shared, &shared.begun, 3);
    submit(compute, 4, 1, MUSTER_JOB_SHARD);
    wait_for(&shared, &shared.results, 4);
    assert_int_equal(take(compute).status, MUSTER_ERR_CANCELLED);
    assert_int_equal(take(compute).status, MUSTER_OK);
    stop(&shared, compute);
}

static void a_decoding_that_sleeps_is_cancelled(void **state)
{
    (void)state;
    toy shared;
    muster_compute *compute = start(&shared, 4, not_slow);
    submit(compute, 1, 1, MUSTER_JOB_DECODE);
    wait_for(&shared, &shared.starved, 1);
    muster_compute_cancel(compute, 1);
    wait_for(&shared, &shared.results, 1);
    assert_int_equal(take(compute).status, MUSTER_ERR_CANCELLED);
    submit(compute, 2, 1, MUSTER_JOB_DECODE);
    wait_for(&shared, &shared.starved, 2);
    stop(&shared, compute); // hangs when it is wrong
}

static void a_thread_that_yields_has_a_lower_priority_than_others(void **state)
{
    (void)state;
    toy shared;
    for (int yields = 0; yields < 2; yields++) {
        muster_compute *compute =
            start_with(&shared, (muster_compute_opts){.slowness = not_slow,
                                                      .queue_max = 1,
                                                      .yields = yields == 1});
        submit(compute, 1, 1, MUSTER_JOB_EVALUATE);
        wait_for(&shared, &shared.results, 1);
        int here = getpriority(PRIO_PROCESS, 0); // a larger one is nicer
        assert_true(yields == 1 && here < 19 ? shared.priority > here
                                             : shared.priority == here);
        stop(&shared, compute);
    }
}

static void stopping_ends_running_and_waiting_jobs(void **state)
{
    (void)state;
    toy shared;
    muster_compute *compute = start(&shared, 4, not_slow);
    submit(compute, 1, FOREVER, MUSTER_JOB_GRADIENT);
    submit(compute, 2, FOREVER, MUSTER_JOB_GRADIENT);
    wait_for(&shared, &shared.begun, 1);
    stop(&shared, compute); // hangs, or leaks under asan, when it is wrong
}

static void start_fails_cleanly_without_memory(void **state)
{
    (void)state;
    toy shared = {.begun = 0};
    muster_compute_opts opts = {
        .engine = {&shared, toy_begin, toy_piece, toy_end},
        .queue_max = 4,
        .wake = toy_wake,
        .wake_context = &shared,
    };
    for (uint64_t allowed = 0; allowed < 2; allowed++) {
        muster_compute *compute = NULL;
        muster_error error;
        muster_mem_fail_after(allowed);
        muster_status status = muster_compute_start(&opts, &error, &compute);
        muster_mem_fail_after(UINT64_MAX);
        assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
        assert_null(compute);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_come_back_in_order_once_each),
        cmocka_unit_test(a_running_job_is_cancelled_between_pieces),
        cmocka_unit_test(a_waiting_job_is_cancelled_without_being_begun),
        cmocka_unit_test(a_full_queue_refuses_and_drops_the_job),
        cmocka_unit_test(slowness_sleeps_until_cancelled),
        cmocka_unit_test(sleep_counts_as_busy_time),
        cmocka_unit_test(a_delay_model_sleeps_by_worker_and_step),
        cmocka_unit_test(a_decoding_goes_on_when_more_has_come),
        cmocka_unit_test(a_decoding_gives_way_to_any_other_job),
        cmocka_unit_test(a_decoding_that_sleeps_is_cancelled),
        cmocka_unit_test(a_thread_that_yields_has_a_lower_priority_than_others),
        cmocka_unit_test(stopping_ends_running_and_waiting_jobs),
        cmocka_unit_test(start_fails_cleanly_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
