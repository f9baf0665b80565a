/*
 * coordinator_async_test.c -- gradients applied as they come, fed by hand: who
 * is offered a model when, and how much each gradient counts. Whole histories
 * are in tests/sim/algorithms_test.c.
 */
#include <math.h>

#include "role/coordinator_test.h"

#define RACERS 3u
#define ROWS   100u // of all samples: worker w has before[w + 1] - before[w]

static const uint64_t before[RACERS + 1] = {0, 20, 50, ROWS};

/* A run whose workers answer when they like, and what came of it. */
typedef struct race {
    stage stage;             // first: note() is given it
    uint64_t clocks[RACERS]; // of the newest model that each was sent
    bool has_model[RACERS];
    double weights[RACERS]; // sums over all updates
    double weight_max;      // of one gradient in one update
    double fractions;       // sum over all updates
    uint64_t update;        // job under way, or 0
    uint32_t update_count;  // its gradients
    uint64_t evaluation;    // job under way, or 0
    uint64_t ends;          // steps
    uint32_t responders;    // of the last of them
    uint32_t drops;
} race;

static void note_job(race *r, const muster_job *job)
{
    if (job->kind == MUSTER_JOB_EVALUATE) {
        r->evaluation = job->id;
    }
    if (job->kind != MUSTER_JOB_UPDATE) {
        return;
    }
    const muster_decoding *decoding = job->decoding;
    assert_int_equal(r->update, 0); // one at a time
    r->update = job->id;
    r->update_count = job->message_count;
    for (size_t i = 0; i < decoding->term_count; i++) {
        double weight = decoding->terms[i].weight;
        r->weights[decoding->terms[i].worker] += weight;
        r->weight_max = fmax(r->weight_max, weight);
    }
    assert_true(job->fraction > 0);
    r->fractions += job->fraction;
}

static void note(stage *s, const muster_action *action)
{
    race *r = (race *)s;
    if (action->kind == MUSTER_ACTION_SEND &&
        action->as.send.message.kind == MUSTER_MSG_MODEL) {
        uint32_t worker = (uint32_t)action->as.send.peer - 1;
        assert_false(r->has_model[worker]);
        r->has_model[worker] = true;
        r->clocks[worker] = action->as.send.message.step;
    } else if (action->kind == MUSTER_ACTION_COMPUTE) {
        note_job(r, &action->as.job);
    } else if (action->kind == MUSTER_ACTION_REPORT &&
               action->as.report.kind == MUSTER_REPORT_STEP_END) {
        r->ends++;
        r->responders = action->as.report.as.end.responders;
    } else if (action->kind == MUSTER_ACTION_DROP) {
        r->drops++;
    }
}

/* With its shard, which it brought along. */
static void enter(race *r, uint32_t worker)
{
    join(&r->stage, worker);
    have(&r->stage, worker, 0, worker, 0);
    have(&r->stage, worker, 1, MUSTER_ID_ANY, 0);
}

static void lose(race *r, uint32_t worker)
{
    r->has_model[worker] = false;
    feed(&r->stage,
         (muster_event){.kind = MUSTER_EVENT_PEER_DOWN, .peer = worker + 1});
}

static void begin_with(race *r, uint64_t bound, uint64_t evaluate_every)
{
    muster_coordinator_opts opts = MUSTER_COORDINATOR_OPTS_INIT;
    opts.last_step = 100000;
    opts.averages = opts.degrade = opts.async = true;
    opts.bound = bound;
    opts.evaluate_every = evaluate_every;
    opts.rows_before = before;
    *r = (race){.stage = make_stage_with("uncoded", RACERS, opts)};
    r->stage.on_action = note;
    for (uint32_t w = 0; w < RACERS; w++) {
        enter(r, w);
    }
}

static void begin(race *r, uint64_t bound)
{
    begin_with(r, bound, 0);
}

static void end(race *r)
{
    end_stage(&r->stage);
}

/* The worker answers the newest model that it was sent. */
static void reply(race *r, uint32_t worker)
{
    assert_true(r->has_model[worker]);
    r->has_model[worker] = false;
    answer(&r->stage, worker, r->clocks[worker]);
}

static void updated(race *r)
{
    uint64_t id = r->update;
    assert_true(id != 0);
    r->update = 0;
    computed(&r->stage, (muster_job_result){.id = id,
                                            .kind = MUSTER_JOB_UPDATE,
                                            .output = r->stage.blob});
}

/* An answer, and its update. */
static void reply_and_update(race *r, uint32_t worker)
{
    reply(r, worker);
    updated(r);
}

/* Worker 2 answers 100 times, then worker 0, which is due many steps. */
static void let_worker_0_be_late(race *r)
{
    begin(r, UINT64_MAX);
    for (uint32_t i = 0; i < 100; i++) {
        reply_and_update(r, 2);
    }
    reply_and_update(r, 0);
}

static void a_worker_that_is_too_far_ahead_waits_for_the_slowest(void **state)
{
    (void)state;
    race r;
    begin(&r, 2);
    for (uint32_t i = 0; i < 2; i++) {
        reply(&r, 1);
        updated(&r);
        assert_true(r.has_model[1]);
    }
    reply(&r, 1); // three answers more than the others
    updated(&r);
    assert_false(r.has_model[1]);
    reply_and_update(&r, 0);
    assert_false(r.has_model[1]); // worker 2 has none yet
    reply(&r, 2);
    assert_true(r.has_model[1]);
    assert_int_equal(r.clocks[1], 3);
    end(&r);
}

static void a_lost_worker_holds_nobody_back(void **state)
{
    (void)state;
    race r;
    begin(&r, 0);
    reply_and_update(&r, 0);
    reply_and_update(&r, 1);
    assert_false(r.has_model[0] || r.has_model[1]);
    lose(&r, 2);
    assert_true(r.has_model[0] && r.has_model[1]);
    reply_and_update(&r, 0);
    reply_and_update(&r, 1);
    enter(&r, 2); // back: where the slowest of the others is
    assert_true(r.has_model[2]);
    assert_int_equal(r.clocks[2], 2);
    end(&r);
}

/* Worker 2 answers `often` times while each of the others answers once, until
 * so many steps have ended. */
static race run_unequal(uint32_t often, uint64_t steps)
{
    race r;
    begin(&r, UINT64_MAX);
    uint64_t answers = 0;
    while (r.ends < steps) {
        for (uint32_t i = 0; i < often + RACERS - 1; i++) {
            reply(&r, i < often ? 2 : i - often);
            updated(&r);
            answers++;
        }
    }
    // A gradient that counts again is no new one.
    assert_true(fabs(r.fractions * RACERS / (double)answers - 1) < 1e-6);
    return r;
}

static void assert_shares(const race *r, uint64_t steps)
{
    double all = r->weights[0] + r->weights[1] + r->weights[2];
    assert_true(fabs(all / (double)steps - 1) < 0.02);
    for (uint32_t w = 0; w < RACERS; w++) {
        double share = (double)(before[w + 1] - before[w]) / ROWS;
        assert_true(fabs(r->weights[w] / all - share) < 0.01);
    }
}

static void weights_add_up_to_the_shares_whatever_the_speeds(void **state)
{
    (void)state;
    for (uint32_t often = 1; often <= 5; often++) {
        race r = run_unequal(often, 400);
        assert_shares(&r, 400);
        end(&r);
    }
}

/* 50 steps between two answers of a worker with a fifth of the samples: its
 * gradient is to count 10 times. */
static void
a_gradient_of_more_than_a_step_counts_in_the_updates_that_follow(void **state)
{
    (void)state;
    race r = run_unequal(100, 4000);
    assert_shares(&r, 4000);
    assert_true(r.weight_max == 1);
    end(&r);
}

static void what_a_lost_worker_is_due_still_counts(void **state)
{
    (void)state;
    race r;
    let_worker_0_be_late(&r);
    assert_true(r.weights[0] == 1);
    lose(&r, 0);
    reply(&r, 2); // half of the samples: half a step at most
    updated(&r);
    assert_true(r.weights[0] == 1.5);
    end(&r);
}

static void a_gradient_that_counts_again_does_not_hide_a_newer_one(void **state)
{
    (void)state;
    race r;
    let_worker_0_be_late(&r);
    reply(&r, 2);
    assert_int_equal(r.update_count, 2); // the kept one with it
    reply(&r, 0);                        // the newer one, meanwhile
    updated(&r);
    assert_int_equal(r.update_count, 1);
    assert_true(r.weights[0] == 2.5);
    updated(&r);
    assert_true(r.has_model[0] && r.has_model[2]);
    end(&r);
}

static void
gradients_that_come_during_an_update_are_applied_together(void **state)
{
    (void)state;
    race r;
    begin(&r, UINT64_MAX);
    reply(&r, 0);
    assert_int_equal(r.update_count, 1);
    reply(&r, 1);
    reply(&r, 2);
    assert_false(r.has_model[1] || r.has_model[2]); // they are not in it yet
    updated(&r);
    assert_true(r.has_model[0]);
    assert_int_equal(r.update_count, 2);
    assert_int_equal(r.ends, 0);
    updated(&r); // all samples' worth of gradients
    assert_int_equal(r.ends, 1);
    assert_true(r.has_model[1] && r.has_model[2]);
    end(&r);
}

static void end_step(race *r)
{
    for (uint32_t w = 0; w < RACERS; w++) {
        reply_and_update(r, w);
    }
}

static void gradients_wait_where_a_step_waits_for_an_evaluation(void **state)
{
    (void)state;
    race r;
    begin_with(&r, UINT64_MAX, 1);
    end_step(&r);
    uint64_t first = r.evaluation;
    assert_true(first != 0);
    reply(&r, 0);
    reply_and_update(&r, 1);
    reply_and_update(&r, 2); // of worker 1
    updated(&r);             // of worker 2: the step's last
    assert_int_equal(r.ends, 2);
    assert_int_equal(r.update, 0);
    assert_true(r.has_model[0]);
    reply(&r, 0);
    assert_int_equal(r.update, 0);
    feed(&r.stage,
         (muster_event){
             .kind = MUSTER_EVENT_COMPUTED,
             .as.computed = {.id = first, .kind = MUSTER_JOB_EVALUATE}});
    assert_true(r.evaluation != first);
    assert_true(r.update != 0 && r.update_count == 1);
    assert_true(r.has_model[1] && r.has_model[2]);
    updated(&r);
    reply_and_update(&r, 1);
    reply_and_update(&r, 2);
    assert_int_equal(r.ends, 3);
    assert_int_equal(r.responders, RACERS); // worker 0 came during the wait
    end(&r);
}

static void
a_copy_is_dropped_and_a_stray_answer_ends_the_connection(void **state)
{
    (void)state;
    race r;
    begin(&r, UINT64_MAX);
    uint64_t clock = r.clocks[0];
    reply_and_update(&r, 0);
    muster_message copy = {
        .kind = MUSTER_MSG_GRADIENT, .plan = 1, .step = clock};
    say(&r.stage, 0, copy, r.stage.answer);
    assert_int_equal(r.update, 0);
    assert_int_equal(r.drops, 0);
    copy.step = clock + 5;
    say(&r.stage, 0, copy, r.stage.answer);
    assert_int_equal(r.update, 0);
    assert_int_equal(r.drops, 1);
    end(&r);
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
