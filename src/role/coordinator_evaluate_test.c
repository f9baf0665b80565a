/*
 * coordinator_evaluate_test.c -- evaluations beside the steps, fed by hand: the
 * result of one may come at any time, and the run does the same.
 */
#include "role/coordinator_test.h"

#define EVERY  UINT64_C(3)
#define LAST   UINT64_C(20)
#define ENOUGH 0.9

/* A run, and what it has asked for so far. */
typedef struct watched {
    stage s;
    uint64_t job;          // EVALUATE under way, or 0
    uint64_t job_step;     // of its model
    uint32_t job_count;    // so far
    uint64_t steps;        // that have ended
    uint64_t reached_step; // by a report; 0: not yet
    uint64_t closing;      // one of the last jobs, or 0
    bool is_cancelled;     // the EVALUATE
} watched;

static void note_job(watched *w, const muster_job *job)
{
    if (job->kind == MUSTER_JOB_EVALUATE && job->test_only) {
        assert_int_equal(w->job, 0); // one at a time
        assert_int_equal(job->step, ++w->job_count * EVERY);
        assert_non_null(job->input);
        w->job = job->id;
        w->job_step = job->step;
    } else if (job->kind != MUSTER_JOB_UPDATE) {
        w->closing = job->id;
    }
}

/* What the last event brought. */
static void note(watched *w)
{
    const muster_action *list = w->s.actions.list.data;
    for (size_t i = 0; i < w->s.actions.list.count; i++) {
        const muster_action *action = &list[i];
        if (action->kind == MUSTER_ACTION_COMPUTE) {
            note_job(w, &action->as.job);
        } else if (action->kind == MUSTER_ACTION_CANCEL) {
            w->is_cancelled = action->as.cancel.job_id == w->job;
        } else if (action->kind == MUSTER_ACTION_REPORT) {
            const muster_report *report = &action->as.report;
            w->steps += report->kind == MUSTER_REPORT_STEP_END;
            if (report->kind == MUSTER_REPORT_EVALUATION &&
                report->as.evaluation.reached) {
                w->reached_step = report->step;
            }
        }
    }
}

static watched begin_run(void)
{
    muster_coordinator_opts opts = MUSTER_COORDINATOR_OPTS_INIT;
    opts.evaluate_every = EVERY;
    opts.evaluate_at_end = true;
    opts.target = (muster_target){MUSTER_TARGET_ACCURACY, ENOUGH};
    opts.last_step = LAST;
    watched w = {.s = make_stage_with("uncoded", WORKERS, opts)};
    gather(&w.s);
    return w;
}

/* All workers answer, and the update is made. */
static void do_step(watched *w)
{
    uint64_t step = w->steps;
    for (uint32_t id = 0; id < WORKERS; id++) {
        answer(&w->s, id, step);
    }
    update_model(&w->s, step);
    note(w);
    assert_int_equal(w->steps, step + 1);
}

static void evaluated(watched *w, muster_status status, double accuracy)
{
    muster_job_result result = {.id = w->job,
                                .kind = MUSTER_JOB_EVALUATE,
                                .status = status,
                                .step = w->job_step,
                                .test_accuracy = accuracy};
    w->job = 0;
    computed(&w->s, result);
    note(w);
}

static bool is_offered(const watched *w)
{
    return count_sends(&w->s, MUSTER_MSG_MODEL) == WORKERS;
}

/* The model of step 6 is good enough. Results come `late` steps after their
 * models stood: EVERY of them make the next step wait. */
static void run_to_target(uint64_t late)
{
    watched w = begin_run();
    while (w.closing == 0) {
        do_step(&w);
        if (w.job != 0 && w.steps - w.job_step == late) {
            bool is_held = late == EVERY;
            assert_int_equal(is_offered(&w), !is_held);
            evaluated(&w, MUSTER_OK, w.job_step == 2 * EVERY ? 1 : 0);
            assert_int_equal(is_offered(&w), is_held && w.closing == 0);
        }
    }
    assert_int_equal(w.reached_step, 2 * EVERY);
    assert_int_equal(w.steps, 3 * EVERY);
    assert_int_equal(w.job_count, 2);
    end_stage(&w.s);
}

static void the_target_ends_a_run_at_the_same_step_at_any_pace(void **state)
{
    (void)state;
    for (uint64_t late = 0; late <= EVERY; late++) {
        run_to_target(late);
    }
}

static void the_last_step_is_not_the_end_of_an_evaluation(void **state)
{
    (void)state;
    watched w = begin_run();
    while (w.steps < LAST) {
        do_step(&w);
        if (w.job != 0 && w.steps < LAST - 1) {
            evaluated(&w, MUSTER_OK, 0);
        }
    }
    assert_int_equal(w.job, 0);
    end_stage(&w.s);

    w = begin_run();
    while (w.steps < LAST) {
        if (w.job != 0 && w.job_step < LAST - EVERY) {
            evaluated(&w, MUSTER_OK, 0);
        }
        do_step(&w);
    }
    assert_true(w.job != 0);
    assert_int_equal(w.closing, 0); // waits for it
    evaluated(&w, MUSTER_OK, 1);
    assert_int_equal(w.reached_step, w.job_step);
    assert_true(w.closing != 0);
    end_stage(&w.s);
}

static void an_interrupted_run_leaves_its_evaluation(void **state)
{
    (void)state;
    for (uint64_t steps = EVERY; steps <= 2 * EVERY; steps += EVERY) {
        watched w = begin_run();
        while (w.steps < steps) {
            do_step(&w);
        }
        feed(&w.s, (muster_event){.kind = MUSTER_EVENT_STOP});
        note(&w);
        assert_true(w.is_cancelled);
        assert_int_equal(w.closing, 0);
        evaluated(&w, MUSTER_ERR_CANCELLED, 0);
        assert_true(w.closing != 0); // the checkpoint
        end_stage(&w.s);
    }
}

static void an_evaluation_that_fails_ends_the_run(void **state)
{
    (void)state;
    watched w = begin_run();
    while (w.job == 0) {
        do_step(&w);
    }
    evaluated(&w, MUSTER_ERR_INPUT, 0);
    assert_true(w.closing != 0);
    end_stage(&w.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_target_ends_a_run_at_the_same_step_at_any_pace),
        cmocka_unit_test(the_last_step_is_not_the_end_of_an_evaluation),
        cmocka_unit_test(an_interrupted_run_leaves_its_evaluation),
        cmocka_unit_test(an_evaluation_that_fails_ends_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
