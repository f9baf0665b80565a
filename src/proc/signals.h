/*
 * proc/signals.h -- the signals of the process, as flags.
 *
 * SIGINT, SIGTERM and SIGHUP (unless it was ignored, as nohup does) ask for the
 * end, SIGCHLD says that a child may be reaped, SIGPIPE is ignored. Handlers
 * only set flags and wake the net; the network thread asks. A SIGINT or SIGTERM
 * after the first signal does not wait: it removes what was named by
 * muster_signals_remove_at_exit() and exits with 130 at once.
 *
 *   Lifecycle    start; ask; stop (puts back what was there before).
 *   Threads      One verb at a time per process: signals are process-wide, so
 *                this room's one static variable is here.
 */
#ifndef MUSTER_PROC_SIGNALS_H
#define MUSTER_PROC_SIGNALS_H

#include <stdbool.h>

#include "muster/status.h"
#include "net/net.h"
#include "proc/socket_dir.h"

/* MUSTER_ERR_SYSTEM: refused, or already started. */
MUSTER_CHECKED muster_status muster_signals_start(muster_net *net,
                                                  muster_error *error_out);
void muster_signals_stop(void);

/* Somebody asked for the end. */
bool muster_signals_stop_asked(void);

/* A child may have ended since the last call. */
bool muster_signals_child_ended(void);

/* The folder that a second SIGINT or SIGTERM removes before it exits; NULL:
 * none. Kept, not copied. */
void muster_signals_remove_at_exit(const muster_socket_dir *dir);

/* Remove that folder and exit at once. Async-signal-safe. */
_Noreturn void muster_signals_exit(int code);

#endif // MUSTER_PROC_SIGNALS_H
