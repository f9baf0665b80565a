/*
 * proc/host_inside.h -- what the files of the host share.
 *
 *   host.c      events in: the net's, the timers', the compute thread's; the
 *               loop host_act.c  actions out
 */
#ifndef MUSTER_PROC_HOST_INSIDE_H
#define MUSTER_PROC_HOST_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "proc/host.h"
#include "proc/timers.h"

/* A connection being made, until it is up or down. */
typedef struct muster_host_dial {
    muster_peer peer;
    uint64_t token;
} muster_host_dial;

/* A send whose end the role wants to know. */
typedef struct muster_host_ticket {
    muster_host *host;
    struct muster_host_ticket *next_free;
    muster_peer peer;
    uint64_t token;
} muster_host_ticket;

/* An event that arose while another was being handled. */
typedef struct muster_host_pending {
    muster_event event;
    char reason[160];
} muster_host_pending;

struct muster_host {
    muster_host_opts opts;
    muster_net *net;
    muster_role role;
    muster_compute *compute;
    muster_compute *evaluator; // or NULL
    muster_timers timers;
    muster_actions actions;
    muster_vec pending; // of muster_host_pending
    size_t pending_next;
    muster_vec dials; // of muster_host_dial
    muster_host_ticket *free_tickets;
    size_t unsent;            // sends whose `done` has not come
    int64_t expelled_told_ns; // when a dropped peer was logged last; 0: never
    uint32_t expelled_untold; // dropped since then
    bool delivering;
    bool stop_given;
    bool stopped;
    muster_status stop_status;
    muster_error stop_error;
    bool failed; // by muster_host_fail
    muster_error failure;
};

/* Carry out one action. What it gave away is no longer the action's. */
void muster_host_act(muster_host *host, muster_action *action);

/* Drop a peer that cannot go on; the role will be told. */
/* Log how many dropped peers were not. */
void muster_host_tell_expelled(muster_host *host);
void muster_host_expel(muster_host *host, muster_peer peer,
                       muster_status status, const char *reason);

/* The token of a connection being made, which is over with this; 0 when there
 * is no such one. */
uint64_t muster_host_take_dial(muster_host *host, muster_peer peer);

#endif // MUSTER_PROC_HOST_INSIDE_H
