/*
 * signals.c -- see signals.h.
 *
 * Everything a handler touches is lock-free atomic, and everything it calls is
 * async-signal-safe (write inside muster_net_wake, unlinkat, rmdir, _exit).
 */
#define _POSIX_C_SOURCE 200809L
#include "proc/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

enum { SIGNAL_COUNT = 5 };

static const int signal_numbers[SIGNAL_COUNT] = {SIGINT, SIGTERM, SIGHUP,
                                                 SIGCHLD, SIGPIPE};

static struct {
    _Atomic(muster_net *) net; // NULL when not started
    _Atomic bool stop;
    _Atomic bool child;
    _Atomic(const muster_socket_dir *) dir;
    struct sigaction before[SIGNAL_COUNT];
} signals;

static void wake(void)
{
    muster_net *net = atomic_load(&signals.net);
    if (net != NULL) {
        muster_net_wake(net);
    }
}

_Noreturn void muster_signals_exit(int code)
{
    const muster_socket_dir *dir = atomic_load(&signals.dir);
    if (dir != NULL) {
        muster_socket_dir_remove(dir);
    }
    _exit(code);
}

static void on_stop(int number)
{
    (void)number;
    int before = errno;
    if (atomic_exchange(&signals.stop, true)) {
        muster_signals_exit(130);
    }
    wake();
    errno = before;
}

/* A closed terminal sends SIGHUP twice, once by the kernel and once by the
 * shell: the second one must not cut the first one's checkpoint short. */
static void on_hangup(int number)
{
    (void)number;
    int before = errno;
    atomic_store(&signals.stop, true);
    wake();
    errno = before;
}

static void on_child(int number)
{
    (void)number;
    int before = errno;
    atomic_store(&signals.child, true);
    wake();
    errno = before;
}

static void put_back(int count)
{
    for (int i = 0; i < count; i++) {
        (void)sigaction(signal_numbers[i], &signals.before[i], NULL);
    }
}

muster_status muster_signals_start(muster_net *net, muster_error *error_out)
{
    void (*const handlers[SIGNAL_COUNT])(int) = {on_stop, on_stop, on_hangup,
                                                 on_child, SIG_IGN};
    muster_net *none = NULL;
    if (!atomic_compare_exchange_strong(&signals.net, &none, net)) {
        return muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                "another run owns this process's signals");
    }
    atomic_store(&signals.stop, false);
    atomic_store(&signals.child, false);
    for (int i = 0; i < SIGNAL_COUNT; i++) {
        struct sigaction action = {.sa_handler = handlers[i]};
        action.sa_flags = SA_RESTART;
        (void)sigemptyset(&action.sa_mask);
        if (sigaction(signal_numbers[i], &action, &signals.before[i]) != 0) {
            put_back(i);
            atomic_store(&signals.net, NULL);
            return muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                    "cannot catch signal %d: %s",
                                    signal_numbers[i], strerror(errno));
        }
        // Under nohup the process is to outlive the terminal.
        if (signal_numbers[i] == SIGHUP &&
            signals.before[i].sa_handler == SIG_IGN) {
            (void)sigaction(SIGHUP, &signals.before[i], NULL);
        }
    }
    return MUSTER_OK;
}

void muster_signals_stop(void)
{
    if (atomic_load(&signals.net) == NULL) {
        return;
    }
    put_back(SIGNAL_COUNT);
    atomic_store(&signals.net, NULL);
    muster_signals_remove_at_exit(NULL);
}

bool muster_signals_stop_asked(void)
{
    return atomic_load(&signals.stop);
}

bool muster_signals_child_ended(void)
{
    return atomic_exchange(&signals.child, false);
}

void muster_signals_remove_at_exit(const muster_socket_dir *dir)
{
    atomic_store(&signals.dir, dir);
}
