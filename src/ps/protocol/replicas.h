/*
 * ps/protocol/replicas.h -- the replicas of one node: what is known of each,
 * and when they are synchronised.
 *
 *   replica.c  replicas come, are synchronised and go
 *   budget.c   how often a replica may be written, and how much of a delta
 *              counts
 *   sweep.c    when replicas are synchronised
 */
#ifndef MUSTER_PS_PROTOCOL_REPLICAS_H
#define MUSTER_PS_PROTOCOL_REPLICAS_H

#include "base/map.h"
#include "ps/protocol/protocol.h"
#include "ps/store/delta.h"

typedef struct muster_replica {
    muster_rowref ref;
    uint32_t base_slot;      // the owner's row plus all deltas sent since
    uint32_t others_slot;    // what others had changed when that row came, or
                             // NONE where nobody measures it
    bool syncing;            // SYNC sent, SYNCED not yet received
    bool asked;              // in the sweep's list
    bool unwanted;           // its intents have ended: drop it when clean
    int64_t changed_ns;      // when it last had a delta to send
    int64_t used_ns;         // when a worker last said that it will use it
    int64_t received_ns;     // when the owner's row last came
    uint32_t budget;         // writes allowed until the owner's row comes
    uint32_t unsent_writes;  // of earlier budgets, in no SYNC yet
    uint32_t synced_writes;  // that the last SYNC contains
    uint32_t counted_writes; // of the current budget when it was sent
    uint32_t all_writes;     // of all SYNCs; it stops at 2^31
    // budget.c:
    float others_norm2; // squared norm of what others had changed; or 0
    float unsent_along; // product of that and the delta when it came
    float undone;       // share of it that a later write undid, weighed
    float precision;    // the weights of these
} muster_replica;

/* When replicas are synchronised: sweep.c. */
typedef struct muster_sweep {
    uint32_t next;        // index of the replica whose turn is next
    bool changed;         // one of this turn was changed here
    uint32_t idle_turns;  // in a row that found no change
    uint32_t pace;        // 1, 2, 4 or 8: the larger the slower
    int64_t wake_late_ns; // how late the driver's thread wakes, about
    int64_t tick_late_ns; // how late ticks come
    int64_t turn_ns;      // when the turn began
    int64_t looked_ns;    // when replicas last had their turn
    int64_t due_ns;       // when the next ones have
    muster_vec asked;     // muster_rowref: synchronise them at ask_due_ns
    int64_t ask_due_ns;
    int64_t asked_ns; // when the last of them were synchronised
} muster_sweep;

typedef struct muster_replicas {
    muster_map index; // row reference to index in `all`
    muster_vec all;   // muster_replica
    uint64_t bytes;   // of their rows
    uint32_t syncing; // how many have a SYNC under way
    muster_sweep sweep;
} muster_replicas;

/* ---- replica.c ----------------------------------------------------------- */

void muster_protocol_on_replica(muster_protocol *node,
                                const muster_rowmsg *message);
void muster_protocol_on_synced(muster_protocol *node,
                               const muster_rowmsg *message);
/* Send SYNC for a replica, unless one is under way. Without `all` only when it
 * has a delta. */
void muster_replica_sync_one(muster_protocol *node, uint32_t index, bool all);
/* The same, or drop the replica if nobody wants it. False: it was dropped, and
 * another replica has its index. */
bool muster_replica_look_at(muster_protocol *node, uint32_t index, bool all);
/* Was it changed here since the sweep's turn began? */
bool muster_replica_has_changed(const muster_protocol *node, uint32_t index);
/* The replica of a row, if there is one, is spent: request the owner's row. */
void muster_replica_refresh(muster_protocol *node, uint32_t table,
                            uint32_t key);
/* The replica of a row, if there is one, will be used: it is not dropped
 * soon. */
void muster_replica_touch(muster_protocol *node, uint32_t table, uint32_t key);
/* Set whether the replica of a row, if there is one, is still wanted. */
void muster_replica_keep(muster_protocol *node, muster_rowref ref, bool wanted);
/* The replica becomes the row: this node owns it now. */
void muster_replica_adopt(muster_protocol *node, uint32_t table, uint32_t key);
/* No SYNCED will come any more for the SYNCs under way. */
void muster_replica_forget_syncs(muster_protocol *node);
uint32_t muster_replica_age_ms(const muster_protocol *node,
                               const muster_replica *replica);

/* ---- budget.c ------------------------------------------------------------ */

/* The budget of a new replica. */
uint32_t muster_budget_first(const muster_protocol *node, uint32_t table);
/* The owner's row came; a delta was taken. */
void muster_budget_note_merge(muster_replica *replica,
                              muster_delta_merged merged);
void muster_budget_note_delta(const muster_protocol *node,
                              muster_replica *replica,
                              muster_delta_taken taken);
/* How much of the delta of a replica in a damped table counts: 1 or less. */
float muster_budget_damping(const muster_protocol *node,
                            const muster_replica *replica);
/* Set the budget for the time until the owner's row comes again. So much was
 * used of the last one. */
void muster_budget_set(const muster_protocol *node, muster_replica *replica,
                       uint32_t used);

/* ---- sweep.c ------------------------------------------------------------- */

/* Return to the shortest period. */
void muster_sweep_soon(muster_protocol *node);
/* When a replica is to be synchronised next; and synchronise those that are
 * due. */
int64_t muster_sweep_due_ns(const muster_protocol *node);
void muster_sweep_due(muster_protocol *node);
/* Synchronise every replica that has a delta now; `all`: every replica. */
void muster_sweep_all(muster_protocol *node, bool all);

#endif // MUSTER_PS_PROTOCOL_REPLICAS_H
