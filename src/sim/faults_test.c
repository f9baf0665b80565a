/*
 * faults_test.c -- what the simulator does to roles, seen from a role that only
 * writes down what it hears: stopped jobs, echoes, and a hash that leaves
 * nothing out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/clock.h"
#include "sim/sim.h"

#define MS(n)     ((int64_t)(n)*MUSTER_NS_PER_MS)
#define HEARD_MAX 64u

/* What host 0 sends to host 1, and what a job gives. */
typedef struct script {
    muster_message message;
    uint32_t payload; // its bytes
    double loss;
    const char *notice;
    uint32_t messages;
    bool cancels; // the job, when it hears of an interruption
} script;

typedef struct stage {
    script script;
    int64_t job_ns;
    int64_t sleep_ns; // of that, at its end
    int64_t computed_ns;
    bool cancelled;
    uint64_t progress;         // when it was computed
    uint64_t steps[HEARD_MAX]; // of the messages heard
    uint32_t payloads[HEARD_MAX];
    uint32_t heard;
    const muster_blob *coming[HEARD_MAX]; // of each BEGUN
    uint32_t begun;
    uint32_t ups;
    bool earlier_seen, later_seen; // by on_echo
} stage;

typedef struct player {
    stage *s;
    uint32_t host;
} player;

static void say(stage *s, muster_role_peer peer, uint32_t index,
                muster_actions *actions)
{
    muster_action action = {.kind = MUSTER_ACTION_SEND};
    action.as.send.peer = peer;
    action.as.send.message = s->script.message;
    action.as.send.message.step += index;
    action.as.send.payload = muster_blob_create(sizeof(uint32_t));
    MUSTER_ASSERT(action.as.send.payload != NULL);
    memcpy(action.as.send.payload->data, &s->script.payload, sizeof(uint32_t));
    MUSTER_ASSERT(muster_vec_append(&actions->list, &action, 1));
}

static void begin_play(const player *p, muster_actions *actions)
{
    muster_action action = {.kind = MUSTER_ACTION_COMPUTE};
    action.as.job.id = 1;
    action.as.job.kind = MUSTER_JOB_EVALUATE;
    MUSTER_ASSERT(muster_vec_append(&actions->list, &action, 1));
    if (p->s->script.notice != NULL) {
        muster_action told = {.kind = MUSTER_ACTION_REPORT};
        told.as.report.kind = MUSTER_REPORT_NOTICE;
        snprintf(told.as.report.as.notice.text,
                 sizeof(told.as.report.as.notice.text), "%s",
                 p->s->script.notice);
        MUSTER_ASSERT(muster_vec_append(&actions->list, &told, 1));
    }
}

static void call(muster_actions *actions)
{
    muster_action action = {.kind = MUSTER_ACTION_CONNECT};
    snprintf(action.as.connect.address, sizeof(action.as.connect.address),
             "sim:1");
    action.as.connect.token = 1;
    MUSTER_ASSERT(muster_vec_append(&actions->list, &action, 1));
}

static void player_step(void *state, const muster_event *event,
                        muster_actions *actions)
{
    const player *p = state;
    stage *s = p->s;
    if (event->kind == MUSTER_EVENT_START && p->host == 0) {
        begin_play(p, actions);
        call(actions);
    } else if (event->kind == MUSTER_EVENT_PEER_DOWN && p->host == 0) {
        call(actions);
    } else if (event->kind == MUSTER_EVENT_PEER_UP && p->host == 0) {
        s->ups++;
        for (uint32_t i = 0; i < s->script.messages; i++) {
            say(s, event->peer, 100 * s->ups + i, actions);
        }
    } else if (event->kind == MUSTER_EVENT_STOP && s->script.cancels) {
        muster_action action = {.kind = MUSTER_ACTION_CANCEL};
        action.as.cancel.job_id = 1;
        MUSTER_ASSERT(muster_vec_append(&actions->list, &action, 1));
    } else if (event->kind == MUSTER_EVENT_COMPUTED) {
        s->computed_ns = event->now_ns;
        s->progress = event->progress;
    } else if (event->kind == MUSTER_EVENT_BEGUN) {
        MUSTER_ASSERT(s->begun < HEARD_MAX);
        s->coming[s->begun++] = event->as.message.payload;
    } else if (event->kind == MUSTER_EVENT_MESSAGE) {
        MUSTER_ASSERT(s->heard < HEARD_MAX);
        memcpy(&s->payloads[s->heard], event->as.message.payload->data,
               sizeof(uint32_t));
        s->steps[s->heard++] = event->as.message.message->step;
    }
}

static void player_free(void *state)
{
    (void)state;
}

static const muster_role_ops player_ops = {
    .name = "player", .step = player_step, .free = player_free};

static int64_t begin_job(void *context, uint32_t host, muster_job *job)
{
    (void)host;
    muster_job_fini(job);
    return ((stage *)context)->job_ns;
}

static void end_job(void *context, uint32_t host, bool cancelled,
                    muster_job_result *result)
{
    (void)host;
    ((stage *)context)->cancelled = cancelled;
    result->status = MUSTER_OK;
    result->loss = ((stage *)context)->script.loss;
}

static void reset(void *context, uint32_t host)
{
    (void)context;
    (void)host;
}

static int64_t sleeps(void *context, uint32_t host)
{
    (void)host;
    return ((const stage *)context)->sleep_ns;
}

static muster_blob *mark(void *context, const muster_message *message,
                         bool earlier, muster_blob *payload)
{
    stage *s = context;
    (void)message;
    s->earlier_seen = s->earlier_seen || earlier;
    s->later_seen = s->later_seen || !earlier;
    muster_blob *marked = muster_blob_create(sizeof(uint32_t));
    MUSTER_ASSERT(marked != NULL);
    uint32_t value = earlier ? 2 : 1;
    memcpy(marked->data, &value, sizeof(value));
    muster_blob_unref(payload);
    return marked;
}

typedef struct theatre {
    stage stage;
    player players[2];
    muster_sim *sim;
} theatre;

static void raise_curtain_with(theatre *t, const script *play, double echo,
                               size_t begun_bytes)
{
    *t = (theatre){.stage = {.script = *play, .job_ns = MS(100)}};
    muster_sim_opts opts = {
        .seed = 1,
        .compute = {&t->stage, begin_job, end_job, reset, sleeps, NULL},
        .link = {1000, 0, 0},
        .echo = echo,
        .begun_bytes = begun_bytes,
        .context = &t->stage,
        .on_echo = mark};
    assert_int_equal(muster_sim_create(&opts, 2, &t->sim), MUSTER_OK);
    for (uint32_t host = 2; host-- > 0;) {
        t->players[host] = (player){&t->stage, host};
        muster_sim_start(t->sim, host,
                         (muster_role){&player_ops, &t->players[host]});
    }
}

static void raise_curtain(theatre *t, const script *play, double echo)
{
    raise_curtain_with(t, play, echo, 0);
}

static const script plain = {
    .message = {.kind = MUSTER_MSG_GRADIENT}, .payload = 7, .messages = 1};

static void stop_host(muster_sim *sim, void *context, uint64_t host)
{
    (void)context;
    muster_sim_stop(sim, (uint32_t)host);
}

static void cont_host(muster_sim *sim, void *context, uint64_t host)
{
    (void)context;
    muster_sim_cont(sim, (uint32_t)host);
}

static void a_stopped_job_ends_later_by_the_time_it_stood(void **state)
{
    (void)state;
    // The job takes 100 ms; it is stopped once or twice, for a time that ends
    // before or after it would have ended.
    static const int64_t until_ms[] = {41, 60, 99, 100, 101, 500};
    for (size_t i = 0; i < 6; i++) {
        for (int twice = 0; twice < 2; twice++) {
            theatre t;
            raise_curtain(&t, &plain, 0);
            int64_t until_ns = MS(until_ms[i]);
            muster_sim_at(t.sim, MS(40), stop_host, NULL, 0);
            muster_sim_at(t.sim, until_ns, cont_host, NULL, 0);
            if (twice) {
                muster_sim_at(t.sim, until_ns + MS(1), stop_host, NULL, 0);
                muster_sim_at(t.sim, until_ns + MS(8), cont_host, NULL, 0);
            }
            muster_sim_run(t.sim, MS(1000));
            int64_t stood_ns = until_ns - MS(40) + (twice ? MS(7) : 0);
            assert_int_equal(t.stage.computed_ns, MS(100) + stood_ns);
            // A piece each 5 ms that it ran, and the last.
            assert_int_equal(t.stage.progress, 100 / 5 + 1);
            muster_sim_free(t.sim);
        }
    }
}

static void interrupt_host(muster_sim *sim, void *context, uint64_t host)
{
    (void)context;
    muster_sim_interrupt(sim, (uint32_t)host);
}

static void a_cancelled_short_job_ends_with_an_eighth_of_it(void **state)
{
    (void)state;
    script play = plain; // a job of 100 ms
    play.cancels = true;
    theatre t;
    raise_curtain(&t, &play, 0);
    t.stage.sleep_ns = MS(92); // of which it computes for 8
    muster_sim_at(t.sim, MS(2), interrupt_host, NULL, 0);
    muster_sim_run(t.sim, MS(1000));
    assert_int_equal(t.stage.computed_ns, MS(3));
    muster_sim_free(t.sim);
}

static void a_cancelled_sleep_ends_at_once(void **state)
{
    (void)state;
    // The job computes for 40 of its 100 ms, and then sleeps. A cancel ends
    // computing with the piece under way, 5 ms at most, and a sleep at once.
    static const int64_t cancel_ms[] = {10, 38, 40, 41, 99, 100};
    static const int64_t end_ms[] = {15, 40, 40, 41, 99, 100};
    script play = plain;
    play.cancels = true;
    for (size_t i = 0; i < 6; i++) {
        theatre t;
        raise_curtain(&t, &play, 0);
        t.stage.sleep_ns = MS(60);
        muster_sim_at(t.sim, MS(cancel_ms[i]), interrupt_host, NULL, 0);
        muster_sim_run(t.sim, MS(1000));
        assert_int_equal(t.stage.computed_ns, MS(end_ms[i]));
        assert_int_equal(t.stage.cancelled, end_ms[i] < 100);
        muster_sim_free(t.sim);
    }
}

/* Everything that two histories may differ in, and when the difference
 * shows. */
static void a_history_that_differs_in_anything_has_another_hash(void **state)
{
    (void)state;
    uint64_t hashes[9];
    for (int i = 0; i < 9; i++) {
        script other = plain;
        other.message.plan += i == 1;
        other.message.run += i == 2;
        other.message.incarnation += i == 3;
        other.message.step += i == 4;
        other.message.as.gradient.compute_ns += i == 5;
        other.payload += i == 6;
        other.loss += i == 7;
        other.notice = i == 8 ? "a word" : NULL;
        theatre t;
        raise_curtain(&t, &other, 0);
        muster_sim_run(t.sim, MS(1000));
        assert_int_equal(t.stage.heard, 1);
        hashes[i] = muster_sim_hash(t.sim);
        muster_sim_free(t.sim);
        for (int j = 0; j < i; j++) {
            assert_true(hashes[i] != hashes[j]);
        }
        raise_curtain(&t, &other, 0);
        muster_sim_run(t.sim, MS(1000));
        assert_true(muster_sim_hash(t.sim) == hashes[i]);
        muster_sim_free(t.sim);
    }
}

static void break_it(muster_sim *sim, void *context, uint64_t value)
{
    (void)context;
    (void)value;
    muster_sim_break(sim, 0, 1);
}

static void what_was_heard_echoes_also_over_a_later_connection(void **state)
{
    (void)state;
    script many = plain;
    many.messages = 5;
    theatre t;
    raise_curtain(&t, &many, 1);
    muster_sim_at(t.sim, MS(200), break_it, NULL, 0);
    muster_sim_run(t.sim, MS(1000));
    assert_int_equal(t.stage.ups, 2);
    bool original[300] = {false};
    uint32_t late = 0; // of the first connection, after one of the second
    bool second = false;
    for (uint32_t i = 0; i < t.stage.heard; i++) {
        uint64_t step = t.stage.steps[i];
        uint32_t payload = t.stage.payloads[i];
        assert_true(step < 300);
        // An echo follows the original, and is marked as what it is.
        assert_true(payload == 7 ? !original[step] : original[step]);
        assert_true(payload != 2 || (second && step < 200));
        original[step] = true;
        second = second || step >= 200;
        late += second && step < 200;
    }
    for (uint32_t i = 0; i < 5; i++) {
        assert_true(original[100 + i] && original[200 + i]);
    }
    assert_true(late > 0 && t.stage.earlier_seen && t.stage.later_seen);
    assert_in_range(t.stage.heard, 2 * 5 + 6, 4 * 5);
    muster_sim_free(t.sim);
}

static void note_what_has_begun(void *state, const muster_event *event,
                                muster_actions *actions)
{
    stage *s = ((const player *)state)->s;
    const muster_blob *payload = event->as.message.payload;
    if (event->kind == MUSTER_EVENT_BEGUN) {
        assert_int_equal(muster_blob_here(payload), 0);
    } else if (event->kind == MUSTER_EVENT_MESSAGE) {
        assert_int_equal(muster_blob_here(payload), payload->bytes);
        bool begun = false;
        for (uint32_t i = 0; i < s->begun; i++) {
            begun = begun || s->coming[i] == payload;
        }
        assert_true(begun);
    }
    player_step(state, event, actions);
}

static void a_payload_begins_before_it_is_whole(void **state)
{
    (void)state;
    static const muster_role_ops ops = {
        .name = "player", .step = note_what_has_begun, .free = player_free};
    script many = plain;
    many.messages = 5;
    theatre t;
    raise_curtain_with(&t, &many, 0, 1);
    muster_sim_kill(t.sim, 1);
    muster_sim_start(t.sim, 1, (muster_role){&ops, &t.players[1]});
    muster_sim_run(t.sim, MS(1000));
    assert_int_equal(t.stage.heard, 5);
    assert_int_equal(t.stage.begun, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(t.stage.payloads[i], 7);
    }
    muster_sim_free(t.sim);
    // Payloads have four bytes.
    raise_curtain_with(&t, &many, 0, 5);
    muster_sim_run(t.sim, MS(1000));
    assert_int_equal(t.stage.heard, 5);
    assert_int_equal(t.stage.begun, 0);
    muster_sim_free(t.sim);
}

static void a_host_is_well_since_its_last_trouble(void **state)
{
    (void)state;
    theatre t;
    raise_curtain(&t, &plain, 0);
    assert_int_equal(muster_sim_well_since(t.sim, 0), 0);
    muster_sim_at(t.sim, MS(20), stop_host, NULL, 0);
    muster_sim_at(t.sim, MS(30), cont_host, NULL, 0);
    muster_sim_at(t.sim, MS(50), break_it, NULL, 0);
    muster_sim_run(t.sim, MS(20));
    assert_true(muster_sim_well_since(t.sim, 0) < 0);
    assert_int_equal(muster_sim_well_since(t.sim, 1), 0);
    muster_sim_run(t.sim, MS(40));
    assert_int_equal(muster_sim_well_since(t.sim, 0), MS(30));
    muster_sim_run(t.sim, MS(60));
    assert_int_equal(muster_sim_well_since(t.sim, 0), MS(50));
    assert_int_equal(muster_sim_well_since(t.sim, 1), MS(50));
    muster_sim_cut(t.sim, 0, true);
    muster_sim_stick(t.sim, 1);
    assert_true(muster_sim_well_since(t.sim, 0) < 0);
    assert_true(muster_sim_well_since(t.sim, 1) < 0);
    muster_sim_cut(t.sim, 0, false);
    muster_sim_kill(t.sim, 1);
    assert_true(muster_sim_well_since(t.sim, 0) >= MS(50));
    assert_true(muster_sim_well_since(t.sim, 1) < 0);
    muster_sim_free(t.sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_job_ends_later_by_the_time_it_stood),
        cmocka_unit_test(a_cancelled_sleep_ends_at_once),
        cmocka_unit_test(a_cancelled_short_job_ends_with_an_eighth_of_it),
        cmocka_unit_test(a_history_that_differs_in_anything_has_another_hash),
        cmocka_unit_test(what_was_heard_echoes_also_over_a_later_connection),
        cmocka_unit_test(a_payload_begins_before_it_is_whole),
        cmocka_unit_test(a_host_is_well_since_its_last_trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
