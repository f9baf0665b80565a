/*
 * proc/process_group.h -- the local workers: processes of our own.
 *
 * A group is the set of worker processes that a coordinator started with --local
 * on this machine, by exec of the muster program with `join ADDRESS --worker
 * W`. They belong to the coordinator: they die when it dies, however that
 * happens (PR_SET_PDEATHSIG), and none is left when muster_process_group_end() returns.
 *
 * Each is the leader of its own process group, so that Ctrl-C on the terminal
 * reaches the coordinator alone, which then ends them in good order. They use
 * one BLAS thread each, write nothing to stdout, and read nothing.
 *
 *   Lifecycle    create; spawn; signal and reap; end; free.
 *   Threads      The one that spawned: a child dies with that thread.
 */
#ifndef MUSTER_PROC_PROCESS_GROUP_H
#define MUSTER_PROC_PROCESS_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/status.h"

typedef struct muster_process_group muster_process_group;

typedef struct muster_process_group_opts {
    const char *program;          // path of the muster command
    const char *address;          // where the coordinator listens
    uint32_t count;               // worker numbers 0..count-1
    const char *const *arguments; // further ones of join, ended by NULL
} muster_process_group_opts;

/* Everything is copied. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_process_group_create(
    const muster_process_group_opts *opts, muster_error *error_out,
    muster_process_group **group_out);
/* After muster_process_group_end(). */
void muster_process_group_free(muster_process_group *group);

/* Start the process of `worker`; one that still runs is killed first. */
MUSTER_CHECKED muster_status muster_process_group_spawn(
    muster_process_group *group, uint32_t worker, muster_error *error_out);

/* SIGKILL, SIGSTOP or SIGCONT to a worker, as asked by the user: its end is
 * then no surprise. One that has ended is left alone. */
void muster_process_group_signal(muster_process_group *group, uint32_t worker,
                                 int number);

/* Take leave of those that have ended; a surprising end is logged with its
 * exit code or signal. */
void muster_process_group_reap(muster_process_group *group);

/* How many run (or are stopped). */
uint32_t muster_process_group_alive(const muster_process_group *group);

/* Has every one of them died? (Those told to go end with exit code 0.) */
bool muster_process_group_is_lost(const muster_process_group *group);

/* End all: wake those stopped, give each a moment to go by itself, ask with
 * SIGTERM, insist with SIGKILL. Takes at most about three seconds. */
void muster_process_group_end(muster_process_group *group);

#endif // MUSTER_PROC_PROCESS_GROUP_H
