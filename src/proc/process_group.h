/*
 * proc/process_group.h -- processes of our own on this machine: the workers of
 * `--local` and the nodes of `--nodes`.
 *
 * A group has members 0..count-1; a member is started by exec of the muster
 * program with arguments that the caller gives. Members die when the process
 * that started them dies, however that happens (PR_SET_PDEATHSIG), and none
 * that can be killed is left when muster_process_group_end() returns.
 *
 * Each is the leader of its own process group, so that Ctrl-C on the terminal
 * reaches the starting process alone, which then ends its members. A member
 * inherits stderr and no other descriptor: stdin is empty, stdout is stderr.
 * No signal is blocked and none is ignored, but for SIGHUP under nohup. It uses
 * one BLAS thread.
 *
 *   Lifecycle    create; spawn; signal and reap; end; free.
 *   Threads      The one that spawned: a member dies with that thread.
 */
#ifndef MUSTER_PROC_PROCESS_GROUP_H
#define MUSTER_PROC_PROCESS_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/status.h"
#include "proc/arguments.h"

typedef struct muster_process_group muster_process_group;

typedef struct muster_process_group_opts {
    const char *program; // path of the muster command
    const char *noun;    // what a member is called in log lines: "worker"
    uint32_t count;
    uint32_t edges;   // the first so many are edges, and the noun's numbers
                      // begin after them; 0: there are none
    int64_t leave_ns; // how long end() waits before it sends SIGTERM
} muster_process_group_opts;

/* Everything is copied. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_process_group_create(
    const muster_process_group_opts *opts, muster_error *error_out,
    muster_process_group **group_out);
/* After muster_process_group_end(). NULL is fine. */
void muster_process_group_free(muster_process_group *group);

/* Start the process of a member as `program ARGUMENTS`; one that still runs is
 * killed first. MUSTER_ERR_SYSTEM (also when that one does not end),
 * MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_process_group_spawn(
    muster_process_group *group, uint32_t member, muster_arguments *arguments,
    muster_error *error_out);

/* Send a signal to a member. The end that SIGKILL or SIGTERM brings is not
 * logged. Nothing happens to a member that has ended. */
void muster_process_group_signal(muster_process_group *group, uint32_t member,
                                 int number);

/* Collect the exit codes of members that have ended; one that was killed by a
 * signal, or whose exit code is not 0, is logged. */
void muster_process_group_reap(muster_process_group *group);

/* Does the member's process run (or stand still)? As of the last reap. */
bool muster_process_group_is_running(const muster_process_group *group,
                                     uint32_t member);

/* How often did the member die by itself: by a signal that was not sent here,
 * or with exit code 1? Other codes say what would be the same again. */
uint32_t muster_process_group_deaths(const muster_process_group *group,
                                     uint32_t member);

/* Is none running because the last one died by itself? */
bool muster_process_group_has_died(const muster_process_group *group,
                                   uint32_t member);

/* Have all members ended, and none of them with exit code 0? */
bool muster_process_group_is_lost(const muster_process_group *group);

/* End all: SIGCONT, wait for leave_ns, SIGTERM, wait for two seconds, SIGKILL,
 * wait for three: one that the system cannot end is named and left to it.
 * NULL is fine. */
void muster_process_group_end(muster_process_group *group);

#endif // MUSTER_PROC_PROCESS_GROUP_H
