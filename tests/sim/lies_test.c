/*
 * lies_test.c -- workers that do not do right: whatever they send, the result
 * is the same, and they are named.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scene.h"

/*
 * A worker that lies: the real role, its answers tampered with on the way out.
 */
typedef enum lie {
    LIE_SHORT,
    LIE_EMPTY,
    LIE_TWICE,
    LIE_STALE,
    LIE_FUTURE,
    LIE_OTHER_LIFE,
    LIE_EARLIER_LIFE,
    LIE_OTHER_PLAN,
    LIE_OTHER_RUN,
    LIE_OLD_PLAN,
    LIE_OTHER_PART, // in its HAVE
    LIE_MANY_PARTS, // likewise
    LIE_EAGER,      // answers before it is ready
    LIES
} lie;

typedef struct liar {
    muster_role inner;
    lie lie;
} liar;

/* True: it is a lie now, and what it carries must not be used. */
static bool tamper_numbers(lie how, muster_message *message)
{
    const muster_message honest = *message;
    // Far ahead: the next step may have begun when it arrives.
    message->step += how == LIE_FUTURE ? 1000 : 0;
    message->step -= how == LIE_STALE && message->step > 0;
    message->incarnation += how == LIE_OTHER_LIFE;
    message->incarnation -= how == LIE_EARLIER_LIFE;
    message->plan += how == LIE_OTHER_PLAN;
    message->plan -= how == LIE_OLD_PLAN && message->plan > 1;
    message->run += how == LIE_OTHER_RUN;
    return message->step != honest.step || message->plan != honest.plan ||
           message->run != honest.run ||
           message->incarnation != honest.incarnation;
}

static void tamper(lie how, muster_action *action, muster_actions *actions)
{
    muster_blob *payload = action->as.send.payload;
    muster_action copy = *action;
    switch (how) {
    case LIE_SHORT:
        action->as.send.payload =
            toy_blob(payload->data, payload->bytes - sizeof(float));
        muster_blob_unref(payload);
        break;
    case LIE_EMPTY:
        action->as.send.payload = NULL;
        muster_blob_unref(payload);
        break;
    case LIE_TWICE:
        copy.as.send.payload = toy_spoil(muster_blob_ref(payload));
        MUSTER_ASSERT(muster_vec_append(&actions->list, &copy, 1));
        break;
    case LIE_STALE:
    case LIE_FUTURE:
    case LIE_OTHER_LIFE:
    case LIE_EARLIER_LIFE:
    case LIE_OTHER_PLAN:
    case LIE_OTHER_RUN:
    case LIE_OLD_PLAN:
        if (tamper_numbers(how, &action->as.send.message)) {
            action->as.send.payload = toy_spoil(payload);
        }
        break;
    case LIE_OTHER_PART:
    case LIE_MANY_PARTS:
    case LIE_EAGER:
    case LIES:
        break;
    }
}

/* Nonsense for every step, though it was sent no model yet. */
static void answer_everything(muster_action *copy, muster_actions *actions)
{
    static const float nonsense[TOY_DIM] = {1};
    copy->as.send.message.kind = MUSTER_MSG_GRADIENT;
    copy->as.send.message.plan = 1;
    copy->as.send.message.as.gradient.compute_ns = 0;
    for (uint64_t step = 0; step < 60; step++) {
        copy->as.send.message.step = step;
        copy->as.send.payload = toy_blob(nonsense, sizeof(nonsense));
        MUSTER_ASSERT(muster_vec_append(&actions->list, copy, 1));
    }
}

/* Says that it has what it has not, or is what it is not. */
static void tamper_have(lie how, muster_action *action, muster_actions *actions)
{
    uint32_t part = action->as.send.message.as.have.shard;
    muster_action copy = *action;
    if (part == MUSTER_ID_ANY) {
        return;
    }
    if (how == LIE_OTHER_PART) {
        action->as.send.message.as.have.shard = part == 0 ? 1 : part - 1;
    } else if (how == LIE_MANY_PARTS) {
        for (uint32_t other = 0; other < 8; other++) {
            copy.as.send.message.as.have.shard = other;
            copy.as.send.message.step = (uint64_t)(other % 2) * part;
            MUSTER_ASSERT(muster_vec_append(&actions->list, &copy, 1));
        }
    } else if (how == LIE_EAGER) {
        answer_everything(&copy, actions);
    }
}

static void liar_step(void *state, const muster_event *event,
                      muster_actions *actions)
{
    liar *l = state;
    l->inner.ops->step(l->inner.state, event, actions);
    size_t count = actions->list.count;
    for (size_t i = 0; i < count; i++) {
        muster_action *action = (muster_action *)actions->list.data + i;
        if (action->kind == MUSTER_ACTION_SEND &&
            action->as.send.message.kind == MUSTER_MSG_GRADIENT) {
            tamper(l->lie, action, actions);
        } else if (action->kind == MUSTER_ACTION_SEND &&
                   action->as.send.message.kind == MUSTER_MSG_HAVE) {
            tamper_have(l->lie, action, actions);
        }
    }
}

static void liar_free(void *state)
{
    liar *l = state;
    l->inner.ops->free(l->inner.state);
}

static const muster_role_ops liar_ops = {
    .name = "liar", .step = liar_step, .free = liar_free};

static void a_worker_that_lies_changes_nothing(void **state)
{
    (void)state;
    static const char *const named[LIES] = {
        [LIE_SHORT] = "worker 0 sent an answer of the wrong length",
        [LIE_EMPTY] = "worker 0 sent an answer of the wrong length",
        [LIE_TWICE] = "worker 0 answered step",
        [LIE_FUTURE] = "worker 0 sent an answer to what it was not asked",
        [LIE_EARLIER_LIFE] = "worker 0 sent a GRADIENT of an earlier life",
        [LIE_EAGER] = "worker 0 sent an answer to what it was not asked",
        [LIE_OTHER_PLAN] = "worker 0 sent an answer to what it was not asked",
        [LIE_OLD_PLAN] = "worker 0 sent an answer to what it was not asked",
    };
    for (int i = 0; i < 2 * LIES; i++) {
        lie how = (lie)(i % LIES);
        toy t;
        toy_opts opts = plain("frc:s=1", 6, 60);
        opts.shuffle = i < LIES ? "rotate:3" : NULL;
        toy_init(&t, &opts);
        muster_sim_kill(t.sim, 1);
        muster_worker_opts worker = MUSTER_WORKER_OPTS_INIT;
        snprintf(worker.address, sizeof(worker.address), "sim:0");
        worker.id = 0;
        worker.pid = 1;
        liar l = {.lie = how};
        // This one comes when training is under way.
        muster_sim_run(t.sim, how == LIE_EAGER ? SECONDS(1) * 2 / 5 : 0);
        assert_int_equal(muster_worker_create(&worker, NULL, &l.inner),
                         MUSTER_OK);
        muster_sim_start(t.sim, 1, (muster_role){&liar_ops, &l});
        run_to_end(&t);
        // Who claims parts that it has not is believed, to its own harm.
        t.premature =
            t.premature && how != LIE_OTHER_PART && how != LIE_MANY_PARTS;
        assert_right(&t);
        bool told = how != LIE_OLD_PLAN || opts.shuffle != NULL;
        if (named[how] != NULL && told) {
            assert_non_null(strstr(t.notices, named[how]));
        }
        // Once for each step that it was not overtaken by.
        bool earlier = how == LIE_EARLIER_LIFE;
        assert_in_range(t.strays, earlier ? 20 : 0, earlier ? 60 : 0);
        // It is lost by it, and kept away for a while.
        bool other = how == LIE_OTHER_LIFE || how == LIE_OTHER_RUN;
        assert_in_range(t.offences, other ? 1 : 0, other ? 20 : 0);
        assert_in_range(t.twice, how == LIE_TWICE ? 20 : 0,
                        how == LIE_TWICE ? 60 : 0);
        // Of a step under another plan, it is more than late.
        assert_true(how != LIE_STALE || t.late >= 20 ||
                    (opts.shuffle != NULL && t.rejected > 0));
        toy_fini(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_lies_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
