/*
 * version_test.c -- a peer of another protocol version, against real processes:
 * a worker that meets such a coordinator is refused with exit code 5 and one
 * line; a coordinator that meets such a worker drops it and goes on.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "muster/version.h"
#include "net/net.h"

#define LIMIT_NS (30 * MUSTER_NS_PER_S)

typedef struct peer_state {
    int ups, downs;
    muster_status status;
} peer_state;

static void on_up(void *context, muster_peer peer, int incoming)
{
    (void)peer;
    (void)incoming;
    ((peer_state *)context)->ups++;
}

static void on_message(void *context, muster_peer peer,
                       const muster_net_message *message)
{
    (void)context;
    (void)peer;
    (void)message;
}

static void on_down(void *context, muster_peer peer, muster_status status,
                    const char *reason)
{
    (void)peer;
    (void)reason;
    ((peer_state *)context)->downs++;
    ((peer_state *)context)->status = status;
}

static muster_net *open_other_version(peer_state *state)
{
    static const muster_net_callbacks callbacks = {
        .on_up = on_up, .on_message = on_message, .on_down = on_down};
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    opts.protocol_version = MUSTER_PROTOCOL_VERSION + 1;
    muster_net *net = NULL;
    assert_int_equal(muster_net_open(&opts, &callbacks, state, NULL, &net),
                     MUSTER_OK);
    return net;
}

/* Start muster with its stderr in a pipe. */
static pid_t start(const char *const *arguments, int *errors_out)
{
    const char *program = getenv("MUSTER_BIN");
    int ends[2];
    assert_non_null(program);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        (void)execv(program, (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    assert_true(pid > 0);
    (void)close(ends[1]);
    *errors_out = ends[0];
    return pid;
}

/* Poll until the process has ended; its exit code. */
static int poll_until_exit(muster_net *net, pid_t pid)
{
    int64_t until_ns = muster_clock_ns() + LIMIT_NS;
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        assert_true(muster_clock_ns() < until_ns);
        assert_int_equal(muster_net_poll(net, 10 * MUSTER_NS_PER_MS),
                         MUSTER_OK);
    }
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static size_t read_all(int fd, char *text, size_t size)
{
    size_t used = 0;
    ssize_t got = 0;
    while (used < size - 1 &&
           (got = read(fd, text + used, size - 1 - used)) > 0) {
        used += (size_t)got;
    }
    text[used] = '\0';
    (void)close(fd);
    return used;
}

static void a_worker_is_refused_by_another_version(void **state)
{
    (void)state;
    peer_state seen = {0};
    muster_net *net = open_other_version(&seen);
    char wanted[64], address[MUSTER_NET_ADDRESS_MAX], text[2048];
    (void)snprintf(wanted, sizeof wanted, "unix:@muster-version-test-%ld",
                   (long)getpid());
    assert_int_equal(muster_net_listen(net, wanted, NULL, address), MUSTER_OK);
    const char *const arguments[] = {"muster",     "join", address,
                                     "--patience", "20s",  NULL};
    int errors = -1;
    pid_t pid = start(arguments, &errors);
    assert_int_equal(poll_until_exit(net, pid), 5);
    assert_true(read_all(errors, text, sizeof text) > 0);
    assert_non_null(strstr(text, "muster: "));
    assert_non_null(strstr(text, "version"));
    assert_int_equal(seen.ups, 0);
    muster_net_close(net);
}

/* Read lines until one contains `wanted`; what follows it is copied. */
static void wait_for_line(int fd, const char *wanted, char *rest, size_t size)
{
    char text[8192];
    size_t used = 0;
    const char *found = NULL;
    while (found == NULL || strchr(found, '\n') == NULL) {
        ssize_t got = read(fd, text + used, sizeof text - 1 - used);
        assert_true(got > 0);
        used += (size_t)got;
        text[used] = '\0';
        found = strstr(text, wanted);
    }
    (void)snprintf(rest, size, "%.*s", (int)strcspn(found, "\n"), found);
}

static void a_coordinator_refuses_a_worker_of_another_version(void **state)
{
    (void)state;
    const char *const arguments[] = {
        "muster",    "train",
        "--data",    "synthetic:samples=200,features=4,classes=2",
        "--listen",  "127.0.0.1:0",
        "--steps",   "3",
        "--workers", "1",
        NULL};
    int errors = -1;
    char line[256], address[MUSTER_NET_ADDRESS_MAX], program[256];
    pid_t coordinator = start(arguments, &errors);
    wait_for_line(errors, "tcp:127.0.0.1:", line, sizeof line);
    (void)snprintf(address, sizeof address, "%.*s", (int)strcspn(line, " "),
                   line);

    peer_state seen = {0};
    muster_net *net = open_other_version(&seen);
    muster_peer peer = 0;
    assert_int_equal(muster_net_connect(net, address, NULL, &peer), MUSTER_OK);
    int64_t until_ns = muster_clock_ns() + LIMIT_NS;
    while (seen.downs == 0) {
        assert_true(muster_clock_ns() < until_ns);
        assert_int_equal(muster_net_poll(net, 10 * MUSTER_NS_PER_MS),
                         MUSTER_OK);
    }
    assert_int_equal(seen.ups, 0);
    assert_int_equal(seen.status, MUSTER_ERR_REFUSED);

    // A worker of the right version still finds its place.
    (void)snprintf(program, sizeof program, "%s", address);
    const char *const join[] = {"muster", "join", program, NULL};
    int worker_errors = -1;
    pid_t worker = start(join, &worker_errors);
    assert_int_equal(poll_until_exit(net, worker), 0);
    assert_int_equal(poll_until_exit(net, coordinator), 0);
    (void)close(errors);
    (void)close(worker_errors);
    muster_net_close(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_is_refused_by_another_version),
        cmocka_unit_test(a_coordinator_refuses_a_worker_of_another_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
