/*
 * scale_run.c -- one run of `muster train`, and a node of it that stops now and
 * then: SIGSTOP and, after a tenth of a second, SIGCONT, once a second.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#include "scale.h"

enum { STOP_MS = 100, GO_MS = 900, POLL_MS = 20 };

typedef struct stopper {
    pid_t run;
    _Atomic bool ended;
} stopper;

static void sleep_ms(unsigned ms)
{
    (void)usleep(ms * 1000);
}

/* The last child of a process; 0: it has none. */
static pid_t last_child(pid_t of)
{
    char path[64];
    char text[4096] = {0};
    pid_t last = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)of,
                   (int)of);
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        (void)fclose(file);
    }
    for (char *at = text, *end; (end = strchr(at, ' ')) != NULL; at = end + 1) {
        last = (pid_t)strtol(at, NULL, 10);
    }
    return last;
}

/* The last node of a run: `timeout` has one child, node 0, whose children are
 * the others. 0: it is not there. */
static pid_t last_node(pid_t run)
{
    pid_t lead = last_child(run);
    return lead > 0 ? last_child(lead) : 0;
}

static void *stop_now_and_then(void *argument)
{
    stopper *s = argument;
    int64_t next = muster_clock_ns() + GO_MS * 1000000ll;
    while (!atomic_load(&s->ended)) {
        pid_t node = muster_clock_ns() < next ? 0 : last_node(s->run);
        if (node > 0 && kill(node, SIGSTOP) == 0) {
            sleep_ms(STOP_MS);
            (void)kill(node, SIGCONT);
            next = muster_clock_ns() + GO_MS * 1000000ll;
        }
        sleep_ms(POLL_MS);
    }
    return NULL;
}

/* Start a shell that becomes the command, its output in a pipe. */
static pid_t start(const char *command, int *output_out)
{
    int ends[2];
    pid_t pid = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
    if (pid < 0) {
        perror("muster-bench-scale");
        exit(1);
    }
    if (pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    (void)close(ends[1]);
    *output_out = ends[0];
    return pid;
}

/* The first line of what a run writes, and close it. */
static void read_line(int output, char *line_out, size_t bytes)
{
    FILE *file = fdopen(output, "r");
    if (file == NULL || fgets(line_out, (int)bytes, file) == NULL) {
        line_out[0] = '\0';
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

bool scale_run_apart(const char *command, uint32_t count,
                     void (*take)(void *context, const char *line),
                     void *context)
{
    pid_t pids[SCALE_APART_MAX];
    int outputs[SCALE_APART_MAX];
    char line[16384];
    bool good = true;
    for (uint32_t i = 0; i < count; i++) {
        pids[i] = start(command, &outputs[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        int ended = -1;
        read_line(outputs[i], line, sizeof(line));
        take(context, line);
        (void)waitpid(pids[i], &ended, 0);
        good = good && ended == 0;
    }
    return good;
}

bool scale_run(const char *command, bool stops, char *line_out, size_t bytes)
{
    int output;
    int ended = -1;
    pthread_t id;
    stopper s = {.run = start(command, &output)};
    bool stopping =
        stops && pthread_create(&id, NULL, stop_now_and_then, &s) == 0;
    read_line(output, line_out, bytes);
    atomic_store(&s.ended, true);
    if (stopping) {
        (void)pthread_join(id, NULL);
    }
    (void)waitpid(s.run, &ended, 0);
    return ended == 0;
}
