/*
 * run/sparse_stall.h -- worker threads of a sparse run that stand still.
 *
 * A worker thread stands still when it has work, waits neither for another node
 * nor at a barrier, and uses no CPU time. It may compute for long between two
 * accesses to rows, so that these cannot be counted instead. The node tells the
 * lead by heartbeats for how long its worst thread has stood still
 * (ps/protocol/membership.c).
 *
 *   Lifecycle    init before the node connects, fini after it is freed: the
 *                driver of the mesh looks at the threads in between.
 *   Threads      begin: the worker thread. look: the driver. The rest: the
 *                thread that watches the run.
 */
#ifndef MUSTER_RUN_SPARSE_STALL_H
#define MUSTER_RUN_SPARSE_STALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "muster/ps.h"
#include "muster/status.h"

typedef struct muster_stall_thread {
    // The worker thread writes, the driver reads.
    _Atomic bool works;
    _Atomic uint32_t slot; // of its worker
    _Atomic int cpu;       // clockid_t: the clock of its CPU time
    // Only the driver.
    int64_t cpu_ns;   // at the last look
    int64_t still_ns; // for so long no CPU time was used
    bool told;        // that it stands still
} muster_stall_thread;

typedef struct muster_stall_watch {
    const muster_ps *ps;
    muster_stall_thread *threads;
    uint32_t count;
    int64_t limit_ns;  // from here on a thread is named
    int64_t looked_ns; // the last look, or init
    _Atomic uint64_t looks;
    // Only the thread that calls driver_stalls:
    uint64_t looks_seen;
    int64_t unseen_ns;  // for so long there was no new one
    int64_t checked_ns; // its last call, or init
} muster_stall_watch;

/* MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_stall_init(muster_stall_watch *watch,
                                               const muster_ps *ps,
                                               uint32_t threads);
/* A zeroed one is allowed. */
void muster_stall_fini(muster_stall_watch *watch);

/* The calling thread begins to work with a worker; and it has been joined. Up
 * to then a thread that does not reach its end stands still. */
void muster_stall_begin(muster_stall_watch *watch, uint32_t thread,
                        const muster_ps_worker *worker);
void muster_stall_end(muster_stall_watch *watch, uint32_t thread);

/* For how many ms the worst thread has stood still; at the limit it is logged.
 * Between two looks the whole process may have been paused: of that time a
 * quarter of the limit counts at most. */
uint64_t muster_stall_look(muster_stall_watch *watch, int64_t now_ns);

/* The driver itself stands still: it has not looked for as long as a node may
 * stand still. For a thread of the node that calls this all the time; of the
 * time between two calls a quarter of the limit counts at most. */
bool muster_stall_driver_stalls(muster_stall_watch *watch, int64_t now_ns);

#endif // MUSTER_RUN_SPARSE_STALL_H
