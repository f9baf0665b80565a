/*
 * needs_test.c -- a limit that is too low is named before a run starts, with
 * its value and what is needed.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "run/needs.h"

static void refused(const muster_needs *needs, const char *text)
{
    muster_error error = {.text = ""};
    assert_int_equal(muster_needs_check(needs, &error), MUSTER_ERR_SYSTEM);
    if (strstr(error.text, text) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", error.text, text);
    }
}

static void what_there_is_suffices(void **state)
{
    (void)state;
    const muster_needs needs = {.files = 3,
                                .processes = 1,
                                .folder = "/tmp",
                                .file_bytes = 1,
                                .disk_bytes = 1};
    assert_int_equal(muster_needs_check(&needs, NULL), MUSTER_OK);
    assert_int_equal(muster_needs_check(&(muster_needs){0}, NULL), MUSTER_OK);
}

static void too_few_open_files_are_named(void **state)
{
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit soft = {20, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &soft), 0);
    const muster_needs some = {.files = 30};
    assert_int_equal(muster_needs_check(&some, NULL), MUSTER_OK); // raised
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    const muster_needs more = {.files = UINT64_MAX};
    refused(&more, "open files, and the limit is ");
    refused(&more, "ulimit -n");
}

static void too_few_processes_are_named(void **state)
{
    (void)state;
    if (geteuid() == 0) {
        print_message("not checked: the limit does not hold for root\n");
        return;
    }
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NPROC, &before), 0);
    struct rlimit few = {1000, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NPROC, &few), 0);
    refused(&(muster_needs){.processes = 1000},
            "this run needs 1000 processes and threads more");
    assert_int_equal(setrlimit(RLIMIT_NPROC, &before), 0);
}

static void a_disk_that_is_too_small_is_named(void **state)
{
    (void)state;
    refused(&(muster_needs){.folder = "/tmp", .disk_bytes = UINT64_MAX},
            "/tmp: checkpoints and model of this run need 18014398509481983 kB,"
            " and the disk has ");
}

static void files_that_must_not_grow_are_named(void **state)
{
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = {64 << 10, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    refused(&(muster_needs){.folder = "/tmp", .file_bytes = 1 << 20},
            "/tmp: a checkpoint of this run has 1024 kB, and files are limited "
            "to 64 kB: raise it (`ulimit -f`)");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_there_is_suffices),
        cmocka_unit_test(too_few_open_files_are_named),
        cmocka_unit_test(too_few_processes_are_named),
        cmocka_unit_test(a_disk_that_is_too_small_is_named),
        cmocka_unit_test(files_that_must_not_grow_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
