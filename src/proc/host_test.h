/*
 * proc/host_test.h -- what the tests of the host share: a role that is a
 * script, and an engine that is a toy.
 */
#ifndef MUSTER_PROC_HOST_TEST_H
#define MUSTER_PROC_HOST_TEST_H

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
#include "proc/host.h"

/* A role that is a C function with a few counters. */
typedef struct script script;
struct script {
    void (*step)(script *self, const muster_event *event,
                 muster_actions *actions);
    bool stepping; // to see a second event inside the first
    int ups, downs, messages, timers, computed, sent, stops, heard, begun;
    muster_role_peer peer;
    muster_status down_status, sent_status;
    muster_status job_status[4]; // by id
    char reason[160];
    uint8_t first_byte;
    const muster_blob *coming; // of the last BEGUN
    const char *address;
    muster_host *host;
};

static inline void script_step(void *state, const muster_event *event,
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
    case MUSTER_EVENT_BEGUN:
        self->begun++;
        break;
    }
    self->step(self, event, actions);
    self->stepping = false;
}

static inline void script_free(void *state)
{
    (void)state;
}

static const muster_role_ops script_ops = {
    .name = "script", .step = script_step, .free = script_free};

static inline muster_action *add(muster_actions *actions,
                                 muster_action_kind kind)
{
    muster_action *action = muster_vec_push(&actions->list);
    assert_non_null(action);
    action->kind = kind;
    return action;
}

static inline void add_stop(muster_actions *actions, muster_status status,
                            const char *reason)
{
    muster_action *action = add(actions, MUSTER_ACTION_STOP);
    action->as.stop.status = status;
    (void)snprintf(action->as.stop.reason, sizeof action->as.stop.reason, "%s",
                   reason);
}

static inline void add_connect(muster_actions *actions, const char *address)
{
    muster_action *action = add(actions, MUSTER_ACTION_CONNECT);
    action->as.connect.token = 5;
    (void)snprintf(action->as.connect.address,
                   sizeof action->as.connect.address, "%s", address);
}

static inline void add_model(muster_actions *actions, muster_role_peer peer,
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
static inline void toy_begin(void *self, muster_job *job)
{
    *(uint64_t *)self = job->id;
    muster_job_fini(job);
}

static inline muster_status toy_piece(void *self)
{
    (void)self;
    return MUSTER_OK;
}

static inline void toy_end(void *self, muster_job_result *result_out)
{
    memset(result_out, 0, sizeof *result_out);
    result_out->id = *(uint64_t *)self;
    result_out->kind = MUSTER_JOB_GRADIENT;
}

static inline bool ask_to_stop(void *context, int64_t now_ns,
                               int64_t *wait_until_ns)
{
    (void)now_ns;
    (void)wait_until_ns;
    return *(const bool *)context;
}

static inline muster_host *open_host(bool *stop)
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

static inline muster_status run_script(muster_host *host, script *self,
                                       uint32_t queue_max, muster_error *error)
{
    uint64_t engine = 0;
    self->host = host;
    muster_host_work work = {
        .role = {&script_ops, self},
        .engine = {&engine, toy_begin, toy_piece, toy_end},
        .slowness = MUSTER_SLOWNESS_NONE,
        .queue_max = queue_max,
    };
    return muster_host_run(host, &work, error);
}

static inline void own_address(char *address)
{
    static _Atomic unsigned number;
    (void)snprintf(address, MUSTER_NET_ADDRESS_MAX,
                   "unix:@muster-host-test-%ld-%u", (long)getpid(),
                   atomic_fetch_add(&number, 1));
}

/* A host that listens; `bound` is where. */
static inline muster_host *open_listener(char *bound)
{
    char address[MUSTER_NET_ADDRESS_MAX];
    own_address(address);
    muster_host *host = open_host(NULL);
    assert_int_equal(
        muster_net_listen(muster_host_net(host), address, NULL, bound),
        MUSTER_OK);
    return host;
}

/* A listener that runs its script on a thread of its own, to its good end. */
typedef struct server {
    muster_host *host;
    script script;
    pthread_t thread;
    char bound[MUSTER_NET_ADDRESS_MAX];
} server;

static inline void *server_run(void *argument)
{
    server *self = argument;
    assert_int_equal(run_script(self->host, &self->script, 4, NULL), MUSTER_OK);
    return NULL;
}

/* Set self->script first. */
static inline void server_start(server *self)
{
    self->host = open_listener(self->bound);
    assert_int_equal(pthread_create(&self->thread, NULL, server_run, self), 0);
}

static inline void server_join(server *self)
{
    pthread_join(self->thread, NULL);
    muster_host_close(self->host);
}

#endif // MUSTER_PROC_HOST_TEST_H
