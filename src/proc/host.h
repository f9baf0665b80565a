/*
 * proc/host.h -- a role in a real process: sockets, threads and clocks.
 *
 * The host feeds one role with events and carries out its actions, over one
 * muster_net on the calling thread and one compute thread, or a second one for
 * evaluations. Messages become bytes here and nowhere else.
 *
 *     muster_host_open(&opts, &error, &host);
 *     muster_net_listen(muster_host_net(host), ...);
 *     executor made with muster_host_alloc(host), role made with its model
 *     muster_host_run(host, &work, &error);     // until the role stops
 *     muster_host_close(host);                  // after the executor is freed
 *
 *   Promise      Events reach the role one at a time, and the actions of one
 *                are carried out before the next. A peer whose bytes are not a
 *                message, or whose queue is full, is dropped and named. After
 *                the role's STOP, what it had sent is flushed, for at most a
 *                quarter of a second; then the compute threads are gone and
 *                run returns.
 *   Ownership    Role and engine are lent for the run.
 *   Threads      The caller's is the network thread.
 *   Allocation   A steady step allocates nothing.
 */
#ifndef MUSTER_PROC_HOST_H
#define MUSTER_PROC_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "job/executor.h"
#include "muster/status.h"
#include "net/net.h"
#include "proc/compute.h"
#include "role/role.h"

typedef struct muster_host muster_host;

typedef struct muster_host_opts {
    muster_net_opts net;
    /* What the role reports; may be NULL. */
    void (*on_report)(void *context, const muster_report *report);
    /* Called before every wait. Returns true to give the role a STOP event
     * (asked again and again: it is given once). May move *wait_until_ns
     * (INT64_MAX: no limit of its own) nearer. May be NULL. */
    bool (*on_turn)(void *context, int64_t now_ns, int64_t *wait_until_ns);
    void *context;
} muster_host_opts;

/* What a run is made of. */
typedef struct muster_host_work {
    muster_role role;
    muster_compute_engine engine;
    muster_compute_engine evaluator; // EVALUATE, on a thread of its own; with
                                     // self NULL: `engine` has these too
    muster_slowness slowness;
    uint32_t queue_max; // jobs under way at once
} muster_host_work;

MUSTER_CHECKED muster_status muster_host_open(const muster_host_opts *opts,
                                              muster_error *error_out,
                                              muster_host **host_out);
void muster_host_close(muster_host *host);

muster_net *muster_host_net(muster_host *host);

/* Where the executor's outputs live: buffers of the host's net. */
muster_executor_alloc muster_host_alloc(muster_host *host);

/* Run the role from START to its STOP action, whose status is returned, its
 * reason in error_out when it is a failure. */
MUSTER_CHECKED muster_status muster_host_run(muster_host *host,
                                             const muster_host_work *work,
                                             muster_error *error_out);

/* Fail the run from a report or turn callback (a full disk): the role gets a
 * STOP event, and run returns `status` with `text`. The first failure wins. */
void muster_host_fail(muster_host *host, const muster_error *error);

#endif // MUSTER_PROC_HOST_H
