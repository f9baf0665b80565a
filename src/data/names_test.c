/*
 * names_test.c -- texts get numbers in the order they are met and keep them,
 * whatever their bytes, and a failed allocation loses none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "data/names.h"

static size_t write_name(uint32_t i, char *text)
{
    return (size_t)snprintf(text, 32, "/m/%x", i * 2654435761u);
}

static uint32_t add(muster_names *names, uint32_t i)
{
    char text[32];
    size_t length = write_name(i, text);
    return muster_names_add(names, text, length);
}

static void texts_are_numbered_as_they_are_met(void **state)
{
    (void)state;
    enum { COUNT = 50000 };
    muster_names names;
    char text[32];
    muster_names_init(&names);
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            assert_int_equal(add(&names, i), i);
        }
    }
    assert_int_equal(muster_names_count(&names), COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        size_t length = write_name(i, text);
        assert_int_equal(muster_names_find(&names, text, length), i);
        assert_string_equal(muster_names_at(&names, i), text);
    }
    assert_int_equal(muster_names_find(&names, "none", 4), MUSTER_NAMES_NONE);
    assert_null(muster_names_at(&names, COUNT));
    muster_names_fini(&names);
}

static void a_text_is_its_length_and_not_what_follows(void **state)
{
    (void)state;
    muster_names names;
    muster_names_init(&names);
    assert_int_equal(muster_names_find(&names, "a", 1), MUSTER_NAMES_NONE);
    assert_int_equal(muster_names_add(&names, "abc", 1), 0);
    assert_int_equal(muster_names_add(&names, "abc", 2), 1);
    assert_int_equal(muster_names_add(&names, "", 0), 2);
    assert_int_equal(muster_names_add(&names, "a", 1), 0);
    assert_int_equal(muster_names_find(&names, "abc", 3), MUSTER_NAMES_NONE);
    assert_string_equal(muster_names_at(&names, 2), "");
    muster_names_fini(&names);
}

static void a_failed_allocation_loses_no_text(void **state)
{
    (void)state;
    for (uint64_t after = 0; after < 12; after++) {
        muster_names names;
        uint32_t kept = 0;
        muster_names_init(&names);
        muster_mem_fail_after(after);
        while (add(&names, kept) == kept) {
            kept++;
        }
        muster_mem_fail_after(UINT64_MAX);
        assert_int_equal(muster_names_count(&names), kept);
        for (uint32_t i = 0; i < kept + 3; i++) {
            assert_int_equal(add(&names, i), i);
        }
        muster_names_fini(&names);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_numbered_as_they_are_met),
        cmocka_unit_test(a_text_is_its_length_and_not_what_follows),
        cmocka_unit_test(a_failed_allocation_loses_no_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
