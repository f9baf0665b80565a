/*
 * coordinator_async_test.c -- gradients applied as they come, fed by hand: who
 * is offered a model when, and how much each gradient counts. Whole histories
 * are in tests/sim/algorithms_test.c.
 */
#include <math.h>

#include "role/coordinator_test.h"

#define ASYNC_WORKERS 3u
#define ROWS          100u // of all samples

static const uint64_t before[ASYNC_WORKERS + 1] = {0, 20, 50, ROWS};

/* A coordinator, and what it has asked for so far. */
typedef struct async_run {
    stage stage;
    uint64_t clocks[ASYNC_WORKERS]; // of the newest model that each was sent
    bool has_model[ASYNC_WORKERS];
    double weights[ASYNC_WORKERS]; // sums over all updates
    double weight_max;             // of one gradient in one update
    double fractions;              // sum over all updates
    uint64_t update;               // job under way, or 0
    uint32_t update_count;         // its gradients
    uint64_t evaluation;           // job under way, or 0
    uint64_t ends;                 // steps
    uint32_t responders;           // of the last of them
    uint32_t drops;
} async_run;

static void note_job(async_run *s, const muster_job *job)
{
    if (job->kind == MUSTER_JOB_UPDATE) {
        const muster_decoding *decoding = job->decoding;
        assert_int_equal(s->update, 0); // one at a time
        s->update = job->id;
        s->update_count = job->message_count;
        for (size_t i = 0; i < decoding->term_count; i++) {
            double weight = decoding->terms[i].weight;
            s->weights[decoding->terms[i].worker] += weight;
            s->weight_max = fmax(s->weight_max, weight);
        }
        assert_true(job->fraction > 0);
        s->fractions += job->fraction;
    } else if (job->kind == MUSTER_JOB_EVALUATE) {
        s->evaluation = job->id;
    }
}

static void note(void *notes, const muster_action *action)
{
    async_run *s = notes;
    if (action->kind == MUSTER_ACTION_SEND &&
        action->as.send.message.kind == MUSTER_MSG_MODEL) {
        uint32_t worker = (uint32_t)action->as.send.peer - 1;
        assert_false(s->has_model[worker]);
        s->has_model[worker] = true;
        s->clocks[worker] = action->as.send.message.step;
    } else if (action->kind == MUSTER_ACTION_COMPUTE) {
        note_job(s, &action->as.job);
    } else if (action->kind == MUSTER_ACTION_REPORT &&
               action->as.report.kind == MUSTER_REPORT_STEP_END) {
        s->ends++;
        s->responders = action->as.report.as.end.responders;
    } else if (action->kind == MUSTER_ACTION_DROP) {
        s->drops++;
    }
}

/* Joins with its shard, which it brings along. */
static void enter(async_run *s, uint32_t worker)
{
    join(&s->stage, worker);
    have(&s->stage, worker, 0, worker, 0);
    have(&s->stage, worker, 1, MUSTER_ID_ANY, 0);
}

static void lose(async_run *s, uint32_t worker)
{
    s->has_model[worker] = false;
    feed(&s->stage,
         (muster_event){.kind = MUSTER_EVENT_PEER_DOWN, .peer = worker + 1});
}

static void begin_and_evaluate(async_run *s, uint64_t bound, uint64_t every)
{
    muster_coordinator_opts opts = MUSTER_COORDINATOR_OPTS_INIT;
    opts.last_step = 100000;
    opts.averages = opts.degrade = opts.async = true;
    opts.bound = bound;
    opts.evaluate_every = every;
    opts.rows_before = before;
    *s = (async_run){.stage = make_stage_with("uncoded", ASYNC_WORKERS, opts)};
    s->stage.note = note;
    s->stage.notes = s;
    for (uint32_t w = 0; w < ASYNC_WORKERS; w++) {
        enter(s, w);
    }
}

static void begin(async_run *s, uint64_t bound)
{
    begin_and_evaluate(s, bound, 0);
}

static void send_answer(async_run *s, uint32_t worker)
{
    assert_true(s->has_model[worker]);
    s->has_model[worker] = false;
    answer(&s->stage, worker, s->clocks[worker]);
}

static void updated(async_run *s)
{
    assert_true(s->update != 0);
    uint64_t id = s->update;
    s->update = 0;
    computed(&s->stage, (muster_job_result){.id = id,
                                            .kind = MUSTER_JOB_UPDATE,
                                            .output = s->stage.blob});
}

/* An answer, and the update that it leads to. */
static void apply(async_run *s, uint32_t worker)
{
    send_answer(s, worker);
    updated(s);
}

/* Worker 0, with a fifth of the samples, answers after 100 answers of
 * worker 2. */
static void begin_with_a_late_answer(async_run *s)
{
    begin(s, UINT64_MAX);
    for (uint32_t i = 0; i < 100; i++) {
        apply(s, 2);
    }
    apply(s, 0);
}

static void a_worker_that_is_too_far_ahead_waits_for_the_slowest(void **state)
{
    (void)state;
    async_run s;
    begin(&s, 2);
    for (uint32_t i = 0; i < 2; i++) {
        apply(&s, 1);
        assert_true(s.has_model[1]);
    }
    send_answer(&s, 1); // three answers more than the others
    updated(&s);
    assert_false(s.has_model[1]);
    apply(&s, 0);
    assert_false(s.has_model[1]); // worker 2 has none yet
    send_answer(&s, 2);
    assert_true(s.has_model[1]);
    assert_int_equal(s.clocks[1], 3);
    end_stage(&s.stage);
}

static void a_lost_worker_holds_nobody_back(void **state)
{
    (void)state;
    async_run s;
    begin(&s, 0);
    apply(&s, 0);
    apply(&s, 1);
    assert_false(s.has_model[0] || s.has_model[1]);
    lose(&s, 2);
    assert_true(s.has_model[0] && s.has_model[1]);
    apply(&s, 0);
    apply(&s, 1);
    enter(&s, 2); // back: where the slowest of the others is
    assert_true(s.has_model[2]);
    assert_int_equal(s.clocks[2], 2);
    end_stage(&s.stage);
}

/* Worker 2 answers `often` times while each of the others answers once, until
 * so many steps have ended. */
static void run_unequal(async_run *s, uint32_t often, uint64_t steps)
{
    begin(s, UINT64_MAX);
    uint64_t answers = 0;
    while (s->ends < steps) {
        for (uint32_t i = 0; i < often + ASYNC_WORKERS - 1; i++) {
            apply(s, i < often ? 2 : i - often);
            answers++;
        }
    }
    // A gradient that counts again is no new one.
    assert_true(fabs(s->fractions * ASYNC_WORKERS / (double)answers - 1) <
                1e-6);
}

static void assert_shares(const async_run *s, uint64_t steps)
{
    double all = s->weights[0] + s->weights[1] + s->weights[2];
    assert_true(fabs(all / (double)steps - 1) < 0.02);
    for (uint32_t w = 0; w < ASYNC_WORKERS; w++) {
        double share = (double)(before[w + 1] - before[w]) / ROWS;
        assert_true(fabs(s->weights[w] / all - share) < 0.01);
    }
}

static void weights_add_up_to_the_shares_whatever_the_speeds(void **state)
{
    (void)state;
    for (uint32_t often = 1; often <= 5; often++) {
        async_run s;
        run_unequal(&s, often, 400);
        assert_shares(&s, 400);
        end_stage(&s.stage);
    }
}

/* 50 steps between two answers of a worker with a fifth of the samples: its
 * gradient is to count 10 times. */
static void
a_gradient_of_more_than_a_step_counts_in_the_updates_that_follow(void **state)
{
    (void)state;
    async_run s;
    run_unequal(&s, 100, 4000);
    assert_shares(&s, 4000);
    assert_true(s.weight_max == 1);
    end_stage(&s.stage);
}

static void what_a_lost_worker_is_due_still_counts(void **state)
{
    (void)state;
    async_run s;
    begin_with_a_late_answer(&s);
    assert_true(s.weights[0] == 1);
    lose(&s, 0);
    send_answer(&s, 2); // half of the samples: half a step at most
    updated(&s);
    assert_true(s.weights[0] == 1.5);
    end_stage(&s.stage);
}

static void a_gradient_that_counts_again_does_not_hide_a_newer_one(void **state)
{
    (void)state;
    async_run s;
    begin_with_a_late_answer(&s);
    send_answer(&s, 2);
    assert_int_equal(s.update_count, 2); // the kept one with it
    send_answer(&s, 0);                  // the newer one, meanwhile
    updated(&s);
    assert_int_equal(s.update_count, 1);
    assert_true(s.weights[0] == 2.5);
    updated(&s);
    assert_true(s.has_model[0] && s.has_model[2]);
    end_stage(&s.stage);
}

static void
gradients_that_come_during_an_update_are_applied_together(void **state)
{
    (void)state;
    async_run s;
    begin(&s, UINT64_MAX);
    send_answer(&s, 0);
    assert_int_equal(s.update_count, 1);
    send_answer(&s, 1);
    send_answer(&s, 2);
    assert_false(s.has_model[1] || s.has_model[2]); // they are not in it yet
    updated(&s);
    assert_true(s.has_model[0]);
    assert_int_equal(s.update_count, 2);
    assert_int_equal(s.ends, 0);
    updated(&s); // all samples' worth of gradients
    assert_int_equal(s.ends, 1);
    assert_true(s.has_model[1] && s.has_model[2]);
    end_stage(&s.stage);
}

static void end_step(async_run *s)
{
    for (uint32_t w = 0; w < ASYNC_WORKERS; w++) {
        apply(s, w);
    }
}

static void gradients_wait_where_a_step_waits_for_an_evaluation(void **state)
{
    (void)state;
    async_run s;
    begin_and_evaluate(&s, UINT64_MAX, 1);
    end_step(&s);
    uint64_t first = s.evaluation;
    assert_true(first != 0);
    send_answer(&s, 0);
    apply(&s, 1);
    send_answer(&s, 2);
    updated(&s); // of worker 1
    updated(&s); // of worker 2: the step's last
    assert_int_equal(s.ends, 2);
    assert_int_equal(s.update, 0);
    assert_true(s.has_model[0]);
    send_answer(&s, 0);
    assert_int_equal(s.update, 0);
    feed(&s.stage,
         (muster_event){
             .kind = MUSTER_EVENT_COMPUTED,
             .as.computed = {.id = first, .kind = MUSTER_JOB_EVALUATE}});
    assert_true(s.evaluation != first);
    assert_true(s.update != 0 && s.update_count == 1);
    assert_true(s.has_model[1] && s.has_model[2]);
    updated(&s);
    apply(&s, 1);
    apply(&s, 2);
    assert_int_equal(s.ends, 3);
    assert_int_equal(s.responders,
                     ASYNC_WORKERS); // worker 0 came during the wait
    end_stage(&s.stage);
}

static void
a_copy_is_dropped_and_a_stray_answer_ends_the_connection(void **state)
{
    (void)state;
    async_run s;
    begin(&s, UINT64_MAX);
    uint64_t clock = s.clocks[0];
    apply(&s, 0);
    muster_message copy = {
        .kind = MUSTER_MSG_GRADIENT, .plan = 1, .step = clock};
    say(&s.stage, 0, copy, s.stage.answer);
    assert_int_equal(s.update, 0);
    assert_int_equal(s.drops, 0);
    copy.step = clock + 5;
    say(&s.stage, 0, copy, s.stage.answer);
    assert_int_equal(s.update, 0);
    assert_int_equal(s.drops, 1);
    end_stage(&s.stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_is_too_far_ahead_waits_for_the_slowest),
        cmocka_unit_test(a_lost_worker_holds_nobody_back),
        cmocka_unit_test(weights_add_up_to_the_shares_whatever_the_speeds),
        cmocka_unit_test(
            a_gradient_of_more_than_a_step_counts_in_the_updates_that_follow),
        cmocka_unit_test(what_a_lost_worker_is_due_still_counts),
        cmocka_unit_test(
            a_gradient_that_counts_again_does_not_hide_a_newer_one),
        cmocka_unit_test(
            gradients_that_come_during_an_update_are_applied_together),
        cmocka_unit_test(gradients_wait_where_a_step_waits_for_an_evaluation),
        cmocka_unit_test(
            a_copy_is_dropped_and_a_stray_answer_ends_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
