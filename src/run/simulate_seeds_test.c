/*
 * simulate_seeds_test.c -- muster_simulate() of several seeds and codes: each
 * is told apart, runs as it does alone, and codes that cannot be are left out.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/simulate_test.h"

static void count_cells(const char *path, unsigned *lines_out,
                        unsigned *cells_out)
{
    char line[1024];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    *lines_out = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned cells = 1;
        bool quoted = false;
        for (const char *at = line; *at != 0; at++) {
            quoted ^= *at == '"';
            cells += *at == ',' && !quoted;
        }
        assert_true(*lines_out == 0 || cells == *cells_out);
        *cells_out = cells;
        ++*lines_out;
    }
    assert_int_equal(fclose(file), 0);
}

static void seeds_and_sweeps_are_told_apart(void **state)
{
    (void)state;
    char path[] = "simulate_test_XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(close(descriptor), 0);
    const char *const flags[] = {"--workers", "12",
                                 "--code",    "uncoded+linear:tuned:s=1..2,m=1",
                                 "--delay",   "pareto:scale=5ms,shape=1.2",
                                 "--steps",   "50",
                                 "--seeds",   "3",
                                 "--csv",     path,
                                 NULL};
    char *text = NULL;
    assert_int_equal(simulate(flags, &text), MUSTER_OK);
    json_t *result = json_loads(text, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(result, "codes")), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *code = code_at(result, i);
        const json_t *ms = json_object_get(code, "step_ms");
        const json_t *mean =
            json_object_get(json_object_get(code, "spread"), "mean");
        const json_t *runs = json_object_get(code, "runs");
        double sum = 0;
        assert_int_equal(number(code, "s"), i);
        assert_int_equal(number(code, "steps"), 150);
        assert_true(number(ms, "p50") < number(ms, "p90"));
        assert_true(number(ms, "p90") < number(ms, "p99"));
        assert_true(number(mean, "min") < number(mean, "max"));
        assert_true(number(mean, "sd") > 0);
        assert_int_equal(json_array_size(runs), 3);
        for (size_t k = 0; k < 3; k++) {
            const json_t *run = json_array_get(runs, k);
            assert_int_equal(number(run, "seed"), 1 + k);
            sum += number(json_object_get(run, "step_ms"), "mean");
        }
        assert_true(fabs(sum / 3 / number(ms, "mean") - 1) < 1e-9);
        const json_t *slow = json_object_get(code, "straggling");
        assert_true(i > 0 || number(slow, "p_straggle") > 0);
        assert_true(i > 0 || number(slow, "spell_steps") >= 1);
    }
    unsigned lines = 0, cells = 0;
    count_cells(path, &lines, &cells);
    assert_int_equal(lines, 1 + 3 * 3);
    assert_int_equal(remove(path), 0);
    json_decref(result);
    muster_config_text_free(text);
}

/* Of 10 workers, frc can lose 1 or 4 and graph has no degree of 3. */
static void codes_that_cannot_be_are_left_out_of_a_sweep(void **state)
{
    (void)state;
    const char *const sweep[] = {
        "--workers", "10", "--steps", "5", "--code", "frc:s=1..11+graph", NULL};
    const char *const none[] = {"--workers", "10", "--code", "frc:s=2..3",
                                NULL};
    const char *const wrong[] = {"--workers", "10", "--code", "frc+nonsense",
                                 NULL};
    const char *const twice[] = {"--workers", "10", "--code", "frc+frc:s=1,s=4",
                                 NULL};
    char *text = NULL;
    assert_int_equal(simulate(sweep, &text), MUSTER_OK);
    json_t *result = json_loads(text, 0, NULL);
    const json_t *left_out = json_object_get(result, "left_out");
    assert_int_equal(json_array_size(json_object_get(result, "codes")), 3);
    assert_int_equal(number(code_at(result, 0), "s"), 1);
    assert_int_equal(number(code_at(result, 1), "s"), 4);
    assert_int_equal(number(code_at(result, 2), "s"), 9);
    assert_int_equal(json_array_size(left_out), 9);
    const json_t *first = json_array_get(left_out, 0);
    assert_string_equal(json_string_value(json_object_get(first, "code")),
                        "frc:s=2");
    assert_non_null(strstr(json_string_value(json_object_get(first, "why")),
                           "use s = 1 or s = 4"));
    json_decref(result);
    muster_config_text_free(text);
    assert_int_equal(simulate(none, &text), MUSTER_ERR_UNSUPPORTED);
    assert_null(text);
    assert_int_equal(simulate(wrong, &text), MUSTER_ERR_INVALID);
    muster_config_text_free(text);
    assert_int_equal(simulate(twice, &text), MUSTER_ERR_INVALID);
    muster_config_text_free(text);
}

static void each_of_several_seeds_runs_as_it_does_alone(void **state)
{
    (void)state;
    const char *const one[] = {"--workers", "6",       "--steps",
                               "20",        "--delay", "exponential:mean=5ms",
                               "--seed",    "7",       NULL};
    const char *const two[] = {
        "--workers", "6", "--steps", "20", "--delay", "exponential:mean=5ms",
        "--seed",    "6", "--seeds", "2",  NULL};
    char *text = NULL;
    assert_int_equal(simulate(one, &text), MUSTER_OK);
    json_t *alone = json_loads(text, 0, NULL);
    muster_config_text_free(text);
    assert_int_equal(simulate(two, &text), MUSTER_OK);
    json_t *both = json_loads(text, 0, NULL);
    muster_config_text_free(text);
    const json_t *last =
        json_array_get(json_object_get(code_at(both, 0), "runs"), 1);
    assert_string_equal(
        json_string_value(json_object_get(last, "history")),
        json_string_value(json_object_get(code_at(alone, 0), "history")));
    assert_null(json_object_get(code_at(alone, 0), "runs"));
    json_decref(alone);
    json_decref(both);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seeds_and_sweeps_are_told_apart),
        cmocka_unit_test(codes_that_cannot_be_are_left_out_of_a_sweep),
        cmocka_unit_test(each_of_several_seeds_runs_as_it_does_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
