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
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"

#define GO_BY_ITSELF_NS  (500 * MUSTER_NS_PER_MS)
#define GO_WHEN_ASKED_NS (2 * MUSTER_NS_PER_S)
#define WAIT_SLICE_NS    (50 * MUSTER_NS_PER_MS)

typedef struct member {
    pid_t pid;   // 0: none runs
    bool doomed; // killed on purpose: no surprise when it ends
    bool clean;  // the last one ended with exit code 0
} member;

struct muster_process_group {
    char *program;
    char **arguments;   // argv, ended by NULL; [WORKER_AT] is `number`
    char number[16];    // of the worker that is being started
    char **environment; // ended by NULL; strings not owned
    uint32_t count;
    member *members;
};

/* program join ADDRESS --worker W ... */
enum { WORKER_AT = 4, FIXED_ARGUMENTS = 5 };

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Our own environment, but one BLAS thread: workers share the machine. */
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

static bool copy_arguments(const muster_process_group_opts *opts,
                           muster_process_group *group)
{
    const char *const fixed[FIXED_ARGUMENTS] = {opts->program, "join",
                                                opts->address, "--worker", ""};
    size_t extra = 0;
    while (opts->arguments != NULL && opts->arguments[extra] != NULL) {
        extra++;
    }
    size_t count = FIXED_ARGUMENTS + extra;
    group->arguments = muster_mem_array(count + 1, sizeof *group->arguments);
    for (size_t i = 0; group->arguments != NULL && i < count; i++) {
        const char *text = i < FIXED_ARGUMENTS
                               ? fixed[i]
                               : opts->arguments[i - FIXED_ARGUMENTS];
        group->arguments[i] =
            i == WORKER_AT ? group->number : muster_mem_string(text);
        if (group->arguments[i] == NULL) {
            return false;
        }
    }
    return group->arguments != NULL;
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
    group->members = muster_mem_array(opts->count, sizeof(member));
    group->environment = make_environment();
    group->program = muster_mem_string(opts->program);
    if (group->members == NULL || group->environment == NULL ||
        group->program == NULL || !copy_arguments(opts, group)) {
        goto out_group;
    }
    *group_out = group;
    return MUSTER_OK;

out_group:
    muster_process_group_free(group);
out:
    return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                            "no memory for %u local workers", opts->count);
}

void muster_process_group_free(muster_process_group *group)
{
    if (group == NULL) {
        return;
    }
    for (size_t i = 0; group->arguments != NULL && group->arguments[i] != NULL;
         i++) {
        if (i != WORKER_AT) {
            muster_mem_free(group->arguments[i]);
        }
    }
    muster_mem_free(group->arguments);
    muster_mem_free(group->environment);
    muster_mem_free(group->program);
    muster_mem_free(group->members);
    muster_mem_free(group);
}

/* In the child, between fork and exec. */
static _Noreturn void become_worker(const muster_process_group *group,
                                    pid_t parent)
{
    static const char failed[] = "muster: cannot start a local worker\n";
    sigset_t none;
    (void)sigemptyset(&none);
    (void)setpgid(0, 0);
    // Handlers fall to their defaults at exec; what is ignored would stay so.
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    int quiet = open("/dev/null", O_RDONLY);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
        quiet >= 0 && dup2(quiet, STDIN_FILENO) >= 0 &&
        dup2(STDERR_FILENO, STDOUT_FILENO) >= 0) {
        (void)close_range(3, ~0u, 0);
        (void)execve(group->program, group->arguments, group->environment);
    }
    if (write(STDERR_FILENO, failed, sizeof failed - 1) < 0) {
        _exit(127);
    }
    _exit(127);
}

muster_status muster_process_group_spawn(muster_process_group *group,
                                         uint32_t worker,
                                         muster_error *error_out)
{
    if (group->members[worker].pid != 0) {
        muster_process_group_signal(group, worker, SIGKILL);
        (void)waitpid(group->members[worker].pid, NULL, 0);
        group->members[worker].pid = 0;
    }
    (void)snprintf(group->number, sizeof group->number, "%u", worker);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        become_worker(group, parent);
    }
    if (pid < 0) {
        return muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                "cannot start worker %u: fork: %s", worker,
                                strerror(errno));
    }
    group->members[worker] = (member){.pid = pid};
    return MUSTER_OK;
}

void muster_process_group_signal(muster_process_group *group, uint32_t worker,
                                 int number)
{
    member *one = &group->members[worker];
    if (one->pid == 0) {
        return;
    }
    if (number == SIGKILL || number == SIGTERM) {
        one->doomed = true;
    }
    (void)kill(one->pid, number);
}

static void tell_end(uint32_t worker, const member *one, int status)
{
    if (WIFSIGNALED(status) && !one->doomed) {
        muster_log(MUSTER_LOG_WARN, "worker %u (pid %ld) was ended by %s",
                   worker, (long)one->pid, strsignal(WTERMSIG(status)));
    } else if (WIFEXITED(status) && WEXITSTATUS(status) != 0 && !one->doomed) {
        muster_log(MUSTER_LOG_WARN,
                   "worker %u (pid %ld) ended with exit code"
                   " %d",
                   worker, (long)one->pid, WEXITSTATUS(status));
    }
}

void muster_process_group_reap(muster_process_group *group)
{
    for (uint32_t w = 0; w < group->count; w++) {
        member *one = &group->members[w];
        int status = 0;
        if (one->pid == 0 || waitpid(one->pid, &status, WNOHANG) != one->pid) {
            continue;
        }
        tell_end(w, one, status);
        one->pid = 0;
        one->clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
}

uint32_t muster_process_group_alive(const muster_process_group *group)
{
    uint32_t alive = 0;
    for (uint32_t w = 0; w < group->count; w++) {
        alive += group->members[w].pid != 0;
    }
    return alive;
}

bool muster_process_group_is_lost(const muster_process_group *group)
{
    for (uint32_t w = 0; w < group->count; w++) {
        if (group->members[w].pid != 0 || group->members[w].clean) {
            return false;
        }
    }
    return true;
}

static void signal_all(muster_process_group *group, int number)
{
    for (uint32_t w = 0; w < group->count; w++) {
        muster_process_group_signal(group, w, number);
    }
}

/* Reap until all are gone (true) or the time is over. SIGCHLD is let in only
 * while we wait, so that none slips by between looking and waiting. */
static bool wait_for_all(muster_process_group *group, int64_t limit_ns)
{
    int64_t until_ns = muster_clock_ns() + limit_ns;
    sigset_t child, before;
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    (void)pthread_sigmask(SIG_BLOCK, &child, &before);
    bool gone = false;
    for (;;) {
        muster_process_group_reap(group);
        gone = muster_process_group_alive(group) == 0;
        int64_t left = until_ns - muster_clock_ns();
        if (gone || left <= 0) {
            break;
        }
        if (left > WAIT_SLICE_NS) {
            left = WAIT_SLICE_NS; // also when SIGCHLD has no handler
        }
        struct timespec slice = {0, (long)left};
        (void)ppoll(NULL, 0, &slice, &before);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return gone;
}

void muster_process_group_end(muster_process_group *group)
{
    if (group == NULL) {
        return;
    }
    signal_all(group, SIGCONT);
    if (wait_for_all(group, GO_BY_ITSELF_NS)) {
        return;
    }
    signal_all(group, SIGTERM);
    if (wait_for_all(group, GO_WHEN_ASKED_NS)) {
        return;
    }
    signal_all(group, SIGKILL);
    for (uint32_t w = 0; w < group->count; w++) {
        if (group->members[w].pid != 0) {
            (void)waitpid(group->members[w].pid, NULL, 0);
        }
        group->members[w].pid = 0;
    }
}
