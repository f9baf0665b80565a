/*
 * bulk_test.c -- arrays that move from the heap to a file and grow there keep
 * every element; rows beyond the limit are rows as any.
 */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "data/bulk.h"

#define COUNT 700000u // elements: 2.8 MB, a file that is doubled

static void check_array(size_t limit, bool is_mapped)
{
    muster_bulk bulk = muster_bulk_make(sizeof(uint32_t), limit);
    for (uint32_t i = 0; i < COUNT; i += 2) {
        const uint32_t two[] = {3 * i, 3 * (i + 1)};
        assert_true(muster_bulk_append(&bulk, two, 2));
    }
    assert_int_equal(muster_bulk_count(&bulk), COUNT);
    size_t mapped = 1;
    uint32_t *data = muster_bulk_take(&bulk, &mapped);
    assert_int_equal(mapped > 0, is_mapped);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(data[i], 3 * i);
    }
    assert_int_equal(muster_bulk_count(&bulk), 0);
    muster_bulk_free(data, mapped);
    muster_bulk_fini(&bulk);
}

static void elements_survive_the_move_to_a_file(void **state)
{
    (void)state;
    check_array(SIZE_MAX, false);
    check_array(100000, true);
    check_array(0, true);
}

static void without_room_an_array_says_so(void **state)
{
    (void)state;
    assert_int_equal(setenv("TMPDIR", "/proc/none", 1), 0);
    muster_bulk bulk = muster_bulk_make(1, 0);
    assert_false(muster_bulk_append(&bulk, "x", 1));
    muster_bulk_fini(&bulk);
    assert_null(muster_bulk_map(4096));
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

static void a_mapping_is_zero_and_can_be_written(void **state)
{
    (void)state;
    char *map = muster_bulk_map(100000);
    assert_non_null(map);
    assert_int_equal(map[99999], 0);
    map[99999] = 7;
    muster_bulk_free(map, 100000);
    muster_bulk_free(NULL, 0);
}

static void there_is_a_limit(void **state)
{
    (void)state;
    assert_true(muster_bulk_limit() > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_survive_the_move_to_a_file),
        cmocka_unit_test(without_room_an_array_says_so),
        cmocka_unit_test(a_mapping_is_zero_and_can_be_written),
        cmocka_unit_test(there_is_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
