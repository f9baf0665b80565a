/*
 * role/coordinator_test.h -- what the tests of a coordinator fed by hand share:
 * a run of some workers, what they say, and what was asked for last.
 */
#ifndef MUSTER_ROLE_COORDINATOR_TEST_H
#define MUSTER_ROLE_COORDINATOR_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "code/numbers.h"
#include "role/coordinator_inside.h"
#include "role/member.h"

#define RUN     77u
#define DIM     16u
#define ACTIONS 512u
#define WORKERS 4u
#define CROWD   32u

typedef struct stage {
    muster_role role;
    muster_actions actions;
    void (*note)(void *notes, const muster_action *action); // hears of each
    void *notes;                                            // may be NULL
    muster_code *code;
    muster_blob *blob;   // model, part and setup
    muster_blob *answer; // of a worker
    uint32_t workers;
    uint32_t incarnations[CROWD];
    int64_t now_ns;
} stage;

static inline void feed(stage *s, muster_event event)
{
    muster_actions_clear(&s->actions);
    event.now_ns = s->now_ns;
    s->role.ops->step(s->role.state, &event, &s->actions);
    const muster_action *list = s->actions.list.data;
    for (size_t i = 0; s->note != NULL && i < s->actions.list.count; i++) {
        s->note(s->notes, &list[i]);
    }
}

/* The first action of a kind from `from` on, or NULL. */
static inline const muster_action *find(const stage *s, muster_action_kind kind)
{
    const muster_action *list = s->actions.list.data;
    for (size_t i = 0; i < s->actions.list.count; i++) {
        if (list[i].kind == kind) {
            return &list[i];
        }
    }
    return NULL;
}

static inline uint32_t count_sends(const stage *s, muster_message_kind kind)
{
    const muster_action *list = s->actions.list.data;
    uint32_t count = 0;
    for (size_t i = 0; i < s->actions.list.count; i++) {
        count += list[i].kind == MUSTER_ACTION_SEND &&
                 list[i].as.send.message.kind == kind;
    }
    return count;
}

/* Worker w is peer w + 1. */
static inline void say(stage *s, uint32_t worker, muster_message message,
                       muster_blob *payload)
{
    message.run = message.kind == MUSTER_MSG_HELLO ? 0 : RUN;
    message.incarnation = worker < CROWD ? s->incarnations[worker] : 0;
    muster_event event = {.kind = MUSTER_EVENT_MESSAGE, .peer = worker + 1};
    event.as.message.message = &message;
    event.as.message.payload = payload;
    feed(s, event);
}

static inline void have(stage *s, uint32_t worker, uint32_t plan, uint32_t part,
                        uint64_t stamp)
{
    muster_message message = {
        .kind = MUSTER_MSG_HAVE, .plan = plan, .step = stamp};
    message.as.have.shard = part;
    say(s, worker, message, NULL);
}

static inline void join(stage *s, uint32_t worker)
{
    feed(s, (muster_event){.kind = MUSTER_EVENT_PEER_UP,
                           .peer = worker + 1,
                           .as.up.incoming = true});
    muster_message hello = {.kind = MUSTER_MSG_HELLO};
    hello.as.hello.id = worker;
    hello.as.hello.role = MUSTER_MEMBER_WORKER;
    say(s, worker, hello, NULL);
    const muster_action *welcome = find(s, MUSTER_ACTION_SEND);
    assert_non_null(welcome);
    assert_int_equal(welcome->as.send.message.kind, MUSTER_MSG_WELCOME);
    s->incarnations[worker] = welcome->as.send.message.incarnation;
    have(s, worker, 0, MUSTER_ID_ANY, 0);
    assert_int_equal(count_sends(s, MUSTER_MSG_PLAN) +
                         count_sends(s, MUSTER_MSG_SCHEDULE),
                     1);
}

/* Joined, and its plan adopted: waits for its part, or is ready. */
static inline void adopt(stage *s, uint32_t worker)
{
    join(s, worker);
    have(s, worker, 1, MUSTER_ID_ANY, 0);
}

static inline void computed(stage *s, muster_job_result result)
{
    muster_event event = {.kind = MUSTER_EVENT_COMPUTED};
    event.as.computed = result;
    feed(s, event);
}

static inline void answer(stage *s, uint32_t worker, uint64_t step)
{
    muster_message message = {
        .kind = MUSTER_MSG_GRADIENT, .plan = 1, .step = step};
    say(s, worker, message, s->answer);
}

static inline void sent(stage *s, uint32_t worker, uint64_t token,
                        muster_status status)
{
    muster_event event = {.kind = MUSTER_EVENT_SENT, .peer = worker + 1};
    event.as.sent.token = token;
    event.as.sent.status = status;
    feed(s, event);
}

static inline void timer(stage *s, uint32_t id)
{
    muster_event event = {.kind = MUSTER_EVENT_TIMER};
    event.as.timer.id = id;
    feed(s, event);
}

/* A run with these options, but for its code, its numbers and its blobs. */
static inline stage make_stage_with(const char *name, uint32_t workers,
                                    muster_coordinator_opts opts)
{
    stage s = {.actions = muster_actions_make(),
               .blob = muster_blob_create(64),
               .workers = workers,
               .now_ns = 1000};
    assert_non_null(s.blob);
    assert_true(muster_vec_reserve(&s.actions.list, ACTIONS));
    muster_code_opts code = MUSTER_CODE_OPTS_INIT;
    code.name = name;
    code.workers = workers;
    assert_int_equal(muster_code_create(&code, NULL, &s.code), MUSTER_OK);
    muster_code_info info = *muster_code_numbers(s.code);
    s.answer = muster_blob_create(muster_code_block_length(s.code, DIM) *
                                  info.message_blocks * sizeof(float));
    assert_non_null(s.answer);
    opts.code = s.code;
    opts.run = RUN;
    opts.message_dim = DIM;
    opts.setup = opts.model = s.blob;
    opts.eager = true; // where the code does not say
    assert_int_equal(muster_coordinator_create(&opts, NULL, &s.role),
                     MUSTER_OK);
    feed(&s, (muster_event){.kind = MUSTER_EVENT_START});
    return s;
}

/* As new, or restarted from what an earlier one saved. */
static inline stage make_stage_of(const char *name, uint32_t workers,
                                  const muster_vec *saved)
{
    muster_coordinator_opts opts = MUSTER_COORDINATOR_OPTS_INIT;
    opts.last_step = 100;
    if (saved != NULL) {
        opts.saved = saved->data;
        opts.saved_bytes = saved->count;
    }
    return make_stage_with(name, workers, opts);
}

static inline stage make_stage(void)
{
    return make_stage_of("uncoded", WORKERS, NULL);
}

static inline void end_stage(stage *s)
{
    muster_mem_fail_after(UINT64_MAX);
    s->role.ops->free(s->role.state);
    muster_actions_fini(&s->actions);
    muster_blob_unref(s->blob);
    muster_blob_unref(s->answer);
    muster_code_free(s->code);
}

/* All of them are there with the parts that they brought along. */
static inline void gather(stage *s)
{
    for (uint32_t w = 0; w < s->workers; w++) {
        const uint32_t *parts = NULL;
        uint32_t count = 0;
        join(s, w);
        assert_int_equal(muster_code_parts(s->code, w, &parts, &count),
                         MUSTER_OK);
        for (uint32_t i = 0; i < count; i++) {
            have(s, w, 0, parts[i], 0);
        }
        have(s, w, 1, MUSTER_ID_ANY, 0);
    }
    assert_int_equal(count_sends(s, MUSTER_MSG_MODEL), s->workers);
}

/* The step is decoded: the next one begins. */
static inline void update_model(stage *s, uint64_t step)
{
    const muster_action *update = find(s, MUSTER_ACTION_COMPUTE);
    assert_non_null(update);
    assert_int_equal(update->as.job.kind, MUSTER_JOB_UPDATE);
    s->now_ns += MUSTER_NS_PER_MS;
    computed(s, (muster_job_result){.id = update->as.job.id,
                                    .kind = MUSTER_JOB_UPDATE,
                                    .step = step,
                                    .output = s->blob});
}

#endif // MUSTER_ROLE_COORDINATOR_TEST_H
