/*
 * process_group_test.c -- what a member is started with: its arguments, its
 * descriptors, its signals; and how members end. Members are shells.
 */
#define _GNU_SOURCE
#include "proc/process_group.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

#define LONG_NS (60 * MUSTER_NS_PER_S)

/* In place of the C library's: a process that waits inside the kernel does not
 * end by any signal, and this is as good. */
static bool kill_does_nothing;

int kill(pid_t pid, int number)
{
    return kill_does_nothing ? 0 : (int)syscall(SYS_kill, pid, number);
}

static muster_process_group *make_group(uint32_t count, int64_t leave_ns)
{
    muster_process_group *group = NULL;
    muster_process_group_opts opts = {.program = "/bin/sh",
                                      .noun = "worker",
                                      .count = count,
                                      .leave_ns = leave_ns};
    assert_int_equal(muster_process_group_create(&opts, NULL, &group),
                     MUSTER_OK);
    return group;
}

/* sh -c SCRIPT sh ARGUMENT */
static void spawn(muster_process_group *group, uint32_t number,
                  const char *script, const char *argument)
{
    muster_arguments arguments = muster_arguments_make();
    muster_arguments_add_option(&arguments, "-c", script);
    muster_arguments_add_option(&arguments, "sh", argument);
    assert_int_equal(
        muster_process_group_spawn(group, number, &arguments, NULL), MUSTER_OK);
    muster_arguments_fini(&arguments);
}

static void read_file(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t got = fread(text, 1, size - 1, file);
    text[got] = '\0';
    (void)fclose(file);
}

static unsigned long long status_mask(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    assert_non_null(at);
    return strtoull(at + strlen(name), NULL, 16);
}

/* The parent ignores and blocks signals and has descriptors open that exec
 * would hand on: the member has none of that. */
static void a_member_begins_with_a_clean_process(void **state)
{
    (void)state;
    char path[] = "/tmp/muster-group-test-XXXXXX";
    char text[4096];
    int out = mkstemp(path);
    int leaked = fcntl(out, F_DUPFD, 57); // without O_CLOEXEC
    assert_true(leaked >= 0);
    sigset_t blocked, before;
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGUSR1);
    (void)sigprocmask(SIG_BLOCK, &blocked, &before);
    void (*pipe_before)(int) = signal(SIGPIPE, SIG_IGN);
    void (*term_before)(int) = signal(SIGTERM, SIG_IGN);

    muster_process_group *group = make_group(1, LONG_NS);
    spawn(group, 0,
          "echo fds $(ls /proc/$$/fd) end > \"$1\"; "
          "echo blas $OPENBLAS_NUM_THREADS >> \"$1\"; "
          "exec cat /proc/self/status >> \"$1\"",
          path);
    muster_process_group_end(group);
    muster_process_group_free(group);

    (void)signal(SIGPIPE, pipe_before);
    (void)signal(SIGTERM, term_before);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    (void)close(leaked);
    (void)close(out);
    read_file(path, text, sizeof text);
    assert_int_equal(unlink(path), 0);
    char name[16];
    (void)snprintf(name, sizeof name, " %d ", leaked);
    assert_non_null(strstr(text, " 2 ")); // stderr stays
    assert_null(strstr(text, name));
    assert_int_equal(status_mask(text, "SigBlk:"), 0);
    // What is between the standard and the real-time signals is the C
    // library's: nobody can reset it, and a parent may have it ignored.
    unsigned long long ours = ~0ull << (SIGRTMIN - 1) | ((1ull << 31) - 1);
    assert_int_equal(status_mask(text, "SigIgn:") & ours, 0);
    assert_non_null(strstr(text, "blas 1\n"));
}

static void members_that_do_not_leave_are_ended(void **state)
{
    (void)state;
    muster_process_group *group = make_group(3, 10 * MUSTER_NS_PER_MS);
    spawn(group, 0, "exec sleep 1000", "");
    spawn(group, 2, "kill -STOP $$; exec sleep 1000", "");
    assert_true(muster_process_group_is_running(group, 0));
    assert_false(muster_process_group_is_running(group, 1));
    muster_process_group_end(group);
    for (uint32_t i = 0; i < 3; i++) {
        assert_false(muster_process_group_is_running(group, i));
    }
    assert_true(muster_process_group_is_lost(group));
    muster_process_group_free(group);
}

static void a_member_that_left_by_itself_is_not_lost(void **state)
{
    (void)state;
    muster_process_group *group = make_group(2, LONG_NS);
    spawn(group, 0, "exit 0", "");
    spawn(group, 1, "exit 3", "");
    muster_process_group_end(group);
    assert_false(muster_process_group_is_lost(group));
    spawn(group, 0, "exit 1", ""); // in the place of the first
    muster_process_group_end(group);
    assert_true(muster_process_group_is_lost(group));
    muster_process_group_free(group);
}

/* A crash and exit code 1 are deaths; an end that was asked for, an end in
 * order and an exit code that names a reason are not. */
static void deaths_of_a_members_own_are_counted(void **state)
{
    (void)state;
    static const char *const ends[] = {"exit 0", "exit 1", "exit 5",
                                       "kill -USR1 $$", "exec sleep 1000"};
    static const bool died[] = {false, true, false, true, false};
    muster_process_group *group = make_group(5, LONG_NS);
    for (uint32_t i = 0; i < 5; i++) {
        spawn(group, i, ends[i], "");
    }
    muster_process_group_signal(group, 4, SIGKILL);
    muster_process_group_end(group);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(muster_process_group_has_died(group, i), died[i]);
        assert_int_equal(muster_process_group_deaths(group, i), died[i]);
    }
    spawn(group, 1, "exit 1", "");
    assert_false(muster_process_group_has_died(group, 1));
    muster_process_group_end(group);
    assert_true(muster_process_group_has_died(group, 1));
    assert_int_equal(muster_process_group_deaths(group, 1), 2);
    muster_process_group_free(group);
}

/* Without a limit to the wait for it this would not return. */
static void a_member_that_cannot_be_killed_holds_nobody_up(void **state)
{
    (void)state;
    char path[] = "/tmp/muster-group-test-XXXXXX";
    char text[32];
    int out = mkstemp(path);
    muster_process_group *group = make_group(1, MUSTER_NS_PER_MS);
    spawn(group, 0, "echo $$ > \"$1\"; exec sleep 1000", path);
    do {
        read_file(path, text, sizeof text);
    } while (strchr(text, '\n') == NULL);
    kill_does_nothing = true;
    muster_process_group_end(group);
    kill_does_nothing = false;
    assert_false(muster_process_group_is_running(group, 0));
    pid_t pid = (pid_t)strtol(text, NULL, 10);
    assert_int_equal(kill(pid, SIGKILL), 0); // it was still there
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    muster_process_group_free(group);
    (void)close(out);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_begins_with_a_clean_process),
        cmocka_unit_test(members_that_do_not_leave_are_ended),
        cmocka_unit_test(a_member_that_left_by_itself_is_not_lost),
        cmocka_unit_test(deaths_of_a_members_own_are_counted),
        cmocka_unit_test(a_member_that_cannot_be_killed_holds_nobody_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
