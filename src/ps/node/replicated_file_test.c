/*
 * replicated_file_test.c -- files of rows to replicate: what they mean, and
 * where they are wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "ps/node/replicated_file.h"

static muster_status read_text(const char *text, muster_error *error,
                               muster_keyset *set)
{
    muster_source *source;
    muster_status status =
        muster_source_open_memory("rows", text, strlen(text), error, &source);
    if (status != MUSTER_OK) {
        return status;
    }
    status = muster_replicated_file_read(source, error, set);
    muster_source_close(source);
    return status;
}

static void lines_name_keys_and_ranges(void **state)
{
    (void)state;
    muster_error error;
    muster_keyset set = {{0}};
    assert_int_equal(
        read_text("# hot rows\n0 7\n\n  1\t3-5 # three\n0 8\n", &error, &set),
        MUSTER_OK);
    assert_int_equal(set.ranges.count, 2);
    assert_true(muster_keyset_has(&set, 0, 7));
    assert_true(muster_keyset_has(&set, 0, 8));
    assert_false(muster_keyset_has(&set, 0, 3));
    assert_true(muster_keyset_has(&set, 1, 3));
    assert_true(muster_keyset_has(&set, 1, 5));
    assert_false(muster_keyset_has(&set, 1, 6));
    muster_keyset_fini(&set);
    assert_int_equal(read_text("", &error, &set), MUSTER_OK);
    assert_int_equal(set.ranges.count, 0);
    muster_keyset_fini(&set);
}

static void a_wrong_line_is_named(void **state)
{
    (void)state;
    static const char *const wrong[] = {"7",
                                        "0",
                                        "x 1",
                                        "0 x",
                                        "0 1 2",
                                        "0 5-3",
                                        "0 -3",
                                        "0 3-",
                                        "16 1",
                                        "0 2147483647",
                                        "0 99999999999999999999999",
                                        "0 1-2-3",
                                        "-1 2",
                                        "0 1,2",
                                        "0\n"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char text[64];
        muster_error error = {.text = ""};
        muster_keyset set = {{0}};
        (void)snprintf(text, sizeof(text), "0 1\n%s", wrong[i]);
        assert_int_equal(read_text(text, &error, &set), MUSTER_ERR_INPUT);
        assert_non_null(strstr(error.text, "rows:2: "));
        assert_int_equal(set.ranges.count, 0);
    }
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    muster_error error = {.text = ""};
    muster_ps *ps = NULL;
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    opts.manage = MUSTER_PS_STATIC;
    assert_int_equal(muster_ps_create(&opts, &error, &ps), MUSTER_ERR_INVALID);
    opts.replicated = "/nowhere/rows";
    assert_int_equal(muster_ps_create(&opts, &error, &ps), MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "/nowhere/rows"));
    opts.manage = MUSTER_PS_AUTO;
    assert_int_equal(muster_ps_create(&opts, &error, &ps), MUSTER_ERR_INVALID);
    assert_null(ps);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    muster_error error;
    muster_status status = MUSTER_ERR_NO_MEMORY;
    for (uint64_t n = 0; status == MUSTER_ERR_NO_MEMORY && n < 20; n++) {
        muster_keyset set = {{0}};
        muster_mem_fail_after(n);
        status = read_text("0 1\n", &error, &set);
        muster_mem_fail_after(UINT64_MAX);
        assert_true(n > 1 || status == MUSTER_ERR_NO_MEMORY);
        muster_keyset_fini(&set);
    }
    assert_int_equal(status, MUSTER_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_name_keys_and_ranges),
        cmocka_unit_test(a_wrong_line_is_named),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
