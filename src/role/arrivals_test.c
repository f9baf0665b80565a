/*
 * arrivals_test.c -- the deadline against figures worked out by hand, and that
 * it neither closes in on itself nor waits for a minority.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "role/arrivals.h"

static void nothing_is_known_before_a_whole_step(void **state)
{
    (void)state;
    muster_arrivals a;
    assert_int_equal(muster_arrivals_init(&a, 4), MUSTER_OK);
    for (int i = 0; i < 3; i++) {
        muster_arrivals_add(&a, 100);
        assert_int_equal(muster_arrivals_deadline_ns(&a), -1);
    }
    muster_arrivals_add(&a, 100);
    assert_int_equal(muster_arrivals_deadline_ns(&a), 100 + 5 * (100 / 16));
    muster_arrivals_fini(&a);
}

static void it_is_the_median_and_five_median_distances(void **state)
{
    (void)state;
    static const int64_t delays[] = {50, 90, 100, 130, 400};
    muster_arrivals a;
    assert_int_equal(muster_arrivals_init(&a, 5), MUSTER_OK);
    for (int i = 0; i < 5; i++) {
        muster_arrivals_add(&a, delays[i]);
    }
    // Distances from 100: 50, 10, 0, 30, 300; their median is 30.
    assert_int_equal(muster_arrivals_deadline_ns(&a), 100 + 5 * 30);
    muster_arrivals_fini(&a);
}

static void those_not_waited_for_count_as_later_than_all(void **state)
{
    (void)state;
    muster_arrivals a;
    assert_int_equal(muster_arrivals_init(&a, 10), MUSTER_OK);
    for (int i = 0; i < 10; i++) {
        muster_arrivals_add(&a, i < 6 ? 1600 : MUSTER_ARRIVAL_NEVER);
    }
    assert_int_equal(muster_arrivals_deadline_ns(&a), 1600 + 5 * 100);
    muster_arrivals_add(&a, MUSTER_ARRIVAL_NEVER);
    muster_arrivals_add(&a, MUSTER_ARRIVAL_NEVER);
    assert_int_equal(muster_arrivals_deadline_ns(&a), -1);
    muster_arrivals_fini(&a);
}

/* Workers alike, each step cut at the deadline that the steps before gave. */
static void it_does_not_close_in_on_itself(void **state)
{
    (void)state;
    enum { WORKERS = 20, STEPS = 2000 };
    muster_arrivals a;
    muster_rng rng = muster_rng_make(1, 1);
    uint64_t cut = 0;
    assert_int_equal(muster_arrivals_init(&a, WORKERS), MUSTER_OK);
    for (int step = 0; step < STEPS; step++) {
        int64_t deadline = muster_arrivals_deadline_ns(&a);
        for (int w = 0; w < WORKERS; w++) {
            int64_t delay =
                1000000 + (int64_t)(1e6 * muster_rng_exponential(&rng));
            bool late = deadline >= 0 && delay > deadline;
            cut += late ? 1 : 0;
            muster_arrivals_add(&a, late ? MUSTER_ARRIVAL_NEVER : delay);
        }
    }
    // Median 1.69 ms and MAD 0.48 ms without cuts: 4 % come after 4.1 ms.
    assert_in_range(cut, WORKERS * STEPS / 100, WORKERS * STEPS / 15);
    muster_arrivals_fini(&a);
}

static void without_memory_it_is_an_error(void **state)
{
    (void)state;
    muster_arrivals a;
    for (uint64_t allowed = 0; allowed < 2; allowed++) {
        muster_mem_fail_after(allowed);
        assert_int_equal(muster_arrivals_init(&a, 4), MUSTER_ERR_NO_MEMORY);
        muster_mem_fail_after(UINT64_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_before_a_whole_step),
        cmocka_unit_test(it_is_the_median_and_five_median_distances),
        cmocka_unit_test(those_not_waited_for_count_as_later_than_all),
        cmocka_unit_test(it_does_not_close_in_on_itself),
        cmocka_unit_test(without_memory_it_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
