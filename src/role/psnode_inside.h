/*
 * role/psnode_inside.h -- a node's state, shared by the files psnode*.c.
 */
#ifndef MUSTER_ROLE_PSNODE_INSIDE_H
#define MUSTER_ROLE_PSNODE_INSIDE_H

#include "ps/heavy.h"
#include "role/psmap.h"
#include "role/psnode.h"

#define MUSTER_PSNODE_NOBODY UINT16_MAX
#define MUSTER_PSNODE_WINDOW 4096u // links remembered to tell duplicates

/* What the home knows of a key. */
typedef struct muster_pshome {
    uint16_t owner;
    uint16_t asker;    // who asked last
    uint32_t asked_ms; // and when
    uint32_t moves;
} muster_pshome;

/* An operation that waits for a row on its way. */
typedef struct muster_pswait {
    uint32_t next; // in the same row's queue; UINT32_MAX ends it
    muster_rowmsg_kind kind;
    muster_rowmsg_op op;
    uint16_t origin;
    uint32_t position;
    uint64_t request;
    muster_blob *blob; // keeps `values` alive; NULL when a worker does
    float *values;
} muster_pswait;

/* A row on its way here. */
typedef struct muster_pscoming {
    uint32_t first; // of the waiting operations
    uint32_t last;
    uint16_t next_owner; // hand it on at once, or NOBODY
    uint32_t next_moves;
    uint32_t free_next;
} muster_pscoming;

/* A copy held here. */
typedef struct muster_pscopy {
    uint64_t place;
    uint32_t base;      // slot of the owner's row as last heard
    bool asked;         // SYNC sent, SYNCED not yet here
    int64_t changed_ns; // when it last had something to send
} muster_pscopy;

/* Entries gathered for one message. */
typedef struct muster_psdraft {
    uint16_t to;
    muster_rowmsg head;
    muster_vec keys;
    muster_vec extra;
    muster_vec values;
} muster_psdraft;

/* What one peer has sent: everything below `next`, and some above. */
typedef struct muster_pslink {
    uint64_t sent; // to it
    uint64_t next;
    uint64_t seen[MUSTER_PSNODE_WINDOW / 64]; // bit link % WINDOW
} muster_pslink;

typedef struct muster_pstally {
    muster_psreq *request; // NULL: free
    uint32_t generation;
} muster_pstally;

struct muster_psnode {
    muster_psnode_opts opts;
    muster_rowshape shapes[MUSTER_PS_TABLES_MAX];
    muster_pshome *homes[MUSTER_PS_TABLES_MAX];
    muster_heavy *asked_for[MUSTER_PS_TABLES_MAX]; // how often, at this home
    muster_pslink *links;
    muster_psmap coming_at;
    muster_vec coming; // muster_pscoming
    uint32_t coming_free;
    muster_vec waits; // muster_pswait
    uint32_t wait_free;
    muster_psmap copy_at;
    muster_vec copies;   // muster_pscopy
    uint32_t asked;      // copies with SYNC under way
    muster_vec requests; // muster_pstally
    uint32_t requests_open;
    muster_vec drafts; // muster_psdraft; the first draft_count are in use
    uint32_t draft_count;
    muster_vec inbox; // muster_rowmsg: what the node says to itself
    int64_t now_ns;
    int64_t due_ns;
    uint32_t barrier_state; // see psnode_barrier.c
    uint64_t barriers;      // this node has asked to pass
    uint32_t *arrived;      // lead: barriers each node has reached
    muster_psnode_counters counters;
    muster_psnode_out *out; // of the step under way
    bool failed;            // out of memory
};

static inline uint64_t muster_psplace(uint32_t table, uint32_t key)
{
    return (uint64_t)table << 32 | key;
}

static inline uint16_t muster_pshome_of(const muster_psnode *node, uint32_t key)
{
    return (uint16_t)(key % node->opts.nodes);
}

static inline muster_pshome *muster_pshome_at(muster_psnode *node,
                                              uint32_t table, uint32_t key)
{
    return &node->homes[table][key / node->opts.nodes];
}

/* The next node on the way to a row's owner: its home, or from there the owner
 * itself. */
static inline uint16_t muster_psnode_towards(muster_psnode *node,
                                             uint32_t table, uint32_t key)
{
    uint16_t home = muster_pshome_of(node, key);
    return home == node->opts.node ? muster_pshome_at(node, table, key)->owner
                                   : home;
}

/* One more entry of the message described by `head`, to be sent at the end of
 * the step. values may be NULL when the kind has none. */
void muster_psdraft_add(muster_psnode *node, uint16_t to,
                        const muster_rowmsg *head, uint32_t key, uint32_t extra,
                        const float *values);
/* A message without entries. */
void muster_psdraft_plain(muster_psnode *node, uint16_t to,
                          const muster_rowmsg *head);
/* Turn drafts into messages. */
void muster_psdraft_flush(muster_psnode *node);
/* True when the message is new; it counts as seen from now on. */
bool muster_pslink_accept(muster_psnode *node, const muster_rowmsg *message);

/* An operation done: tell who asked. `row` is read for pulls. */
void muster_psnode_answer(muster_psnode *node, const muster_rowmsg *head,
                          uint32_t key, uint32_t position, const float *row);
/* Do an operation of a message or a waiter on a row that is held. */
void muster_psnode_apply(muster_psnode *node, const muster_rowmsg *head,
                         uint32_t key, uint32_t position, float *values,
                         float *row);

/* An entry whose row is on its way waits for it. A message's payload is kept
 * as long as its values are needed. */
void muster_pscoming_wait(muster_psnode *node, uint32_t index,
                          const muster_rowmsg *message, uint32_t position,
                          float *values);
/* The row has come to lie in `row`: do all that waits, in order, and forget
 * that it was on its way. With `copy`, what others want goes on to the owner.
 * Returns what is to happen next with the row. */
muster_pscoming muster_pscoming_end(muster_psnode *node, uint32_t table,
                                    uint32_t key, float *row, bool copy);
uint32_t muster_pscoming_find(const muster_psnode *node, uint32_t table,
                              uint32_t key);
/* Ask for a row; it is on its way from now on. */
void muster_pscoming_ask(muster_psnode *node, uint32_t table, uint32_t key,
                         bool copy);

void muster_psnode_on_localize(muster_psnode *node,
                               const muster_rowmsg *message);
void muster_psnode_on_hand_over(muster_psnode *node,
                                const muster_rowmsg *message);
void muster_psnode_on_transfer(muster_psnode *node,
                               const muster_rowmsg *message);
void muster_psnode_on_replica(muster_psnode *node,
                              const muster_rowmsg *message);
void muster_psnode_on_synced(muster_psnode *node, const muster_rowmsg *message);

/* Send what copies have gained; `all`: also ask for those without a change.
 */
void muster_pscopy_sync(muster_psnode *node, bool all);
/* How long to wait between synchronisations. */
int64_t muster_pscopy_period_ns(const muster_psnode *node);

void muster_psnode_on_barrier(muster_psnode *node,
                              const muster_rowmsg *message);
void muster_psnode_on_release(muster_psnode *node,
                              const muster_rowmsg *message);
/* Go on with a barrier when what it waits for has come. */
void muster_psnode_barrier_step(muster_psnode *node);

#endif // MUSTER_ROLE_PSNODE_INSIDE_H
