/*
 * keyset_test.c -- the set against a plain array of flags.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "ps/store/keyset.h"

enum { TABLES = 3, KEYS = 60 };

static void a_set_has_what_was_added(void **state)
{
    (void)state;
    muster_rng rng = muster_rng_make(5, 5);
    for (int round = 0; round < 300; round++) {
        bool twin[TABLES][KEYS] = {{0}};
        muster_keyset set = muster_keyset_make();
        uint64_t count = muster_rng_below(&rng, 12);
        for (uint64_t i = 0; i < count; i++) {
            muster_keyrange range;
            range.table = (uint32_t)muster_rng_below(&rng, TABLES);
            range.first = (uint32_t)muster_rng_below(&rng, KEYS);
            range.last = range.first + (uint32_t)muster_rng_below(
                                           &rng, (KEYS - range.first + 7) / 8);
            assert_int_equal(muster_keyset_add(&set, range), MUSTER_OK);
            for (uint32_t k = range.first; k <= range.last; k++) {
                twin[range.table][k] = true;
            }
        }
        muster_keyset_seal(&set);
        for (uint32_t t = 0; t < TABLES; t++) {
            for (uint32_t k = 0; k < KEYS; k++) {
                assert_int_equal(muster_keyset_has(&set, t, k), twin[t][k]);
            }
        }
        assert_false(muster_keyset_has(&set, TABLES, 0));
        const muster_keyrange *ranges = set.ranges.data;
        for (size_t i = 1; i < set.ranges.count; i++) {
            assert_true(ranges[i].table > ranges[i - 1].table ||
                        ranges[i].first > ranges[i - 1].last + 1);
        }
        muster_keyset_fini(&set);
    }
}

static void the_ends_of_the_numbers_are_no_exception(void **state)
{
    (void)state;
    muster_keyset set = muster_keyset_make();
    assert_int_equal(
        muster_keyset_add(&set, (muster_keyrange){1, 7, UINT32_MAX}),
        MUSTER_OK);
    assert_int_equal(muster_keyset_add(&set, (muster_keyrange){1, 9, 9}),
                     MUSTER_OK);
    assert_int_equal(muster_keyset_add(&set, (muster_keyrange){0, 0, 0}),
                     MUSTER_OK);
    muster_keyset_seal(&set);
    assert_int_equal(set.ranges.count, 2);
    assert_true(muster_keyset_has(&set, 1, UINT32_MAX));
    assert_true(muster_keyset_has(&set, 0, 0));
    assert_false(muster_keyset_has(&set, 0, 1));
    assert_false(muster_keyset_has(&set, 1, 6));
    muster_keyset_fini(&set);
    muster_keyset none = {{0}};
    muster_keyset_seal(&none);
    assert_false(muster_keyset_has(&none, 0, 0));
    muster_keyset_fini(&none);
}

static void running_out_of_memory_is_reported(void **state)
{
    (void)state;
    muster_keyset set = muster_keyset_make();
    muster_mem_fail_after(0);
    muster_status status = muster_keyset_add(&set, (muster_keyrange){0, 1, 2});
    muster_mem_fail_after(UINT64_MAX);
    assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
    muster_keyset_fini(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_has_what_was_added),
        cmocka_unit_test(the_ends_of_the_numbers_are_no_exception),
        cmocka_unit_test(running_out_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
