/*
 * cluster_test.c -- `simulate --cluster`: simulated steps take as long as the
 * planner expects of them, links, NICs, edges and all; and a cluster file gives
 * the number of workers and the topology.
 */
#define _POSIX_C_SOURCE 200809L // mkstemp

#include <math.h>
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

#include "base/rng.h"
#include "config/config.h"
#include "muster/plan.h"
#include "muster/run.h"

#define PATH_TEMPLATE "/tmp/muster-cluster-XXXXXX"
#define FLOATS        "20000"

static void write_file(const char *text, char *path)
{
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(close(file), 0);
}

static muster_config *options(const char *verb, const char *const *flags,
                              int count)
{
    muster_config *config = NULL;
    muster_error error = {.text = ""};
    assert_int_equal(muster_config_create(verb, &config), MUSTER_OK);
    if (muster_config_parse(config, count, flags, &error) != MUSTER_OK ||
        muster_options_of_cluster(config, &error) != MUSTER_OK ||
        muster_config_check(config, &error) != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    return config;
}

static double simulated_ms(const char *path, const char *code,
                           const char *steps)
{
    const char *const flags[] = {"--cluster", path,  "--code",         code,
                                 "--steps",   steps, "--model-floats", FLOATS};
    muster_error error = {.text = ""};
    char *text = NULL;
    muster_config *config = options("simulate", flags, 8);
    if (muster_simulate(config, &error, &text) != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    json_t *result = json_loads(text, 0, NULL);
    double ms = json_number_value(json_object_get(
        json_object_get(json_array_get(json_object_get(result, "codes"), 0),
                        "step_ms"),
        "mean"));
    json_decref(result);
    muster_config_text_free(text);
    muster_config_free(config);
    return ms;
}

/* Every code that the plan names: chosen, uncoded, the best flat one, .. */
static void check_cluster(const char *text)
{
    char path[] = PATH_TEMPLATE;
    muster_plan_opts opts = MUSTER_PLAN_OPTS_INIT;
    muster_plan *plan = NULL;
    write_file(text, path);
    opts.cluster = text;
    opts.model_floats = strtoull(FLOATS, NULL, 10);
    opts.all_workers = true;
    assert_int_equal(muster_plan_create(&opts, NULL, &plan), MUSTER_OK);
    muster_plan_choice choice = MUSTER_PLAN_CHOICE_INIT;
    assert_int_equal(muster_plan_chosen(plan, &choice), MUSTER_OK);
    for (uint32_t i = 0; i <= muster_plan_alternative_count(plan); i++) {
        if (choice.exact && !choice.by_speed) {
            double ms = simulated_ms(path, choice.spec, "600");
            if (fabs(ms / choice.expected_ms - 1) > 0.05) {
                fail_msg("%s: simulated %g ms, expected %g ms", choice.spec, ms,
                         choice.expected_ms);
            }
        }
        if (i < muster_plan_alternative_count(plan)) {
            assert_int_equal(muster_plan_alternative(plan, i, &choice),
                             MUSTER_OK);
        }
    }
    muster_plan_free(plan);
    assert_int_equal(unlink(path), 0);
}

static void simulated_steps_take_what_the_planner_expects(void **state)
{
    (void)state;
    // Links, and a coordinator whose NIC is narrow.
    check_cluster("version: 1\ncoordinator: {bandwidth: 200}\n"
                  "defaults: {worker: {compute: {shift: 20ms, mean: 10ms}, "
                  "link: {latency: 2ms, bandwidth: 100, loss: 0.1}}}\n"
                  "workers: [{count: 5}, {speed: 0.2}]\n");
    // Edges with links and NICs of their own.
    check_cluster("version: 1\ncoordinator: {bandwidth: 400}\n"
                  "defaults: {worker: {compute: {shift: 20ms, mean: 20ms}, "
                  "link: {latency: 5ms, loss: 0.2}}, edge: {bandwidth: 200, "
                  "link: {latency: 10ms, loss: 0.1}}}\n"
                  "edges: [{workers: [{count: 4}]}, {count: 2, workers: "
                  "[{count: 3}, {speed: 0.2}]}, {link: {latency: 150ms}, "
                  "workers: [{count: 4}]}]\n");
}

/* Machines, some of them slow, and links; NICs that are narrow now and then. */
static void draw_cluster(uint64_t seed, char *text, size_t size)
{
    muster_rng rng = muster_rng_make(seed, 17);
    int at = snprintf(text, size, "version: 1\n");
    if (seed % 2 == 1) {
        at += snprintf(text + at, size - (size_t)at,
                       "coordinator: {bandwidth: %u}\n",
                       100 + (unsigned)muster_rng_below(&rng, 400));
    }
    at += snprintf(text + at, size - (size_t)at, "workers:\n");
    for (unsigned i = 0; i < 6 + 2 * (unsigned)seed; i++) {
        bool slow = muster_rng_uniform(&rng) < 0.25;
        at += snprintf(text + at, size - (size_t)at,
                       "  - {speed: %s, compute: {shift: 20ms, mean: %ums}, "
                       "link: {latency: %uus, bandwidth: 1000, loss: 0.05}}\n",
                       slow ? "0.2" : "1",
                       1 + (unsigned)muster_rng_below(&rng, 20),
                       100 + (unsigned)muster_rng_below(&rng, 2000));
    }
    assert_true((size_t)at < size);
}

static double expected_ms(const char *text, const char *code)
{
    muster_plan_opts opts = MUSTER_PLAN_OPTS_INIT;
    muster_plan *plan = NULL;
    double ms = 0;
    opts.cluster = text;
    opts.model_floats = strtoull(FLOATS, NULL, 10);
    opts.all_workers = true;
    opts.in_force = code;
    opts.samples = 1024;
    assert_int_equal(muster_plan_create(&opts, NULL, &plan), MUSTER_OK);
    for (uint32_t i = 0; i < muster_plan_alternative_count(plan); i++) {
        muster_plan_choice choice = MUSTER_PLAN_CHOICE_INIT;
        assert_int_equal(muster_plan_alternative(plan, i, &choice), MUSTER_OK);
        ms = strcmp(choice.label, "in force") == 0 ? choice.expected_ms : ms;
    }
    muster_plan_free(plan);
    return ms;
}

static void codes_in_stages_take_what_the_planner_expects(void **state)
{
    (void)state;
    static const char *const codes[] = {
        "scheduled:s=1,order=cyclic",          "scheduled:s=2,order=staircase",
        "scheduled:s=3,order=cyclic",          "scheduled:s=2,order=speeds",
        "scheduled:s=2,order=cyclic,pieces=4",
    };
    for (uint64_t seed = 0; seed < 3; seed++) {
        char path[] = PATH_TEMPLATE;
        char text[4096];
        draw_cluster(seed, text, sizeof(text));
        write_file(text, path);
        for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
            double expected = expected_ms(text, codes[i]);
            double ms = simulated_ms(path, codes[i], "1000");
            print_message("cluster %u, %s: simulated %.2f ms, expected %.2f\n",
                          (unsigned)seed, codes[i], ms, expected);
            if (!(fabs(ms / expected - 1) <= 0.05)) {
                fail_msg("not within 5 %%");
            }
        }
        assert_int_equal(unlink(path), 0);
    }
}

static void a_cluster_file_says_who_there_is(void **state)
{
    (void)state;
    char path[] = PATH_TEMPLATE;
    write_file("version: 1\nedges: [{count: 2, workers: [{count: 3}]}, "
               "{workers: [{count: 2}]}]\n",
               path);
    const char *const hier[] = {"--cluster", path};
    muster_config *config = options("simulate", hier, 2);
    assert_string_equal(muster_config_get(config, "topology"), "3,3,2");
    assert_int_equal(muster_config_workers(config), 8);
    assert_int_equal(muster_config_edges(config), 3);
    muster_config_free(config);
    // A flat code has the workers join the coordinator.
    const char *const flat[] = {"--cluster", path, "--code", "uncoded+frc:s=1"};
    config = options("simulate", flat, 4);
    assert_int_equal(muster_config_workers(config), 8);
    assert_int_equal(muster_config_edges(config), 0);
    muster_config_free(config);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simulated_steps_take_what_the_planner_expects),
        cmocka_unit_test(codes_in_stages_take_what_the_planner_expects),
        cmocka_unit_test(a_cluster_file_says_who_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
