/*
 * freeze_thread.c -- stops one thread of a process, and only that one, until
 * the process ends: as a thread does that hangs in the kernel.
 *
 * Usage: freeze_thread PID NAME: the first thread of that name (comm). Prints
 * "frozen TID" and stays. Exit code 77: this system does not allow it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

enum { TEXT = 64, SKIP = 77 };

static int is_named(const char *pid, const char *thread, const char *name)
{
    char path[3 * TEXT];
    char comm[TEXT] = "";
    snprintf(path, sizeof(path), "/proc/%.20s/task/%.20s/comm", pid, thread);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    (void)!fgets(comm, sizeof(comm), file);
    (void)fclose(file);
    comm[strcspn(comm, "\n")] = '\0';
    return strcmp(comm, name) == 0;
}

/* The thread's number, or 0. */
static pid_t find_thread(const char *pid, const char *name)
{
    char path[TEXT];
    pid_t found = 0;
    snprintf(path, sizeof(path), "/proc/%.20s/task", pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL) {
        return 0;
    }
    for (const struct dirent *e; found == 0 && (e = readdir(tasks)) != NULL;) {
        if (is_named(pid, e->d_name, name)) {
            found = (pid_t)strtol(e->d_name, NULL, 10);
        }
    }
    (void)closedir(tasks);
    return found;
}

/* Threads come and go: the one that was found may have ended. */
static pid_t freeze(const char *pid, const char *name)
{
    for (int tries = 0; tries < 100000; tries++) {
        pid_t thread = find_thread(pid, name);
        if (thread == 0) {
            continue;
        }
        if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0) {
            if (errno == EPERM) {
                exit(SKIP);
            }
            continue;
        }
        int status = 0;
        if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0 &&
            waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status)) {
            return thread;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    pid_t thread = argc == 3 ? freeze(argv[1], argv[2]) : 0;
    if (thread == 0) {
        fprintf(stderr, "usage: freeze_thread PID NAME; or no such thread\n");
        return EXIT_FAILURE;
    }
    printf("frozen %ld\n", (long)thread);
    (void)fflush(stdout);
    int status = 0;
    while (waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status)) {
    }
    return EXIT_SUCCESS;
}
