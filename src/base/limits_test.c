/* limits_test.c -- limits are named by number and by the shell's word. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/limits.h"

static void an_error_names_its_limit(void **state)
{
    (void)state;
    char text[MUSTER_LIMITS_HINT_BYTES];
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = {12345, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_string_equal(
        muster_limits_hint(EFBIG, text),
        " (the limit on the size of files is 12345: `ulimit -f`)");
    assert_int_equal(muster_limits_get(MUSTER_LIMIT_FILE_SIZE), 12345);
    assert_string_equal(muster_limits_hint(EPERM, text), "");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

/* Set a soft limit to `wanted`, or to the hard one below it. Returns it. */
static rlim_t lower(int which, rlim_t wanted, struct rlimit *before_out)
{
    assert_int_equal(getrlimit(which, before_out), 0);
    struct rlimit now = *before_out;
    now.rlim_cur = wanted < now.rlim_max ? wanted : now.rlim_max;
    assert_int_equal(setrlimit(which, &now), 0);
    return now.rlim_cur;
}

/* A thread whose stack does not fit is refused with EAGAIN. */
static void a_thread_may_lack_memory_or_a_place_among_processes(void **state)
{
    (void)state;
    char text[MUSTER_LIMITS_HINT_BYTES];
    char processes[96];
    char data[96];
    struct rlimit processes_before;
    struct rlimit data_before;
    rlim_t few = lower(RLIMIT_NPROC, 23456, &processes_before);
    rlim_t little = lower(RLIMIT_DATA, (rlim_t)1 << 40, &data_before);
    (void)muster_limits_hint(EAGAIN, text);
    assert_int_equal(setrlimit(RLIMIT_NPROC, &processes_before), 0);
    assert_int_equal(setrlimit(RLIMIT_DATA, &data_before), 0);
    (void)snprintf(processes, sizeof(processes),
                   "the limit on processes and threads is %llu: `ulimit -u`",
                   (unsigned long long)few);
    (void)snprintf(data, sizeof(data), "the limit on data is %llu: `ulimit -d`",
                   (unsigned long long)little);
    assert_non_null(strstr(text, processes));
    assert_non_null(strstr(text, data));
}

static void
open_files_are_raised_only_if_wanted_and_as_far_as_allowed(void **state)
{
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit small = {32, 64};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    assert_int_equal(muster_limits_raise_files(32), 32);
    assert_int_equal(muster_limits_raise_files(33), 64);
    assert_int_equal(muster_limits_raise_files(1000), 64);
    (void)setrlimit(RLIMIT_NOFILE, &before); // only root may
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_names_its_limit),
        cmocka_unit_test(a_thread_may_lack_memory_or_a_place_among_processes),
        cmocka_unit_test(
            open_files_are_raised_only_if_wanted_and_as_far_as_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
