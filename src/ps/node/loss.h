/*
 * ps/node/loss.h -- what a run adds to muster_ps_opts.survive: rows restored
 * from its checkpoint, news of the members, a count of updates, and nodes that
 * take the place of lost ones.
 *
 *   Threads      prepared, restore, updates, stalled_ms and news are called by
 *                the driver of the mesh, the network thread or a worker that
 *                waits: by one thread at a time. stopped is called by the
 *                thread that connects.
 */
#ifndef MUSTER_PS_NODE_LOSS_H
#define MUSTER_PS_NODE_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/ps.h"
#include "ps/protocol/protocol.h"

typedef struct muster_loss_hooks {
    bool joins; // this node takes the place of a lost one
    // See ps/protocol/protocol.h:
    bool (*prepared)(void *context);
    bool (*restore)(void *context, uint32_t table, uint32_t key, float *row);
    uint64_t (*updates)(void *context);
    uint64_t (*stalled_ms)(void *context);
    void (*news)(void *context, const muster_membership_news *news);
    bool (*stopped)(void); // wait no longer for other nodes; NULL: never
    // While nodes meet, on the thread that connects: a node whose process is
    // known to have ended, or 0. NULL: nobody knows.
    uint32_t (*ended)(void *context);
    void *context;
} muster_loss_hooks;

/* Before the tables are added; hooks->restore replaces the options'. */
void muster_ps_set_loss_hooks(muster_ps *ps, const muster_loss_hooks *hooks);

/* A node whose stalled_ms() says so much is lost. */
int64_t muster_ps_stall_ns(const muster_ps *ps);

/* Nodes that took part in the last barrier, one bit each. */
uint64_t muster_ps_barrier_members(const muster_ps *ps);

/* The lead: admit a node that is ready to replace a lost one; the node gets
 * `note`. False: none is ready, or it was lost while it was admitted. */
bool muster_ps_admit(muster_ps *ps, uint32_t note);
/* The admitted node: the lead's note. */
uint32_t muster_ps_admit_note(muster_ps *ps);

/* This node ends in the middle of the work. The other nodes are told so when it
 * is freed, and do not wait for it. */
void muster_ps_abandon(muster_ps *ps);

#endif // MUSTER_PS_NODE_LOSS_H
