/*
 * watch_test.c -- slow, silent, unlucky and absent workers are told apart.
 */
#include "role/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"

#define STEPS   200u
#define STEP_NS (100 * MUSTER_NS_PER_MS)

static muster_watch *make_watch(uint32_t workers)
{
    muster_watch *watch = NULL;
    assert_int_equal(muster_watch_create(workers, &watch), MUSTER_OK);
    return watch;
}

static int64_t begin_ns(uint64_t step)
{
    return ((int64_t)step + 1) * STEP_NS;
}

/* A step begins every 100 ms, and all are offered it. */
static void begin(muster_watch *watch, uint64_t step, uint32_t workers)
{
    muster_watch_begin(watch, step, begin_ns(step));
    for (uint32_t w = 0; w < workers; w++) {
        muster_watch_offered(watch, w, begin_ns(step));
    }
}

static void answer(muster_watch *watch, uint64_t step, uint32_t worker,
                   double after_ms)
{
    muster_watch_answered(watch, worker,
                          begin_ns(step) + (int64_t)(after_ms * 1e6));
}

static void decode(muster_watch *watch, uint64_t step, bool cut_off,
                   double after_ms)
{
    muster_watch_decoded(watch, cut_off,
                         begin_ns(step) + (int64_t)(after_ms * 1e6));
}

static bool is_slow(muster_watch *watch, uint32_t worker)
{
    return muster_classes_of(muster_watch_classes(watch), worker).slow;
}

/* 0 and 1 are fine; 2 takes four times as long, and every other time its answer
 * is late; 3 never answers. */
static void the_slow_and_the_silent_are_found(void **state)
{
    (void)state;
    muster_watch *watch = make_watch(4);
    for (uint64_t step = 0; step < STEPS; step++) {
        begin(watch, step, 4);
        answer(watch, step, 0, 10);
        answer(watch, step, 1, 11);
        if (step % 2 == 0) {
            answer(watch, step, 2, 42);
            decode(watch, step, false, 42);
        } else {
            decode(watch, step, false, 11);
            muster_watch_late(watch, 2, step,
                              begin_ns(step) + 42 * MUSTER_NS_PER_MS);
        }
    }
    assert_false(is_slow(watch, 0));
    assert_false(is_slow(watch, 1));
    assert_true(is_slow(watch, 2));
    assert_true(is_slow(watch, 3));
    muster_class two = muster_classes_of(muster_watch_classes(watch), 2);
    assert_true(two.straggle_rate > 0.99 && two.probability > 0.9);
    muster_watch_free(watch);
}

/* With a code, whoever loses the race leaves the step and never answers it:
 * that makes nobody slow, unless he never answers at all. */
static void losing_the_race_is_not_slowness(void **state)
{
    (void)state;
    muster_watch *watch = make_watch(6);
    for (uint64_t step = 0; step < STEPS; step++) {
        begin(watch, step, 6);
        answer(watch, step, (uint32_t)(step % 5), 90);
        decode(watch, step, false, 90);
    }
    for (uint32_t w = 0; w < 5; w++) {
        assert_false(is_slow(watch, w));
    }
    assert_true(is_slow(watch, 5));
    muster_watch_free(watch);
}

/* Steps end with the fourth of five answers. 0 to 3 are level, and whoever of
 * them loses still answers, a little late; 4 sleeps through nine steps of ten,
 * and is told to leave them long before it shows. */
static void leaving_most_steps_while_others_leave_none_is_slowness(void **state)
{
    (void)state;
    muster_watch *watch = make_watch(5);
    for (uint64_t step = 0; step < STEPS; step++) {
        bool awake = step % 10 == 0;
        begin(watch, step, 5);
        uint32_t loser = awake ? (uint32_t)(step / 10 % 4) : UINT32_MAX;
        for (uint32_t w = 0; w < (awake ? 5u : 4u); w++) {
            if (w != loser) {
                answer(watch, step, w, 10);
            }
        }
        decode(watch, step, false, 10);
        if (awake) {
            muster_watch_late(watch, loser, step,
                              begin_ns(step) + 11 * MUSTER_NS_PER_MS);
        }
    }
    for (uint32_t w = 0; w < 4; w++) {
        assert_false(is_slow(watch, w));
    }
    assert_true(is_slow(watch, 4));
    muster_class four = muster_classes_of(muster_watch_classes(watch), 4);
    assert_true(four.straggle_rate > 0.8 && four.straggle_rate < 0.95);
    muster_watch_free(watch);
}

static void a_millisecond_is_not_slowness(void **state)
{
    (void)state;
    muster_watch *watch = make_watch(4);
    for (uint64_t step = 0; step < STEPS; step++) {
        begin(watch, step, 4);
        for (uint32_t w = 0; w < 4; w++) {
            answer(watch, step, w, w == 3 ? 0.9 : 0.1);
        }
        decode(watch, step, false, 0.9);
    }
    assert_false(is_slow(watch, 3));
    muster_watch_free(watch);
}

/* Six on two processors take turns: the last two always need more than twice
 * the median. Only the one that is far behind them all is slow. */
static void a_crowded_machine_makes_nobody_slow(void **state)
{
    (void)state;
    static const double turns_ms[] = {2, 2.1, 4, 5, 11, 12};
    muster_watch *watch = make_watch(7);
    for (uint64_t step = 0; step < STEPS; step++) {
        begin(watch, step, 7);
        for (uint32_t w = 0; w < 6; w++) {
            answer(watch, step, w, turns_ms[w]);
        }
        answer(watch, step, 6, 60);
        decode(watch, step, false, 60);
    }
    for (uint32_t w = 0; w < 6; w++) {
        assert_false(is_slow(watch, w));
    }
    assert_true(is_slow(watch, 6));
    muster_watch_free(watch);
}

/* 3 misses four of five deadlines, and half as long as the others took. */
static void missing_the_deadline_is_slowness(void **state)
{
    (void)state;
    muster_watch *watch = make_watch(4);
    for (uint64_t step = 0; step < STEPS; step++) {
        begin(watch, step, 4);
        for (uint32_t w = 0; w < (step % 5 == 0 ? 4u : 3u); w++) {
            answer(watch, step, w, 10);
        }
        decode(watch, step, step % 5 != 0, 15);
    }
    assert_false(is_slow(watch, 0));
    assert_true(is_slow(watch, 3));
    muster_class three = muster_classes_of(muster_watch_classes(watch), 3);
    assert_true(three.straggle_rate > 0.7 && three.straggle_rate < 0.9);
    muster_watch_free(watch);
}

/* 3 is away for most of the run; what it does while it is there counts. */
static void an_absent_worker_is_not_judged(void **state)
{
    (void)state;
    muster_watch *watch = make_watch(4);
    for (uint64_t step = 0; step < STEPS; step++) {
        bool here = step < 20 || step >= STEPS - 3;
        begin(watch, step, here ? 4 : 3);
        for (uint32_t w = 0; w < (here ? 4u : 3u); w++) {
            answer(watch, step, w, 10);
        }
        decode(watch, step, true, 50);
        if (step == 19) {
            muster_watch_lost(watch, 3);
        }
        uint64_t away = here ? 0 : step - 19;
        assert_int_equal(muster_watch_away(watch, 3), away);
        assert_int_equal(muster_watch_away(watch, 0), 0);
    }
    muster_class three = muster_classes_of(muster_watch_classes(watch), 3);
    assert_false(three.slow);
    assert_true(three.straggle_rate < 0.01);
    muster_watch_free(watch);
}

/* Lost in the middle of a step that it has not answered, and back in it. */
static void one_that_comes_in_the_middle_of_a_step_gets_its_time(void **state)
{
    (void)state;
    muster_watch *watch = make_watch(3);
    for (uint64_t step = 0; step < STEPS; step++) {
        begin(watch, step, 3);
        muster_watch_lost(watch, 2);
        muster_watch_offered(watch, 2, begin_ns(step) + STEP_NS / 2);
        answer(watch, step, 0, 10);
        answer(watch, step, 1, 55);
        decode(watch, step, true, 55);
        muster_watch_lost(watch, 2);
    }
    muster_class two = muster_classes_of(muster_watch_classes(watch), 2);
    assert_true(two.straggle_rate < 0.01);
    muster_watch_free(watch);
}

static void create_fails_cleanly_without_memory(void **state)
{
    (void)state;
    uint64_t allowed = 0;
    muster_status status = MUSTER_ERR_NO_MEMORY;
    for (; status != MUSTER_OK && allowed < 20; allowed++) {
        muster_watch *watch = NULL;
        muster_mem_fail_after(allowed);
        status = muster_watch_create(4, &watch);
        muster_mem_fail_after(UINT64_MAX);
        if (status == MUSTER_OK) {
            muster_watch_free(watch);
        }
    }
    assert_true(allowed > 3 && allowed < 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slow_and_the_silent_are_found),
        cmocka_unit_test(losing_the_race_is_not_slowness),
        cmocka_unit_test(
            leaving_most_steps_while_others_leave_none_is_slowness),
        cmocka_unit_test(a_millisecond_is_not_slowness),
        cmocka_unit_test(a_crowded_machine_makes_nobody_slow),
        cmocka_unit_test(missing_the_deadline_is_slowness),
        cmocka_unit_test(an_absent_worker_is_not_judged),
        cmocka_unit_test(one_that_comes_in_the_middle_of_a_step_gets_its_time),
        cmocka_unit_test(create_fails_cleanly_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
