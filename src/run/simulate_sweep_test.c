/*
 * simulate_sweep_test.c -- what --code stands for: names joined by +, ranges
 * in every place, paths left alone, and what is no range refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "run/simulate_sweep.h"

/* The names that `text` stands for, joined by blanks. */
static void expect(const char *text, const char *names)
{
    char joined[512] = "";
    muster_vec list;
    muster_error error;
    assert_int_equal(muster_sweep_init(text, &error, &list), MUSTER_OK);
    char *const *all = list.data;
    for (size_t i = 0; i < list.count; i++) {
        strncat(joined, i > 0 ? " " : "", sizeof(joined) - strlen(joined) - 1);
        strncat(joined, all[i], sizeof(joined) - strlen(joined) - 1);
    }
    assert_string_equal(joined, names);
    muster_sweep_fini(&list);
}

static void ranges_expand_in_order(void **state)
{
    (void)state;
    expect("uncoded", "uncoded");
    expect("uncoded+frc:s=1..3", "uncoded frc:s=1 frc:s=2 frc:s=3");
    expect("frc:s=9..11+linear:spc", "frc:s=9 frc:s=10 frc:s=11 linear:spc");
    expect("linear:tuned:s=1..2,m=2..3",
           "linear:tuned:s=1,m=2 linear:tuned:s=1,m=3 linear:tuned:s=2,m=2 "
           "linear:tuned:s=2,m=3");
    expect("frc:s=2..2", "frc:s=2");
    expect("linear:file=../1..2", "linear:file=../1..2");
}

static void refuse(const char *text, const char *why)
{
    muster_vec list;
    muster_error error;
    assert_int_equal(muster_sweep_init(text, &error, &list),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, why));
}

static void what_is_no_range_is_refused(void **state)
{
    (void)state;
    refuse("frc:s=3..1", "--code frc:s=3..1: a range is FIRST..LAST");
    refuse("uncoded+frc:s=1..", "a range is FIRST..LAST");
    refuse("frc:s=..3", "a range is FIRST..LAST");
    refuse("frc:s=1..3x", "a range is FIRST..LAST");
    refuse("frc:s=1..99999", "more than 10000 codes");
}

static void memory_that_runs_out_leaves_nothing(void **state)
{
    (void)state;
    muster_status status = MUSTER_ERR_NO_MEMORY;
    for (uint64_t count = 0; status == MUSTER_ERR_NO_MEMORY; count++) {
        muster_vec list = {0};
        muster_error error;
        muster_mem_fail_after(count);
        status = muster_sweep_init("uncoded+frc:s=1..2", &error, &list);
        muster_mem_fail_after(UINT64_MAX);
        muster_sweep_fini(&list);
        assert_true(count < 100);
    }
    assert_int_equal(status, MUSTER_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_expand_in_order),
        cmocka_unit_test(what_is_no_range_is_refused),
        cmocka_unit_test(memory_that_runs_out_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
