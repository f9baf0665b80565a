/*
 * coordinator_test.c -- a coordinator fed by hand: what it asks for, and what
 * it does about workers that do not behave. Whole histories are in tests/sim.
 */
#include "role/coordinator_test.h"

/* Two PART jobs may be under way, so worker 2 has to wait for its own. That it
 * has the part already is heard only now: nothing keeps messages in order. */
static void a_part_announced_late_is_not_asked_for(void **state)
{
    (void)state;
    stage s = make_stage();
    uint64_t jobs[2];
    for (uint32_t w = 0; w < 2; w++) {
        adopt(&s, w);
        const muster_action *made = find(&s, MUSTER_ACTION_COMPUTE);
        assert_non_null(made);
        assert_int_equal(made->as.job.shard, w);
        jobs[w] = made->as.job.id;
    }
    adopt(&s, 2);
    assert_null(find(&s, MUSTER_ACTION_COMPUTE));
    have(&s, 2, 0, 2, 0);
    const muster_action *ready = find(&s, MUSTER_ACTION_REPORT);
    assert_non_null(ready);
    assert_int_equal(ready->as.report.as.worker.change, MUSTER_WORKER_READY);
    for (uint32_t w = 0; w < 2; w++) {
        computed(&s, (muster_job_result){.id = jobs[w],
                                         .kind = MUSTER_JOB_SHARD,
                                         .shard = w,
                                         .output = s.blob});
        assert_null(find(&s, MUSTER_ACTION_COMPUTE)); // no part for nobody
        assert_int_equal(count_sends(&s, MUSTER_MSG_SHARD), 1);
        have(&s, w, 1, w, 1);
        ready = find(&s, MUSTER_ACTION_REPORT);
        assert_non_null(ready);
        assert_int_equal(ready->as.report.as.worker.change,
                         MUSTER_WORKER_READY);
    }
    end_stage(&s);
}

/* A worker has its plan, and its shard is sent to it. */
static stage make_stage_that_loads(void)
{
    stage s = make_stage();
    adopt(&s, 0);
    const muster_action *made = find(&s, MUSTER_ACTION_COMPUTE);
    assert_non_null(made);
    computed(&s, (muster_job_result){.id = made->as.job.id,
                                     .kind = MUSTER_JOB_SHARD,
                                     .shard = made->as.job.shard,
                                     .output = s.blob});
    assert_int_equal(count_sends(&s, MUSTER_MSG_SHARD), 1);
    return s;
}

/* The announcement is overtaken by the SHARD that it would have saved. The HAVE
 * of that SHARD may come after a FORGET, so nothing may wait for it. */
static void
a_part_announced_after_it_was_sent_is_no_longer_awaited(void **state)
{
    (void)state;
    stage s = make_stage_that_loads();
    have(&s, 0, 0, 0, 0);
    const muster_action *ready = find(&s, MUSTER_ACTION_REPORT);
    assert_non_null(ready);
    assert_int_equal(ready->as.report.as.worker.change, MUSTER_WORKER_READY);
    have(&s, 0, 1, 0, 1);
    assert_int_equal(s.actions.list.count, 0);
    end_stage(&s);
}

static void a_steady_step_allocates_nothing(void **state)
{
    (void)state;
    stage s = make_stage();
    gather(&s);
    for (uint64_t step = 0; step < 20; step++) {
        if (step == 2) { // by then every list has its size
            muster_mem_fail_after(0);
        }
        for (uint32_t w = 0; w < WORKERS; w++) {
            answer(&s, w, step);
        }
        const muster_action *update = find(&s, MUSTER_ACTION_COMPUTE);
        assert_non_null(update);
        assert_int_equal(update->as.job.kind, MUSTER_JOB_UPDATE);
        assert_int_equal(update->as.job.message_count, WORKERS);
        uint64_t id = update->as.job.id;
        s.now_ns += MUSTER_NS_PER_MS;
        computed(&s, (muster_job_result){.id = id,
                                         .kind = MUSTER_JOB_UPDATE,
                                         .step = step,
                                         .output = s.blob});
        assert_int_equal(count_sends(&s, MUSTER_MSG_MODEL), WORKERS);
    }
    end_stage(&s);
}

/* A list that a job still has is not written to. */
static void an_update_that_lingers_keeps_its_messages(void **state)
{
    (void)state;
    stage s = make_stage();
    gather(&s);
    muster_job held = {.kind = 0};
    for (uint64_t step = 0; step < 2; step++) {
        for (uint32_t w = 0; w < WORKERS; w++) {
            answer(&s, w, step);
        }
        muster_action *all = s.actions.list.data;
        for (size_t i = 0; i < s.actions.list.count; i++) {
            if (all[i].kind == MUSTER_ACTION_COMPUTE) {
                assert_ptr_not_equal(all[i].as.job.messages, held.messages);
                muster_job_fini(&held);
                held = all[i].as.job;
                memset(&all[i].as.job, 0, sizeof(all[i].as.job));
            }
        }
        computed(&s, (muster_job_result){.id = held.id,
                                         .kind = MUSTER_JOB_UPDATE,
                                         .step = step,
                                         .output = s.blob});
    }
    assert_ptr_equal(held.messages[WORKERS - 1], s.answer);
    muster_job_fini(&held);
    end_stage(&s);
}

static void beat(stage *s, uint32_t worker)
{
    muster_message message = {.kind = MUSTER_MSG_HEARTBEAT};
    say(s, worker, message, NULL);
}

/* Everybody is alive and idle; worker 3 was handed the model as the others
 * were, and does not answer. */
static void an_idle_worker_that_never_answers_is_lost(void **state)
{
    (void)state;
    stage s = make_stage();
    gather(&s);
    for (uint32_t w = 0; w < WORKERS; w++) {
        sent(&s, w, 1, MUSTER_OK);
    }
    for (uint32_t w = 0; w < 3; w++) {
        answer(&s, w, 0);
    }
    const muster_action *lost = NULL;
    int64_t begin_ns = s.now_ns;
    while (lost == NULL && s.now_ns - begin_ns < 20 * MUSTER_NS_PER_S) {
        s.now_ns += MUSTER_NS_PER_S / 2;
        for (uint32_t w = 0; w < WORKERS; w++) {
            beat(&s, w);
        }
        timer(&s, MUSTER_TIMER_MEMBER);
        lost = find(&s, MUSTER_ACTION_DROP);
    }
    assert_non_null(lost);
    assert_int_equal(lost->as.drop.peer, 4);
    assert_true(s.now_ns - begin_ns > 10 * MUSTER_NS_PER_S);
    const muster_action *report = find(&s, MUSTER_ACTION_REPORT);
    assert_non_null(report);
    assert_int_equal(report->as.report.as.worker.change, MUSTER_WORKER_LOST);
    assert_non_null(strstr(report->as.report.as.worker.reason,
                           "idle, and did not answer for 10.5 s"));
    end_stage(&s);
}

static void a_model_that_found_no_room_is_offered_again(void **state)
{
    (void)state;
    stage s = make_stage();
    gather(&s);
    sent(&s, 2, 1, MUSTER_ERR_AGAIN);
    const muster_action *set = find(&s, MUSTER_ACTION_SET_TIMER);
    assert_non_null(set);
    assert_true(set->as.timer.at_ns > s.now_ns);
    uint32_t id = set->as.timer.id;
    s.now_ns = set->as.timer.at_ns;
    timer(&s, id);
    assert_int_equal(count_sends(&s, MUSTER_MSG_MODEL), 1);
    assert_int_equal(find(&s, MUSTER_ACTION_SEND)->as.send.peer, 3);
    timer(&s, id);
    assert_int_equal(count_sends(&s, MUSTER_MSG_MODEL), 0);
    sent(&s, 2, 0, MUSTER_ERR_AGAIN); // of a step long past
    assert_null(find(&s, MUSTER_ACTION_SET_TIMER));
    end_stage(&s);
}

/* Worker 1 sends nonsense again and again, and returns at once each time. */
static void a_worker_that_misbehaves_is_kept_away_longer_each_time(void **state)
{
    (void)state;
    stage s = make_stage();
    gather(&s);
    uint32_t warnings = 0, joins = 0;
    int64_t begin_ns = s.now_ns;
    bool here = true;
    for (; s.now_ns - begin_ns < 100 * MUSTER_NS_PER_S;
         s.now_ns += MUSTER_NS_PER_S / 10) {
        if (!here) {
            feed(&s, (muster_event){.kind = MUSTER_EVENT_PEER_UP,
                                    .peer = 2,
                                    .as.up.incoming = true});
            muster_message hello = {.kind = MUSTER_MSG_HELLO};
            hello.as.hello.id = 1;
            hello.as.hello.role = MUSTER_MEMBER_WORKER;
            say(&s, 1, hello, NULL);
            const muster_message *reply =
                &find(&s, MUSTER_ACTION_SEND)->as.send.message;
            here = reply->kind == MUSTER_MSG_WELCOME;
            joins += here;
            if (here) {
                s.incarnations[1] = reply->incarnation;
            } else {
                assert_int_equal(reply->kind, MUSTER_MSG_REFUSE);
                assert_int_equal(reply->as.refuse.status, MUSTER_ERR_AGAIN);
                feed(&s,
                     (muster_event){.kind = MUSTER_EVENT_PEER_DOWN, .peer = 2});
            }
        }
        if (here) {
            muster_message nonsense = {.kind = MUSTER_MSG_GRADIENT, .plan = 1};
            say(&s, 1, nonsense, NULL);
            assert_non_null(find(&s, MUSTER_ACTION_DROP));
            const muster_action *told = find(&s, MUSTER_ACTION_REPORT);
            warnings += told->as.report.kind == MUSTER_REPORT_NOTICE;
            here = false;
        }
    }
    // After 1 + 2 + 4 + 8 + 16 + 32 seconds.
    assert_int_equal(joins, 6);
    assert_int_equal(warnings, 7);
    // Another process need not wait.
    feed(&s, (muster_event){.kind = MUSTER_EVENT_PEER_UP,
                            .peer = 9,
                            .as.up.incoming = true});
    muster_message hello = {.kind = MUSTER_MSG_HELLO};
    hello.as.hello.id = 1;
    hello.as.hello.role = MUSTER_MEMBER_WORKER;
    hello.as.hello.pid = 4711;
    say(&s, 8, hello, NULL);
    assert_int_equal(find(&s, MUSTER_ACTION_SEND)->as.send.message.kind,
                     MUSTER_MSG_WELCOME);
    end_stage(&s);
}

/* The saved state knows nothing of those who joined after it. */
static void an_incarnation_is_never_given_out_twice(void **state)
{
    (void)state;
    stage first = make_stage();
    muster_vec saved = muster_vec_make(1);
    assert_int_equal(first.role.ops->save(first.role.state, &saved), MUSTER_OK);
    gather(&first);
    stage second = make_stage_of("uncoded", WORKERS, &saved);
    gather(&second);
    for (uint32_t i = 0; i < WORKERS; i++) {
        for (uint32_t j = 0; j < WORKERS; j++) {
            assert_int_not_equal(first.incarnations[i], second.incarnations[j]);
        }
    }
    muster_vec_fini(&saved);
    end_stage(&first);
    end_stage(&second);
}

/* Thirty of 32 are enough by the code's rule, but their weights drown in
 * rounding. With the others gone, that is a pause, and its patience ends. */
static void answers_that_cannot_be_solved_pause_the_run(void **state)
{
    (void)state;
    stage s = make_stage_of("ye-abbe:s=2,m=2,force=1", CROWD, NULL);
    gather(&s);
    for (uint32_t w = 0; w < CROWD - 2; w++) {
        answer(&s, w, 0);
        assert_null(find(&s, MUSTER_ACTION_COMPUTE));
    }
    const muster_action *told = NULL;
    for (uint32_t w = CROWD - 2; w < CROWD; w++) {
        assert_null(told);
        feed(&s, (muster_event){.kind = MUSTER_EVENT_PEER_DOWN, .peer = w + 1});
        const muster_action *list = s.actions.list.data;
        for (size_t i = 0; i < s.actions.list.count; i++) {
            if (list[i].kind == MUSTER_ACTION_REPORT &&
                list[i].as.report.kind == MUSTER_REPORT_NOTICE) {
                told = &list[i];
            }
        }
    }
    assert_non_null(told);
    assert_non_null(strstr(told->as.report.as.notice.text,
                           "paused at step 0: ye-abbe (s = 2) cannot do "
                           "without workers 30, 31"));
    s.now_ns += 61 * MUSTER_NS_PER_S;
    timer(&s, MUSTER_TIMER_ROLE + 1); // patience
    const muster_action *last = find(&s, MUSTER_ACTION_COMPUTE);
    assert_non_null(last);
    assert_int_equal(last->as.job.kind, MUSTER_JOB_SNAPSHOT);
    end_stage(&s);
}

/* When patience ends next; -1: the run has ended with it. */
static int64_t patience_of(const stage *s)
{
    const muster_action *list = s->actions.list.data;
    int64_t at_ns = -1;
    for (size_t i = 0; i < s->actions.list.count; i++) {
        if (list[i].kind == MUSTER_ACTION_SET_TIMER &&
            list[i].as.timer.id == MUSTER_TIMER_PATIENCE) {
            at_ns = list[i].as.timer.at_ns;
        }
    }
    return at_ns;
}

/* Patience is over: how often it begins again before the run ends. */
static uint32_t count_patiences(stage *s)
{
    const int64_t patience_ns = 60 * MUSTER_NS_PER_S;
    for (uint32_t times = 0; times < 100; times++) {
        s->now_ns += patience_ns;
        timer(s, MUSTER_TIMER_PATIENCE);
        if (patience_of(s) < 0) {
            const muster_action *last = find(s, MUSTER_ACTION_COMPUTE);
            assert_non_null(last);
            assert_int_equal(last->as.job.kind, MUSTER_JOB_SNAPSHOT);
            return times;
        }
        assert_int_equal(patience_of(s), s->now_ns + patience_ns);
    }
    fail_msg("it does not end");
    return 0;
}

/* It says that it has nothing to do: its shard may be on its way. */
static void patience_goes_on_ten_times_while_a_shard_is_sent(void **state)
{
    (void)state;
    stage s = make_stage_that_loads();
    assert_int_equal(count_patiences(&s), 10);
    end_stage(&s);
}

static void patience_ends_where_nothing_is_loaded(void **state)
{
    (void)state;
    stage s = make_stage_that_loads();
    have(&s, 0, 1, 0, 1);
    assert_int_equal(patience_of(&s), s.now_ns + 60 * MUSTER_NS_PER_S);
    assert_int_equal(count_patiences(&s), 0);
    end_stage(&s);
    // Busy, and without progress since.
    s = make_stage_that_loads();
    muster_message busy = {.kind = MUSTER_MSG_HEARTBEAT};
    busy.as.heartbeat.busy = 1;
    say(&s, 0, busy, NULL);
    assert_int_equal(count_patiences(&s), 0);
    end_stage(&s);
}

/* Run until the end; true if a SNAPSHOT was asked for on the way. */
static bool ends_with_snapshot(stage *s, muster_status *status_out)
{
    bool snapshot = false;
    for (int i = 0; i < 10; i++) {
        const muster_action *job = find(s, MUSTER_ACTION_COMPUTE);
        const muster_action *stop = find(s, MUSTER_ACTION_STOP);
        if (stop != NULL) {
            *status_out = stop->as.stop.status;
            return snapshot;
        }
        if (job != NULL) {
            snapshot |= job->as.job.kind == MUSTER_JOB_SNAPSHOT;
            computed(s, (muster_job_result){.id = job->as.job.id,
                                            .kind = job->as.job.kind});
        } else {
            s->now_ns += 2 * MUSTER_NS_PER_S;
            timer(s, MUSTER_TIMER_ROLE + 2); // the farewell's
        }
    }
    fail_msg("it does not end");
    return false;
}

/* A model that is not finite leaves an optimiser that has moved on: no
 * checkpoint of that, also when the user asked for the end meanwhile. */
static void after_a_failed_update_there_is_no_snapshot(void **state)
{
    (void)state;
    for (int interrupted = 0; interrupted < 2; interrupted++) {
        stage s = make_stage();
        gather(&s);
        for (uint32_t w = 0; w < WORKERS; w++) {
            answer(&s, w, 0);
        }
        uint64_t id = find(&s, MUSTER_ACTION_COMPUTE)->as.job.id;
        if (interrupted) {
            feed(&s, (muster_event){.kind = MUSTER_EVENT_STOP});
        }
        muster_job_result failed = {.id = id,
                                    .kind = MUSTER_JOB_UPDATE,
                                    .status = MUSTER_ERR_INPUT,
                                    .text = "diverged"};
        computed(&s, failed);
        muster_status status = MUSTER_OK;
        assert_false(ends_with_snapshot(&s, &status));
        assert_int_equal(status, MUSTER_ERR_INPUT);
        end_stage(&s);
    }
    stage s = make_stage();
    gather(&s);
    feed(&s, (muster_event){.kind = MUSTER_EVENT_STOP});
    muster_status status = MUSTER_OK;
    assert_true(ends_with_snapshot(&s, &status));
    assert_int_equal(status, MUSTER_ERR_INTERRUPTED);
    end_stage(&s);
}

static void answer_stage(stage *s, uint32_t worker, uint64_t step,
                         uint32_t number)
{
    muster_message message = {
        .kind = MUSTER_MSG_STAGE, .plan = 1, .step = step};
    message.as.gradient.stage = number;
    say(s, worker, message, s->answer);
}

/* Models that ask for the workers' own shares alone. */
static uint32_t calm_models(const stage *s)
{
    const muster_action *list = s->actions.list.data;
    uint32_t count = 0;
    for (size_t i = 0; i < s->actions.list.count; i++) {
        count += list[i].kind == MUSTER_ACTION_SEND &&
                 list[i].as.send.message.kind == MUSTER_MSG_MODEL &&
                 (list[i].as.send.message.plan & MUSTER_PLAN_OWN) != 0;
    }
    return count;
}

/* Worker 3 is late in step 9, and in no other. */
static void after_eight_quiet_steps_no_share_is_begun_unasked(void **state)
{
    (void)state;
    static const char *const names[] = {"scheduled:s=1",
                                        "scheduled:s=1,start=now"};
    for (uint32_t i = 0; i < 2; i++) {
        stage s = make_stage_of(names[i], WORKERS, NULL);
        gather(&s);
        for (uint64_t step = 0; step < 18; step++) {
            for (uint32_t w = 0; w < 3; w++) {
                answer_stage(&s, w, step, 0);
            }
            answer_stage(&s, step == 9 ? 2 : 3, step, step == 9);
            update_model(&s, step);
            bool calm = i == 0 && (step == 7 || step == 8 || step == 17);
            assert_int_equal(calm_models(&s), calm ? WORKERS : 0);
        }
        end_stage(&s);
    }
}

/* When what is missing is asked for, after the step's begin; < 0: not at all.
 */
static int64_t asks_after_ns(const stage *s, int64_t begin_ns)
{
    const muster_action *list = s->actions.list.data;
    int64_t after_ns = -1;
    for (size_t i = 0; i < s->actions.list.count; i++) {
        if (list[i].kind == MUSTER_ACTION_SET_TIMER &&
            list[i].as.timer.id == MUSTER_TIMER_MISSING) {
            after_ns = list[i].as.timer.at_ns - begin_ns;
        }
    }
    return after_ns;
}

/* Steps of 10 ms; two of four workers have answered after 4 ms. */
static void where_nobody_is_late_a_share_is_given_its_usual_time(void **state)
{
    (void)state;
    stage s = make_stage_of("scheduled:s=1,start=asked", WORKERS, NULL);
    gather(&s);
    for (uint64_t step = 0; step < 10; step++) {
        int64_t begin_ns = s.now_ns;
        s.now_ns += 4 * MUSTER_NS_PER_MS;
        answer_stage(&s, 0, step, 0);
        answer_stage(&s, 1, step, 0);
        int64_t after_ns = asks_after_ns(&s, begin_ns);
        assert_true(step < 8 ? after_ns < 7 * MUSTER_NS_PER_MS
                             : after_ns > 14 * MUSTER_NS_PER_MS);
        s.now_ns += 5 * MUSTER_NS_PER_MS;
        answer_stage(&s, 2, step, 0);
        answer_stage(&s, 3, step, 0);
        update_model(&s, step);
    }
    end_stage(&s);
}

/* Worker 3 is late in steps 0 to 7; worker 2 has its share as well. */
static void who_is_late_again_and_again_is_replaced_at_once(void **state)
{
    (void)state;
    stage s = make_stage_of("scheduled:s=1,start=asked", WORKERS, NULL);
    gather(&s);
    for (uint64_t step = 0; step < 9; step++) {
        for (uint32_t w = 0; w < 3; w++) {
            answer_stage(&s, w, step, 0);
        }
        answer_stage(&s, step < 8 ? 2 : 3, step, step < 8 ? 1 : 0);
        update_model(&s, step);
        // The third time worker 2 is asked and worker 3 is not; in step 8 it
        // is tried again.
        bool replaced = step >= 2 && step < 7;
        assert_int_equal(count_sends(&s, MUSTER_MSG_MISSING), replaced ? 2 : 0);
    }
    end_stage(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_announced_late_is_not_asked_for),
        cmocka_unit_test(
            a_part_announced_after_it_was_sent_is_no_longer_awaited),
        cmocka_unit_test(a_steady_step_allocates_nothing),
        cmocka_unit_test(an_update_that_lingers_keeps_its_messages),
        cmocka_unit_test(an_idle_worker_that_never_answers_is_lost),
        cmocka_unit_test(a_model_that_found_no_room_is_offered_again),
        cmocka_unit_test(
            a_worker_that_misbehaves_is_kept_away_longer_each_time),
        cmocka_unit_test(an_incarnation_is_never_given_out_twice),
        cmocka_unit_test(answers_that_cannot_be_solved_pause_the_run),
        cmocka_unit_test(patience_goes_on_ten_times_while_a_shard_is_sent),
        cmocka_unit_test(patience_ends_where_nothing_is_loaded),
        cmocka_unit_test(after_a_failed_update_there_is_no_snapshot),
        cmocka_unit_test(after_eight_quiet_steps_no_share_is_begun_unasked),
        cmocka_unit_test(where_nobody_is_late_a_share_is_given_its_usual_time),
        cmocka_unit_test(who_is_late_again_and_again_is_replaced_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
