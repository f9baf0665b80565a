/*
 * role/gossip.h -- a worker's steps of gossip: own gradient, then the mean of
 * its model and those of its neighbours.
 *
 *   PEERS of the coordinator      who takes part in step t
 *        |
 *   GRADIENT  a step of the worker's own on a batch of its own samples
 *        |
 *   MODEL to the neighbours, MODEL from them
 *        |
 *   MIX       the mean; GRADIENT message to the coordinator: done
 *
 * Neighbours are those beside the worker in the ring of all that take part, or
 * its partners in k random matchings, drawn anew for each step from the seed:
 * who is whose neighbour is the same for all. With k neighbours a mean has
 * k + 1 models, each worker's own in place of those that did not come; so a
 * step without losses leaves the mean of all models where it was.
 *
 * A neighbour is waited for while its connection stands. A fresh worker, which
 * has no model, begins with the mean of its neighbours'.
 *
 *   Ownership    The host of the calls is lent for the gossip's life.
 *   Not here     Membership (member.h), plans and shards (worker.c), the first
 *                step, whose model comes from the coordinator (worker.c).
 */
#ifndef MUSTER_ROLE_GOSSIP_H
#define MUSTER_ROLE_GOSSIP_H

#include <stdbool.h>
#include <stdint.h>

#include "role/member.h"
#include "role/role.h"
#include "wire/peers.h"

typedef struct muster_gossip muster_gossip;

/* What a worker lends. */
typedef struct muster_gossip_host {
    muster_member *member;
    uint64_t *job_ids; // given out so far
    uint32_t *jobs;    // under way
} muster_gossip_host;

/* MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_gossip_create(
    const muster_gossip_host *host, muster_gossip **gossip_out);
/* NULL is allowed and does nothing. */
void muster_gossip_free(muster_gossip *gossip);

/* Another life, or the end: forget model and step; a job is cancelled. */
void muster_gossip_reset(muster_gossip *gossip, muster_actions *actions);
/* The model to go on from, after the step that the coordinator began. */
void muster_gossip_start(muster_gossip *gossip, muster_blob *model);

/* A PEERS message; its plan is one that the worker may compute under. */
void muster_gossip_begin(muster_gossip *gossip, const muster_event *event,
                         muster_actions *actions);
/* News of another worker. */
void muster_gossip_peer_up(muster_gossip *gossip, uint32_t id,
                           muster_actions *actions);
void muster_gossip_peer_down(muster_gossip *gossip, uint32_t id,
                             muster_actions *actions);
void muster_gossip_message(muster_gossip *gossip, uint32_t id,
                           const muster_event *event, muster_actions *actions);
/* A job has ended, not with a failure; false: it is none of these. */
bool muster_gossip_computed(muster_gossip *gossip,
                            const muster_job_result *result,
                            muster_actions *actions);

/* The neighbours of the member at `at` of a step, as positions in the list; a
 * partner drawn twice is there twice, and one that is left over has none. There
 * are at most MUSTER_PARTNERS_MAX or 2; `order` has room for all members. */
uint32_t muster_gossip_neighbours(const muster_peers *peers, uint64_t step,
                                  uint32_t at, uint32_t *order,
                                  uint32_t *neighbours_out);

#endif // MUSTER_ROLE_GOSSIP_H
