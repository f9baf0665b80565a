/*
 * memory_test.c -- roles whose tables cannot grow: the newcomer is dropped, or
 * the role ends with MUSTER_ERR_NO_MEMORY. Events are fed by hand; only the
 * list of actions has its room beforehand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "role/coordinator.h"
#include "role/worker.h"
#include "role/worker_inside.h"

#define RUN     77u
#define ACTIONS 256u

typedef struct stage {
    muster_role role;
    muster_actions actions;
    muster_code *code;
    muster_blob *blob;
} stage;

static void feed(stage *s, muster_event event)
{
    muster_actions_clear(&s->actions);
    event.now_ns = 1000;
    s->role.ops->step(s->role.state, &event, &s->actions);
}

static void feed_message(stage *s, muster_role_peer peer,
                         const muster_message *message, muster_blob *payload)
{
    muster_event event = {.kind = MUSTER_EVENT_MESSAGE, .peer = peer};
    event.as.message.message = message;
    event.as.message.payload = payload;
    feed(s, event);
}

/* The last action of a kind, or NULL. */
static const muster_action *find(const stage *s, muster_action_kind kind)
{
    const muster_action *list = s->actions.list.data;
    for (size_t i = s->actions.list.count; i-- > 0;) {
        if (list[i].kind == kind) {
            return &list[i];
        }
    }
    return NULL;
}

static stage make_stage(void)
{
    stage s = {.actions = muster_actions_make(),
               .blob = muster_blob_create(64)};
    assert_non_null(s.blob);
    assert_true(muster_vec_reserve(&s.actions.list, ACTIONS));
    return s;
}

static void end_stage(stage *s)
{
    muster_mem_fail_after(UINT64_MAX);
    s->role.ops->free(s->role.state);
    muster_actions_fini(&s->actions);
    muster_blob_unref(s->blob);
    muster_code_free(s->code);
}

static stage make_coordinator(void)
{
    stage s = make_stage();
    muster_code_opts code = MUSTER_CODE_OPTS_INIT;
    code.name = "uncoded";
    code.workers = 2;
    assert_int_equal(muster_code_create(&code, NULL, &s.code), MUSTER_OK);
    muster_coordinator_opts opts = MUSTER_COORDINATOR_OPTS_INIT;
    opts.code = s.code;
    opts.run = RUN;
    opts.last_step = 5;
    opts.message_dim = 16;
    opts.setup = opts.model = s.blob;
    assert_int_equal(muster_coordinator_create(&opts, NULL, &s.role),
                     MUSTER_OK);
    feed(&s, (muster_event){.kind = MUSTER_EVENT_START});
    return s;
}

static void come_up(stage *s, muster_role_peer peer)
{
    feed(s, (muster_event){.kind = MUSTER_EVENT_PEER_UP,
                           .peer = peer,
                           .as.up.incoming = true});
}

static void a_coordinator_without_memory_drops_the_newcomer(void **state)
{
    (void)state;
    stage s = make_coordinator();
    muster_mem_fail_after(0);
    muster_role_peer peer = 1;
    for (; find(&s, MUSTER_ACTION_DROP) == NULL; peer++) {
        assert_true(peer < 60); // fewer than it would take with memory
        come_up(&s, peer);
    }
    assert_int_equal(find(&s, MUSTER_ACTION_DROP)->as.drop.peer, peer - 1);
    muster_mem_fail_after(UINT64_MAX);
    come_up(&s, peer);
    assert_null(find(&s, MUSTER_ACTION_DROP));
    end_stage(&s);
}

static void a_coordinator_that_cannot_note_a_part_ends(void **state)
{
    (void)state;
    stage s = make_coordinator();
    come_up(&s, 1);
    muster_message hello = {.kind = MUSTER_MSG_HELLO};
    hello.as.hello.id = 0;
    hello.as.hello.role = MUSTER_MEMBER_WORKER;
    feed_message(&s, 1, &hello, NULL);
    const muster_action *welcome = find(&s, MUSTER_ACTION_SEND);
    assert_non_null(welcome);
    assert_int_equal(welcome->as.send.message.kind, MUSTER_MSG_WELCOME);
    muster_message have = {.kind = MUSTER_MSG_HAVE, .run = RUN};
    have.incarnation = welcome->as.send.message.incarnation;
    have.as.have.shard = 1;
    muster_mem_fail_after(0);
    feed_message(&s, 1, &have, NULL);
    const muster_action *last = find(&s, MUSTER_ACTION_COMPUTE);
    assert_non_null(last);
    assert_int_equal(last->as.job.kind, MUSTER_JOB_SNAPSHOT);
    muster_event done = {.kind = MUSTER_EVENT_COMPUTED};
    done.as.computed.kind = MUSTER_JOB_SNAPSHOT;
    done.as.computed.id = last->as.job.id;
    feed(&s, done);
    const muster_action *farewell = find(&s, MUSTER_ACTION_SEND);
    assert_non_null(farewell);
    assert_int_equal(farewell->as.send.message.kind, MUSTER_MSG_STOP);
    feed(&s, (muster_event){.kind = MUSTER_EVENT_PEER_DOWN, .peer = 1});
    const muster_action *stop = find(&s, MUSTER_ACTION_STOP);
    assert_non_null(stop);
    assert_int_equal(stop->as.stop.status, MUSTER_ERR_NO_MEMORY);
    end_stage(&s);
}

/* A worker whose coordinator has accepted the connection as peer 1. */
static stage make_worker(void)
{
    stage s = make_stage();
    muster_worker_opts opts = MUSTER_WORKER_OPTS_INIT;
    (void)snprintf(opts.address, sizeof opts.address, "unix:/nowhere");
    assert_int_equal(muster_worker_create(&opts, NULL, &s.role), MUSTER_OK);
    feed(&s, (muster_event){.kind = MUSTER_EVENT_START});
    const muster_action *connect = find(&s, MUSTER_ACTION_CONNECT);
    assert_non_null(connect);
    muster_event up = {.kind = MUSTER_EVENT_PEER_UP, .peer = 1};
    up.as.up.token = connect->as.connect.token;
    feed(&s, up);
    muster_message welcome = {.kind = MUSTER_MSG_WELCOME, .run = RUN};
    welcome.incarnation = 1;
    welcome.as.welcome.size = 2;
    welcome.as.welcome.heartbeat_ms = 2000;
    feed_message(&s, 1, &welcome, s.blob);
    assert_non_null(find(&s, MUSTER_ACTION_COMPUTE));
    return s;
}

static void a_worker_without_memory_for_a_part_ends(void **state)
{
    (void)state;
    stage s = make_worker();
    muster_message part = {.kind = MUSTER_MSG_SHARD, .run = RUN};
    part.incarnation = 1;
    muster_mem_fail_after(0);
    // A few lie in the worker itself.
    for (; part.as.shard.shard < MUSTER_WORKER_SHARDS; part.as.shard.shard++) {
        feed_message(&s, 1, &part, s.blob);
        assert_non_null(find(&s, MUSTER_ACTION_COMPUTE));
    }
    feed_message(&s, 1, &part, s.blob);
    const muster_action *stop = find(&s, MUSTER_ACTION_STOP);
    assert_non_null(stop);
    assert_int_equal(stop->as.stop.status, MUSTER_ERR_NO_MEMORY);
    end_stage(&s);
}

static void a_part_that_is_loading_can_be_noted_without_memory(void **state)
{
    (void)state;
    stage s = make_worker();
    muster_message part = {.kind = MUSTER_MSG_SHARD, .run = RUN};
    part.incarnation = 1;
    uint64_t jobs[20];
    for (uint32_t number = 0; number < 20; number++) {
        part.as.shard.shard = number;
        feed_message(&s, 1, &part, s.blob);
        const muster_action *load = find(&s, MUSTER_ACTION_COMPUTE);
        assert_non_null(load);
        jobs[number] = load->as.job.id;
    }
    muster_mem_fail_after(0);
    for (uint32_t number = 0; number < 20; number++) {
        muster_event done = {.kind = MUSTER_EVENT_COMPUTED};
        done.as.computed.kind = MUSTER_JOB_LOAD;
        done.as.computed.shard = number;
        done.as.computed.id = jobs[number];
        feed(&s, done);
        const muster_action *have = find(&s, MUSTER_ACTION_SEND);
        assert_non_null(have);
        assert_int_equal(have->as.send.message.as.have.shard, number);
    }
    end_stage(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_coordinator_without_memory_drops_the_newcomer),
        cmocka_unit_test(a_coordinator_that_cannot_note_a_part_ends),
        cmocka_unit_test(a_worker_without_memory_for_a_part_ends),
        cmocka_unit_test(a_part_that_is_loading_can_be_noted_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
