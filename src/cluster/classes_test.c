/*
 * classes_test.c -- planted classes are found, with their parameters; a chain
 * is told from classes; equal workers stay one class; the slow machine of a
 * measured trace is named; a change of class is noticed; saved state continues
 * exactly and damaged state is refused.
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

#include "base/mem.h"
#include "base/rng.h"
#include "cluster/classes.h"
#include "cluster/delay.h"
#include "cluster/delay_trace.h"

#define WORKERS 36u

static muster_classes *make(uint32_t workers)
{
    muster_classes_opts opts = {.workers = workers};
    muster_classes *classes = NULL;
    assert_int_equal(muster_classes_create(&opts, &classes), MUSTER_OK);
    return classes;
}

/* One step: worker i straggles with probability rates[i]. */
static void observe_step(muster_classes *classes, const double *rates,
                         muster_rng *rng)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        bool late = muster_rng_uniform(rng) < rates[i];
        muster_classes_observe(classes, i, late, 0);
    }
}

/* The first `slow` of a fixed scattered order are slow. */
static void plant(uint32_t slow, double *rates)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        rates[(i * 7) % WORKERS] = i < slow ? 0.8 : 0.01;
    }
}

static uint32_t mistakes(const muster_classes *classes, const double *rates)
{
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < WORKERS; i++) {
        muster_class class = muster_classes_of(classes, i);
        wrong += class.slow != (rates[i] > 0.5) || !class.lasting;
    }
    return wrong;
}

static void planted_classes_are_found_with_their_parameters(void **state)
{
    (void)state;
    static const uint32_t slows[] = {1, 12, 19, 24};
    for (size_t c = 0; c < 4; c++) {
        double rates[WORKERS];
        plant(slows[c], rates);
        muster_classes *classes = make(WORKERS);
        muster_rng rng = muster_rng_make(11, c);
        uint32_t wrong_after_20 = 0;
        for (int step = 0; step < 1000; step++) {
            observe_step(classes, rates, &rng);
            if (step >= 20) {
                wrong_after_20 += mistakes(classes, rates);
            }
        }
        // In 980 steps of 36 workers a few doubtful moments are allowed.
        assert_in_range(wrong_after_20, 0, 5);
        muster_classes_fit fit = muster_classes_describe(classes);
        assert_int_equal(fit.model, MUSTER_CLASSES_BERNOULLI);
        assert_true(fabs(fit.pss - 0.8) < 0.06);
        assert_true(fabs(fit.pns - 0.01) < 0.01);
        assert_true(fabs(fit.p_hat - slows[c] / (double)WORKERS) < 0.05);
        for (uint32_t i = 0; i < WORKERS; i++) {
            muster_class class = muster_classes_of(classes, i);
            assert_true(fabs(class.straggle_rate - rates[i]) < 0.15);
            assert_true(fabs(class.probability - (rates[i] > 0.5)) < 1e-6);
        }
        muster_classes_free(classes);
    }
}

static void equal_workers_are_not_split(void **state)
{
    (void)state;
    static const double rates_tried[] = {0, 0.01, 0.1, 0.3, 0.8, 1};
    for (size_t c = 0; c < 6; c++) {
        double rates[WORKERS];
        for (uint32_t i = 0; i < WORKERS; i++) {
            rates[i] = rates_tried[c];
        }
        muster_classes *classes = make(WORKERS);
        muster_rng rng = muster_rng_make(12, c);
        for (int step = 0; step < 1000; step++) {
            observe_step(classes, rates, &rng);
            assert_int_equal(muster_classes_describe(classes).model,
                             MUSTER_CLASSES_ONE);
            assert_false(muster_classes_of(classes, 5).slow);
        }
        muster_classes_free(classes);
    }
}

static void a_chain_is_told_from_classes(void **state)
{
    (void)state;
    muster_delay *delay = NULL;
    assert_int_equal(
        muster_delay_create("markov:delay=1ms", WORKERS, 3, NULL, &delay),
        MUSTER_OK);
    muster_classes *classes = make(WORKERS);
    for (uint64_t step = 0; step < 1000; step++) {
        for (uint32_t i = 0; i < WORKERS; i++) {
            muster_classes_observe(classes, i,
                                   muster_delay_ns(delay, i, step) > 0, 0);
        }
    }
    muster_classes_fit fit = muster_classes_describe(classes);
    assert_int_equal(fit.model, MUSTER_CLASSES_MARKOV);
    assert_true(fabs(fit.stay_slow - 0.95) < 0.015);
    assert_true(fabs(fit.stay_active - 0.95) < 0.015);
    for (uint32_t i = 0; i < WORKERS; i++) {
        bool now = muster_delay_ns(delay, i, 999) > 0;
        muster_class class = muster_classes_of(classes, i);
        assert_int_equal(class.slow, now);
        assert_false(class.lasting);
        assert_true(fabs(class.probability - (now ? 0.95 : 0.05)) < 0.02);
    }
    muster_classes_free(classes);
    muster_delay_free(delay);
}

static void a_machine_that_changes_for_good_changes_its_class(void **state)
{
    (void)state;
    double rates[WORKERS];
    plant(6, rates);
    muster_classes *classes = make(WORKERS);
    muster_rng rng = muster_rng_make(14, 0);
    for (int step = 0; step < 500; step++) {
        observe_step(classes, rates, &rng);
    }
    assert_int_equal(mistakes(classes, rates), 0);
    assert_true(rates[0] > 0.5);
    rates[0] = 0.01;
    rates[1] = 0.8;
    for (int step = 0; step < 300; step++) {
        observe_step(classes, rates, &rng);
    }
    assert_int_equal(mistakes(classes, rates), 0);
    muster_classes_free(classes);
}

static void arrivals_beat_the_late_flag(void **state)
{
    (void)state;
    // All of them miss the step, as with a code that needs few responders; by
    // the clock only worker 3 is slow.
    muster_classes *classes = make(8);
    for (int step = 0; step < 50; step++) {
        for (uint32_t i = 0; i < 8; i++) {
            muster_classes_observe(classes, i, true, i == 3 ? 2.5 : 1.1);
        }
    }
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(muster_classes_of(classes, i).slow, i == 3);
    }
    muster_classes_free(classes);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void feed_trace(const muster_delay_trace *trace, muster_classes *classes)
{
    double sorted[64];
    assert_true(trace->workers <= 64);
    for (uint32_t t = 0; t < trace->iterations; t++) {
        const double *row = &trace->seconds[(size_t)t * trace->workers];
        memcpy(sorted, row, trace->workers * sizeof(double));
        qsort(sorted, trace->workers, sizeof(double), compare_doubles);
        double median = sorted[trace->workers / 2];
        for (uint32_t i = 0; i < trace->workers; i++) {
            muster_classes_observe(classes, i, false, row[i] / median);
        }
    }
}

static void load_trace(const char *name, muster_delay_trace *trace)
{
    const char *folder = getenv("MUSTER_DATA");
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/ec2-traces/%s",
                   folder != NULL ? folder : "../shared/data", name);
    if (access(path, R_OK) != 0) {
        printf("skipped: %s is not there (set MUSTER_DATA)\n", path);
        skip();
    }
    assert_int_equal(muster_delay_trace_load(path, NULL, trace), MUSTER_OK);
}

static void measured_traces_name_their_slow_machines(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double min; // slow machines are those above this share
    } traces[] = {{"trace2.csv", 0.5}, {"trace4.csv", 0.2}};
    for (size_t c = 0; c < 2; c++) {
        muster_delay_trace trace;
        load_trace(traces[c].name, &trace);
        muster_classes_opts opts = {.workers = trace.workers, .memory = 1e6};
        muster_classes *classes = NULL;
        assert_int_equal(muster_classes_create(&opts, &classes), MUSTER_OK);
        feed_trace(&trace, classes);
        uint32_t slow = 0;
        for (uint32_t i = 0; i < trace.workers; i++) {
            muster_class class = muster_classes_of(classes, i);
            slow += class.slow;
            assert_int_equal(class.slow, class.straggle_rate > traces[c].min);
        }
        assert_true(slow >= 1);
        muster_classes_free(classes);
        muster_delay_trace_fini(&trace);
    }
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double overall_median(const muster_delay_trace *trace)
{
    size_t count = (size_t)trace->iterations * trace->workers;
    double *sorted = muster_mem_array(count, sizeof(double));
    assert_non_null(sorted);
    memcpy(sorted, trace->seconds, count * sizeof(double));
    qsort(sorted, count, sizeof(double), ascending);
    double median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
    muster_mem_free(sorted);
    return median;
}

/* Straggling is taking over twice the median of the whole trace. */
static void the_rates_of_measured_traces_are_the_known_ones(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double straggle, again, begin;
    } traces[] = {{"trace2.csv", .052, .83, .010},
                  {"trace3.csv", .083, .15, .078}};
    for (size_t c = 0; c < 2; c++) {
        muster_delay_trace trace;
        load_trace(traces[c].name, &trace);
        double limit = 2 * overall_median(&trace);
        muster_classes *classes = make(trace.workers);
        for (uint32_t i = 0; i < trace.iterations * trace.workers; i++) {
            muster_classes_observe(classes, i % trace.workers,
                                   trace.seconds[i] > limit, 0);
        }
        muster_classes_rates rates = muster_classes_count(classes);
        assert_true(fabs(rates.straggle - traces[c].straggle) < 0.001);
        assert_true(fabs(rates.again - traces[c].again) < 0.01);
        assert_true(fabs(rates.begin - traces[c].begin) < 0.001);
        muster_classes_free(classes);
        muster_delay_trace_fini(&trace);
    }
}

static void rates_and_spells_are_counted_over_the_whole_run(void **state)
{
    (void)state;
    muster_classes *classes = make(2);
    assert_true(isnan(muster_classes_count(classes).straggle));
    // Worker 0 straggles in spells of 3 of 10 steps, worker 1 never.
    for (int step = 0; step < 1000; step++) {
        muster_classes_observe(classes, 0, step % 10 < 3, 0);
        muster_classes_observe(classes, 1, false, 0);
    }
    muster_classes_rates rates = muster_classes_count(classes);
    assert_int_equal(rates.observed, 2000);
    assert_true(fabs(rates.straggle - 0.15) < 1e-12);
    assert_true(fabs(rates.again - 2.0 / 3) < 1e-12);
    assert_true(fabs(rates.begin - 99.0 / 1698) < 1e-12);
    assert_true(fabs(rates.spell_steps - 3) < 1e-12);
    muster_classes_free(classes);
}

static void a_state_without_counts_is_taken_up(void **state)
{
    (void)state;
    muster_classes *classes = make(WORKERS);
    muster_classes *again = make(WORKERS);
    muster_classes_observe(classes, 0, true, 0);
    muster_vec bytes = muster_vec_make(1);
    assert_true(muster_classes_save(classes, &bytes));
    uint8_t *data = bytes.data;
    data[0] = 1; // the format before this one has no counts at its end
    assert_int_equal(muster_classes_load(again, data, bytes.count - 48),
                     MUSTER_OK);
    assert_int_equal(muster_classes_count(again).observed, 0);
    assert_true(muster_classes_of(again, 0).straggle_rate == 1);
    muster_vec_fini(&bytes);
    muster_classes_free(classes);
    muster_classes_free(again);
}

static void a_saved_state_continues_exactly(void **state)
{
    (void)state;
    double rates[WORKERS];
    plant(12, rates);
    muster_classes *classes = make(WORKERS);
    muster_classes *again = make(WORKERS);
    muster_rng rng = muster_rng_make(15, 0);
    for (int step = 0; step < 40; step++) {
        observe_step(classes, rates, &rng);
    }
    muster_classes_observe(classes, 0, true, 0); // in the middle of a step
    muster_vec bytes = muster_vec_make(1);
    assert_true(muster_classes_save(classes, &bytes));
    assert_int_equal(muster_classes_load(again, bytes.data, bytes.count),
                     MUSTER_OK);
    muster_rng same = rng;
    for (int step = 0; step < 40; step++) {
        observe_step(classes, rates, &rng);
        observe_step(again, rates, &same);
    }
    muster_vec first = muster_vec_make(1);
    muster_vec second = muster_vec_make(1);
    assert_true(muster_classes_save(classes, &first));
    assert_true(muster_classes_save(again, &second));
    assert_int_equal(first.count, second.count);
    assert_memory_equal(first.data, second.data, first.count);
    muster_vec_fini(&first);
    muster_vec_fini(&second);
    muster_vec_fini(&bytes);
    muster_classes_free(classes);
    muster_classes_free(again);
}

static void damaged_state_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    double rates[WORKERS];
    plant(12, rates);
    muster_classes *classes = make(WORKERS);
    muster_rng rng = muster_rng_make(16, 0);
    for (int step = 0; step < 40; step++) {
        observe_step(classes, rates, &rng);
    }
    muster_vec bytes = muster_vec_make(1);
    assert_true(muster_classes_save(classes, &bytes));
    uint8_t *data = bytes.data;
    for (size_t size = 0; size < bytes.count; size++) {
        assert_int_equal(muster_classes_load(classes, data, size),
                         MUSTER_ERR_INPUT);
    }
    for (size_t at = 0; at < bytes.count; at++) {
        uint8_t was = data[at];
        data[at] = 0xff; // refused, or at least harmless
        muster_status status = muster_classes_load(classes, data, bytes.count);
        assert_true(status == MUSTER_OK || status == MUSTER_ERR_INPUT);
        observe_step(classes, rates, &rng);
        data[at] = was;
    }
    data[8 * 20 + 24] = 3; // the last state of worker 0
    assert_int_equal(muster_classes_load(classes, data, bytes.count),
                     MUSTER_ERR_INPUT);
    muster_classes *other = make(WORKERS + 1);
    assert_int_equal(muster_classes_load(other, data, bytes.count),
                     MUSTER_ERR_INPUT);
    muster_classes_free(other);
    muster_vec_fini(&bytes);
    muster_classes_free(classes);
}

static void bad_options_and_no_memory_are_statuses(void **state)
{
    (void)state;
    static const muster_classes_opts bad[] = {
        {.workers = 0},
        {.workers = 2, .memory = 1},
        {.workers = 2, .straggle_ratio = 1},
        {.workers = 2, .memory = NAN}};
    muster_classes *classes = NULL;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(muster_classes_create(&bad[i], &classes),
                         MUSTER_ERR_INVALID);
    }
    muster_classes_opts good = {.workers = 2};
    for (uint64_t allowed = 0; allowed < 2; allowed++) {
        muster_mem_fail_after(allowed);
        muster_status status = muster_classes_create(&good, &classes);
        muster_mem_fail_after(UINT64_MAX);
        assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
    }
    classes = make(2);
    muster_vec bytes = muster_vec_make(1);
    for (uint64_t allowed = 0; allowed < 2; allowed++) {
        muster_mem_fail_after(allowed);
        bool saved = muster_classes_save(classes, &bytes);
        muster_mem_fail_after(UINT64_MAX);
        assert_false(saved);
    }
    muster_vec_fini(&bytes);
    muster_classes_free(classes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_classes_are_found_with_their_parameters),
        cmocka_unit_test(equal_workers_are_not_split),
        cmocka_unit_test(a_chain_is_told_from_classes),
        cmocka_unit_test(a_machine_that_changes_for_good_changes_its_class),
        cmocka_unit_test(arrivals_beat_the_late_flag),
        cmocka_unit_test(measured_traces_name_their_slow_machines),
        cmocka_unit_test(the_rates_of_measured_traces_are_the_known_ones),
        cmocka_unit_test(rates_and_spells_are_counted_over_the_whole_run),
        cmocka_unit_test(a_state_without_counts_is_taken_up),
        cmocka_unit_test(a_saved_state_continues_exactly),
        cmocka_unit_test(damaged_state_is_refused_and_changes_nothing),
        cmocka_unit_test(bad_options_and_no_memory_are_statuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
