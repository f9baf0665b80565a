/*
 * balance_test.c -- sizes follow the speeds, with a fixed cost and without.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "role/balance.h"

#define WORKERS 4u
#define SHARDS  256u

static const double speeds[WORKERS] = {1, 2, 3, 4};

static void even(uint32_t *first)
{
    for (uint32_t i = 0; i <= WORKERS; i++) {
        first[i] = i * SHARDS / WORKERS;
    }
}

/* `steps` answers of each worker, in ms: fixed + shards / speed / 4. */
static void answer(muster_balance *balance, const uint32_t *first,
                   double fixed_ms, int steps)
{
    for (int step = 0; step < steps; step++) {
        for (uint32_t i = 0; i < WORKERS; i++) {
            double size = first[i + 1] - first[i];
            double ms = fixed_ms + size / speeds[i] / 4;
            muster_balance_time(balance, i,
                                (int64_t)(ms * (double)MUSTER_NS_PER_MS));
        }
    }
}

static void sizes_follow_the_speeds(void **state)
{
    (void)state;
    muster_balance *balance = NULL;
    uint32_t first[WORKERS + 1], next[WORKERS + 1];
    assert_int_equal(muster_balance_create(WORKERS, SHARDS, &balance),
                     MUSTER_OK);
    even(first);
    // The first is left out, and four of the fastest's take 16 ms.
    answer(balance, first, 0, 5);
    assert_false(muster_balance_next(balance, first, next));
    answer(balance, first, 0, 1);
    assert_true(muster_balance_next(balance, first, next));
    static const uint32_t wanted[] = {0, 25, 76, 153, 256};
    assert_memory_equal(next, wanted, sizeof(wanted));
    assert_true(muster_balance_speed(balance, 3) >
                3.9 * muster_balance_speed(balance, 0));
    // None is asked for before this one is in force, and none after it.
    assert_false(muster_balance_next(balance, first, next));
    muster_balance_adopted(balance);
    answer(balance, wanted, 0, 40);
    assert_false(muster_balance_next(balance, wanted, next));
    muster_balance_free(balance);
}

/* Sizes that an earlier life had measured are not moved by four answers. */
static void a_resumed_map_takes_more_answers(void **state)
{
    (void)state;
    muster_balance *balance = NULL;
    uint32_t first[WORKERS + 1], next[WORKERS + 1];
    assert_int_equal(muster_balance_create(WORKERS, SHARDS, &balance),
                     MUSTER_OK);
    muster_balance_resume(balance);
    even(first);
    answer(balance, first, 0, 6);
    assert_false(muster_balance_next(balance, first, next));
    answer(balance, first, 6, 40); // a gain that is seen twice counts
    assert_false(muster_balance_next(balance, first, next));
    answer(balance, first, 6, 40);
    assert_true(muster_balance_next(balance, first, next));
    muster_balance_free(balance);
}

/* The first map is soon there; what corrects it is measured for longer. */
static void the_second_map_takes_more_answers(void **state)
{
    (void)state;
    muster_balance *balance = NULL;
    uint32_t first[WORKERS + 1], next[WORKERS + 1];
    assert_int_equal(muster_balance_create(WORKERS, SHARDS, &balance),
                     MUSTER_OK);
    even(first);
    answer(balance, first, 6, 6);
    assert_true(muster_balance_next(balance, first, next));
    muster_balance_adopted(balance);
    even(first); // as if nothing had moved: another map is worth it
    answer(balance, first, 6, 16);
    assert_false(muster_balance_next(balance, first, next));
    answer(balance, first, 6, 1);
    assert_true(muster_balance_next(balance, first, next));
    muster_balance_free(balance);
}

static void a_fixed_cost_is_found_by_the_second_size(void **state)
{
    (void)state;
    const double fixed_ms = 6;
    muster_balance *balance = NULL;
    uint32_t first[WORKERS + 1], next[WORKERS + 1];
    assert_int_equal(muster_balance_create(WORKERS, SHARDS, &balance),
                     MUSTER_OK);
    even(first);
    for (int move = 0; move < 3; move++) {
        answer(balance, first, fixed_ms, 40);
        if (!muster_balance_next(balance, first, next)) {
            break;
        }
        for (uint32_t i = 0; i <= WORKERS; i++) {
            first[i] = next[i];
        }
        muster_balance_adopted(balance);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        double size = first[i + 1] - first[i];
        double ms = fixed_ms + size / speeds[i] / 4;
        assert_true(ms > 11.5 && ms < 13.5); // 6 + 25.6 / 4 = 12.4 for all
    }
    muster_balance_free(balance);
}

/* Answers with even sizes: `slow` takes so many ms, the others 100. */
static bool next_of(muster_balance *balance, uint32_t slow, int slow_ms,
                    uint32_t *next)
{
    uint32_t first[WORKERS + 1];
    even(first);
    for (int step = 0; step < 40; step++) {
        for (uint32_t i = 0; i < WORKERS; i++) {
            muster_balance_time(balance, i,
                                (i == slow ? slow_ms : 100) * MUSTER_NS_PER_MS);
        }
    }
    return muster_balance_next(balance, first, next);
}

/* Worker 0 is 30 % slower than the others. With the best sizes a step takes
 * 106.25 ms, and 24 shards move; 18 are enough for 107.8 ms. */
static void later_fewer_shards_move(void **state)
{
    (void)state;
    muster_balance *balance = NULL;
    uint32_t first[WORKERS + 1], next[WORKERS + 1];
    assert_int_equal(muster_balance_create(WORKERS, SHARDS, &balance),
                     MUSTER_OK);
    even(first);
    for (uint32_t move = 0; move < 3; move++) {
        assert_true(next_of(balance, move, 200, next));
        muster_balance_adopted(balance);
    }
    assert_false(next_of(balance, 0, 110, next)); // less than a tenth
    assert_false(next_of(balance, 0, 110, next));
    assert_false(next_of(balance, 0, 130, next)); // seen once
    assert_true(next_of(balance, 0, 130, next));
    uint32_t moved = 0;
    for (uint32_t i = 0; i < WORKERS; i++) {
        double size = next[i + 1] - next[i];
        assert_true((i == 0 ? 130 : 100) * size / 64 <= 1.02 * 106.25);
        moved += (uint32_t)abs((int)first[i + 1] - (int)next[i + 1]);
    }
    assert_int_equal(moved, 18);
    muster_balance_free(balance);
}

static void everybody_keeps_a_shard(void **state)
{
    (void)state;
    muster_balance *balance = NULL;
    const uint32_t first[] = {0, 2, 4, 6};
    uint32_t next[4];
    assert_int_equal(muster_balance_create(3, 6, &balance), MUSTER_OK);
    for (int step = 0; step < 20; step++) {
        muster_balance_time(balance, 0, 1000 * MUSTER_NS_PER_MS);
        muster_balance_time(balance, 1, 1000 * MUSTER_NS_PER_MS);
        muster_balance_time(balance, 2, 10 * MUSTER_NS_PER_MS);
    }
    assert_true(muster_balance_next(balance, first, next));
    static const uint32_t wanted[] = {0, 1, 2, 6};
    assert_memory_equal(next, wanted, sizeof(wanted));
    muster_balance_free(balance);
    for (uint64_t left = 0; left < 3; left++) {
        muster_mem_fail_after(left);
        muster_status status = muster_balance_create(3, 6, &balance);
        muster_mem_fail_after(UINT64_MAX);
        assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_follow_the_speeds),
        cmocka_unit_test(a_resumed_map_takes_more_answers),
        cmocka_unit_test(the_second_map_takes_more_answers),
        cmocka_unit_test(a_fixed_cost_is_found_by_the_second_size),
        cmocka_unit_test(later_fewer_shards_move),
        cmocka_unit_test(everybody_keeps_a_shard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
