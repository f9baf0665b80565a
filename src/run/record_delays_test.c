/*
 * record_delays_test.c -- a simulation that replays its own record is the same
 * simulation, event for event; --slow W:TIME@STEP is in the record where it
 * should be; one file is for one run.
 */
#define _POSIX_C_SOURCE 200809L
#include "run/record_delays.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "cluster/delay_trace.h"
#include "muster/run.h"

#define FLAGS_MAX 32

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

/* The first code's result of a simulation of 5 workers. */
static json_t *simulate(const char *code, const char *const *more)
{
    const char *flags[FLAGS_MAX] = {"--workers", "5",  "--code", code,
                                    "--steps",   "90", "--quiet"};
    int count = 7;
    for (; *more != NULL; more++) {
        flags[count++] = *more;
    }
    muster_config *config = NULL;
    muster_error error = {0};
    char *text = NULL;
    assert_int_equal(muster_config_create("simulate", &config), MUSTER_OK);
    if (muster_config_parse(config, count, flags, &error) != MUSTER_OK ||
        muster_config_check(config, &error) != MUSTER_OK ||
        muster_simulate(config, &error, &text) != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    json_t *result = json_loads(text, 0, NULL);
    json_t *first = json_array_get(json_object_get(result, "codes"), 0);
    json_incref(first);
    json_decref(result);
    muster_config_text_free(text);
    muster_config_free(config);
    return first;
}

static double mean_ms(const json_t *code)
{
    return json_number_value(
        json_object_get(json_object_get(code, "step_ms"), "mean"));
}

static void a_replayed_record_is_the_same_run(void **state)
{
    (void)state;
    static const char *const codes[] = {"uncoded", "cyclic-mds:s=2"};
    char trace[128];
    (void)snprintf(trace, sizeof(trace), "trace:file=%s", path);
    for (size_t i = 0; i < 2; i++) {
        const char *const record[] = {"--delay",
                                      "exponential:mean=30ms,per=load",
                                      "--slow",
                                      "1:2x@40",
                                      "--record-delays",
                                      path,
                                      NULL};
        // The record holds whole times: no computing beside it.
        const char *const replay[] = {"--delay", trace, "--compute", "0s",
                                      NULL};
        json_t *first = simulate(codes[i], record);
        json_t *second = simulate(codes[i], replay);
        double ratio = mean_ms(second) / mean_ms(first);
        assert_true(ratio > 0.999 && ratio < 1.001);
        if (i == 0) { // nobody is told to leave a step
            assert_string_equal(
                json_string_value(json_object_get(first, "history")),
                json_string_value(json_object_get(second, "history")));
        }
        json_decref(first);
        json_decref(second);
    }
}

static void slowness_from_a_step_on_is_recorded_there(void **state)
{
    (void)state;
    const char *const record[] = {"--slow",          "2:50ms@20", "--slow",
                                  "2:0@60",          "--slow",    "3:4x@80",
                                  "--record-delays", path,        NULL};
    json_decref(simulate("frc:s=4", record));
    muster_delay_trace trace;
    assert_int_equal(muster_delay_trace_load(path, NULL, &trace), MUSTER_OK);
    assert_int_equal(trace.iterations, 90);
    for (uint32_t step = 0; step < trace.iterations; step++) {
        const double *row = &trace.seconds[(size_t)step * trace.workers];
        double usual = row[0]; // five loads of 10 ms
        assert_true(usual > 0.0499 && usual < 0.0501);
        bool slow = step >= 20 && step < 60;
        assert_true(row[2] >= usual + (slow ? 0.0499 : -1e-4));
        assert_true(row[2] <= usual + (slow ? 0.0501 : 1e-4));
        assert_true(row[3] >= (step >= 80 ? 3.9 * usual : usual - 1e-4));
        assert_true(row[3] <= (step >= 80 ? 4.1 * usual : usual + 1e-4));
    }
    muster_delay_trace_fini(&trace);
}

static void several_codes_and_bad_paths_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *code, *file;
        muster_status status;
    } rows[] = {{"uncoded+frc:s=1", "x.csv", MUSTER_ERR_INVALID},
                {"uncoded", "/nonexistent/x.csv", MUSTER_ERR_SYSTEM}};
    for (size_t i = 0; i < 2; i++) {
        const char *const flags[] = {"--workers",       "4",
                                     "--code",          rows[i].code,
                                     "--record-delays", rows[i].file};
        muster_config *config = NULL;
        muster_error error = {0};
        char *text = NULL;
        assert_int_equal(muster_config_create("simulate", &config), MUSTER_OK);
        assert_int_equal(muster_config_parse(config, 6, flags, &error),
                         MUSTER_OK);
        muster_status status = muster_config_check(config, &error);
        if (status == MUSTER_OK) {
            status = muster_simulate(config, &error, &text);
        }
        assert_int_equal(status, rows[i].status);
        assert_non_null(strstr(error.text, "--record-delays"));
        muster_config_text_free(text);
        muster_config_free(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replayed_record_is_the_same_run),
        cmocka_unit_test(slowness_from_a_step_on_is_recorded_there),
        cmocka_unit_test(several_codes_and_bad_paths_are_refused),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
