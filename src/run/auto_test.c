/*
 * auto_test.c -- codes that change in virtual time. --code auto finds the code
 * that suits the workers, again after they have changed, and ends with the same
 * model. order=speeds finds the order that suits them.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "config/config.h"
#include "run/simulation.h"

#define STEPS   300u
#define LOOK_NS (MUSTER_NS_PER_MS / 2)

/* When each step ended, and what came out. */
typedef struct history {
    muster_virtual *run;
    int64_t end_ns[STEPS + 1];
    uint32_t plans;
    double loss, norm;
} history;

static void look(muster_sim *sim, void *context, uint64_t value)
{
    history *seen = context;
    (void)value;
    seen->end_ns[seen->run->steps_done] = seen->run->step_end_ns;
    if (seen->run->steps_done < STEPS) {
        muster_sim_at(sim, muster_sim_now(sim) + LOOK_NS, look, seen, 0);
    }
}

static muster_config *parse(const char *const *flags)
{
    muster_config *config = NULL;
    muster_error error = {.text = ""};
    int count = 0;
    while (flags[count] != NULL) {
        count++;
    }
    assert_int_equal(muster_config_create("simulate", &config), MUSTER_OK);
    assert_int_equal(muster_config_parse(config, count, flags, &error),
                     MUSTER_OK);
    assert_int_equal(muster_config_check(config, &error), MUSTER_OK);
    return config;
}

static history simulate(const char *const *flags, const char *code)
{
    muster_config *config = parse(flags);
    muster_simulation simulation;
    assert_int_equal(muster_simulation_init(&simulation, config, code, NULL),
                     MUSTER_OK);
    history seen = {.run = muster_mem_array(1, sizeof(*seen.run))};
    assert_non_null(seen.run);
    assert_int_equal(muster_virtual_init(seen.run, &simulation.opts, NULL),
                     MUSTER_OK);
    muster_sim_at(seen.run->sim, LOOK_NS, look, &seen, 0);
    assert_int_equal(muster_virtual_run(seen.run, NULL), MUSTER_OK);
    assert_int_equal(seen.run->status, MUSTER_OK);
    assert_int_equal(seen.run->steps_done, STEPS);
    seen.plans = seen.run->plans;
    seen.loss = seen.run->loss;
    seen.norm = seen.run->theta_norm;
    muster_virtual_fini(seen.run);
    muster_mem_free(seen.run);
    muster_simulation_fini(&simulation);
    muster_config_free(config);
    seen.run = NULL;
    return seen;
}

/* Workers 0 and 1 are slow, from step 100 on 2 and 3 instead, and from step 200
 * on nobody. */
static history train(const char *code, bool data)
{
    static const char *const flags[] = {
        "--workers", "8",
        "--steps",   "300",
        "--compute", "5ms",
        "--slow",    "0:100ms",
        "--slow",    "1:100ms",
        "--slow",    "0:0ms@100",
        "--slow",    "1:0ms@100",
        "--slow",    "2:100ms@100",
        "--slow",    "3:100ms@100",
        "--slow",    "2:0ms@200",
        "--slow",    "3:0ms@200",
        "--data",    "synthetic:samples=600,features=8,classes=3",
        NULL};
    const char *own[sizeof(flags) / sizeof(flags[0])];
    size_t count = sizeof(flags) / sizeof(flags[0]);
    for (size_t i = 0; i < count; i++) {
        own[i] = flags[i];
    }
    if (!data) {
        own[count - 3] = NULL;
    }
    return simulate(own, code);
}

/* A worker under each edge is slow, from step 100 on edge 2 instead, and from
 * step 200 on nobody. */
static history train_under_edges(const char *code)
{
    static const char *const flags[] = {
        "--topology", "4x4",         "--steps", "300",
        "--compute",  "5ms",         "--slow",  "1:100ms",
        "--slow",     "5:100ms",     "--slow",  "9:100ms",
        "--slow",     "13:100ms",    "--slow",  "1:0ms@100",
        "--slow",     "5:0ms@100",   "--slow",  "9:0ms@100",
        "--slow",     "13:0ms@100",  "--slow",  "edge2:100ms@100",
        "--slow",     "edge2:0@200", NULL};
    return simulate(flags, code);
}

static int compare(const void *one, const void *two)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)two;
    return (a > b) - (a < b);
}

/* Of the fifty steps before `end`. */
static int64_t median_ns(const history *seen, uint32_t end)
{
    int64_t steps[50];
    for (uint32_t i = 0; i < 50; i++) {
        uint32_t step = end - 50 + i;
        assert_true(seen->end_ns[step] > 0);
        steps[i] = seen->end_ns[step + 1] - seen->end_ns[step];
    }
    qsort(steps, 50, sizeof(steps[0]), compare);
    return steps[25];
}

/* The least median of each phase so far, in the second half of it. */
static void keep_best(const history *seen, int64_t best[3])
{
    for (uint32_t phase = 0; phase < 3; phase++) {
        int64_t median = median_ns(seen, 100 * (phase + 1));
        best[phase] = median < best[phase] ? median : best[phase];
    }
}

static void assert_no_slower(const history *seen, const int64_t best[3])
{
    for (uint32_t phase = 0; phase < 3; phase++) {
        int64_t median = median_ns(seen, 100 * (phase + 1));
        assert_true((double)median <= 1.1 * (double)best[phase]);
    }
}

static void
fifty_steps_after_a_change_no_fixed_code_is_a_tenth_faster(void **state)
{
    (void)state;
    static const char *const fixed[] = {
        "uncoded",           "frc:s=1",
        "ye-abbe-tuned:s=2", "frc:s=3",
        "cyclic-mds:s=2",    "frc:s=7",
        "scheduled:s=2",     "scheduled:s=2,order=staircase"};
    int64_t best[3] = {INT64_MAX, INT64_MAX, INT64_MAX};
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        history seen = train(fixed[i], false);
        keep_best(&seen, best);
    }
    history seen = train("auto", false);
    assert_no_slower(&seen, best);
}

static void nor_is_one_under_edges(void **state)
{
    (void)state;
    static const char *const fixed[] = {"hier", "hier:se=0,sw=1",
                                        "hier:se=1,sw=0", "hier:se=1,sw=1",
                                        "hier:se=1,sw=3"};
    int64_t best[3] = {INT64_MAX, INT64_MAX, INT64_MAX};
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        history seen = train_under_edges(fixed[i]);
        keep_best(&seen, best);
    }
    history seen = train_under_edges("auto");
    assert_no_slower(&seen, best);
}

/* What was before a change does not count for longer than the new times need
 * to show. */
static void the_code_follows_a_change_within_24_steps(void **state)
{
    (void)state;
    history seen = train_under_edges("auto");
    for (uint32_t first = 100; first < STEPS; first += 100) {
        int64_t usual_ns = median_ns(&seen, first + 100);
        uint32_t slow = 0;
        for (uint32_t step = first; step < first + 100; step++) {
            int64_t took_ns = seen.end_ns[step + 1] - seen.end_ns[step];
            slow += 2 * took_ns > 3 * usual_ns;
        }
        assert_in_range(slow, 1, 24);
    }
}

/* Uncoded, and a code in stages that two may be missing from: slowness that
 * wanders to two others is no reason for another, nor is its end, for that code
 * costs nothing while nobody is slow. */
static void a_code_changes_only_where_that_pays(void **state)
{
    (void)state;
    assert_int_equal(train("auto", false).plans, 2);
}

static void the_model_is_that_of_an_uncoded_run(void **state)
{
    (void)state;
    history uncoded = train("uncoded", true);
    history chosen = train("auto", true);
    assert_true(chosen.plans > 1);
    assert_true(fabs(chosen.loss - uncoded.loss) < 1e-4 * uncoded.loss);
    assert_true(fabs(chosen.norm - uncoded.norm) < 1e-4 * uncoded.norm);
}

/* Two neighbours are slow at a time: with s = 1 one of the two brings the share
 * that only they have, until the order has learnt who they are. */
static void an_order_by_speeds_follows_who_is_slow(void **state)
{
    (void)state;
    history fixed = train("scheduled:s=1,order=cyclic", false);
    history learnt = train("scheduled:s=1,order=speeds", true);
    history uncoded = train("uncoded", true);
    assert_int_equal(learnt.plans, 4); // as it began, and three times more
    for (uint32_t end = 100; end <= 200; end += 100) {
        assert_true(5 * median_ns(&learnt, end) < 4 * median_ns(&fixed, end));
    }
    assert_true(fabs(learnt.loss - uncoded.loss) < 1e-4 * uncoded.loss);
    assert_true(fabs(learnt.norm - uncoded.norm) < 1e-4 * uncoded.norm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            fifty_steps_after_a_change_no_fixed_code_is_a_tenth_faster),
        cmocka_unit_test(nor_is_one_under_edges),
        cmocka_unit_test(the_code_follows_a_change_within_24_steps),
        cmocka_unit_test(a_code_changes_only_where_that_pays),
        cmocka_unit_test(the_model_is_that_of_an_uncoded_run),
        cmocka_unit_test(an_order_by_speeds_follows_who_is_slow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
