/*
 * timers_test.c -- deadlines come out in order, once, and only when due.
 */
#include "proc/timers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"

static void due_timers_come_out_earliest_first(void **state)
{
    (void)state;
    muster_timers timers = muster_timers_make();
    assert_int_equal(muster_timers_set(&timers, 7, 300), MUSTER_OK);
    assert_int_equal(muster_timers_set(&timers, 8, 100), MUSTER_OK);
    assert_int_equal(muster_timers_set(&timers, 9, 200), MUSTER_OK);
    assert_int_equal(timers.earliest_ns, 100);
    uint32_t id = 0;
    assert_false(muster_timers_pop(&timers, 99, &id));
    assert_true(muster_timers_pop(&timers, 250, &id));
    assert_int_equal(id, 8);
    assert_true(muster_timers_pop(&timers, 250, &id));
    assert_int_equal(id, 9);
    assert_false(muster_timers_pop(&timers, 250, &id));
    assert_int_equal(timers.earliest_ns, 300);
    muster_timers_fini(&timers);
}

static void setting_again_moves_and_negative_disarms(void **state)
{
    (void)state;
    muster_timers timers = muster_timers_make();
    uint32_t id = 0;
    assert_int_equal(muster_timers_set(&timers, 1, 100), MUSTER_OK);
    assert_int_equal(muster_timers_set(&timers, 1, 500), MUSTER_OK);
    assert_int_equal(timers.list.count, 1);
    assert_false(muster_timers_pop(&timers, 499, &id));
    assert_int_equal(muster_timers_set(&timers, 1, -1), MUSTER_OK);
    assert_true(timers.earliest_ns == MUSTER_TIMER_NEVER);
    assert_false(muster_timers_pop(&timers, INT64_MAX - 1, &id));
    muster_timers_fini(&timers);
}

/* The slow twin is an array of deadlines by id. */
static void random_histories_agree_with_a_table(void **state)
{
    (void)state;
    enum { IDS = 16 };
    int64_t table[IDS];
    muster_timers timers = muster_timers_make();
    muster_rng rng = muster_rng_make(11, 1);
    for (int i = 0; i < IDS; i++) {
        table[i] = MUSTER_TIMER_NEVER;
    }
    for (int round = 0; round < 5000; round++) {
        uint32_t id = (uint32_t)muster_rng_below(&rng, IDS);
        int64_t at = (int64_t)muster_rng_below(&rng, 1000) - 100;
        assert_int_equal(muster_timers_set(&timers, id, at), MUSTER_OK);
        table[id] = at < 0 ? MUSTER_TIMER_NEVER : at;
        int64_t now = (int64_t)muster_rng_below(&rng, 300);
        uint32_t popped = 0;
        int64_t last = -1;
        while (muster_timers_pop(&timers, now, &popped)) {
            assert_true(table[popped] <= now && table[popped] >= last);
            last = table[popped];
            table[popped] = MUSTER_TIMER_NEVER;
        }
        for (int i = 0; i < IDS; i++) {
            assert_true(table[i] > now);
        }
    }
    muster_timers_fini(&timers);
}

static void out_of_memory_is_said(void **state)
{
    (void)state;
    muster_timers timers = muster_timers_make();
    muster_mem_fail_after(0);
    assert_int_equal(muster_timers_set(&timers, 1, 5), MUSTER_ERR_NO_MEMORY);
    muster_mem_fail_after(UINT64_MAX);
    assert_int_equal(muster_timers_set(&timers, 1, 5), MUSTER_OK);
    muster_timers_fini(&timers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(due_timers_come_out_earliest_first),
        cmocka_unit_test(setting_again_moves_and_negative_disarms),
        cmocka_unit_test(random_histories_agree_with_a_table),
        cmocka_unit_test(out_of_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
