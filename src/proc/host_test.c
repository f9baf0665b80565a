/*
 * host_test.c -- a scripted role in a real host: what it asks for happens, what
 * happens reaches it, one event at a time.
 */
#define _POSIX_C_SOURCE 200809L
#include "proc/host_test.h"

/* Answers a model with a model and ends when the peer is gone. */
static void echo(script *self, const muster_event *event,
                 muster_actions *actions)
{
    if (event->kind == MUSTER_EVENT_MESSAGE) {
        add_model(actions, event->peer,
                  muster_blob_ref(event->as.message.payload), 0);
    } else if (event->kind == MUSTER_EVENT_PEER_DOWN) {
        add_stop(actions, MUSTER_OK, "");
    }
    (void)self;
}

/* Connects, sends a model and waits for it to come back. */
static void ask(script *self, const muster_event *event,
                muster_actions *actions)
{
    if (event->kind == MUSTER_EVENT_START) {
        add_connect(actions, self->address);
    } else if (event->kind == MUSTER_EVENT_PEER_UP) {
        assert_int_equal(event->as.up.token, 5);
        assert_false(event->as.up.incoming);
        muster_blob *payload =
            muster_net_blob(muster_host_net(self->host), 100000);
        memset(payload->data, 77, payload->bytes);
        add_model(actions, event->peer, payload, 9);
    } else if (event->kind == MUSTER_EVENT_MESSAGE) {
        assert_int_equal(event->as.message.payload->bytes, 100000);
        add_stop(actions, MUSTER_ERR_QUORUM, "as the script says");
    }
}

static void messages_and_their_payloads_go_there_and_back(void **state)
{
    (void)state;
    server echoing = {.script = {.step = echo}};
    server_start(&echoing);
    script self = {.step = ask, .address = echoing.bound};
    muster_host *client = open_host(NULL);
    muster_error error;
    assert_int_equal(run_script(client, &self, 4, &error), MUSTER_ERR_QUORUM);
    assert_string_equal(error.text, "as the script says");
    assert_int_equal(self.first_byte, 77);
    assert_int_equal(self.sent, 1);
    assert_int_equal(self.sent_status, MUSTER_OK);
    muster_host_close(client);
    server_join(&echoing);
    assert_int_equal(echoing.script.messages, 1);
}

static void fail_to_connect(script *self, const muster_event *event,
                            muster_actions *actions)
{
    if (event->kind == MUSTER_EVENT_START) {
        add_connect(actions, self->address);
    } else if (event->kind == MUSTER_EVENT_PEER_DOWN) {
        assert_int_equal(event->as.down.token, 5);
        add_stop(actions, MUSTER_OK, "");
    }
}

static void a_failed_connect_comes_back_with_its_token(void **state)
{
    (void)state;
    static const char *const addresses[] = {"unix:/nowhere/at/all",
                                            "no such kind"};
    for (size_t i = 0; i < 2; i++) {
        script self = {.step = fail_to_connect, .address = addresses[i]};
        muster_host *host = open_host(NULL);
        assert_int_equal(run_script(host, &self, 4, NULL), MUSTER_OK);
        assert_int_equal(self.downs, 1);
        assert_true(self.reason[0] != '\0');
        muster_host_close(host);
    }
}

/* Five timers, one of them disarmed, one moved; three jobs on a queue of two.
 */
static void keep_busy(script *self, const muster_event *event,
                      muster_actions *actions)
{
    if (event->kind == MUSTER_EVENT_START) {
        for (uint32_t id = 0; id < 5; id++) {
            muster_action *timer = add(actions, MUSTER_ACTION_SET_TIMER);
            timer->as.timer.id = id;
            timer->as.timer.at_ns = event->now_ns + id;
        }
        muster_action *disarm = add(actions, MUSTER_ACTION_SET_TIMER);
        disarm->as.timer.id = 3;
        disarm->as.timer.at_ns = -1;
        for (uint64_t id = 1; id <= 3; id++) {
            muster_action *compute = add(actions, MUSTER_ACTION_COMPUTE);
            compute->as.job.id = id;
            compute->as.job.kind = MUSTER_JOB_GRADIENT;
            compute->as.job.input = muster_blob_create(8);
        }
    }
    if (self->timers == 4 && self->computed == 3) {
        add_stop(actions, MUSTER_OK, "");
    }
}

static void timers_fire_and_every_job_is_answered(void **state)
{
    (void)state;
    script self = {
        .step = keep_busy,
        .job_status = {[1] = MUSTER_ERR_SYSTEM, [2] = MUSTER_ERR_SYSTEM}};
    muster_host *host = open_host(NULL);
    assert_int_equal(run_script(host, &self, 2, NULL), MUSTER_OK);
    assert_int_equal(self.timers, 4);
    assert_int_equal(self.computed, 3);
    // Two at a time: the third came while both were under way.
    assert_int_equal(self.job_status[1], MUSTER_OK);
    assert_int_equal(self.job_status[2], MUSTER_OK);
    assert_int_equal(self.job_status[3], MUSTER_ERR_AGAIN);
    muster_host_close(host);
}

/* An engine whose job ends when the evaluation has, and the engine of that. */
typedef struct paired {
    muster_job_kind kind;
    uint64_t id;
    _Atomic bool *is_evaluated;
} paired;

static void paired_begin(void *self, muster_job *job)
{
    paired *at = self;
    assert_int_equal(job->kind, at->kind);
    at->id = job->id;
    muster_job_fini(job);
}

static muster_status paired_piece(void *self)
{
    const paired *at = self;
    return at->kind == MUSTER_JOB_EVALUATE || atomic_load(at->is_evaluated)
               ? MUSTER_OK
               : MUSTER_IN_PROGRESS;
}

static void paired_end(void *self, muster_job_result *result_out)
{
    const paired *at = self;
    *result_out = (muster_job_result){.id = at->id, .kind = at->kind};
    if (at->kind == MUSTER_JOB_EVALUATE) {
        atomic_store(at->is_evaluated, true);
    }
}

static void update_and_evaluate(script *self, const muster_event *event,
                                muster_actions *actions)
{
    if (event->kind == MUSTER_EVENT_START) {
        muster_action *update = add(actions, MUSTER_ACTION_COMPUTE);
        update->as.job.id = 1;
        update->as.job.kind = MUSTER_JOB_UPDATE;
        muster_action *evaluate = add(actions, MUSTER_ACTION_COMPUTE);
        evaluate->as.job.id = 2;
        evaluate->as.job.kind = MUSTER_JOB_EVALUATE;
    }
    if (self->computed == 2) {
        add_stop(actions, MUSTER_OK, "");
    }
}

static void an_evaluation_runs_beside_another_job(void **state)
{
    (void)state;
    _Atomic bool is_evaluated = false;
    paired update = {.kind = MUSTER_JOB_UPDATE, .is_evaluated = &is_evaluated};
    paired evaluate = {.kind = MUSTER_JOB_EVALUATE,
                       .is_evaluated = &is_evaluated};
    script self = {.step = update_and_evaluate};
    muster_host *host = open_host(NULL);
    self.host = host;
    muster_host_work work = {
        .role = {&script_ops, &self},
        .engine = {&update, paired_begin, paired_piece, paired_end},
        .evaluator = {&evaluate, paired_begin, paired_piece, paired_end},
        .slowness = MUSTER_SLOWNESS_NONE,
        .queue_max = 4,
    };
    assert_int_equal(muster_host_run(host, &work, NULL), MUSTER_OK);
    assert_int_equal(self.computed, 2);
    muster_host_close(host);
}

static void stop_when_told(script *self, const muster_event *event,
                           muster_actions *actions)
{
    if (event->kind == MUSTER_EVENT_STOP) {
        muster_action *timer = add(actions, MUSTER_ACTION_SET_TIMER);
        timer->as.timer.at_ns = event->now_ns + 1000000;
    } else if (event->kind == MUSTER_EVENT_TIMER) {
        add_stop(actions, MUSTER_ERR_INTERRUPTED, "interrupted");
    }
    (void)self;
}

static void a_stop_is_given_once_however_often_it_is_asked(void **state)
{
    (void)state;
    bool stop = true;
    script self = {.step = stop_when_told};
    muster_host *host = open_host(&stop);
    muster_error error;
    assert_int_equal(run_script(host, &self, 4, &error),
                     MUSTER_ERR_INTERRUPTED);
    assert_int_equal(self.stops, 1);
    muster_host_close(host);
}

static void fail_at_once(script *self, const muster_event *event,
                         muster_actions *actions)
{
    if (event->kind == MUSTER_EVENT_START) {
        muster_error full = {MUSTER_ERR_SYSTEM, "disk full"};
        muster_error other = {MUSTER_ERR_INPUT, "something later"};
        muster_host_fail(self->host, &full);
        muster_host_fail(self->host, &other);
    } else if (event->kind == MUSTER_EVENT_STOP) {
        add_stop(actions, MUSTER_ERR_INTERRUPTED, "interrupted");
    }
}

static void the_first_failure_is_what_run_returns(void **state)
{
    (void)state;
    script self = {.step = fail_at_once};
    muster_host *host = open_host(NULL);
    muster_error error;
    assert_int_equal(run_script(host, &self, 4, &error), MUSTER_ERR_SYSTEM);
    assert_string_equal(error.text, "disk full");
    assert_int_equal(self.stops, 1);
    muster_host_close(host);
}

static void open_fails_cleanly_without_memory(void **state)
{
    (void)state;
    muster_host_opts opts = {.net = MUSTER_NET_OPTS_INIT};
    muster_status status = MUSTER_ERR_NO_MEMORY;
    uint64_t allowed = 0;
    for (; status < 0 && allowed < 100; allowed++) {
        muster_host *host = NULL;
        muster_mem_fail_after(allowed);
        status = muster_host_open(&opts, NULL, &host);
        muster_mem_fail_after(UINT64_MAX);
        muster_host_close(host);
    }
    assert_int_equal(status, MUSTER_OK);
    assert_true(allowed > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_and_their_payloads_go_there_and_back),
        cmocka_unit_test(a_failed_connect_comes_back_with_its_token),
        cmocka_unit_test(timers_fire_and_every_job_is_answered),
        cmocka_unit_test(an_evaluation_runs_beside_another_job),
        cmocka_unit_test(a_stop_is_given_once_however_often_it_is_asked),
        cmocka_unit_test(the_first_failure_is_what_run_returns),
        cmocka_unit_test(open_fails_cleanly_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
