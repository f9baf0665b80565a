/*
 * ye_abbe_test.c -- the simulator has the expected step times of Ye and Abbe's
 * model: a worker takes d (t1 + Exp(l1)) + (t2 + Exp(l2)) / m, a step ends with
 * the (n - s)-th worker, s = d - m. n = 8, l1 = .8, l2 = .1, t1 = 1.6, t2 = 6.
 *
 * The published figures are computed here again, by the integral of the order
 * statistic, and with them the standard deviation of a step. The mean of a
 * simulation is within three standard errors, and 0.001 for what the simulator
 * adds: half a millisecond of network and decoding. MUSTER_GRID_STEPS sets the
 * number of steps (the long run: 100000).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "config/config.h"
#include "muster/run.h"

#define STEPS_SHORT "3000"
#define UNIT_MS     1000.0 // one unit of the paper's time
#define OVERHEAD    0.001

static const char delay_model[] =
    "shifted-exponential:shift=1.6s,mean=1.25s,per=load+"
    "shifted-exponential:shift=6s,mean=10s,per=message";

typedef struct cell {
    const char *code;
    unsigned n, d, m;
    unsigned group; // workers that decode together; n: all
    double expected;
} cell;

static const cell cells[] = {
    {"uncoded", 8, 1, 1, 8, 36.114},
    {"ye-abbe:s=1,m=1", 8, 2, 1, 8, 29.229},
    {"ye-abbe:s=0,m=2", 8, 2, 2, 8, 23.104},
    {"ye-abbe:s=2,m=1", 8, 3, 1, 8, 27.335},
    {"ye-abbe:s=1,m=2", 8, 3, 2, 8, 21.399},
    {"ye-abbe:s=0,m=3", 8, 3, 3, 8, 22.260},
    {"ye-abbe:s=3,m=1", 8, 4, 1, 8, 26.747},
    {"ye-abbe:s=2,m=2", 8, 4, 2, 8, 21.537},
    {"ye-abbe:s=1,m=3", 8, 4, 3, 8, 21.370},
    {"ye-abbe:s=0,m=4", 8, 4, 4, 8, 24.804},
    {"ye-abbe:s=7,m=1", 8, 8, 1, 8, 24.106},
    {"linear:tuned:s=2,m=2", 8, 4, 2, 4, 18.453},
    {"linear:tuned:s=2,m=2", 12, 4, 2, 4, 19.53},
};
#define CELLS (sizeof(cells) / sizeof(cells[0]))

/* P(a worker's random part > x): the sum of two exponentials. */
static double survival(const cell *of, double x)
{
    double a = 0.8 / of->d;
    double b = 0.1 * of->m;
    return fabs(b - a) < 1e-9 ? (1 + a * x) * exp(-a * x)
                              : (b * exp(-a * x) - a * exp(-b * x)) / (b - a);
}

/* P(fewer than n - s workers of a group have finished, in any group). */
static double unfinished(const cell *of, double x)
{
    double late = survival(of, x);
    unsigned stragglers = of->d - of->m;
    double enough = 0;
    double choose = 1;
    for (unsigned i = 0; i <= stragglers; i++) {
        enough += choose * pow(late, i) * pow(1 - late, of->group - i);
        choose = choose * (of->group - i) / (i + 1);
    }
    return 1 - pow(enough, of->n / of->group);
}

typedef struct moments {
    double mean, deviation;
} moments;

static moments moments_of(const cell *of)
{
    double first = 0;
    double second = 0;
    double width = 0.002;
    for (unsigned i = 0; i < 200000; i++) { // up to x = 400
        double x = (i + 0.5) * width;
        double p = unfinished(of, x);
        first += p * width;
        second += 2 * x * p * width;
    }
    return (moments){of->d * 1.6 + 6.0 / of->m + first,
                     sqrt(second - first * first)};
}

/* The mean of the simulated steps, in the paper's unit. */
static double simulated(const cell *of, const char *steps)
{
    char workers[16];
    (void)snprintf(workers, sizeof(workers), "%u", of->n);
    const char *const flags[] = {
        "--workers", workers, "--code", of->code, "--steps", steps, "--compute",
        "0s", "--delay", delay_model, "--seed", "5",
        // Steps take half a minute: heartbeats would be most of the events.
        "--bandwidth", "1000000", "--heartbeat", "10m", "--quiet"};
    muster_config *config = NULL;
    muster_error error = {0};
    char *text = NULL;
    assert_int_equal(muster_config_create("simulate", &config), MUSTER_OK);
    muster_status status = muster_config_parse(
        config, (int)(sizeof(flags) / sizeof(flags[0])), flags, &error);
    if (status == MUSTER_OK) {
        status = muster_config_check(config, &error);
    }
    if (status != MUSTER_OK ||
        muster_simulate(config, &error, &text) != MUSTER_OK) {
        fail_msg("%s: %s", of->code, error.text);
    }
    json_t *result = json_loads(text, 0, NULL);
    const json_t *code = json_array_get(json_object_get(result, "codes"), 0);
    double mean = json_number_value(
        json_object_get(json_object_get(code, "step_ms"), "mean"));
    json_decref(result);
    muster_config_text_free(text);
    muster_config_free(config);
    return mean / UNIT_MS;
}

static void the_integral_gives_the_published_times(void **state)
{
    (void)state;
    for (size_t i = 0; i < CELLS; i++) {
        moments exact = moments_of(&cells[i]);
        if (fabs(exact.mean - cells[i].expected) > 0.005) {
            fail_msg("%s: %.4f, not %.4f", cells[i].code, exact.mean,
                     cells[i].expected);
        }
    }
}

static void simulated_steps_take_the_expected_time(void **state)
{
    (void)state;
    const char *steps = getenv("MUSTER_GRID_STEPS");
    steps = steps != NULL ? steps : STEPS_SHORT;
    for (size_t i = 0; i < CELLS; i++) {
        double error =
            moments_of(&cells[i]).deviation / sqrt(strtod(steps, NULL));
        double mean = simulated(&cells[i], steps);
        double off = mean - cells[i].expected;
        print_message("%-22s n = %2u: %.3f, expected %.3f (%+.1f standard "
                      "errors of %.3f)\n",
                      cells[i].code, cells[i].n, mean, cells[i].expected,
                      off / error, error);
        assert_true(fabs(off) < 3 * error + OVERHEAD);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_integral_gives_the_published_times),
        cmocka_unit_test(simulated_steps_take_the_expected_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
