/*
 * delay_recorder_test.c -- what is recorded is what --delay trace:file= reads:
 * to the nanosecond, late times too; a worker without a time gets the step's.
 */
#define _POSIX_C_SOURCE 200809L
#include "cluster/delay_recorder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cluster/delay.h"
#include "cluster/delay_trace.h"

#define WORKERS 3u
#define STEPS   200u

static char path[64];

static int make_path(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof(path), "/tmp/muster-record-XXXXXX");
    int descriptor = mkstemp(path);
    return descriptor < 0 || close(descriptor) != 0;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static muster_delay_recorder *open_recorder(void)
{
    muster_delay_recorder *recorder = NULL;
    assert_int_equal(muster_delay_recorder_open(path, WORKERS, NULL, &recorder),
                     MUSTER_OK);
    return recorder;
}

static muster_delay_trace close_and_load(muster_delay_recorder *recorder)
{
    muster_delay_trace trace;
    muster_error error = {0};
    assert_int_equal(muster_delay_recorder_close(recorder, NULL), MUSTER_OK);
    if (muster_delay_trace_load(path, &error, &trace) != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    return trace;
}

static void a_recorded_model_is_replayed_as_it_was(void **state)
{
    (void)state;
    muster_delay *model = NULL;
    muster_delay *replay = NULL;
    char spec[128];
    assert_int_equal(
        muster_delay_create("exponential:mean=20ms", WORKERS, 3, NULL, &model),
        MUSTER_OK);
    muster_delay_recorder *recorder = open_recorder();
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint32_t worker = 0; worker < WORKERS; worker++) {
            muster_delay_recorder_time(
                recorder, step, worker,
                (double)muster_delay_ns(model, worker, step) * 1e-9);
        }
        muster_delay_recorder_step(recorder, step, 1);
    }
    assert_int_equal(muster_delay_recorder_close(recorder, NULL), MUSTER_OK);
    (void)snprintf(spec, sizeof(spec), "trace:file=%s", path);
    assert_int_equal(muster_delay_create(spec, WORKERS, 9, NULL, &replay),
                     MUSTER_OK);
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint32_t worker = 0; worker < WORKERS; worker++) {
            int64_t off = muster_delay_ns(model, worker, step) -
                          muster_delay_ns(replay, worker, step);
            assert_true(off >= -1 && off <= 1);
        }
    }
    muster_delay_free(model);
    muster_delay_free(replay);
}

static void late_times_count_and_missing_ones_are_the_steps(void **state)
{
    (void)state;
    muster_delay_recorder *recorder = open_recorder();
    uint64_t first = 1000; // a resumed run
    for (uint64_t step = first; step < first + STEPS; step++) {
        muster_delay_recorder_time(recorder, step, 0, 0.25);
        muster_delay_recorder_time(recorder, step, WORKERS, 9); // no worker
        muster_delay_recorder_step(recorder, step, 0.5);
        if (step >= first + 10) { // ten steps late
            muster_delay_recorder_time(recorder, step - 10, 2, 5);
        }
        if (step >= first + 100) { // too late
            muster_delay_recorder_time(recorder, step - 100, 1, 50);
        }
    }
    muster_delay_recorder_time(recorder, first + STEPS, 0, 0.125); // no end
    assert_true(muster_delay_recorder_fastest(recorder) == 0.125);
    muster_delay_trace trace = close_and_load(recorder);
    assert_int_equal(trace.iterations, STEPS);
    assert_int_equal(trace.workers, WORKERS);
    for (uint32_t i = 0; i < STEPS; i++) {
        const double *row = &trace.seconds[(size_t)i * WORKERS];
        assert_true(row[0] == 0.25 && row[1] == 0.5);
        assert_true(row[2] == (i + 10 < STEPS ? 5 : 0.5));
    }
    muster_delay_trace_fini(&trace);
}

static void more_than_65536_steps_are_read_back(void **state)
{
    (void)state;
    muster_delay_recorder *recorder = open_recorder();
    for (uint64_t step = 0; step < 70000; step++) {
        muster_delay_recorder_step(recorder, step, 1);
    }
    muster_delay_trace trace = close_and_load(recorder);
    assert_int_equal(trace.iterations, 70000);
    muster_delay_trace_fini(&trace);
}

static void files_that_cannot_be_written_are_errors(void **state)
{
    (void)state;
    muster_delay_recorder *recorder = NULL;
    muster_error error = {0};
    assert_int_equal(
        muster_delay_recorder_open("/nonexistent/x", 2, &error, &recorder),
        MUSTER_ERR_SYSTEM);
    assert_string_equal(error.text, "--record-delays /nonexistent/x: No such "
                                    "file or directory");
    for (uint64_t allowed = 0; allowed < 3; allowed++) {
        muster_mem_fail_after(allowed);
        muster_status status =
            muster_delay_recorder_open(path, 2, NULL, &recorder);
        muster_mem_fail_after(UINT64_MAX);
        assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
    }
    if (muster_delay_recorder_open("/dev/full", 2, NULL, &recorder) ==
        MUSTER_OK) {
        assert_int_equal(muster_delay_recorder_close(recorder, &error),
                         MUSTER_ERR_SYSTEM);
    }
    assert_int_equal(muster_delay_recorder_close(NULL, NULL), MUSTER_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recorded_model_is_replayed_as_it_was),
        cmocka_unit_test(late_times_count_and_missing_ones_are_the_steps),
        cmocka_unit_test(more_than_65536_steps_are_read_back),
        cmocka_unit_test(files_that_cannot_be_written_are_errors),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
