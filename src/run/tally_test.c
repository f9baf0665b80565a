/*
 * tally_test.c -- counting reports, and the line made of the counts.
 */
#include "run/tally.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "run/progress.h"

#define STEPS   40u
#define STEP_NS (100 * MUSTER_NS_PER_MS)

/* A step begins every 100 ms; an answer comes as long after the beginning of
 * its step as it was computed. */
static void answer(muster_tally *tally, uint64_t step, uint32_t worker,
                   double compute_ms, bool late)
{
    muster_report report = {.kind = MUSTER_REPORT_ANSWER, .step = step};
    report.now_ns = (int64_t)(step + 1) * STEP_NS + (int64_t)(compute_ms * 1e6);
    report.as.answer.worker = worker;
    report.as.answer.compute_ms = compute_ms - 1;
    report.as.answer.arrive_ms = compute_ms;
    report.as.answer.late = late;
    muster_tally_report(tally, &report);
}

static void change(muster_tally *tally, uint32_t worker,
                   muster_worker_change what)
{
    muster_report report = {.kind = MUSTER_REPORT_WORKER};
    report.as.worker.worker = worker;
    report.as.worker.change = what;
    muster_tally_report(tally, &report);
}

static void begin(muster_tally *tally, uint64_t step)
{
    muster_report report = {.kind = MUSTER_REPORT_STEP_BEGIN,
                            .now_ns = (int64_t)(step + 1) * STEP_NS,
                            .step = step};
    muster_tally_report(tally, &report);
}

static void end(muster_tally *tally, uint64_t step,
                const muster_classes *classes)
{
    muster_report report = {.kind = MUSTER_REPORT_STEP_END,
                            .now_ns = (int64_t)(step + 2) * STEP_NS,
                            .step = step};
    report.as.end.step_ms = 100;
    report.as.end.grad_err = 1e-7 * (double)step;
    report.as.end.classes = classes;
    report.as.end.loss = 0.5;
    report.as.end.responders = 3;
    report.as.end.stragglers = 1;
    report.as.end.bytes_up = 10;
    report.as.end.messages_up = 3;
    muster_tally_report(tally, &report);
}

static muster_tally all_ready(uint32_t workers)
{
    muster_tally tally;
    assert_int_equal(muster_tally_init(workers, &tally), MUSTER_OK);
    for (uint32_t w = 0; w < workers; w++) {
        change(&tally, w, MUSTER_WORKER_JOINED);
        change(&tally, w, MUSTER_WORKER_READY);
    }
    return tally;
}

/* Of four workers, 1 and 2 straggle: what the role would say. */
static int make_classes(void **state)
{
    muster_classes *classes = NULL;
    muster_classes_opts opts = {.workers = 4};
    assert_int_equal(muster_classes_create(&opts, &classes), MUSTER_OK);
    for (uint32_t i = 0; i < 4 * STEPS; i++) {
        muster_classes_observe(classes, i % 4, i % 4 == 1 || i % 4 == 2, 0);
    }
    *state = classes;
    return 0;
}

static int drop_classes(void **state)
{
    muster_classes_free(*state);
    return 0;
}

/* Four workers: 0 fine, 1 four times as slow, half of its answers late, 2
 * silent, 3 lost. */
static muster_tally four_workers(const muster_classes *classes)
{
    muster_tally tally = all_ready(4);
    for (uint64_t step = 0; step < STEPS; step++) {
        begin(&tally, step);
        answer(&tally, step, 0, 10, false);
        if (step % 2 == 0) {
            answer(&tally, step, 1, 45, false);
        }
        if (step < 5) {
            answer(&tally, step, 3, 11, false);
        }
        end(&tally, step, classes);
        if (step % 2 == 1) {
            answer(&tally, step, 1, 145, true);
        }
    }
    change(&tally, 3, MUSTER_WORKER_LOST);
    return tally;
}

static void reports_add_up(void **state)
{
    muster_tally tally = four_workers(*state);
    assert_int_equal(tally.steps, STEPS);
    assert_int_equal(muster_summary_steps(tally.summary), STEPS);
    assert_int_equal(muster_summary_in_time(tally.summary, 0), STEPS);
    assert_int_equal(muster_summary_in_time(tally.summary, 1), STEPS / 2);
    assert_int_equal(tally.workers[1].answers, STEPS);
    assert_int_equal(muster_summary_late(tally.summary, 1), STEPS / 2);
    assert_int_equal(tally.workers[3].ready_steps, STEPS);
    assert_false(tally.workers[3].joined);
    assert_int_equal(tally.workers[3].deaths, 1);
    muster_tally_fini(&tally);
}

static void slow_silent_and_lost_workers_are_told_apart(void **state)
{
    muster_tally tally = four_workers(*state);
    muster_worker_class classes[4];
    muster_tally_classes(&tally, classes);
    assert_int_equal(classes[0], MUSTER_CLASS_ACTIVE);
    assert_int_equal(classes[1], MUSTER_CLASS_SLOW);
    assert_int_equal(classes[2], MUSTER_CLASS_SLOW);
    assert_int_equal(classes[3], MUSTER_CLASS_LOST);
    muster_tally_fini(&tally);
}

/* A late answer is timed from the beginning of its own step. */
static void costs_are_counted_from_the_steps_own_beginning(void **state)
{
    muster_tally tally = four_workers(*state);
    muster_straggler_cost fine = muster_stragglers_cost(tally.costs, 0);
    muster_straggler_cost slow = muster_stragglers_cost(tally.costs, 1);
    assert_true(fabs(fine.arrive_ms - 10) < 1e-9);
    assert_true(fabs(fine.behind_ms) < 0.2);
    assert_true(fabs(slow.arrive_ms - 95) < 1e-9);
    assert_true(fabs(slow.behind_ms - 85) < 0.2);
    assert_true(isnan(muster_stragglers_cost(tally.costs, 2).arrive_ms));
    // Half of the steps waited 35 ms, but for the first five: 34.
    double waited_ms = muster_stragglers_waited_ms(tally.costs);
    assert_true(fabs(waited_ms - (17 * 35 + 3 * 34) / 40.0) < 1e-9);
    assert_true(fabs(muster_summary_send_ms(tally.summary, 0, 0.5) - 1) < 0.1);
    assert_true(fabs(muster_summary_wait_ms(tally.summary, 0, 0.5) - 90) < 2);
    muster_tally_fini(&tally);
}

static void the_progress_line_names_the_slow_and_the_lost(void **state)
{
    muster_tally tally = four_workers(*state);
    muster_progress progress;
    assert_int_equal(muster_progress_init(4, &progress), MUSTER_OK);
    muster_progress_span(&progress, 0, 100, 0);
    muster_progress_step(&progress, &tally, 2 * MUSTER_NS_PER_S);
    assert_true(fabs(progress.rate - 20) < 1e-9);
    char text[MUSTER_PROGRESS_TEXT_MAX];
    muster_progress_text(&progress, &tally, text);
    assert_string_equal(text, "step 40/100  loss 0.5  20 steps/s  ETA 0:03  "
                              "3 heard, 1 not  slow: 1 2  lost: 3");
    muster_progress_fini(&progress);
    muster_tally_fini(&tally);
}

static void before_the_first_step_nobody_is_slow(void **state)
{
    (void)state;
    muster_tally tally = all_ready(2);
    muster_worker_class classes[2];
    muster_tally_classes(&tally, classes);
    assert_int_equal(classes[0], MUSTER_CLASS_ACTIVE);
    assert_int_equal(classes[1], MUSTER_CLASS_ACTIVE);
    muster_tally_fini(&tally);
}

static void durations_read_like_clocks(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0, "0:00"},     {9.6, "0:10"},     {61, "1:01"},
                 {3599, "59:59"}, {3909, "1:05:09"}, {NAN, "?"},
                 {INFINITY, "?"}, {-1, "?"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[32];
        muster_progress_duration(cases[i].seconds, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

static void init_fails_cleanly_without_memory(void **state)
{
    (void)state;
    uint64_t allowed = 0;
    muster_status status = MUSTER_ERR_NO_MEMORY;
    for (; status != MUSTER_OK && allowed < 20; allowed++) {
        muster_tally tally;
        muster_mem_fail_after(allowed);
        status = muster_tally_init(4, &tally);
        muster_mem_fail_after(UINT64_MAX);
        if (status == MUSTER_OK) {
            muster_tally_fini(&tally);
        }
    }
    assert_true(allowed > 2 && allowed < 20);
}

/* What earlier lives of a run took counts in the seconds of an evaluation. */
static void seconds_are_those_of_all_lives(void **state)
{
    (void)state;
    muster_tally tally;
    assert_int_equal(muster_tally_init(2, &tally), MUSTER_OK);
    tally.earlier_s = 7;
    begin(&tally, 0);
    muster_report report = {.kind = MUSTER_REPORT_EVALUATION, .step = 5};
    report.as.evaluation.model_ns = STEP_NS + 5 * STEP_NS;
    muster_tally_report(&tally, &report);
    const muster_summary_evaluation *evaluation = tally.evaluations.data;
    assert_int_equal(tally.evaluations.count, 1);
    assert_true(fabs(evaluation->seconds - 7.5) < 1e-9);
    muster_tally_fini(&tally);
}

int main(void)
{
#define TEST_WITH_CLASSES(test) \
    cmocka_unit_test_setup_teardown(test, make_classes, drop_classes)
    const struct CMUnitTest tests[] = {
        TEST_WITH_CLASSES(reports_add_up),
        TEST_WITH_CLASSES(slow_silent_and_lost_workers_are_told_apart),
        TEST_WITH_CLASSES(costs_are_counted_from_the_steps_own_beginning),
        TEST_WITH_CLASSES(the_progress_line_names_the_slow_and_the_lost),
        cmocka_unit_test(before_the_first_step_nobody_is_slow),
        cmocka_unit_test(durations_read_like_clocks),
        cmocka_unit_test(seconds_are_those_of_all_lives),
        cmocka_unit_test(init_fails_cleanly_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
