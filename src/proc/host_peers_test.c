/*
 * host_peers_test.c -- a host with peers that are slow or misbehave: a second
 * host on another thread, or a bare net that sends rubbish or does not read.
 */
#define _POSIX_C_SOURCE 200809L
#include "proc/host_test.h"

#include <stdlib.h>

#include "muster/log.h"
#include "role/act.h"

/* Connects, says something short, as strangers have to, and sends more than is
 * read in one turn. */
static void send_long(script *self, const muster_event *event,
                      muster_actions *actions)
{
    if (event->kind == MUSTER_EVENT_START) {
        add_connect(actions, self->address);
    } else if (event->kind == MUSTER_EVENT_PEER_UP) {
        muster_blob *payload = muster_blob_create(20000000);
        memset(payload->data, 7, payload->bytes);
        add_model(actions, event->peer, NULL, 0);
        add_model(actions, event->peer, payload, 9);
    } else if (event->kind == MUSTER_EVENT_SENT) {
        add_stop(actions, MUSTER_OK, "");
    }
}

static void hear_long(script *self, const muster_event *event,
                      muster_actions *actions)
{
    const muster_blob *payload = event->as.message.payload;
    if (event->kind == MUSTER_EVENT_HEARD) {
        assert_int_equal(event->peer, self->peer);
        assert_int_equal(self->messages, 1);
    } else if (event->kind == MUSTER_EVENT_BEGUN) {
        assert_int_equal(event->as.message.message->kind, MUSTER_MSG_MODEL);
        assert_true(muster_blob_here(payload) < payload->bytes);
        self->coming = payload;
    } else if (event->kind == MUSTER_EVENT_MESSAGE && self->messages == 2) {
        assert_ptr_equal(payload, self->coming);
        assert_int_equal(muster_blob_here(payload), payload->bytes);
        add_stop(actions, MUSTER_OK, "");
    }
}

static void a_long_message_is_heard_of_before_it_is_whole(void **state)
{
    (void)state;
    server hearer = {.script = {.step = hear_long}};
    server_start(&hearer);
    script self = {.step = send_long, .address = hearer.bound};
    muster_host *client = open_host(NULL);
    assert_int_equal(run_script(client, &self, 4, NULL), MUSTER_OK);
    server_join(&hearer);
    assert_int_equal(hearer.script.messages, 2);
    assert_in_range(hearer.script.heard, 1, 10000);
    assert_int_equal(hearer.script.begun, 1);
    muster_host_close(client);
}

/* An engine whose job is done when its message is whole. */
static void await_begin(void *self, muster_job *job)
{
    *(muster_job *)self = *job;
}

static muster_status await_piece(void *self)
{
    const muster_blob *message = ((const muster_job *)self)->messages[0];
    return muster_blob_here(message) < message->bytes ? MUSTER_ERR_AGAIN
                                                      : MUSTER_OK;
}

static void await_end(void *self, muster_job_result *result_out)
{
    muster_job *job = self;
    *result_out = (muster_job_result){.id = job->id, .kind = job->kind};
    muster_job_fini(job);
}

/* Decodes what has begun, and has nothing else to do when it is whole. */
static void decode_long(script *self, const muster_event *event,
                        muster_actions *actions)
{
    if (event->kind == MUSTER_EVENT_BEGUN) {
        muster_job *job = muster_act_compute(actions, MUSTER_JOB_DECODE, 1);
        job->list = muster_job_list_create(1);
        assert_non_null(job->list);
        job->messages = job->list->blobs;
        job->messages[0] = muster_blob_ref(event->as.message.payload);
        job->message_count = 1;
    }
    if (self->messages == 2 && self->computed == 1) {
        add_stop(actions, MUSTER_OK, "");
    }
}

static void *run_decoder(void *argument)
{
    server *self = argument;
    muster_job job = {.id = 0};
    muster_host_work work = {
        .role = {&script_ops, &self->script},
        .engine = {&job, await_begin, await_piece, await_end},
        .slowness = MUSTER_SLOWNESS_NONE,
        .queue_max = 4,
    };
    assert_int_equal(muster_host_run(self->host, &work, NULL), MUSTER_OK);
    return NULL;
}

static void a_decoding_that_sleeps_sees_the_end_of_a_message(void **state)
{
    (void)state;
    server hearer = {.script = {.step = decode_long}};
    hearer.host = open_listener(hearer.bound);
    assert_int_equal(pthread_create(&hearer.thread, NULL, run_decoder, &hearer),
                     0);
    script self = {.step = send_long, .address = hearer.bound};
    muster_host *client = open_host(NULL);
    assert_int_equal(run_script(client, &self, 4, NULL), MUSTER_OK);
    server_join(&hearer);
    assert_int_equal(hearer.script.job_status[1], MUSTER_OK);
    muster_host_close(client);
}

/* Knows that its callers have little to say. */
static void expect_little(script *self, const muster_event *event,
                          muster_actions *actions)
{
    (void)self;
    if (event->kind == MUSTER_EVENT_START) {
        muster_act_expect(actions, 1000);
    } else if (event->kind == MUSTER_EVENT_PEER_DOWN) {
        add_stop(actions, MUSTER_OK, "");
    }
}

static void send_until_dropped(script *self, const muster_event *event,
                               muster_actions *actions)
{
    if (event->kind == MUSTER_EVENT_PEER_DOWN) {
        add_stop(actions, MUSTER_OK, "");
    } else if (event->kind != MUSTER_EVENT_SENT) {
        send_long(self, event, actions);
    }
}

static void a_caller_that_sends_more_than_is_expected_is_dropped(void **state)
{
    (void)state;
    server hearer = {.script = {.step = expect_little}};
    server_start(&hearer);
    script self = {.step = send_until_dropped, .address = hearer.bound};
    muster_host *client = open_host(NULL);
    assert_int_equal(run_script(client, &self, 4, NULL), MUSTER_OK);
    server_join(&hearer);
    assert_int_equal(hearer.script.messages, 1);
    muster_host_close(client);
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
    muster_net_callbacks callbacks = {.on_up = vandal_up,
                                      .on_message = vandal_message,
                                      .on_down = vandal_down};
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
    char bound[MUSTER_NET_ADDRESS_MAX];
    muster_host *host = open_listener(bound);
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

#define FLOOD 30

static void *run_vandals(void *argument)
{
    for (int i = 0; i < FLOOD; i++) {
        vandal next = {.address = argument};
        (void)run_vandal(&next);
    }
    return NULL;
}

static void stop_after_flood(script *self, const muster_event *event,
                             muster_actions *actions)
{
    if (event->kind == MUSTER_EVENT_PEER_DOWN && self->downs == FLOOD) {
        add_stop(actions, MUSTER_OK, "");
    }
}

typedef struct flood_log {
    int named;
    int counted;
} flood_log;

static void note_line(void *context, muster_log_level level, const char *line)
{
    (void)level;
    flood_log *log = context;
    log->named += strncmp(line, "dropping ", 9) == 0;
    if (strstr(line, " more were dropped meanwhile") != NULL) {
        log->counted += (int)strtol(line, NULL, 10);
    }
}

static void a_flood_of_rubbish_is_summed_up_in_the_log(void **state)
{
    (void)state;
    char bound[MUSTER_NET_ADDRESS_MAX];
    flood_log log = {0};
    muster_host *host = open_listener(bound);
    pthread_t thread;
    muster_log_to(note_line, &log, MUSTER_LOG_WARN);
    int64_t start_ns = muster_clock_ns();
    assert_int_equal(pthread_create(&thread, NULL, run_vandals, bound), 0);
    script self = {.step = stop_after_flood};
    assert_int_equal(run_script(host, &self, 4, NULL), MUSTER_OK);
    int64_t seconds = (muster_clock_ns() - start_ns) / MUSTER_NS_PER_S;
    muster_host_close(host);
    pthread_join(thread, NULL);
    muster_log_to(NULL, NULL, MUSTER_LOG_WARN);
    assert_int_equal(log.named + log.counted, FLOOD);
    assert_in_range(log.named, 1, seconds + 1);
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
    server silent = {.script = {.step = stop_when_down}};
    server_start(&silent);

    muster_host_opts opts = {.net = MUSTER_NET_OPTS_INIT};
    opts.net.queue_messages_max = 3;
    muster_host *client = NULL;
    assert_int_equal(muster_host_open(&opts, NULL, &client), MUSTER_OK);
    script self = {.step = send_too_much, .address = silent.bound};
    assert_int_equal(run_script(client, &self, 4, NULL), MUSTER_OK);
    assert_int_equal(self.sent, 2);
    assert_int_equal(self.sent_status, MUSTER_ERR_AGAIN);
    assert_int_equal(self.downs, 1);
    assert_int_equal(self.down_status, MUSTER_ERR_AGAIN);
    muster_host_close(client);
    server_join(&silent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_message_is_heard_of_before_it_is_whole),
        cmocka_unit_test(a_decoding_that_sleeps_sees_the_end_of_a_message),
        cmocka_unit_test(a_caller_that_sends_more_than_is_expected_is_dropped),
        cmocka_unit_test(a_peer_that_sends_rubbish_is_dropped_and_told_of),
        cmocka_unit_test(a_flood_of_rubbish_is_summed_up_in_the_log),
        cmocka_unit_test(a_full_queue_leaves_out_slots_and_ends_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
