/*
 * intent_test.c -- intents begin before they are needed and end after they
 * were, once each, in every order of starts and ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "ps/store/intent.h"

enum { INTENTS = 300, CLOCKS = 1000 };

static muster_intents *make(void)
{
    muster_intents *intents = NULL;
    assert_int_equal(muster_intents_create(&intents), MUSTER_OK);
    return intents;
}

static void add(muster_intents *intents, uint32_t key, uint64_t start,
                uint64_t end)
{
    uint32_t keys[2] = {key, key + 1000};
    muster_intent one = {
        .table = 3, .count = 2, .keys = keys, .start = start, .end = end};
    assert_int_equal(muster_intents_add(intents, &one), MUSTER_OK);
}

static void every_intent_begins_in_time_and_ends_once(void **state)
{
    (void)state;
    muster_rng rng = muster_rng_make(1, 1);
    muster_intents *intents = make();
    uint64_t start[INTENTS];
    uint64_t end[INTENTS];
    int begun[INTENTS] = {0};
    int ended[INTENTS] = {0};
    for (uint32_t i = 0; i < INTENTS; i++) {
        start[i] = muster_rng_below(&rng, CLOCKS);
        end[i] = start[i] + 1 + muster_rng_below(&rng, CLOCKS - start[i]);
        add(intents, i, start[i], end[i]);
    }
    for (uint64_t clock = 0; clock <= CLOCKS; clock += 7) {
        muster_intent due;
        bool begins;
        while (muster_intents_next(intents, clock, &due, &begins)) {
            assert_int_equal(due.table, 3);
            assert_int_equal(due.count, 2);
            assert_int_equal(due.keys[1], due.keys[0] + 1000);
            int *count = begins ? begun : ended;
            assert_int_equal(++count[due.keys[0]], 1);
        }
        muster_intents_round(intents, clock);
        for (uint32_t i = 0; i < INTENTS; i++) {
            assert_true(begun[i] || start[i] > clock);
            assert_int_equal(ended[i], end[i] <= clock);
            assert_true(!ended[i] || begun[i]);
            // Not for nothing either.
            assert_true(!begun[i] || start[i] <= clock + 60);
        }
    }
    muster_intents_free(intents);
}

static void the_reach_follows_the_clock(void **state)
{
    (void)state;
    muster_intents *intents = make();
    uint64_t first = muster_intents_reach(intents);
    assert_in_range(first, 20, 60);
    uint64_t clock = 0;
    for (int i = 0; i < 100; i++) {
        clock += 1000;
        muster_intents_round(intents, clock);
    }
    assert_in_range(muster_intents_reach(intents), 2000, 2400);
    muster_intents_round(intents, clock + 5000); // a leap counts at once
    assert_in_range(muster_intents_reach(intents), 10000, 10500);
    for (int i = 0; i < 200; i++) {
        muster_intents_round(intents, clock + 5000);
    }
    assert_true(muster_intents_reach(intents) <= 2);
    muster_intents_free(intents);
}

static void what_is_abandoned_ends_if_it_had_begun(void **state)
{
    (void)state;
    muster_intents *intents = make();
    add(intents, 1, 0, 10);
    add(intents, 2, 5000, 5001);
    add(intents, 3, 1, 1000000);
    muster_intent due;
    bool begins;
    while (muster_intents_next(intents, 0, &due, &begins)) {
        assert_true(begins && due.keys[0] != 2);
    }
    assert_int_equal(muster_intents_count(intents), 3);
    uint32_t sum = 0;
    while (muster_intents_abandon(intents, &due)) {
        sum += due.keys[0];
    }
    assert_int_equal(sum, 4);
    assert_int_equal(muster_intents_count(intents), 0);
    muster_intents_free(intents);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    uint32_t key = 1;
    muster_intent one = {.count = 1, .keys = &key, .end = 1};
    muster_status status = MUSTER_ERR_NO_MEMORY;
    for (uint64_t n = 0; status == MUSTER_ERR_NO_MEMORY && n < 20; n++) {
        muster_intents *intents = NULL;
        muster_mem_fail_after(n);
        status = muster_intents_create(&intents);
        if (status == MUSTER_OK) {
            status = muster_intents_add(intents, &one);
            assert_int_equal(muster_intents_count(intents),
                             status == MUSTER_OK);
        }
        muster_mem_fail_after(UINT64_MAX);
        assert_true(n > 2 || status == MUSTER_ERR_NO_MEMORY);
        muster_intents_free(intents);
    }
    assert_int_equal(status, MUSTER_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_intent_begins_in_time_and_ends_once),
        cmocka_unit_test(the_reach_follows_the_clock),
        cmocka_unit_test(what_is_abandoned_ends_if_it_had_begun),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
