/*
 * simulate_test.c -- muster_simulate() trains: every code ends with the same
 * model, with and without faults; the same options give the same text; what
 * cannot be is refused.
 */
#define _POSIX_C_SOURCE 200809L
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

#include "base/clock.h"
#include "base/mem.h"
#include "config/config.h"
#include "muster/run.h"
#include "run/simulate_test.h"
#include "run/simulation.h"

#define DATA "synthetic:samples=600,features=8,classes=3"

static void every_code_ends_with_the_same_model(void **state)
{
    (void)state;
    const char *const calm[] = {
        "--data",   DATA,     "--workers",
        "6",        "--code", "uncoded+frc:s=1+linear:spc",
        "--epochs", "2",      "--batch",
        "100",      NULL};
    const char *const rough[] = {"--data",   DATA,        "--workers",
                                 "6",        "--code",    "frc:s=1+linear:spc",
                                 "--epochs", "2",         "--batch",
                                 "100",      "--slow",    "1:200ms",
                                 "--kill",   "1@3",       "--rejoin",
                                 "1@6",      "--shuffle", "rotate:2",
                                 NULL};
    char *text = NULL;
    assert_int_equal(simulate(calm, &text), MUSTER_OK);
    json_t *result = json_loads(text, 0, NULL);
    double norm = number(code_at(result, 0), "theta_norm");
    double loss = number(code_at(result, 0), "loss");
    assert_true(norm > 0 && loss > 0);
    for (size_t i = 1; i < 3; i++) {
        assert_true(fabs(number(code_at(result, i), "theta_norm") / norm - 1) <
                    1e-4);
        assert_true(fabs(number(code_at(result, i), "loss") / loss - 1) < 1e-4);
    }
    json_decref(result);
    muster_config_text_free(text);
    assert_int_equal(simulate(rough, &text), MUSTER_OK);
    result = json_loads(text, 0, NULL);
    for (size_t i = 0; i < 2; i++) {
        const json_t *code = code_at(result, i);
        assert_true(fabs(number(code, "theta_norm") / norm - 1) < 1e-4);
        assert_int_equal(number(code, "losses"), 1);
        assert_true(number(json_object_get(code, "step_ms"), "p50") < 100);
    }
    json_decref(result);
    muster_config_text_free(text);
}

static void the_same_options_give_the_same_text(void **state)
{
    (void)state;
    const char *const flags[] = {"--workers", "30",      "--code",
                                 "frc:s=2",   "--delay", "pareto:scale=2ms",
                                 "--steps",   "50",      NULL};
    const char *const other[] = {
        "--workers", "30", "--code", "frc:s=2", "--delay", "pareto:scale=2ms",
        "--steps",   "50", "--seed", "2",       NULL};
    char *once = NULL;
    char *again = NULL;
    char *differs = NULL;
    assert_int_equal(simulate(flags, &once), MUSTER_OK);
    assert_int_equal(simulate(flags, &again), MUSTER_OK);
    assert_int_equal(simulate(other, &differs), MUSTER_OK);
    assert_string_equal(once, again);
    assert_true(strcmp(once, differs) != 0);
    muster_config_text_free(once);
    muster_config_text_free(again);
    muster_config_text_free(differs);
}

static void a_code_hides_the_stragglers_it_tolerates(void **state)
{
    (void)state;
    const char *const flags[] = {
        "--workers", "12",      "--code", "uncoded+frc:s=2",
        "--slow",    "3:200ms", "--slow", "4:200ms",
        "--steps",   "20",      NULL};
    char *text = NULL;
    assert_int_equal(simulate(flags, &text), MUSTER_OK);
    json_t *result = json_loads(text, 0, NULL);
    const json_t *plain = json_object_get(code_at(result, 0), "step_ms");
    const json_t *coded = json_object_get(code_at(result, 1), "step_ms");
    assert_true(number(plain, "p50") > 200);
    assert_true(number(coded, "p50") < 40); // three shares of 10 ms
    assert_true(number(code_at(result, 1), "exact_share") == 1.0);
    json_decref(result);
    muster_config_text_free(text);
}

/* The median step of four workers under `slow`, two values of --slow. */
static double slow_step_ms(const char *one, const char *two)
{
    const char *const flags[] = {"--workers", "4",  "--code", "uncoded",
                                 "--slow",    one,  "--slow", two,
                                 "--steps",   "10", NULL};
    char *text = NULL;
    assert_int_equal(simulate(flags, &text), MUSTER_OK);
    json_t *result = json_loads(text, 0, NULL);
    double ms = number(json_object_get(code_at(result, 0), "step_ms"), "p50");
    json_decref(result);
    muster_config_text_free(text);
    return ms;
}

static void the_last_of_two_times_of_a_worker_counts(void **state)
{
    (void)state;
    double once = slow_step_ms("0:100ms", "0:100ms");
    assert_true(once > 100 && once < 150); // with 10 ms of work
    assert_true(slow_step_ms("0:300ms", "0:100ms") == once);
    assert_true(fabs(slow_step_ms("0:100ms", "1:100ms") - once) < 1);
    assert_true(slow_step_ms("0:100ms", "0:3x") > once + 19);
}

static void too_few_workers_is_quorum_with_a_result(void **state)
{
    (void)state;
    const char *const flags[] = {"--workers", "4",          "--kill",
                                 "2@5",       "--patience", "3s",
                                 "--steps",   "20",         NULL};
    char *text = NULL;
    assert_int_equal(simulate(flags, &text), MUSTER_ERR_QUORUM);
    assert_non_null(strstr(text, "MUSTER_ERR_QUORUM"));
    muster_config_text_free(text);
}

/* The parts' counters of the only code in `text`. */
static json_int_t min_received(const char *text, json_int_t *sum_out)
{
    json_t *result = json_loads(text, 0, NULL);
    const json_t *list = json_object_get(code_at(result, 0), "parts_received");
    json_int_t min = INT64_MAX;
    *sum_out = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_int_t got = json_integer_value(json_array_get(list, i));
        min = got < min ? got : min;
        *sum_out += got;
    }
    json_decref(result);
    return min;
}

static void a_shuffle_spreads_what_the_slow_ones_miss(void **state)
{
    (void)state;
    const char *const still[] = {"--workers", "8",      "--code",
                                 "ignore",    "--slow", "2:1s",
                                 "--steps",   "80",     NULL};
    const char *const moving[] = {
        "--workers", "8",       "--code", "ignore",    "--slow",
        "2:1s",      "--steps", "80",     "--shuffle", "rotate:5",
        "--compute", "20ms",    NULL};
    char *text = NULL;
    json_int_t sums[2];
    assert_int_equal(simulate(still, &text), MUSTER_OK);
    assert_int_equal(min_received(text, &sums[0]), 0);
    muster_config_text_free(text);
    assert_int_equal(simulate(moving, &text), MUSTER_OK);
    assert_true(min_received(text, &sums[1]) >= 60);
    assert_int_equal(sums[0], 7 * 80);
    assert_int_equal(sums[1], 7 * 80);
    json_t *result = json_loads(text, 0, NULL);
    const json_t *step_ms = json_object_get(code_at(result, 0), "step_ms");
    assert_true(number(step_ms, "p50") > 20 && number(step_ms, "p50") < 60);
    assert_true(number(code_at(result, 0), "plans") >= 14);
    json_decref(result);
    muster_config_text_free(text);
}

/* With the times of the simulator's jobs and network, where a model may
 * overtake a plan: no worker can have the first turn in time. */
static void a_rotation_turns_every_step(void **state)
{
    (void)state;
    static const char *const codes[] = {"frc:s=2", "crc:s=2", "erasurehead:d=2",
                                        "uncoded", "ignore:s=2"};
    static const char *const compute[] = {"10ms", "50ms"};
    static const char *const workers[] = {"12", "36"};
    for (size_t i = 0; i < 20; i++) {
        const char *const flags[] = {"--workers", workers[i / 10],
                                     "--code",    codes[i % 10 / 2],
                                     "--steps",   "60",
                                     "--shuffle", "rotate:1",
                                     "--compute", compute[i % 2],
                                     NULL};
        char *text = NULL;
        assert_int_equal(simulate(flags, &text), MUSTER_OK);
        json_t *result = json_loads(text, 0, NULL);
        print_message("%s, %s, %s: plan %.0f in the last of 60 steps\n",
                      workers[i / 10], codes[i % 10 / 2], compute[i % 2],
                      number(code_at(result, 0), "plans"));
        assert_true(number(code_at(result, 0), "plans") >= 59);
        json_decref(result);
        muster_config_text_free(text);
    }
}

static void degrading_goes_on_where_waiting_gives_up(void **state)
{
    (void)state;
    const char *const flags[] = {"--workers",  "4",       "--kill",  "2@5",
                                 "--on-loss",  "degrade", "--steps", "20",
                                 "--patience", "3s",      NULL};
    char *text = NULL;
    assert_int_equal(simulate(flags, &text), MUSTER_OK);
    json_t *result = json_loads(text, 0, NULL);
    assert_true(number(code_at(result, 0), "degraded") == 15);
    // Three of four parts, each counted 4/3 times.
    double grad_err = number(code_at(result, 0), "grad_err_max");
    assert_true(fabs(grad_err - 1 / sqrt(3)) < 1e-6);
    json_decref(result);
    muster_config_text_free(text);
}

/* Lines and cells of the file at `path`; cells of one line. */
/* With --on-loss stop, workers that average stop too. */
static void every_algorithm_stops_at_a_loss_where_told(void **state)
{
    (void)state;
    const char *const algorithms[] = {"sync", "local:4", "ssp:2", "async",
                                      "gossip:ring"};
    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
        const char *const flags[] = {
            "--data",      DATA,        "--workers", "4",      "--algorithm",
            algorithms[i], "--on-loss", "stop",      "--kill", "1@5",
            "--steps",     "20",        NULL};
        char *text = NULL;
        assert_int_equal(simulate(flags, &text), MUSTER_ERR_QUORUM);
        json_t *result = json_loads(text, 0, NULL);
        assert_int_equal(number(code_at(result, 0), "steps"), 5);
        json_decref(result);
        muster_config_text_free(text);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    const char *const folder[] = {"--workers", "4", "--run", "somewhere", NULL};
    const char *const code[] = {"--workers", "4", "--code", "nonsense", NULL};
    const char *const delay[] = {"--workers", "4", "--delay", "odd", NULL};
    const char *const data[] = {"--workers", "4", "--data", "/nonexistent",
                                NULL};
    const char *const shuffle[] = {"--workers", "4", "--shuffle", "odd", NULL};
    const char *const loss[] = {"--workers", "4", "--on-loss", "odd", NULL};
    const char *const range[] = {"--workers", "4", "--code", "frc:s=3..1",
                                 NULL};
    const char *const csv[] = {"--workers", "4", "--csv", "/nonexistent/x",
                               NULL};
    const char *const record[] = {"--workers",       "4", "--seeds", "2",
                                  "--record-delays", "x", NULL};
    const char *const time[] = {"--workers", "4", "--deadline", "odd", NULL};
    char *text = NULL;
    assert_int_equal(simulate(shuffle, &text), MUSTER_ERR_INVALID);
    assert_int_equal(simulate(loss, &text), MUSTER_ERR_INVALID);
    assert_int_equal(simulate(range, &text), MUSTER_ERR_INVALID);
    assert_int_equal(simulate(csv, &text), MUSTER_ERR_SYSTEM);
    assert_int_equal(simulate(record, &text), MUSTER_ERR_INVALID);
    assert_int_equal(simulate(time, &text), MUSTER_ERR_INVALID);
    assert_int_equal(simulate(folder, &text), MUSTER_ERR_INVALID);
    assert_true(simulate(code, &text) < 0);
    assert_int_equal(simulate(delay, &text), MUSTER_ERR_INVALID);
    assert_int_equal(simulate(data, &text), MUSTER_ERR_INPUT);
    assert_null(text);
}

static void stick_coordinator(muster_sim *sim, void *context, uint64_t value)
{
    (void)context;
    (void)value;
    muster_sim_stick(sim, 0);
}

/* The coordinator's compute thread hangs: heartbeats go on, and nothing else
 * will ever happen. */
static void a_run_that_hangs_is_an_error_of_its_own(void **state)
{
    (void)state;
    const char *const flags[] = {"--workers", "4", "--seed", "17", NULL};
    muster_config *config = NULL;
    muster_error error = {0};
    assert_int_equal(muster_config_create("simulate", &config), MUSTER_OK);
    assert_int_equal(muster_config_parse(config, 4, flags, &error), MUSTER_OK);
    assert_int_equal(muster_config_check(config, &error), MUSTER_OK);
    muster_simulation simulation;
    assert_int_equal(
        muster_simulation_init(&simulation, config, "uncoded", &error),
        MUSTER_OK);
    muster_virtual *run = muster_mem_array(1, sizeof(*run));
    assert_non_null(run);
    assert_int_equal(muster_virtual_init(run, &simulation.opts, &error),
                     MUSTER_OK);
    muster_sim_at(run->sim, MUSTER_NS_PER_S / 2, stick_coordinator, NULL, 0);
    assert_int_equal(muster_virtual_run(run, &error), MUSTER_ERR_TIMED_OUT);
    assert_non_null(strstr(error.text, "uncoded: the simulated run hangs"));
    assert_non_null(strstr(error.text, "--seed 17 replay it"));
    assert_true(run->steps_done > 0 &&
                run->steps_done < simulation.opts.coordinator.last_step);
    muster_virtual_fini(run);
    muster_mem_free(run);
    muster_simulation_fini(&simulation);
    muster_config_free(config);
}

/* Loss and norm of theta after 40 steps, under `code` and, from step 15 on,
 * under `change`. */
static void train_virtually(const char *code, const char *change,
                            double *loss_out, double *norm_out)
{
    const char *const flags[] = {"--data",  DATA,      "--workers", "6",
                                 "--steps", "40",      "--batch",   "50",
                                 "--model", "softmax", NULL};
    muster_config *config = NULL;
    muster_simulation simulation;
    muster_code *other = NULL;
    assert_int_equal(muster_config_create("simulate", &config), MUSTER_OK);
    assert_int_equal(muster_config_parse(config, 10, flags, NULL), MUSTER_OK);
    assert_int_equal(muster_config_check(config, NULL), MUSTER_OK);
    assert_int_equal(muster_simulation_init(&simulation, config, code, NULL),
                     MUSTER_OK);
    if (change != NULL) {
        muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
        opts.name = change;
        opts.workers = 6;
        assert_int_equal(muster_code_create(&opts, NULL, &other), MUSTER_OK);
        simulation.opts.coordinator.change_code = other;
        simulation.opts.coordinator.change_step = 15;
    }
    muster_virtual *run = muster_mem_array(1, sizeof(*run));
    assert_non_null(run);
    assert_int_equal(muster_virtual_init(run, &simulation.opts, NULL),
                     MUSTER_OK);
    assert_int_equal(muster_virtual_run(run, NULL), MUSTER_OK);
    assert_int_equal(run->status, MUSTER_OK);
    assert_int_equal(run->plans, change != NULL ? 2 : 1);
    *loss_out = run->loss;
    *norm_out = run->theta_norm;
    muster_virtual_fini(run);
    muster_mem_free(run);
    muster_simulation_fini(&simulation);
    muster_code_free(other);
    muster_config_free(config);
}

static void another_code_in_mid_run_ends_with_the_same_model(void **state)
{
    (void)state;
    static const char *const changes[][2] = {{"uncoded", "heter:s=2,k=9"},
                                             {"frc:s=2", "cyclic-mds:s=1"},
                                             {"heter:s=1,k=24", "uncoded"},
                                             {"cyclic-mds:s=2", "linear:spc"}};
    double loss[2];
    double norm[2];
    train_virtually("uncoded", NULL, &loss[0], &norm[0]);
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        train_virtually(changes[i][0], changes[i][1], &loss[1], &norm[1]);
        assert_true(fabs(loss[1] - loss[0]) < 1e-5 * loss[0]);
        assert_true(fabs(norm[1] - norm[0]) < 1e-5 * norm[0]);
    }
}

/* All connections of a machine share its NIC: the coordinator's link needs n
 * times a message down, and then up. The data, a megabyte a worker, needs
 * longer than the patience of a minute. */
static void a_step_takes_what_the_coordinators_link_needs(void **state)
{
    (void)state;
    const char *const flags[] = {
        "--workers",      "1000",  "--code",      "uncoded",
        "--model-floats", "40000", "--bandwidth", "100",
        "--steps",        "5",     NULL};
    char *text = NULL;
    assert_int_equal(simulate(flags, &text), MUSTER_OK);
    json_t *result = json_loads(text, 0, NULL);
    const json_t *step = json_object_get(code_at(result, 0), "step_ms");
    double link_ms = 2 * 1000 * 4.0 * 40000 * 8 / 100e6 * 1e3;
    assert_true(number(step, "mean") >= link_ms);
    assert_true(number(step, "mean") < link_ms * 1.05);
    json_decref(result);
    muster_mem_free(text);
}

/* Half as long a message up, and six answers of eight, save what they say. */
static void short_messages_pay_where_the_link_is_narrow(void **state)
{
    (void)state;
    const char *const flags[] = {
        "--workers", "8",   "--code",      "frc:s=3+linear:gaussian:s=2,m=2",
        "--steps",   "5",   "--bandwidth", "100",
        "--compute", "1ms", NULL};
    char *text = NULL;
    assert_int_equal(simulate(flags, &text), MUSTER_OK);
    json_t *result = json_loads(text, 0, NULL);
    double frc = number(json_object_get(code_at(result, 0), "step_ms"), "mean");
    double linear =
        number(json_object_get(code_at(result, 1), "step_ms"), "mean");
    assert_true(linear < 0.8 * frc);
    json_decref(result);
    muster_mem_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_code_in_mid_run_ends_with_the_same_model),
        cmocka_unit_test(every_code_ends_with_the_same_model),
        cmocka_unit_test(the_same_options_give_the_same_text),
        cmocka_unit_test(a_code_hides_the_stragglers_it_tolerates),
        cmocka_unit_test(the_last_of_two_times_of_a_worker_counts),
        cmocka_unit_test(too_few_workers_is_quorum_with_a_result),
        cmocka_unit_test(a_shuffle_spreads_what_the_slow_ones_miss),
        cmocka_unit_test(a_rotation_turns_every_step),
        cmocka_unit_test(degrading_goes_on_where_waiting_gives_up),
        cmocka_unit_test(every_algorithm_stops_at_a_loss_where_told),
        cmocka_unit_test(a_run_that_hangs_is_an_error_of_its_own),
        cmocka_unit_test(a_step_takes_what_the_coordinators_link_needs),
        cmocka_unit_test(short_messages_pay_where_the_link_is_narrow),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
