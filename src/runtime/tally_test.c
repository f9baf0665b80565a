/*
 * tally_test.c -- counting reports, and the line made of the counts.
 */
#include "runtime/tally.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "runtime/progress.h"

static void answer(muster_tally *tally, uint32_t worker, double compute_ms,
                   bool late)
{
    muster_report report = {.kind = MUSTER_REPORT_ANSWER};
    report.as.answer.worker = worker;
    report.as.answer.compute_ms = compute_ms;
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

static void begin(muster_tally *tally)
{
    muster_report report = {.kind = MUSTER_REPORT_STEP_BEGIN};
    muster_tally_report(tally, &report);
}

static void end(muster_tally *tally, double step_ms, double grad_err)
{
    muster_report report = {.kind = MUSTER_REPORT_STEP_END};
    report.as.end.step_ms = step_ms;
    report.as.end.grad_err = grad_err;
    report.as.end.loss = 0.5;
    report.as.end.responders = 3;
    report.as.end.stragglers = 1;
    report.as.end.bytes_up = 10;
    report.as.end.messages_up = 3;
    muster_tally_report(tally, &report);
}

/* Four workers: 0 fine, 1 three times as slow, 2 silent, 3 lost. */
static muster_tally four_workers(void)
{
    muster_tally tally;
    assert_int_equal(muster_tally_init(4, &tally), MUSTER_OK);
    for (uint32_t w = 0; w < 4; w++) {
        change(&tally, w, MUSTER_WORKER_JOINED);
        change(&tally, w, MUSTER_WORKER_READY);
    }
    for (int step = 0; step < 10; step++) {
        begin(&tally);
        answer(&tally, 0, 10 + step, false);
        answer(&tally, 1, 45, step % 2 == 0);
        if (step < 5) {
            answer(&tally, 3, 11, false);
        }
        end(&tally, step + 1, 1e-7 * step);
    }
    change(&tally, 3, MUSTER_WORKER_LOST);
    return tally;
}

static void reports_add_up(void **state)
{
    (void)state;
    muster_tally tally = four_workers();
    assert_int_equal(tally.steps, 10);
    assert_int_equal(muster_summary_steps(tally.summary), 10);
    assert_int_equal(muster_summary_in_time(tally.summary, 0), 10);
    assert_int_equal(muster_summary_in_time(tally.summary, 1), 5);
    assert_int_equal(tally.workers[1].answers, 10);
    assert_int_equal(tally.workers[3].ready_steps, 10);
    assert_false(tally.workers[3].joined);
    assert_int_equal(tally.workers[3].deaths, 1);
    muster_tally_fini(&tally);
}

static void slow_silent_and_lost_workers_are_told_apart(void **state)
{
    (void)state;
    muster_tally tally = four_workers();
    muster_worker_class classes[4];
    muster_tally_classes(&tally, classes);
    assert_int_equal(classes[0], MUSTER_CLASS_ACTIVE);
    assert_int_equal(classes[1], MUSTER_CLASS_SLOW);
    assert_int_equal(classes[2], MUSTER_CLASS_SLOW);
    assert_int_equal(classes[3], MUSTER_CLASS_LOST);
    muster_tally_fini(&tally);
}

static void the_progress_line_names_the_slow_and_the_lost(void **state)
{
    (void)state;
    muster_tally tally = four_workers();
    muster_progress progress;
    assert_int_equal(muster_progress_init(4, &progress), MUSTER_OK);
    muster_progress_span(&progress, 0, 100, 0);
    muster_progress_step(&progress, &tally, 2 * MUSTER_NS_PER_S);
    assert_true(fabs(progress.rate - 5) < 1e-9);
    char text[MUSTER_PROGRESS_TEXT_MAX];
    muster_progress_text(&progress, &tally, text);
    assert_string_equal(text, "step 10/100  loss 0.5  5 steps/s  ETA 0:18  "
                              "3 heard, 1 not  slow: 1 2  lost: 3");
    muster_progress_fini(&progress);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_add_up),
        cmocka_unit_test(slow_silent_and_lost_workers_are_told_apart),
        cmocka_unit_test(the_progress_line_names_the_slow_and_the_lost),
        cmocka_unit_test(durations_read_like_clocks),
        cmocka_unit_test(init_fails_cleanly_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
