/*
 * process_group.c -- see process_group.h.
 *
 * Everything that exec needs is made before fork: between fork and exec the
 * child of a process with threads may only make async-signal-safe calls.
 */
#define _GNU_SOURCE
#include "proc/process_group.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"

#define TERMINATE_NS  (2 * MUSTER_NS_PER_S)
#define KILL_NS       (3 * MUSTER_NS_PER_S) // one in the kernel may not die
#define WAIT_SLICE_NS (50 * MUSTER_NS_PER_MS)

typedef struct member {
    pid_t pid;       // 0: none runs
    bool doomed;     // signalled to end: its end is not logged
    bool clean;      // the last one ended with exit code 0
    bool died;       // the last one died by itself
    uint32_t deaths; // of all that were started in this place
} member;

struct muster_process_group {
    char *program;
    char *noun;
    char **environment; // ended by NULL; strings not owned
    int64_t leave_ns;
    uint32_t count;
    uint32_t edges;
    member *members;
};

/* What a member is called, and its number among those that are. */
static const char *noun_of(const muster_process_group *group, uint32_t process)
{
    return process < group->edges ? "edge" : group->noun;
}

static uint32_t number_of(const muster_process_group *group, uint32_t process)
{
    return process < group->edges ? process : process - group->edges;
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Our own environment, but one BLAS thread: members share the machine. */
static char **make_environment(void)
{
    static char one_thread[] = "OPENBLAS_NUM_THREADS=1";
    size_t count = 0;
    while (environ[count] != NULL) {
        count++;
    }
    char **copy = muster_mem_array(count + 2, sizeof *copy);
    if (copy == NULL) {
        return NULL;
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!starts_with(environ[i], "OPENBLAS_NUM_THREADS=")) {
            copy[kept++] = environ[i];
        }
    }
    copy[kept] = one_thread;
    return copy;
}

muster_status muster_process_group_create(const muster_process_group_opts *opts,
                                          muster_error *error_out,
                                          muster_process_group **group_out)
{
    muster_process_group *group = muster_mem_array(1, sizeof *group);
    if (group == NULL) {
        goto out;
    }
    group->count = opts->count;
    group->edges = opts->edges;
    group->leave_ns = opts->leave_ns;
    group->members = muster_mem_array(opts->count, sizeof(member));
    group->environment = make_environment();
    group->program = muster_mem_string(opts->program);
    group->noun = muster_mem_string(opts->noun);
    if (group->members == NULL || group->environment == NULL ||
        group->program == NULL || group->noun == NULL) {
        goto out_group;
    }
    *group_out = group;
    return MUSTER_OK;

out_group:
    muster_process_group_free(group);
out:
    return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                            "no memory for %u local %ss", opts->count,
                            opts->noun);
}

void muster_process_group_free(muster_process_group *group)
{
    if (group == NULL) {
        return;
    }
    muster_mem_free(group->environment);
    muster_mem_free(group->program);
    muster_mem_free(group->noun);
    muster_mem_free(group->members);
    muster_mem_free(group);
}

/* What is ignored or blocked would stay so after exec. An ignored SIGHUP does:
 * under nohup the members are to outlive the terminal, too. */
static void reset_signals(void)
{
    sigset_t none;
    for (int number = 1; number < NSIG; number++) {
        if (number != SIGHUP) {
            (void)signal(number, SIG_DFL);
        }
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the child, between fork and exec. */
static _Noreturn void become_member(const muster_process_group *group,
                                    char *const *argv, pid_t parent)
{
    static const char failed[] = "muster: cannot start a local process\n";
    (void)setpgid(0, 0);
    reset_signals();
    int quiet = open("/dev/null", O_RDONLY);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
        quiet >= 0 && dup2(quiet, STDIN_FILENO) >= 0 &&
        dup2(STDERR_FILENO, STDOUT_FILENO) >= 0) {
        (void)close_range(3, ~0u, 0);
        (void)execve(group->program, argv, group->environment);
    }
    if (write(STDERR_FILENO, failed, sizeof failed - 1) < 0) {
        _exit(127);
    }
    _exit(127);
}

static muster_status fork_member(muster_process_group *group, uint32_t number,
                                 char *const *argv, muster_error *error_out)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        become_member(group, argv, parent);
    }
    if (pid < 0) {
        int failed = errno;
        char hint[MUSTER_LIMITS_HINT_BYTES];
        return muster_error_set(
            error_out, MUSTER_ERR_SYSTEM, "cannot start %s %u: fork: %s%s",
            noun_of(group, number), number_of(group, number), strerror(failed),
            muster_limits_hint(failed, hint));
    }
    group->members[number] =
        (member){.pid = pid, .deaths = group->members[number].deaths};
    return MUSTER_OK;
}

static bool any_runs(const muster_process_group *group, uint32_t first,
                     uint32_t past)
{
    bool any = false;
    for (uint32_t i = first; i < past; i++) {
        any = any || group->members[i].pid != 0;
    }
    return any;
}

/* Reap until members first..past-1 have ended (true) or the time is over.
 * SIGCHLD is unblocked only inside ppoll, so that none is missed between the
 * look and the wait. */
static bool wait_for_some(muster_process_group *group, uint32_t first,
                          uint32_t past, int64_t limit_ns)
{
    int64_t until_ns = muster_clock_ns() + limit_ns;
    sigset_t child, before;
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    (void)pthread_sigmask(SIG_BLOCK, &child, &before);
    bool running = true;
    for (;;) {
        muster_process_group_reap(group);
        running = any_runs(group, first, past);
        int64_t left = until_ns - muster_clock_ns();
        if (!running || left <= 0) {
            break;
        }
        if (left > WAIT_SLICE_NS) {
            left = WAIT_SLICE_NS; // also when SIGCHLD has no handler
        }
        struct timespec slice = {0, (long)left};
        (void)ppoll(NULL, 0, &slice, &before);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !running;
}

muster_status muster_process_group_spawn(muster_process_group *group,
                                         uint32_t number,
                                         muster_arguments *arguments,
                                         muster_error *error_out)
{
    pid_t before = group->members[number].pid;
    muster_process_group_signal(group, number, SIGKILL);
    if (before != 0 && !wait_for_some(group, number, number + 1, KILL_NS)) {
        return muster_error_set(
            error_out, MUSTER_ERR_SYSTEM,
            "cannot start %s %u again: pid %ld does not end after SIGKILL",
            noun_of(group, number), number_of(group, number), (long)before);
    }
    char *const *texts = muster_arguments_list(arguments);
    size_t count = arguments->texts.count;
    char **argv =
        texts == NULL ? NULL : muster_mem_array(count + 2, sizeof *argv);
    if (argv == NULL) {
        return muster_error_set(
            error_out, MUSTER_ERR_NO_MEMORY, "no memory to start %s %u",
            noun_of(group, number), number_of(group, number));
    }
    argv[0] = group->program;
    memcpy(argv + 1, texts, count * sizeof *argv); // the last stays NULL
    muster_status status = fork_member(group, number, argv, error_out);
    muster_mem_free(argv);
    return status;
}

void muster_process_group_signal(muster_process_group *group, uint32_t number,
                                 int signal_number)
{
    member *one = &group->members[number];
    if (one->pid == 0) {
        return;
    }
    if (signal_number == SIGKILL || signal_number == SIGTERM) {
        one->doomed = true;
    }
    (void)kill(one->pid, signal_number);
}

static void tell_end(const char *noun, uint32_t number, const member *one,
                     int status)
{
    if (one->doomed) {
        return;
    }
    if (WIFSIGNALED(status)) {
        muster_log(MUSTER_LOG_WARN, "%s %u (pid %ld) was ended by %s", noun,
                   number, (long)one->pid, strsignal(WTERMSIG(status)));
    } else if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
        muster_log(MUSTER_LOG_WARN, "%s %u (pid %ld) ended with exit code %d",
                   noun, number, (long)one->pid, WEXITSTATUS(status));
    }
}

static void note_end(member *one, int status)
{
    one->pid = 0;
    one->clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    one->died = !one->doomed &&
                (WIFSIGNALED(status) ||
                 (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE));
    one->deaths += one->died ? 1 : 0;
}

void muster_process_group_reap(muster_process_group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        member *one = &group->members[i];
        int status = 0;
        if (one->pid == 0 || waitpid(one->pid, &status, WNOHANG) != one->pid) {
            continue;
        }
        tell_end(noun_of(group, i), number_of(group, i), one, status);
        note_end(one, status);
    }
}

uint32_t muster_process_group_deaths(const muster_process_group *group,
                                     uint32_t number)
{
    return group->members[number].deaths;
}

bool muster_process_group_has_died(const muster_process_group *group,
                                   uint32_t number)
{
    return group->members[number].died;
}

bool muster_process_group_is_running(const muster_process_group *group,
                                     uint32_t number)
{
    return group->members[number].pid != 0;
}

bool muster_process_group_is_lost(const muster_process_group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        if (group->members[i].pid != 0 || group->members[i].clean) {
            return false;
        }
    }
    return true;
}

static void signal_all(muster_process_group *group, int signal_number)
{
    for (uint32_t i = 0; i < group->count; i++) {
        muster_process_group_signal(group, i, signal_number);
    }
}

static bool wait_for_all(muster_process_group *group, int64_t limit_ns)
{
    return wait_for_some(group, 0, group->count, limit_ns);
}

/* Nobody can end it: say so, and wait for it no longer. */
static void give_up(muster_process_group *group, uint32_t number)
{
    member *one = &group->members[number];
    muster_log(MUSTER_LOG_WARN,
               "%s %u (pid %ld) has not ended %d s after SIGKILL: it is left "
               "to the system",
               noun_of(group, number), number_of(group, number), (long)one->pid,
               (int)(KILL_NS / MUSTER_NS_PER_S));
    one->pid = 0;
}

void muster_process_group_end(muster_process_group *group)
{
    if (group == NULL) {
        return;
    }
    signal_all(group, SIGCONT);
    if (wait_for_all(group, group->leave_ns)) {
        return;
    }
    signal_all(group, SIGTERM);
    if (wait_for_all(group, TERMINATE_NS)) {
        return;
    }
    signal_all(group, SIGKILL);
    if (wait_for_all(group, KILL_NS)) {
        return;
    }
    for (uint32_t i = 0; i < group->count; i++) {
        if (group->members[i].pid != 0) {
            give_up(group, i);
        }
    }
}
