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

static double simulated_ms(const char *path, const char *code)
{
    const char *const flags[] = {"--cluster", path,  "--code",         code,
                                 "--steps",   "600", "--model-floats", FLOATS};
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
            double ms = simulated_ms(path, choice.spec);
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
        cmocka_unit_test(a_cluster_file_says_who_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
