/*
 * ps/protocol/protocol.h -- the protocol of the parameter server at one node,
 * as a step function: which node owns a row, how rows move, which nodes have
 * replicas, which nodes are members.
 *
 * Every key has a home, node key % nodes, which knows the owner of its row. A
 * node that wants a row sends LOCALIZE to the home. The home makes this node
 * the owner at once and sends HAND_OVER to the old owner, which sends the row
 * (TRANSFER). Operations on a row that arrives wait in order and are applied
 * when it has arrived. A node that receives an operation and does not own the
 * row forwards it to the home, and the home forwards it to the owner. The owner
 * replies directly to the node that sent the operation.
 *
 * When several nodes want a row at the same time, the home lets the owner keep
 * it and send a replica (REPLICATE, REPLICA). Workers use a replica in place,
 * like a row that their node owns. Every `sync_ns` or more often the node sends
 * the delta of the replica to the owner (SYNC), which answers with its row
 * (SYNCED). What was written to the replica meanwhile is added to that row. A
 * slow node delays only its own replicas.
 *
 * Node 0 is the lead. It removes nodes that fall silent, and takes in new ones,
 * by a change of membership: all members stop requesting rows, wait until no
 * message about rows is under way between them, tell the new homes which rows
 * they own and which replicas they have, and continue. A lost row is restored
 * from the freshest replica, or by the host (from its checkpoint).
 *
 *   Promise      Messages may be reordered and duplicated. Every operation is
 *                applied exactly once, and every request ends exactly once. At
 *                rest a row has exactly one owner, and its value is the sum of
 *                all operations. After a loss no operation counts twice, and
 *                those missing were made since the last checkpoint.
 *   Ownership    A request and its buffers belong to the caller, which keeps
 *                them until the request is in `done`. Messages lend their
 *                payload. A send carries a reference that the host takes over.
 *   Threads      One at a time, the driver of the mesh. It shares only the
 *                latch words and rows of the tables with the workers.
 *   Not here     Sockets, clocks, threads.
 *
 * Invariants and their tests: docs/design/ps.md.
 */
#ifndef MUSTER_PS_PROTOCOL_PROTOCOL_H
#define MUSTER_PS_PROTOCOL_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "muster/status.h"
#include "ps/protocol/rowmsg.h"
#include "ps/store/keyset.h"
#include "ps/store/store.h"

/* The part of a worker's operation whose rows were not here. */
typedef struct muster_row_request {
    muster_row_op op;
    uint32_t table;
    const uint32_t *keys;      // of the whole operation
    float *values;             // of the whole operation
    const uint32_t *positions; // `count` indices into keys
    uint32_t count;
    uint32_t left; // entries without a reply; for the protocol
    void *context; // for the caller
} muster_row_request;

typedef struct muster_protocol_send {
    uint16_t to;
    muster_rowmsg message; // with a reference to its payload
} muster_protocol_send;

typedef enum muster_loss_cause {
    MUSTER_LOSS_CLOSED = 1,  // the connection ended
    MUSTER_LOSS_SILENT = 2,  // no message within heartbeat_ns
    MUSTER_LOSS_STALLED = 3, // a worker of it did none of its work for stall_ns
    MUSTER_LOSS_NOT_FINITE = 4, // it sent values that are not finite
} muster_loss_cause;

typedef enum muster_membership_news_kind {
    MUSTER_NEWS_LOST = 1,     // `node`, because of `cause`
    MUSTER_NEWS_JOINED = 2,   // `node`
    MUSTER_NEWS_RESUMED = 3,  // a change of membership has ended
    MUSTER_NEWS_LEADLESS = 4, // the lead is lost: no change is possible
    MUSTER_NEWS_EXPELLED = 5, // this node is no longer a member
} muster_membership_news_kind;

/* What the host should log or act on. */
typedef struct muster_membership_news {
    muster_membership_news_kind kind;
    uint16_t node;
    muster_loss_cause cause;
    uint64_t members; // RESUMED: one bit each
    // RESUMED at the lead, summed over all nodes:
    uint64_t copied;     // lost rows that a replica replaced
    uint64_t restored;   // lost rows that the host restored
    uint64_t fresh;      // lost rows that got their initial value
    uint64_t unanswered; // updates without a reply: applied once or not at all
    uint64_t updates;    // made since the last checkpoint, as reported
} muster_membership_news;

/* What the host has to do after a step; the host empties it. */
typedef struct muster_protocol_out {
    muster_vec sends;  // muster_protocol_send
    muster_vec done;   // muster_row_request *
    muster_vec news;   // muster_membership_news
    uint64_t released; // barriers passed so far
    uint64_t met;      // members at the last of them, one bit each
} muster_protocol_out;

muster_protocol_out muster_protocol_out_make(void);
void muster_protocol_out_fini(muster_protocol_out *out);

typedef struct muster_protocol_opts {
    uint16_t node;
    uint16_t nodes; // 1..MUSTER_PS_NODES_MAX
    muster_ps_table *const *tables;
    uint32_t table_count;
    muster_ps_manage manage;
    const muster_keyset *replicated; // STATIC: the rows to replicate; lent
    int64_t sync_ns;     // max time between synchronisations of a replica
    int64_t contest_ns;  // AUTO: two nodes that request a row within this time
                         // share it
    uint32_t hot_factor; // AUTO: a row requested so many times as often as the
                         // mean is shared
    uint32_t message_entries; // max of a message; 0: 4096
    muster_blob *(*make)(void *context, size_t bytes); // makes a payload
    void *make_context;
    int64_t heartbeat_ns; // a peer silent for so long is lost; 0: never
    bool joins;           // enters a running mesh, without rows
    /* False: restore() is not ready. The protocol calls again at every tick,
     * and the other nodes wait. NULL: it is always ready. */
    bool (*prepared)(void *context);
    /* Write a lost row, with its optimiser state, as of the checkpoint. False:
     * it is not known and gets its initial value. NULL: none is known. */
    bool (*restore)(void *context, uint32_t table, uint32_t key, float *row);
    /* Number of updates made here since the last checkpoint; NULL: not counted.
     */
    uint64_t (*updates)(void *context);
    /* For how long some worker of this node has had work and done none of it.
     * Heartbeats report it. NULL: not measured. */
    uint64_t (*stalled_ms)(void *context);
    int64_t stall_ns; // the lead removes a node that is stalled for so long; 0:
                      // never
    void *host;       // context of these
} muster_protocol_opts;

typedef struct muster_protocol_counters {
    uint64_t remote_ops;  // entries of local requests sent to other nodes
    uint64_t relocations; // rows that arrived
    uint64_t replicas;    // replicas that arrived
    uint64_t syncs;       // SYNC entries sent
    uint64_t sync_bytes;  // of rows, in SYNC sent and SYNCED received
    uint64_t forwards;    // entries of other nodes forwarded
    uint64_t duplicates;  // messages dropped: received before
    uint64_t violations;  // messages dropped: no correct node sends them
    uint64_t late;        // messages dropped: not from a member, or outdated
    uint64_t restored;    // lost rows that the host restored here
    uint64_t fresh;       // lost rows that got their initial value here
    uint64_t adopted;     // replicas here that became the row
    uint64_t unanswered;  // updates given up because their reply was lost
    uint32_t copies;      // replicas here now
} muster_protocol_counters;

typedef struct muster_protocol muster_protocol;

/* Tables are lent until free. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_protocol_create(
    const muster_protocol_opts *opts, muster_protocol **node_out);
void muster_protocol_free(muster_protocol *node);

/*
 * The steps. Each may add sends, finished requests and news to `out`. A step
 * returns MUSTER_ERR_NO_MEMORY when the node cannot continue: a part of the
 * step may have been done, and the host must end the node.
 */
MUSTER_CHECKED muster_status
muster_protocol_message(muster_protocol *node, int64_t now_ns,
                        const muster_rowmsg *message, muster_protocol_out *out);
MUSTER_CHECKED muster_status
muster_protocol_request(muster_protocol *node, int64_t now_ns,
                        muster_row_request *request, muster_protocol_out *out);
/* Localize: bring these rows here. Rows that are here or arrive are skipped. */
typedef struct muster_localize_request {
    uint32_t table;
    const uint32_t *keys;
    uint32_t count;
    bool copy; // AUTO: prefer a replica; for samples, which all nodes draw
} muster_localize_request;
MUSTER_CHECKED muster_status muster_protocol_localize(
    muster_protocol *node, int64_t now_ns,
    const muster_localize_request *request, muster_protocol_out *out);
/* A worker asks that the replica of a row, if there is one, be synchronised at
 * one of the next ticks; if it is urgent, at the next. No step: nothing is
 * sent. */
void muster_protocol_ask_sync(muster_protocol *node, int64_t now_ns,
                              muster_rowref ref, bool urgent);
/* The thread that drives this node slept until something was due, and woke so
 * late. No step. */
void muster_protocol_note_wake(muster_protocol *node, int64_t late_ns);
/* Intents for these rows begin or end at this node. While a row has intents it
 * is brought here and stays, as a row or as a replica; the home decides which
 * from the intents of all nodes. Each end follows its begin. */
MUSTER_CHECKED muster_status
muster_protocol_intend(muster_protocol *node, int64_t now_ns,
                       const muster_localize_request *request, bool begins,
                       muster_protocol_out *out);
/* Do what is due at this time: heartbeats, synchronisation of replicas. */
MUSTER_CHECKED muster_status muster_protocol_tick(muster_protocol *node,
                                                  int64_t now_ns,
                                                  muster_protocol_out *out);
/* When the next tick is due. */
int64_t muster_protocol_due_ns(const muster_protocol *node);

/* All workers of this node wait at a barrier, of the same kind as those of all
 * other nodes, or STORED and SEEN; out->released goes up by one when it is
 * passed. One barrier at a time. */
MUSTER_CHECKED muster_status muster_protocol_barrier(muster_protocol *node,
                                                     int64_t now_ns,
                                                     muster_ps_until until,
                                                     muster_protocol_out *out);

/* The connection to a peer has ended. */
MUSTER_CHECKED muster_status muster_protocol_down(muster_protocol *node,
                                                  int64_t now_ns, uint16_t peer,
                                                  muster_protocol_out *out);

/* The lead: take in a node that `joins` and is connected to all members. Its
 * host reads `note` with muster_protocol_note(). MUSTER_ERR_AGAIN: a change of
 * membership is under way. MUSTER_ERR_INVALID: no such node number, or this is
 * not the lead. */
MUSTER_CHECKED muster_status muster_protocol_admit(muster_protocol *node,
                                                   int64_t now_ns,
                                                   uint16_t peer, uint32_t note,
                                                   muster_protocol_out *out);
uint32_t muster_protocol_note(const muster_protocol *node);

/* The members, one bit each; is a change of membership under way? */
uint64_t muster_protocol_members(const muster_protocol *node);
bool muster_protocol_changing(const muster_protocol *node);

muster_protocol_counters muster_protocol_count(const muster_protocol *node);

/* At rest: nothing waits, and no replica has a delta that was not sent or not
 * answered. */
bool muster_protocol_idle(const muster_protocol *node);

/* For tests: the home of a key, and at the home the owner of a row. */
uint16_t muster_protocol_home(const muster_protocol *node, uint32_t key);
uint16_t muster_protocol_owner(const muster_protocol *node, uint32_t table,
                               uint32_t key);

#endif // MUSTER_PS_PROTOCOL_PROTOCOL_H
