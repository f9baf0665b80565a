/*
 * ps/protocol/protocol.h -- a node of the parameter server as a step function:
 * who owns a row, how it moves, who has copies.
 *
 * Every key has a home, node key % nodes, that knows its owner. A node that
 * wants a row tells the home (LOCALIZE); the home names it owner at once and
 * tells the old owner to hand over (HAND_OVER), which sends the row (TRANSFER).
 * Operations that meet a row on its way wait in order and are done when it
 * arrives; those that reach a node which no longer owns the row go on to the
 * home, and from there to the owner; the answer goes straight to who asked.
 *
 * Where several nodes want a row at the same time, the home lets the owner keep
 * it and give the asker a copy (REPLICATE, REPLICA). A copy is used in place
 * like a row of one's own; every `sync_ns` its holder sends what it has delta
 * to the owner (SYNC) and gets the owner's row back (SYNCED), on which what was
 * delta meanwhile is put again. A slow node delays only its own copies.
 *
 * Nodes that fall silent are given up by the lead, node 0, which then leads the
 * others through a change of membership: all stop asking, wait until nothing is
 * under way between them, tell the new homes what they own and which copies
 * they hold, and go on. Rows that were lost come back from the freshest copy or
 * from the host (its checkpoint). A fresh node enters the same way.
 *
 *   Promise      Messages may be reordered and duplicated. Every operation is
 *                applied exactly once, and each request ends exactly once. At
 *                rest a row has exactly one owner, and its value is the sum of
 *                all operations. After a loss none counts twice; what is
 *                missing was made since the last checkpoint.
 *   Ownership    A request belongs to the caller, who keeps it and its buffers
 *                until it is in `done`. Messages lend their payload. Sends
 *                carry a reference that the host takes over.
 *   Threads      One at a time (who drives the node's mesh); it meets the
 *                workers in the words of the tables alone.
 *   Not here     Sockets, clocks, threads.
 *
 * Proof obligations and their tests: docs/design/ps.md.
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

/* Some rows of a worker's operation that were not here. */
typedef struct muster_row_request {
    muster_row_op op;
    uint32_t table;
    const uint32_t *keys;      // of the whole operation
    float *values;             // and its values
    const uint32_t *positions; // `count` indices into keys
    uint32_t count;
    uint32_t left; // the node's
    void *context; // the caller's
} muster_row_request;

typedef struct muster_protocol_send {
    uint16_t to;
    muster_rowmsg message; // with a reference to its payload
} muster_protocol_send;

typedef enum muster_loss_cause {
    MUSTER_LOSS_CLOSED = 1, // its connection ended
    MUSTER_LOSS_SILENT = 2, // nothing was heard for the heartbeat's window
} muster_loss_cause;

typedef enum muster_membership_news_kind {
    MUSTER_NEWS_LOST = 1,     // `node`, because of `cause`
    MUSTER_NEWS_JOINED = 2,   // `node`
    MUSTER_NEWS_RESUMED = 3,  // the members are agreed; work goes on
    MUSTER_NEWS_LEADLESS = 4, // the lead is lost: nobody can decide
    MUSTER_NEWS_EXPELLED = 5, // this node was given up by the others
} muster_membership_news_kind;

/* What the host should tell people, or act on. */
typedef struct muster_membership_news {
    muster_membership_news_kind kind;
    uint16_t node;
    muster_loss_cause cause;
    uint64_t members; // RESUMED: one bit each
    // And at the lead, over all nodes:
    uint64_t copied;     // lost rows that a copy replaced
    uint64_t restored;   // lost rows that the host restored
    uint64_t fresh;      // lost rows that it did not know: they began anew
    uint64_t unanswered; // updates given up: perhaps done, never done twice
    uint64_t updates;    // made since the last checkpoint, as nodes told
} muster_membership_news;

/* What a step asks the host to do; emptied by the host. */
typedef struct muster_protocol_out {
    muster_vec sends;  // muster_protocol_send
    muster_vec done;   // muster_row_request *
    muster_vec news;   // muster_membership_news
    uint64_t released; // barriers passed so far
    uint64_t met;      // nodes that met at the last of them
} muster_protocol_out;

muster_protocol_out muster_protocol_out_make(void);
void muster_protocol_out_fini(muster_protocol_out *out);

typedef struct muster_protocol_opts {
    uint16_t node;
    uint16_t nodes; // 1..MUSTER_PS_NODES_MAX
    muster_ps_table *const *tables;
    uint32_t table_count;
    muster_ps_manage manage;
    const muster_keyset *replicated; // STATIC; lent
    int64_t sync_ns;    // copies are synchronised at least so often
    int64_t contest_ns; // AUTO: two nodes that ask within this share the row
    uint32_t message_entries; // at most in a message; 0: 4096
    muster_blob *(*make)(void *context, size_t bytes); // payloads
    void *make_context;
    int64_t heartbeat_ns; // silence that counts as loss; 0: none does
    bool joins;           // owns nothing yet: enters a mesh that runs
    /* False: restore() would take long; asked again at every tick, and the
     * others wait. NULL: it never does. */
    bool (*prepared)(void *context);
    /* A lost row as last known, whole; false: it starts anew. NULL: all do. */
    bool (*restore)(void *context, uint32_t table, uint32_t key, float *row);
    /* Updates made here since the last checkpoint; NULL: not counted. */
    uint64_t (*updates)(void *context);
    void *host; // context of these
} muster_protocol_opts;

typedef struct muster_protocol_counters {
    uint64_t remote_ops;  // entries sent away
    uint64_t relocations; // rows that arrived
    uint64_t replicas;    // copies that arrived
    uint64_t syncs;       // copies synchronised
    uint64_t forwards;    // entries passed on for others
    uint64_t duplicates;  // messages dropped
    uint64_t violations;  // messages that no correct node sends; dropped
    uint64_t late;        // messages of nodes given up; dropped
    uint64_t restored;    // lost rows that came from the host
    uint64_t fresh;       // lost rows that began anew
    uint64_t adopted;     // and from copies, here
    uint64_t unanswered;  // updates given up with a lost node
    uint32_t copies;      // held now
} muster_protocol_counters;

typedef struct muster_protocol muster_protocol;

/* Tables are lent until free. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_protocol_create(
    const muster_protocol_opts *opts, muster_protocol **node_out);
void muster_protocol_free(muster_protocol *node);

/*
 * The steps. Each may add sends and finished requests to `out`. All return
 * MUSTER_ERR_NO_MEMORY when the node cannot go on: part of the step may have
 * been done, and the host must end the node.
 */
MUSTER_CHECKED muster_status
muster_protocol_message(muster_protocol *node, int64_t now_ns,
                        const muster_rowmsg *message, muster_protocol_out *out);
MUSTER_CHECKED muster_status
muster_protocol_request(muster_protocol *node, int64_t now_ns,
                        muster_row_request *request, muster_protocol_out *out);
/* Bring rows here; those that are here or on their way are left alone. */
typedef struct muster_localize_request {
    uint32_t table;
    const uint32_t *keys;
    uint32_t count;
    bool copy; // AUTO: for samples, which all nodes draw alike, a copy is best
} muster_localize_request;
MUSTER_CHECKED muster_status muster_protocol_localize(
    muster_protocol *node, int64_t now_ns,
    const muster_localize_request *request, muster_protocol_out *out);
/* Intents for these rows begin or end here: while there are some, the rows come
 * and stay, as the home decides from all nodes' intents. Each end follows its
 * begin. */
MUSTER_CHECKED muster_status
muster_protocol_intend(muster_protocol *node, int64_t now_ns,
                       const muster_localize_request *request, bool begins,
                       muster_protocol_out *out);
/* Time has passed: synchronise copies when due. */
MUSTER_CHECKED muster_status muster_protocol_tick(muster_protocol *node,
                                                  int64_t now_ns,
                                                  muster_protocol_out *out);
/* When the next tick is due. */
int64_t muster_protocol_due_ns(const muster_protocol *node);

/* All workers of this node wait at a barrier. Copies are synchronised before
 * it and refreshed after it; out->released counts up when it is passed. */
MUSTER_CHECKED muster_status muster_protocol_barrier(muster_protocol *node,
                                                     int64_t now_ns,
                                                     muster_protocol_out *out);

/* The connection to a node has ended. */
MUSTER_CHECKED muster_status muster_protocol_down(muster_protocol *node,
                                                  int64_t now_ns, uint16_t peer,
                                                  muster_protocol_out *out);

/* The lead: take in a node that `joins` and whose connections stand. `note` is
 * for its host, which finds it by muster_protocol_note(). Refused with
 * MUSTER_ERR_AGAIN while a change of membership is under way, and with
 * MUSTER_ERR_INVALID where there is no such place or this is not the lead. */
MUSTER_CHECKED muster_status muster_protocol_admit(muster_protocol *node,
                                                   int64_t now_ns,
                                                   uint16_t peer, uint32_t note,
                                                   muster_protocol_out *out);
uint32_t muster_protocol_note(const muster_protocol *node);

/* The members, one bit each, and whether they are agreed. */
uint64_t muster_protocol_members(const muster_protocol *node);
bool muster_protocol_changing(const muster_protocol *node);

muster_protocol_counters muster_protocol_count(const muster_protocol *node);

/* At rest: nothing waits, no copy has unsent or unanswered changes. */
bool muster_protocol_idle(const muster_protocol *node);

/* For tests: the home of a key, and whom the home (this node) takes for its
 * owner. */
uint16_t muster_protocol_home(const muster_protocol *node, uint32_t key);
uint16_t muster_protocol_owner(const muster_protocol *node, uint32_t table,
                               uint32_t key);

#endif // MUSTER_PS_PROTOCOL_PROTOCOL_H
