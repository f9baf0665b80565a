/*
 * coordinator_async_test.c -- gradients applied as they come, fed by hand: who
 * is offered a model when, and how much each gradient counts. Whole histories
 * are in tests/sim/algorithms_test.c.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "role/coordinator.h"
#include "role/member.h"

#define RUN     77u
#define DIM     4u
#define WORKERS 3u
#define ROWS    100u // of all samples: worker w has rows[w]

static const uint64_t before[WORKERS + 1] = {0, 20, 50, ROWS};

typedef struct stage {
    muster_role role;
    muster_actions actions;
    muster_code *code;
    muster_blob *blob, *answer;
    uint32_t incarnations[WORKERS];
    uint64_t clocks[WORKERS]; // of the newest model that each was sent
    bool has_model[WORKERS];
    double weights[WORKERS]; // sums over all updates
    double weight_max;       // of one gradient in one update
    double fractions;        // sum over all updates
    uint64_t update;         // job under way, or 0
    uint32_t update_count;   // its gradients
    uint64_t evaluation;     // job under way, or 0
    uint64_t ends;           // steps
    uint32_t responders;     // of the last of them
    uint32_t drops;
    int64_t now_ns;
} stage;

static void note(stage *s, const muster_action *action)
{
    if (action->kind == MUSTER_ACTION_SEND &&
        action->as.send.message.kind == MUSTER_MSG_MODEL) {
        uint32_t worker = (uint32_t)action->as.send.peer - 1;
        assert_false(s->has_model[worker]);
        s->has_model[worker] = true;
        s->clocks[worker] = action->as.send.message.step;
    } else if (action->kind == MUSTER_ACTION_SEND &&
               action->as.send.message.kind == MUSTER_MSG_WELCOME) {
        s->incarnations[action->as.send.peer - 1] =
            action->as.send.message.incarnation;
    } else if (action->kind == MUSTER_ACTION_COMPUTE &&
               action->as.job.kind == MUSTER_JOB_UPDATE) {
        const muster_decoding *decoding = action->as.job.decoding;
        assert_int_equal(s->update, 0); // one at a time
        s->update = action->as.job.id;
        s->update_count = action->as.job.message_count;
        for (size_t i = 0; i < decoding->term_count; i++) {
            double weight = decoding->terms[i].weight;
            s->weights[decoding->terms[i].worker] += weight;
            s->weight_max = fmax(s->weight_max, weight);
        }
        assert_true(action->as.job.fraction > 0);
        s->fractions += action->as.job.fraction;
    } else if (action->kind == MUSTER_ACTION_COMPUTE &&
               action->as.job.kind == MUSTER_JOB_EVALUATE) {
        s->evaluation = action->as.job.id;
    } else if (action->kind == MUSTER_ACTION_REPORT &&
               action->as.report.kind == MUSTER_REPORT_STEP_END) {
        s->ends++;
        s->responders = action->as.report.as.end.responders;
    } else if (action->kind == MUSTER_ACTION_DROP) {
        s->drops++;
    }
}

static void feed(stage *s, muster_event event)
{
    muster_actions_clear(&s->actions);
    event.now_ns = s->now_ns;
    s->role.ops->step(s->role.state, &event, &s->actions);
    const muster_action *list = s->actions.list.data;
    for (size_t i = 0; i < s->actions.list.count; i++) {
        note(s, &list[i]);
    }
}

static void say(stage *s, uint32_t worker, muster_message message,
                muster_blob *payload)
{
    message.run = message.kind == MUSTER_MSG_HELLO ? 0 : RUN;
    message.incarnation = s->incarnations[worker];
    muster_event event = {.kind = MUSTER_EVENT_MESSAGE, .peer = worker + 1};
    event.as.message.message = &message;
    event.as.message.payload = payload;
    feed(s, event);
}

static void have(stage *s, uint32_t worker, uint32_t plan, uint32_t shard)
{
    muster_message message = {.kind = MUSTER_MSG_HAVE, .plan = plan};
    message.as.have.shard = shard;
    say(s, worker, message, NULL);
}

static void join(stage *s, uint32_t worker)
{
    feed(s, (muster_event){.kind = MUSTER_EVENT_PEER_UP,
                           .peer = worker + 1,
                           .as.up.incoming = true});
    muster_message hello = {.kind = MUSTER_MSG_HELLO};
    hello.as.hello.id = worker;
    hello.as.hello.role = MUSTER_MEMBER_WORKER;
    say(s, worker, hello, NULL);
    have(s, worker, 0, MUSTER_ID_ANY);
    have(s, worker, 0, worker); // its shard, which it brought along
    have(s, worker, 1, MUSTER_ID_ANY);
}

static void lose(stage *s, uint32_t worker)
{
    s->has_model[worker] = false;
    feed(s, (muster_event){.kind = MUSTER_EVENT_PEER_DOWN, .peer = worker + 1});
}

static stage make_stage_that_evaluates(uint64_t bound, uint64_t every)
{
    stage s = {.actions = muster_actions_make(),
               .blob = muster_blob_create(64),
               .answer = muster_blob_create(DIM * sizeof(float)),
               .now_ns = 1000};
    muster_code_opts code = MUSTER_CODE_OPTS_INIT;
    code.name = "uncoded";
    code.workers = WORKERS;
    assert_int_equal(muster_code_create(&code, NULL, &s.code), MUSTER_OK);
    muster_coordinator_opts opts = MUSTER_COORDINATOR_OPTS_INIT;
    opts.code = s.code;
    opts.run = RUN;
    opts.last_step = 100000;
    opts.message_dim = DIM;
    opts.setup = opts.model = s.blob;
    opts.averages = opts.degrade = opts.async = true;
    opts.bound = bound;
    opts.evaluate_every = every;
    opts.rows_before = before;
    assert_int_equal(muster_coordinator_create(&opts, NULL, &s.role),
                     MUSTER_OK);
    feed(&s, (muster_event){.kind = MUSTER_EVENT_START});
    for (uint32_t w = 0; w < WORKERS; w++) {
        join(&s, w);
    }
    return s;
}

static stage make_stage(uint64_t bound)
{
    return make_stage_that_evaluates(bound, 0);
}

static void end_stage(stage *s)
{
    s->role.ops->free(s->role.state);
    muster_actions_fini(&s->actions);
    muster_blob_unref(s->blob);
    muster_blob_unref(s->answer);
    muster_code_free(s->code);
}

static void answer(stage *s, uint32_t worker)
{
    muster_message message = {
        .kind = MUSTER_MSG_GRADIENT, .plan = 1, .step = s->clocks[worker]};
    assert_true(s->has_model[worker]);
    s->has_model[worker] = false;
    say(s, worker, message, s->answer);
}

static void updated(stage *s)
{
    muster_event event = {.kind = MUSTER_EVENT_COMPUTED};
    assert_true(s->update != 0);
    event.as.computed = (muster_job_result){
        .id = s->update, .kind = MUSTER_JOB_UPDATE, .output = s->blob};
    s->update = 0;
    feed(s, event);
}

static void a_worker_that_is_too_far_ahead_waits_for_the_slowest(void **state)
{
    (void)state;
    stage s = make_stage(2);
    for (uint32_t i = 0; i < 2; i++) {
        answer(&s, 1);
        updated(&s);
        assert_true(s.has_model[1]);
    }
    answer(&s, 1); // three answers more than the others
    updated(&s);
    assert_false(s.has_model[1]);
    answer(&s, 0);
    updated(&s);
    assert_false(s.has_model[1]); // worker 2 has none yet
    answer(&s, 2);
    assert_true(s.has_model[1]);
    assert_int_equal(s.clocks[1], 3);
    end_stage(&s);
}

static void a_lost_worker_holds_nobody_back(void **state)
{
    (void)state;
    stage s = make_stage(0);
    answer(&s, 0);
    updated(&s);
    answer(&s, 1);
    updated(&s);
    assert_false(s.has_model[0] || s.has_model[1]);
    lose(&s, 2);
    assert_true(s.has_model[0] && s.has_model[1]);
    answer(&s, 0);
    updated(&s);
    answer(&s, 1);
    updated(&s);
    join(&s, 2); // back: where the slowest of the others is
    assert_true(s.has_model[2]);
    assert_int_equal(s.clocks[2], 2);
    end_stage(&s);
}

/* Worker 2 answers `often` times while each of the others answers once, until
 * so many steps have ended. */
static stage run_unequal(uint32_t often, uint64_t steps)
{
    stage s = make_stage(UINT64_MAX);
    uint64_t answers = 0;
    while (s.ends < steps) {
        for (uint32_t i = 0; i < often + WORKERS - 1; i++) {
            answer(&s, i < often ? 2 : i - often);
            updated(&s);
            answers++;
        }
    }
    // A gradient that counts again is no new one.
    assert_true(fabs(s.fractions * WORKERS / (double)answers - 1) < 1e-6);
    return s;
}

static void assert_shares(const stage *s, uint64_t steps)
{
    double all = s->weights[0] + s->weights[1] + s->weights[2];
    assert_true(fabs(all / (double)steps - 1) < 0.02);
    for (uint32_t w = 0; w < WORKERS; w++) {
        double share = (double)(before[w + 1] - before[w]) / ROWS;
        assert_true(fabs(s->weights[w] / all - share) < 0.01);
    }
}

static void weights_add_up_to_the_shares_whatever_the_speeds(void **state)
{
    (void)state;
    for (uint32_t often = 1; often <= 5; often++) {
        stage s = run_unequal(often, 400);
        assert_shares(&s, 400);
        end_stage(&s);
    }
}

/* 50 steps between two answers of a worker with a fifth of the samples: its
 * gradient is to count 10 times. */
static void
a_gradient_of_more_than_a_step_counts_in_the_updates_that_follow(void **state)
{
    (void)state;
    stage s = run_unequal(100, 4000);
    assert_shares(&s, 4000);
    assert_true(s.weight_max == 1);
    end_stage(&s);
}

static void what_a_lost_worker_is_due_still_counts(void **state)
{
    (void)state;
    stage s = make_stage(UINT64_MAX);
    for (uint32_t i = 0; i < 100; i++) {
        answer(&s, 2);
        updated(&s);
    }
    answer(&s, 0);
    updated(&s);
    assert_true(s.weights[0] == 1);
    lose(&s, 0);
    answer(&s, 2); // half of the samples: half a step at most
    updated(&s);
    assert_true(s.weights[0] == 1.5);
    end_stage(&s);
}

static void a_gradient_that_counts_again_does_not_hide_a_newer_one(void **state)
{
    (void)state;
    stage s = make_stage(UINT64_MAX);
    for (uint32_t i = 0; i < 100; i++) {
        answer(&s, 2);
        updated(&s);
    }
    answer(&s, 0);
    updated(&s);
    answer(&s, 2);
    assert_int_equal(s.update_count, 2); // the kept one with it
    answer(&s, 0);                       // the newer one, meanwhile
    updated(&s);
    assert_int_equal(s.update_count, 1);
    assert_true(s.weights[0] == 2.5);
    updated(&s);
    assert_true(s.has_model[0] && s.has_model[2]);
    end_stage(&s);
}

static void
gradients_that_come_during_an_update_are_applied_together(void **state)
{
    (void)state;
    stage s = make_stage(UINT64_MAX);
    answer(&s, 0);
    assert_int_equal(s.update_count, 1);
    answer(&s, 1);
    answer(&s, 2);
    assert_false(s.has_model[1] || s.has_model[2]); // they are not in it yet
    updated(&s);
    assert_true(s.has_model[0]);
    assert_int_equal(s.update_count, 2);
    assert_int_equal(s.ends, 0);
    updated(&s); // all samples' worth of gradients
    assert_int_equal(s.ends, 1);
    assert_true(s.has_model[1] && s.has_model[2]);
    end_stage(&s);
}

static void end_step(stage *s)
{
    for (uint32_t w = 0; w < WORKERS; w++) {
        answer(s, w);
        updated(s);
    }
}

static void gradients_wait_where_a_step_waits_for_an_evaluation(void **state)
{
    (void)state;
    stage s = make_stage_that_evaluates(UINT64_MAX, 1);
    end_step(&s);
    uint64_t first = s.evaluation;
    assert_true(first != 0);
    answer(&s, 0);
    answer(&s, 1);
    updated(&s);
    answer(&s, 2);
    updated(&s); // of worker 1
    updated(&s); // of worker 2: the step's last
    assert_int_equal(s.ends, 2);
    assert_int_equal(s.update, 0);
    assert_true(s.has_model[0]);
    answer(&s, 0);
    assert_int_equal(s.update, 0);
    feed(&s, (muster_event){
                 .kind = MUSTER_EVENT_COMPUTED,
                 .as.computed = {.id = first, .kind = MUSTER_JOB_EVALUATE}});
    assert_true(s.evaluation != first);
    assert_true(s.update != 0 && s.update_count == 1);
    assert_true(s.has_model[1] && s.has_model[2]);
    updated(&s);
    answer(&s, 1);
    updated(&s);
    answer(&s, 2);
    updated(&s);
    assert_int_equal(s.ends, 3);
    assert_int_equal(s.responders, WORKERS); // worker 0 came during the wait
    end_stage(&s);
}

static void
a_copy_is_dropped_and_a_stray_answer_ends_the_connection(void **state)
{
    (void)state;
    stage s = make_stage(UINT64_MAX);
    uint64_t clock = s.clocks[0];
    answer(&s, 0);
    updated(&s);
    muster_message copy = {
        .kind = MUSTER_MSG_GRADIENT, .plan = 1, .step = clock};
    say(&s, 0, copy, s.answer);
    assert_int_equal(s.update, 0);
    assert_int_equal(s.drops, 0);
    copy.step = clock + 5;
    say(&s, 0, copy, s.answer);
    assert_int_equal(s.update, 0);
    assert_int_equal(s.drops, 1);
    end_stage(&s);
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
