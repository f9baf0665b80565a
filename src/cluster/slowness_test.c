/*
 * slowness_test.c -- until when a worker sleeps that is made slow on purpose.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cluster/slowness.h"

#define MS MUSTER_NS_PER_MS

static const muster_delay_work work = {
    .share = 1, .message = 1, .compute_ns = 5 * MS};

static int64_t until(const muster_slowness *slowness, int64_t start_ns,
                     int64_t now_ns)
{
    return muster_slowness_until_ns(slowness, 0, &work, start_ns, now_ns);
}

static void a_factor_counts_from_when_the_work_was_given(void **state)
{
    (void)state;
    muster_slowness slow = MUSTER_SLOWNESS_NONE;
    slow.factor = 10;
    assert_int_equal(until(&slow, 100 * MS, 105 * MS), 150 * MS);
    // It waited for a core, for some or for all of the sleep.
    assert_int_equal(until(&slow, 100 * MS, 130 * MS), 150 * MS);
    assert_int_equal(until(&slow, 100 * MS, 170 * MS), 170 * MS);
}

static void a_large_factor_sleeps_before_the_work(void **state)
{
    (void)state;
    muster_slowness_change change = {7, -1, 3};
    muster_slowness slow = MUSTER_SLOWNESS_NONE;
    slow.factor = 9;
    slow.sleep_ns = 20 * MS;
    slow.changes = &change;
    slow.change_count = 1;
    assert_int_equal(muster_slowness_before_ns(&slow, 6, 5 * MS), 15 * MS);
    assert_int_equal(muster_slowness_before_ns(&slow, 6, 0), 0);
    assert_int_equal(muster_slowness_before_ns(&slow, 7, 4 * MS), 1 * MS);
}

static void a_time_counts_from_when_the_work_was_done(void **state)
{
    (void)state;
    muster_slowness slow = MUSTER_SLOWNESS_NONE;
    slow.sleep_ns = 20 * MS;
    assert_int_equal(until(&slow, 100 * MS, 105 * MS), 125 * MS);
    assert_int_equal(until(&slow, 100 * MS, 170 * MS), 190 * MS);
}

static void who_is_not_slow_does_not_sleep(void **state)
{
    (void)state;
    muster_slowness none = MUSTER_SLOWNESS_NONE;
    assert_int_equal(until(&none, 100 * MS, 105 * MS), 105 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_factor_counts_from_when_the_work_was_given),
        cmocka_unit_test(a_large_factor_sleeps_before_the_work),
        cmocka_unit_test(a_time_counts_from_when_the_work_was_done),
        cmocka_unit_test(who_is_not_slow_does_not_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
