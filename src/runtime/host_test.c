/*
 * host_test.c -- a scripted role in a real host: what it asks for happens, what
 * happens reaches it, one event at a time. The other end is a second host on
 * another thread, or a bare net that misbehaves.
 */
#define _POSIX_C_SOURCE 200809L
#include "runtime/host.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"

/* A role that is a C function with a few counters. */
typedef struct script script;
struct script {
    void (*step)(script *self, const muster_event *event,
                 muster_actions *actions);
    bool stepping; // to see a second event inside the first
    int ups, downs, messages, timers, computed, sent, stops, heard;
    muster_role_peer peer;
    muster_status down_status, sent_status;
    muster_status job_status[4]; // by id
    char reason[160];
    uint8_t first_byte;
    const char *address;
    muster_host *host;
};

static void script_step(void *state, const muster_event *event,
                        muster_actions *actions)
{
    script *self = state;
    assert_false(self->stepping);
    self->stepping = true;
    switch (event->kind) {
    case MUSTER_EVENT_START:
        break;
    case MUSTER_EVENT_PEER_UP:
        self->ups++;
        self->peer = event->peer;
        break;
    case MUSTER_EVENT_PEER_DOWN:
        self->downs++;
        self->down_status = event->as.down.status;
        (void)snprintf(self->reason, sizeof self->reason, "%s",
                       event->as.down.reason);
        break;
    case MUSTER_EVENT_MESSAGE:
        self->messages++;
        if (event->as.message.payload != NULL) {
            self->first_byte =
                *(const uint8_t *)event->as.message.payload->data;
        }
        break;
    case MUSTER_EVENT_TIMER:
        self->timers++;
        break;
    case MUSTER_EVENT_COMPUTED:
        self->computed++;
        assert_in_range(event->as.computed.id, 1, 3);
        self->job_status[event->as.computed.id] = event->as.computed.status;
        break;
    case MUSTER_EVENT_SENT:
        self->sent++;
        self->sent_status = event->as.sent.status;
        break;
    case MUSTER_EVENT_STOP:
        self->stops++;
        break;
    case MUSTER_EVENT_HEARD:
        self->heard++;
        break;
    }
    self->step(self, event, actions);
    self->stepping = false;
}

static void script_free(void *state)
{
    (void)state;
}

static const muster_role_ops script_ops = {
    .name = "script", .step = script_step, .free = script_free};

static muster_action *add(muster_actions *actions, muster_action_kind kind)
{
    muster_action *action = muster_vec_push(&actions->list);
    assert_non_null(action);
    action->kind = kind;
    return action;
}

static void add_stop(muster_actions *actions, muster_status status,
                     const char *reason)
{
    muster_action *action = add(actions, MUSTER_ACTION_STOP);
    action->as.stop.status = status;
    (void)snprintf(action->as.stop.reason, sizeof action->as.stop.reason, "%s",
                   reason);
}

static void add_connect(muster_actions *actions, const char *address)
{
    muster_action *action = add(actions, MUSTER_ACTION_CONNECT);
    action->as.connect.token = 5;
    (void)snprintf(action->as.connect.address,
                   sizeof action->as.connect.address, "%s", address);
}

static void add_model(muster_actions *actions, muster_role_peer peer,
                      muster_blob *payload, uint64_t token)
{
    muster_action *action = add(actions, MUSTER_ACTION_SEND);
    action->as.send.peer = peer;
    action->as.send.message.kind = MUSTER_MSG_MODEL;
    action->as.send.message.run = 1;
    action->as.send.payload = payload;
    action->as.send.token = token;
}

/* An engine whose jobs are done in one piece. */
static void toy_begin(void *self, muster_job *job)
{
    *(uint64_t *)self = job->id;
    muster_job_fini(job);
}

static muster_status toy_piece(void *self)
{
    (void)self;
    return MUSTER_OK;
}

static void toy_end(void *self, muster_job_result *result_out)
{
    memset(result_out, 0, sizeof *result_out);
    result_out->id = *(uint64_t *)self;
    result_out->kind = MUSTER_JOB_GRADIENT;
}

static bool ask_to_stop(void *context, int64_t now_ns, int64_t *wait_until_ns)
{
    (void)now_ns;
    (void)wait_until_ns;
    return *(const bool *)context;
}

static muster_host *open_host(bool *stop)
{
    muster_host_opts opts = {.net = MUSTER_NET_OPTS_INIT};
    if (stop != NULL) {
        opts.on_turn = ask_to_stop;
        opts.context = stop;
    }
    muster_host *host = NULL;
    assert_int_equal(muster_host_open(&opts, NULL, &host), MUSTER_OK);
    return host;
}

static muster_status run_script(muster_host *host, script *self,
                                uint32_t queue_max, muster_error *error)
{
    uint64_t engine = 0;
    self->host = host;
    muster_host_work work = {
        .role = {&script_ops, self},
        .engine = {&engine, toy_begin, toy_piece, toy_end},
        .slowness = MUSTER_COMPUTE_NOT_SLOW,
        .queue_max = queue_max,
    };
    return muster_host_run(host, &work, error);
}

static void own_address(char *address)
{
    static _Atomic unsigned number;
    (void)snprintf(address, MUSTER_NET_ADDRESS_MAX,
                   "unix:@muster-host-test-%ld-%u", (long)getpid(),
                   atomic_fetch_add(&number, 1));
}

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

static void *run_echo(void *argument)
{
    script self = {.step = echo};
    assert_int_equal(run_script(argument, &self, 4, NULL), MUSTER_OK);
    assert_int_equal(self.messages, 1);
    return NULL;
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
    char address[MUSTER_NET_ADDRESS_MAX], bound[MUSTER_NET_ADDRESS_MAX];
    own_address(address);
    muster_host *server = open_host(NULL);
    assert_int_equal(
        muster_net_listen(muster_host_net(server), address, NULL, bound),
        MUSTER_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_echo, server), 0);

    script self = {.step = ask, .address = bound};
    muster_host *client = open_host(NULL);
    muster_error error;
    assert_int_equal(run_script(client, &self, 4, &error), MUSTER_ERR_QUORUM);
    assert_string_equal(error.text, "as the script says");
    assert_int_equal(self.first_byte, 77);
    assert_int_equal(self.sent, 1);
    assert_int_equal(self.sent_status, MUSTER_OK);
    muster_host_close(client);
    pthread_join(thread, NULL);
    muster_host_close(server);
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

/* Connects and sends more than is read in one turn. */
static void send_long(script *self, const muster_event *event,
                      muster_actions *actions)
{
    if (event->kind == MUSTER_EVENT_START) {
        add_connect(actions, self->address);
    } else if (event->kind == MUSTER_EVENT_PEER_UP) {
        muster_blob *payload = muster_blob_create(20000000);
        memset(payload->data, 7, payload->bytes);
        add_model(actions, event->peer, payload, 9);
    } else if (event->kind == MUSTER_EVENT_SENT) {
        add_stop(actions, MUSTER_OK, "");
    }
}

static void hear_long(script *self, const muster_event *event,
                      muster_actions *actions)
{
    if (event->kind == MUSTER_EVENT_HEARD) {
        assert_int_equal(event->peer, self->peer);
        assert_int_equal(self->messages, 0);
    } else if (event->kind == MUSTER_EVENT_MESSAGE) {
        add_stop(actions, MUSTER_OK, "");
    }
}

typedef struct server_run {
    muster_host *host;
    script *script;
} server_run;

static void *run_server(void *argument)
{
    server_run *run = argument;
    assert_int_equal(run_script(run->host, run->script, 4, NULL), MUSTER_OK);
    return NULL;
}

static void a_long_message_is_heard_of_before_it_is_whole(void **state)
{
    (void)state;
    char address[MUSTER_NET_ADDRESS_MAX], bound[MUSTER_NET_ADDRESS_MAX];
    own_address(address);
    muster_host *server = open_host(NULL);
    assert_int_equal(
        muster_net_listen(muster_host_net(server), address, NULL, bound),
        MUSTER_OK);
    pthread_t thread;
    script hearer = {.step = hear_long};
    server_run run = {server, &hearer};
    assert_int_equal(pthread_create(&thread, NULL, run_server, &run), 0);
    script self = {.step = send_long, .address = bound};
    muster_host *client = open_host(NULL);
    assert_int_equal(run_script(client, &self, 4, NULL), MUSTER_OK);
    pthread_join(thread, NULL);
    assert_int_equal(hearer.messages, 1);
    assert_in_range(hearer.heard, 1, 10000);
    muster_host_close(client);
    muster_host_close(server);
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

/* A bare net that connects and sends bytes that are no message. */
typedef struct vandal {
    const char *address;
    bool down;
} vandal;

static void vandal_up(void *context, muster_peer peer, int incoming)
{
    (void)context;
    (void)peer;
    (void)incoming;
}

static void vandal_message(void *context, muster_peer peer,
                           const muster_net_message *message)
{
    (void)context;
    (void)peer;
    (void)message;
}

static void vandal_down(void *context, muster_peer peer, muster_status status,
                        const char *reason)
{
    (void)peer;
    (void)status;
    (void)reason;
    ((vandal *)context)->down = true;
}

static void *run_vandal(void *argument)
{
    vandal *self = argument;
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    muster_net_callbacks callbacks = {vandal_up, vandal_message, vandal_down,
                                      NULL};
    muster_net *net = NULL;
    muster_peer peer = 0;
    assert_int_equal(muster_net_open(&opts, &callbacks, self, NULL, &net),
                     MUSTER_OK);
    assert_int_equal(muster_net_connect(net, self->address, NULL, &peer),
                     MUSTER_OK);
    muster_net_send_opts rubbish = {.header = "rubbish", .header_bytes = 7};
    assert_int_equal(muster_net_send(net, peer, &rubbish), MUSTER_OK);
    while (!self->down) {
        assert_int_equal(muster_net_poll(net, -1), MUSTER_OK);
    }
    muster_net_close(net);
    return NULL;
}

static void stop_when_down(script *self, const muster_event *event,
                           muster_actions *actions)
{
    (void)self;
    if (event->kind == MUSTER_EVENT_PEER_DOWN) {
        add_stop(actions, MUSTER_OK, "");
    }
}

static void a_peer_that_sends_rubbish_is_dropped_and_told_of(void **state)
{
    (void)state;
    char address[MUSTER_NET_ADDRESS_MAX], bound[MUSTER_NET_ADDRESS_MAX];
    own_address(address);
    muster_host *host = open_host(NULL);
    assert_int_equal(
        muster_net_listen(muster_host_net(host), address, NULL, bound),
        MUSTER_OK);
    vandal peer = {.address = bound};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_vandal, &peer), 0);
    script self = {.step = stop_when_down};
    assert_int_equal(run_script(host, &self, 4, NULL), MUSTER_OK);
    assert_int_equal(self.messages, 0);
    assert_int_equal(self.downs, 1);
    assert_int_equal(self.down_status, MUSTER_ERR_PROTOCOL);
    assert_true(self.reason[0] != '\0');
    muster_host_close(host);
    pthread_join(thread, NULL);
}

/* Fills the queue, then sends one too many: first with a slot, then without.
 * Nothing leaves before the actions of the events at hand are carried out. */
static void send_too_much(script *self, const muster_event *event,
                          muster_actions *actions)
{
    if (event->kind == MUSTER_EVENT_START) {
        add_connect(actions, self->address);
    } else if (event->kind == MUSTER_EVENT_PEER_UP) {
        for (int i = 0; i < 3; i++) {
            add_model(actions, event->peer, NULL, 0);
        }
        add_model(actions, event->peer, NULL, 9);
        muster_action *last = actions->list.data;
        last[actions->list.count - 1].as.send.replace_slot = 1;
    } else if (event->kind == MUSTER_EVENT_SENT && self->sent == 1) {
        assert_int_equal(self->sent_status, MUSTER_ERR_AGAIN);
        add_model(actions, self->peer, NULL, 10); // the connection stands
    } else if (event->kind == MUSTER_EVENT_PEER_DOWN) {
        add_stop(actions, MUSTER_OK, "");
    }
}

static void a_full_queue_leaves_out_slots_and_ends_the_rest(void **state)
{
    (void)state;
    char address[MUSTER_NET_ADDRESS_MAX], bound[MUSTER_NET_ADDRESS_MAX];
    own_address(address);
    muster_host *server = open_host(NULL);
    assert_int_equal(
        muster_net_listen(muster_host_net(server), address, NULL, bound),
        MUSTER_OK);
    pthread_t thread;
    script silent = {.step = stop_when_down};
    server_run run = {server, &silent};
    assert_int_equal(pthread_create(&thread, NULL, run_server, &run), 0);

    muster_host_opts opts = {.net = MUSTER_NET_OPTS_INIT};
    opts.net.queue_messages_max = 3;
    muster_host *client = NULL;
    assert_int_equal(muster_host_open(&opts, NULL, &client), MUSTER_OK);
    script self = {.step = send_too_much, .address = bound};
    assert_int_equal(run_script(client, &self, 4, NULL), MUSTER_OK);
    assert_int_equal(self.sent, 2);
    assert_int_equal(self.sent_status, MUSTER_ERR_AGAIN);
    assert_int_equal(self.downs, 1);
    assert_int_equal(self.down_status, MUSTER_ERR_AGAIN);
    muster_host_close(client);
    pthread_join(thread, NULL);
    muster_host_close(server);
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
        cmocka_unit_test(a_long_message_is_heard_of_before_it_is_whole),
        cmocka_unit_test(a_failed_connect_comes_back_with_its_token),
        cmocka_unit_test(timers_fire_and_every_job_is_answered),
        cmocka_unit_test(a_stop_is_given_once_however_often_it_is_asked),
        cmocka_unit_test(the_first_failure_is_what_run_returns),
        cmocka_unit_test(a_peer_that_sends_rubbish_is_dropped_and_told_of),
        cmocka_unit_test(a_full_queue_leaves_out_slots_and_ends_the_rest),
        cmocka_unit_test(open_fails_cleanly_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
