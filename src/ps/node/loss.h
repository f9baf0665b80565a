/*
 * ps/node/loss.h -- what a run adds to muster_ps_opts.survive: a checkpoint
 * that is opened first, news, a count of updates, and others in the place of
 * lost nodes.
 *
 *   Threads      prepared, restore, updates and news are called by whoever
 *                drives the mesh, the network thread or a worker that waits:
 *                one at a time. stopped is, by the one that connects.
 */
#ifndef MUSTER_PS_NODE_LOSS_H
#define MUSTER_PS_NODE_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/ps.h"
#include "ps/protocol/protocol.h"

typedef struct muster_loss_hooks {
    bool joins;                      // takes the place of a node that was lost
    bool (*prepared)(void *context); // see ps/protocol/protocol.h
    bool (*restore)(void *context, uint32_t table, uint32_t key, float *row);
    uint64_t (*updates)(void *context);
    void (*news)(void *context, const muster_membership_news *news);
    bool (*stopped)(void); // wait no longer for other nodes; NULL: never
    void *context;
} muster_loss_hooks;

/* Before the tables are added; its `restore` is in place of the options'. */
void muster_ps_set_loss_hooks(muster_ps *ps, const muster_loss_hooks *loss);

/* Nodes that met at the last barrier, one bit each. */
uint64_t muster_ps_barrier_members(const muster_ps *ps);

/* The lead: take in a node that stands ready to replace a lost one; `note` is
 * for it. False: none is ready, or it was lost on its way in. */
bool muster_ps_admit(muster_ps *ps, uint32_t note);
/* The node taken in: what the lead noted. */
uint32_t muster_ps_admit_note(const muster_ps *ps);

/* This node ends in the middle of the work: the others are told so when it is
 * freed, and need not wait for it. */
void muster_ps_abandon(muster_ps *ps);

#endif // MUSTER_PS_NODE_LOSS_H
