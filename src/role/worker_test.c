/*
 * worker_test.c -- a worker whose messages come in an unlucky order, fed by
 * hand: it never computes under a plan that it has not, or whose parts it has
 * been told to drop, and the newest word about a part counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "role/member.h"
#include "role/worker.h"

#define RUN 77u

typedef struct stage {
    muster_role role;
    muster_actions actions;
    muster_blob *blob;
    int64_t now_ns;
} stage;

static void feed(stage *s, muster_event event)
{
    muster_actions_clear(&s->actions);
    event.now_ns = s->now_ns;
    s->role.ops->step(s->role.state, &event, &s->actions);
}

static void say(stage *s, muster_message message)
{
    message.run = RUN;
    message.incarnation = 1;
    muster_event event = {.kind = MUSTER_EVENT_MESSAGE, .peer = 1};
    event.as.message.message = &message;
    event.as.message.payload =
        message.kind != MUSTER_MSG_FORGET ? s->blob : NULL;
    feed(s, event);
}

/* The job that the last event asked for, or NULL. */
static const muster_job *asked(const stage *s)
{
    const muster_action *list = s->actions.list.data;
    for (size_t i = 0; i < s->actions.list.count; i++) {
        if (list[i].kind == MUSTER_ACTION_COMPUTE) {
            return &list[i].as.job;
        }
    }
    return NULL;
}

/* The HAVE that the last event sent, or NULL. */
static const muster_message *sent(const stage *s)
{
    const muster_action *list = s->actions.list.data;
    for (size_t i = 0; i < s->actions.list.count; i++) {
        if (list[i].kind == MUSTER_ACTION_SEND &&
            list[i].as.send.message.kind == MUSTER_MSG_HAVE) {
            return &list[i].as.send.message;
        }
    }
    return NULL;
}

static void finish(stage *s, muster_job job)
{
    muster_event event = {.kind = MUSTER_EVENT_COMPUTED};
    event.as.computed.id = job.id;
    event.as.computed.kind = job.kind;
    event.as.computed.step = job.step;
    event.as.computed.shard = job.shard;
    event.as.computed.output = s->blob;
    feed(s, event);
}

/* Joined and set up. */
static stage make_worker(void)
{
    stage s = {.actions = muster_actions_make(),
               .blob = muster_blob_create(64),
               .now_ns = 1000};
    muster_worker_opts opts = MUSTER_WORKER_OPTS_INIT;
    (void)snprintf(opts.address, sizeof opts.address, "unix:/nowhere");
    assert_non_null(s.blob);
    assert_int_equal(muster_worker_create(&opts, NULL, &s.role), MUSTER_OK);
    feed(&s, (muster_event){.kind = MUSTER_EVENT_START});
    muster_event up = {.kind = MUSTER_EVENT_PEER_UP, .peer = 1};
    const muster_action *list = s.actions.list.data;
    for (size_t i = 0; i < s.actions.list.count; i++) {
        if (list[i].kind == MUSTER_ACTION_CONNECT) {
            up.as.up.token = list[i].as.connect.token;
        }
    }
    feed(&s, up);
    muster_message welcome = {.kind = MUSTER_MSG_WELCOME};
    welcome.as.welcome.size = 2;
    welcome.as.welcome.heartbeat_ms = 2000;
    say(&s, welcome);
    assert_int_equal(asked(&s)->kind, MUSTER_JOB_SETUP);
    finish(&s, *asked(&s));
    return s;
}

static void end_stage(stage *s)
{
    s->role.ops->free(s->role.state);
    muster_actions_fini(&s->actions);
    muster_blob_unref(s->blob);
}

static void adopt(stage *s, uint32_t plan)
{
    say(s, (muster_message){.kind = MUSTER_MSG_PLAN, .plan = plan});
    assert_int_equal(asked(s)->kind, MUSTER_JOB_ADOPT);
    finish(s, *asked(s));
    assert_int_equal(sent(s)->plan, plan);
}

/* Does a model of this plan make it compute? */
static bool computes(stage *s, uint32_t plan, uint64_t step)
{
    say(s,
        (muster_message){.kind = MUSTER_MSG_MODEL, .plan = plan, .step = step});
    const muster_job *job = asked(s);
    bool yes = job != NULL && job->kind == MUSTER_JOB_GRADIENT;
    if (yes) {
        assert_int_equal(job->plan, plan);
        finish(s, *job);
    }
    return yes;
}

static void some_plans_are_kept_and_one_more_pushes_out_the_first(void **state)
{
    (void)state;
    stage s = make_worker();
    uint32_t kept = MUSTER_WORKER_PLANS;
    uint64_t step = 1;
    assert_false(computes(&s, 1, step++));
    for (uint32_t plan = 1; plan <= kept; plan++) {
        adopt(&s, plan);
        for (uint32_t earlier = 1; earlier <= plan; earlier++) {
            assert_true(computes(&s, earlier, step++));
        }
    }
    // Asked for, not yet adopted: the first is as good as gone.
    say(&s, (muster_message){.kind = MUSTER_MSG_PLAN, .plan = kept + 1});
    muster_job last = *asked(&s);
    assert_false(computes(&s, 1, step++));
    assert_false(computes(&s, kept + 1, step++));
    assert_true(computes(&s, 2, step++));
    finish(&s, last);
    assert_false(computes(&s, 1, step++));
    for (uint32_t plan = 2; plan <= kept + 1; plan++) {
        assert_true(computes(&s, plan, step++));
    }
    // An earlier plan that comes late is not adopted again.
    say(&s, (muster_message){.kind = MUSTER_MSG_PLAN, .plan = kept});
    assert_null(asked(&s));
    end_stage(&s);
}

static void a_model_that_waits_goes_with_its_plan(void **state)
{
    (void)state;
    stage s = make_worker();
    for (uint32_t plan = 1; plan <= MUSTER_WORKER_PLANS; plan++) {
        adopt(&s, plan);
    }
    say(&s, (muster_message){.kind = MUSTER_MSG_MODEL, .plan = 1, .step = 1});
    muster_job first = *asked(&s);
    say(&s, (muster_message){.kind = MUSTER_MSG_MODEL, .plan = 1, .step = 2});
    assert_null(asked(&s)); // one at a time
    say(&s, (muster_message){.kind = MUSTER_MSG_PLAN,
                             .plan = MUSTER_WORKER_PLANS + 1});
    finish(&s, first);
    assert_null(asked(&s));
    end_stage(&s);
}

static muster_message about(muster_message_kind kind, uint64_t stamp)
{
    return (muster_message){
        .kind = kind, .plan = 2, .step = stamp, .as.shard.shard = 5};
}

static void the_newest_word_about_a_part_counts(void **state)
{
    (void)state;
    stage s = make_worker();
    adopt(&s, 1);
    adopt(&s, 2);
    say(&s, about(MUSTER_MSG_SHARD, 1));
    muster_job load = *asked(&s);
    assert_int_equal(load.kind, MUSTER_JOB_LOAD);
    say(&s, about(MUSTER_MSG_SHARD, 1));
    assert_null(asked(&s)); // a second copy
    finish(&s, load);
    assert_true(sent(&s)->as.have.shard == 5 && sent(&s)->step == 1);
    // Sent again before the word to forget it arrives.
    say(&s, about(MUSTER_MSG_SHARD, 3));
    assert_null(asked(&s));
    assert_int_equal(sent(&s)->step, 3);
    say(&s, about(MUSTER_MSG_FORGET, 2));
    assert_null(asked(&s));
    say(&s, about(MUSTER_MSG_FORGET, 4));
    assert_int_equal(asked(&s)->kind, MUSTER_JOB_FORGET);
    say(&s, about(MUSTER_MSG_SHARD, 3));
    assert_null(asked(&s));
    say(&s, about(MUSTER_MSG_SHARD, 5));
    assert_int_equal(asked(&s)->kind, MUSTER_JOB_LOAD);
    end_stage(&s);
}

static void after_a_forget_no_model_of_an_earlier_plan_is_taken(void **state)
{
    (void)state;
    stage s = make_worker();
    adopt(&s, 1);
    adopt(&s, 2);
    assert_true(computes(&s, 1, 1));
    say(&s, about(MUSTER_MSG_FORGET, 1));
    assert_false(computes(&s, 1, 2));
    assert_true(computes(&s, 2, 3));
    end_stage(&s);
}

/* A worker that was away when the run ended looks for it as long as patience
 * lasts, and does not say that it could not join. */
static void a_worker_that_missed_the_end_says_so(void **state)
{
    (void)state;
    stage s = make_worker();
    feed(&s, (muster_event){.kind = MUSTER_EVENT_PEER_DOWN, .peer = 1});
    s.now_ns += 61 * MUSTER_NS_PER_S;
    muster_event timer = {.kind = MUSTER_EVENT_TIMER};
    timer.as.timer.id = MUSTER_TIMER_MEMBER;
    feed(&s, timer);
    const muster_action *list = s.actions.list.data;
    bool said = false;
    for (size_t i = 0; i < s.actions.list.count; i++) {
        said = said || (list[i].kind == MUSTER_ACTION_STOP &&
                        list[i].as.stop.status == MUSTER_ERR_QUORUM &&
                        strstr(list[i].as.stop.reason,
                               "the run has ended meanwhile") != NULL);
    }
    assert_true(said);
    end_stage(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(some_plans_are_kept_and_one_more_pushes_out_the_first),
        cmocka_unit_test(a_model_that_waits_goes_with_its_plan),
        cmocka_unit_test(the_newest_word_about_a_part_counts),
        cmocka_unit_test(after_a_forget_no_model_of_an_earlier_plan_is_taken),
        cmocka_unit_test(a_worker_that_missed_the_end_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
