/*
 * ps/protocol/inside.h -- the state of the protocol at one node, shared by its
 * files:
 *   protocol.c    steps: which file handles which message
 *   make.c        create, free, the tables of homes
 *   op.c          row operations: apply, queue or forward
 *   request.c     requests of workers
 *   draft.c       entries gathered into messages; duplicates found
 *   prefetch.h    cache prefetch of the rows that a message names
 *   relocate.c    rows that change their owner
 *   replicas.h    replicas, which replica.c, budget.c and sweep.c share
 *   replica.c     replicas and their deltas
 *   intent.c      which nodes intend to use a row
 *   barrier.c     barriers
 *   membership.c  heartbeats, silent nodes, nodes that join
 *   change.c      changes of membership: the lead's side and the order of
 *                 phases
 *   recovery.c    what a node does in each phase
 */
#ifndef MUSTER_PS_PROTOCOL_INSIDE_H
#define MUSTER_PS_PROTOCOL_INSIDE_H

#include "base/map.h"
#include "ps/protocol/protocol.h"
#include "ps/protocol/replicas.h"
#include "ps/store/heavy.h"

#define MUSTER_NODE_NONE     UINT16_MAX
#define MUSTER_ARRIVING_NONE UINT32_MAX
#define MUSTER_LINK_WINDOW   4096u // messages that may overtake one

/* ---- homes: make.c ------------------------------------------------------- */

/* What the home of a key knows about it. */
typedef struct muster_home_entry {
    uint16_t owner;     // now, or as soon as the transfers under way end
    uint16_t requester; // of the last LOCALIZE
    uint32_t requested_ms;
    uint32_t moves; // changes of owner so far
} muster_home_entry;

/* The keys that are equal modulo the number of nodes: one entry for each. */
typedef struct muster_home_table {
    muster_home_entry *table[MUSTER_PS_TABLES_MAX]; // NULL: home is elsewhere
} muster_home_table;

/* Arrays are indexed by key % nodes. make.c creates them; recovery.c deals
 * homes out anew when the membership changes. */
typedef struct muster_homes {
    uint16_t *at;              // node that is home now
    uint16_t *before;          // the same before the change under way
    uint16_t *after;           // the same after it
    muster_home_table *tables; // entries of the homes at this node
    muster_heavy *demand[MUSTER_PS_TABLES_MAX]; // LOCALIZEs by key (relocate.c)
    muster_map offers; // recovery.c: a row's freshest replica, age and holder
} muster_homes;

/* ---- rows that arrive: relocate.c ---------------------------------------- */

/* An operation that waits for a row that arrives. */
typedef struct muster_waiting_op {
    uint32_t next; // in the same row's queue; UINT32_MAX ends it
    muster_rowmsg_kind kind;
    muster_row_op op;
    uint16_t origin;
    uint32_t tag;
    uint64_t request;
    muster_blob *blob; // keeps `values` alive; NULL when a worker does
    float *values;
} muster_waiting_op;

/* A row that was requested. Its word has the index of this record where a row
 * that is here has its slot. */
typedef struct muster_arriving_row {
    muster_rowref ref; // NONE: the record is free
    uint32_t first;    // of the waiting operations
    uint32_t last;
    uint16_t next_owner; // transfer it on at once; or MUSTER_NODE_NONE
    uint32_t next_moves;
    uint32_t free_next;
} muster_arriving_row;

typedef struct muster_arriving {
    muster_vec rows; // muster_arriving_row
    uint32_t rows_free;
    uint32_t count; // rows that arrive
    muster_vec ops; // muster_waiting_op
    uint32_t ops_free;
} muster_arriving;

/* ---- requests of workers: request.c -------------------------------------- */

/* A request under way. A bit is a position in the worker's operation. */
typedef struct muster_request_record {
    muster_row_request *request; // NULL: the record is free
    uint32_t generation;         // tells requests of the same record apart
    uint32_t words;
    uint64_t *open;     // no reply yet
    uint64_t *returned; // of the open ones: certainly not applied
} muster_request_record;

typedef struct muster_requests {
    muster_vec records; // muster_request_record
    uint32_t open;      // records in use
    muster_vec delayed; // muster_row_request *: start after the change
} muster_requests;

/* ---- intents: intent.c --------------------------------------------------- */

/* At the home: one node's intents for a row. Below 0: an end overtook its
 * begin. */
typedef struct muster_home_intent {
    uint32_t next; // of the same row; UINT32_MAX ends the list
    uint16_t node;
    int32_t count;
} muster_home_intent;

typedef struct muster_node_intents {
    muster_map local;   // row to number of this node's intents
    muster_map by_row;  // home: row to index of its first entry
    muster_vec entries; // home: muster_home_intent
    uint32_t free;      // first free entry
} muster_node_intents;

/* Which nodes intend to use a row. */
typedef struct muster_intended_by {
    bool requester;
    bool others;
} muster_intended_by;

/* ---- barriers: barrier.c ------------------------------------------------- */

typedef enum muster_barrier_state {
    MUSTER_BARRIER_NONE = 0,
    MUSTER_BARRIER_FLUSHING = 1,   // deltas of replicas are sent
    MUSTER_BARRIER_WAITING = 2,    // BARRIER sent, RELEASE not yet received
    MUSTER_BARRIER_DRAINING = 3,   // released; old answers are awaited
    MUSTER_BARRIER_REFRESHING = 4, // replicas fetch their owners' rows
} muster_barrier_state;

typedef struct muster_barriers {
    muster_barrier_state state;
    muster_ps_until until; // of the barrier that this node is at
    uint64_t number;       // of the barrier that this node is at, or was last
    uint64_t members;      // that met at the last barrier
    uint32_t *arrived; // lead: barriers each node has reached beyond the last
} muster_barriers;

/* ---- connections to peers: draft.c, membership.c ------------------------- */

typedef struct muster_node_link {
    // draft.c: numbers of messages. Received is everything below `next_in`,
    // and what has its bit set above.
    uint64_t next_out;
    uint64_t next_in;
    uint64_t received[MUSTER_LINK_WINDOW / 64]; // bit number % WINDOW
    // draft.c: messages that a change of membership waits for; see change.c.
    uint64_t counted_out;
    uint64_t counted_in;
    // membership.c:
    int64_t last_seen_ns;   // when its last message came
    uint64_t updates;       // that the peer reported
    uint64_t update_report; // number of that report
} muster_node_link;

/* ---- membership: membership.c -------------------------------------------- */

typedef struct muster_membership {
    uint64_t members;      // one bit each, this node too
    uint32_t join_note;    // from the lead, when this node joined
    uint64_t reports_sent; // of updates
    int64_t heartbeat_ns;  // when the next heartbeat is due
    int64_t checked_ns;    // when silent peers were last looked for; or -1
} muster_membership;

/* ---- changes of membership: change.c ------------------------------------- */

typedef enum muster_change_phase {
    MUSTER_PHASE_NONE = 0, // no change is under way
    MUSTER_PHASE_PAUSE = 1,
    MUSTER_PHASE_REPORT = 2,
    MUSTER_PHASE_SETTLE = 3,
} muster_change_phase;

/* Messages about rows that members sent each other and received. */
typedef struct muster_message_counts {
    uint64_t sent;
    uint64_t received;
} muster_message_counts;

/* The lead's side. */
typedef struct muster_change_lead {
    uint32_t epoch;                 // the newest
    uint32_t resumed_epoch;         // the last that was completed
    uint64_t members;               // of the newest epoch
    uint64_t settled_members;       // of the last that was completed
    uint64_t value;                 // of its PHASE messages
    uint64_t lost_updates;          // of lost nodes, by their last reports
    muster_change_phase phase;      // that members were ordered to do
    uint32_t round;                 // of counting
    uint64_t answered;              // members that answered in this round
    muster_message_counts counts;   // summed over them
    muster_message_counts previous; // sums of the round before
    bool has_previous;              // `previous` is of this phase
    muster_membership_news cost;    // summed over the STATS received
} muster_change_lead;

typedef struct muster_membership_change {
    uint32_t epoch;
    muster_change_phase phase; // that this node has done
    muster_rowmsg postponed;   // a PHASE that the host is not ready for; its
                               // kind is 0 when there is none
    muster_change_lead lead;
} muster_membership_change;

/* ---- outgoing messages: draft.c ------------------------------------------ */

/* Entries gathered for one message. */
typedef struct muster_draft {
    uint16_t to;
    muster_rowmsg head;
    muster_vec keys;
    muster_vec tags;
    muster_vec values;
} muster_draft;

typedef struct muster_drafts {
    muster_vec all; // muster_draft; the first `count` are in use
    uint32_t count;
    muster_vec to_self; // muster_rowmsg: messages of this node to itself
} muster_drafts;

/* ---- the node ------------------------------------------------------------ */

/* The step under way: protocol.c. */
typedef struct muster_protocol_step {
    int64_t now_ns;
    muster_protocol_out *out; // NULL between steps
    muster_vec index;         // uint32_t: keys and tags of the message handled
} muster_protocol_step;

struct muster_protocol {
    muster_protocol_opts opts;
    muster_rowshape shapes[MUSTER_PS_TABLES_MAX];
    muster_protocol_step step;
    muster_homes homes;
    muster_arriving arriving;
    muster_replicas replicas;
    muster_requests requests;
    muster_node_intents intents;
    muster_barriers barrier;
    muster_node_link *links; // one for each node
    muster_membership membership;
    muster_membership_change change;
    muster_drafts drafts;
    muster_protocol_counters counters;
    bool failed; // out of memory; any file may set it, the step then ends
};

/* The table, to use its rows or words: revokes its bias (ps/store/bias.h). */
static inline muster_ps_table *muster_protocol_rows(muster_protocol *node,
                                                    uint32_t table)
{
    muster_ps_table *rows = node->opts.tables[table];
    muster_ps_table_use(rows);
    return rows;
}

/* How the rows of a table are managed. */
static inline muster_ps_manage
muster_protocol_manage(const muster_protocol *node, uint32_t table)
{
    return node->opts.manage == MUSTER_PS_AUTO &&
                   node->opts.tables[table]->in_turns
               ? MUSTER_PS_RELOCATE
               : node->opts.manage;
}

static inline bool muster_protocol_is_member(const muster_protocol *node,
                                             uint16_t peer)
{
    return peer < node->opts.nodes &&
           (node->membership.members >> peer & 1) != 0;
}

/* A change of membership is under way: no row is requested. */
static inline bool muster_protocol_paused(const muster_protocol *node)
{
    return node->change.phase != MUSTER_PHASE_NONE;
}

static inline uint16_t muster_home_of(const muster_protocol *node, uint32_t key)
{
    return node->homes.at[key % node->opts.nodes];
}

/* Was the message sent by the home of the key? */
static inline bool muster_protocol_from_home(const muster_protocol *node,
                                             const muster_rowmsg *message,
                                             uint32_t key)
{
    return message->from == muster_home_of(node, key);
}

static inline muster_home_entry *
muster_home_entry_at(muster_protocol *node, uint32_t table, uint32_t key)
{
    uint32_t nodes = node->opts.nodes;
    return &node->homes.tables[key % nodes].table[table][key / nodes];
}

/* The next node on the way to the owner of a row: its home; at the home, the
 * owner itself. */
static inline uint16_t muster_protocol_next_hop(muster_protocol *node,
                                                uint32_t table, uint32_t key)
{
    uint16_t home = muster_home_of(node, key);
    return home == node->opts.node
               ? muster_home_entry_at(node, table, key)->owner
               : home;
}

/* make.c: create the home tables of the keys that are `which` modulo the number
 * of nodes, or reset them: no owner is known. */
void muster_home_reset(muster_protocol *node, uint16_t which);

/* ---- protocol.c ---------------------------------------------------------- */

/* Begin and end a step. */
void muster_protocol_begin(muster_protocol *node, int64_t now_ns,
                           muster_protocol_out *out);
MUSTER_CHECKED muster_status muster_protocol_end(muster_protocol *node);

/* ---- draft.c ------------------------------------------------------------- */

/* Add an entry to the message described by `head`. It is sent when it is full,
 * at the latest at the end of the step. `values` may be NULL when the kind has
 * none. An operation for a node that is not a member is returned to its origin;
 * other entries for such a node are dropped. */
void muster_draft_add(muster_protocol *node, uint16_t to,
                      const muster_rowmsg *head, uint32_t key, uint32_t tag,
                      const float *values);
/* The same without the values: returns where the caller has to write them,
 * before it drafts anything else. NULL: the entry has no values, or was not
 * added. */
float *muster_draft_reserve(muster_protocol *node, uint16_t to,
                            const muster_rowmsg *head, uint32_t key,
                            uint32_t tag);
/* Add a message without entries. */
void muster_draft_control(muster_protocol *node, uint16_t to,
                          const muster_rowmsg *head);
/* Turn all drafts into messages. */
void muster_draft_flush(muster_protocol *node);
/* Is the message one of those that a change of membership waits for? */
static inline bool muster_node_link_counts(muster_rowmsg_kind kind)
{
    return muster_rowmsg_has_rows(kind) || kind == MUSTER_ROWMSG_STATS;
}
/* True: the message is new, and is recorded as received. */
bool muster_node_link_accept(muster_protocol *node,
                             const muster_rowmsg *message);

/* ---- op.c ---------------------------------------------------------------- */

void muster_protocol_on_rows(muster_protocol *node,
                             const muster_rowmsg *message);
void muster_protocol_on_reply(muster_protocol *node,
                              const muster_rowmsg *message);
/* Reply to the origin of an operation that was applied; pulls read `row`. */
void muster_protocol_reply(muster_protocol *node, const muster_rowmsg *head,
                           uint32_t key, uint32_t position, const float *row);
/* Apply an OP, SYNC or REPLICATE entry to a row that is latched, and answer. */
void muster_protocol_apply(muster_protocol *node, const muster_rowmsg *head,
                           uint32_t key, uint32_t tag, float *values,
                           float *row);

/* ---- relocate.c ---------------------------------------------------------- */

/* Request a row from its home; it is ARRIVING from now on. `how` is NONE,
 * PULL_ROW where a replica will do, PULL where workers used it unasked. */
void muster_arriving_request(muster_protocol *node, uint32_t table,
                             uint32_t key, muster_row_op how);
/* The record of a row that arrives, or MUSTER_ARRIVING_NONE. */
static inline uint32_t muster_arriving_find(const muster_protocol *node,
                                            uint32_t table, uint32_t key)
{
    uint64_t word = atomic_load_explicit(&node->opts.tables[table]->words[key],
                                         memory_order_relaxed);
    return muster_word_state_of(word) == MUSTER_ROW_ARRIVING
               ? muster_word_slot(word)
               : MUSTER_ARRIVING_NONE;
}
/* Queue an entry until its row has arrived. The queue holds a reference to the
 * payload of the message. */
void muster_arriving_wait(muster_protocol *node, uint32_t index,
                          const muster_rowmsg *message, uint32_t tag,
                          float *values);
/* The row has arrived and lies at `row`: apply the queued entries in order and
 * free the record. When it arrived as a `replica`, entries of other nodes go on
 * to the owner. Returns the record, which says where the row goes next. */
muster_arriving_row muster_arriving_end(muster_protocol *node, uint32_t table,
                                        uint32_t key, float *row, bool replica);
void muster_protocol_on_localize(muster_protocol *node,
                                 const muster_rowmsg *message);
void muster_protocol_on_hand_over(muster_protocol *node,
                                  const muster_rowmsg *message);
void muster_protocol_on_transfer(muster_protocol *node,
                                 const muster_rowmsg *message);

/* ---- request.c ----------------------------------------------------------- */

void muster_request_start(muster_protocol *node, muster_row_request *request);
/* Apply entry `position` of a request here, queue it, or send it. */
void muster_request_send(muster_protocol *node, uint64_t id, uint32_t position);
/* An entry was applied; `row` has the values of a pull. */
void muster_request_finish(muster_protocol *node, const muster_rowmsg *head,
                           uint32_t position, const float *row);
/* An entry of `head` was certainly not applied: tell its origin. */
void muster_request_return(muster_protocol *node, const muster_rowmsg *head,
                           uint32_t key, uint32_t position);
void muster_protocol_on_return(muster_protocol *node,
                               const muster_rowmsg *message);

/* ---- intent.c ------------------------------------------------------------ */

void muster_node_intents_fini(muster_protocol *node);
void muster_protocol_on_intent(muster_protocol *node,
                               const muster_rowmsg *message);
/* At the home: which nodes intend to use the row? */
muster_intended_by muster_node_intents_of(const muster_protocol *node,
                                          uint32_t table, uint32_t key,
                                          uint16_t requester);
/* Does a worker of this node intend to use the row? */
bool muster_node_intents_local(const muster_protocol *node, uint32_t table,
                               uint32_t key);
/* A row has left this node: request it again if it is still intended. */
void muster_node_intents_row_departed(muster_protocol *node, uint32_t table,
                                      uint32_t key);
/* A change of membership: homes forget all intents; later all nodes send theirs
 * again. */
void muster_node_intents_forget(muster_protocol *node);
void muster_node_intents_resend(muster_protocol *node);

/* ---- barrier.c ----------------------------------------------------------- */

void muster_protocol_on_barrier(muster_protocol *node,
                                const muster_rowmsg *message);
void muster_protocol_on_release(muster_protocol *node,
                                const muster_rowmsg *message);
/* Go to the next state of the barrier if nothing is awaited in this one. */
void muster_protocol_barrier_step(muster_protocol *node);
/* A change of membership has ended. */
void muster_protocol_barrier_resume(muster_protocol *node);

/* ---- membership.c -------------------------------------------------------- */

void muster_membership_init(muster_protocol *node);
uint64_t muster_membership_all(const muster_protocol *node); // one bit each
void muster_membership_tick(muster_protocol *node);
/* Tell the lead of a node that should be removed; the lead removes it. */
void muster_membership_suspect(muster_protocol *node, uint16_t peer,
                               muster_loss_cause cause);
int64_t muster_membership_due_ns(const muster_protocol *node);
/* HEARTBEAT and BARRIER report how many updates were made. Reports are numbered
 * because messages may overtake each other. */
void muster_membership_add_updates(muster_protocol *node,
                                   muster_rowmsg *message);
void muster_membership_on_updates(muster_protocol *node,
                                  const muster_rowmsg *message);
void muster_membership_on_heartbeat(muster_protocol *node,
                                    const muster_rowmsg *message);
void muster_protocol_on_suspect(muster_protocol *node,
                                const muster_rowmsg *message);
void muster_protocol_add_news(muster_protocol *node,
                              const muster_membership_news *news);

/* ---- change.c ------------------------------------------------------------ */

/* The lead: begin a change to these members. */
void muster_membership_change_begin(muster_protocol *node, uint64_t members,
                                    uint64_t value);
/* Do a postponed phase if the host is ready for it. */
void muster_membership_change_tick(muster_protocol *node);
void muster_protocol_on_phase(muster_protocol *node,
                              const muster_rowmsg *message);
void muster_protocol_on_count(muster_protocol *node,
                              const muster_rowmsg *message);
void muster_protocol_on_resume(muster_protocol *node,
                               const muster_rowmsg *message);
void muster_protocol_on_stats(muster_protocol *node,
                              const muster_rowmsg *message);

/* ---- recovery.c ---------------------------------------------------------- */

/* The phases, and the end of the change. */
void muster_recovery_enter(muster_protocol *node);
void muster_recovery_report(muster_protocol *node);
void muster_recovery_settle(muster_protocol *node);
void muster_recovery_resume(muster_protocol *node);
/* Will the phase SETTLE need rows from the host? */
bool muster_recovery_needs_host(muster_protocol *node);
/* All members have settled: the homes of this change are final. */
void muster_recovery_commit_homes(muster_protocol *node);
void muster_protocol_on_report(muster_protocol *node,
                               const muster_rowmsg *message);
void muster_protocol_on_adopt(muster_protocol *node,
                              const muster_rowmsg *message);

#endif // MUSTER_PS_PROTOCOL_INSIDE_H
