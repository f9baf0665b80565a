/*
 * ps/protocol/inside.h -- a node's state, for its files:
 *   protocol.c          steps: what each message, wish and moment is for
 *   make.c     create, free, the tables of homes
 *   op.c       operations on rows wherever they are
 *   request.c  workers' requests
 *   draft.c    entries gathered into messages, doubles told apart
 *   near.h     rows asked for before they are worked on
 *   move.c     rows that change their owner
 *   copy.c     copies and what they gain
 *   intent.c   who intends to use which row
 *   barrier.c  all meet
 *   life.c     who is there
 *   loss.c     changes of membership: the lead's orders
 *   restore.c  what a node does in them
 */
#ifndef MUSTER_PS_PROTOCOL_INSIDE_H
#define MUSTER_PS_PROTOCOL_INSIDE_H

#include "base/map.h"
#include "ps/protocol/protocol.h"
#include "ps/store/heavy.h"

#define MUSTER_NODE_NONE   UINT16_MAX
#define MUSTER_LINK_WINDOW 4096u // links remembered to tell duplicates

/* What the home knows of a key. */
typedef struct muster_home_entry {
    uint16_t owner;
    uint16_t asker;    // who asked last
    uint32_t asked_ms; // and when
    uint32_t moves;
} muster_home_entry;

typedef struct muster_home_table {
    muster_home_entry
        *table[MUSTER_PS_TABLES_MAX]; // NULL where we are not home
} muster_home_table;

/* An operation that waits for a row on its way. */
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

/* A row on its way here; the row's word has the number of this record where the
 * slot will be. */
typedef struct muster_arriving_row {
    muster_rowref ref; // NONE: the record is free
    uint32_t first;    // of the waiting operations
    uint32_t last;
    uint16_t next_owner; // hand it on at once, or NOBODY
    uint32_t next_moves;
    uint32_t free_next;
} muster_arriving_row;

/* A copy held here. */
typedef struct muster_replica {
    muster_rowref ref;
    uint32_t base;      // slot of the owner's row as last heard
    bool asked;         // SYNC sent, SYNCED not yet here
    int64_t changed_ns; // when it last had something to send
    int64_t heard_ns;   // when the owner's row last came
    uint32_t budget;    // writes between two rows of the owner
    uint32_t most;      // that it grows to
    uint32_t carried;   // writes that the budget before counted, not yet sent
    uint32_t writes;    // that the last SYNC had
    uint32_t counted;   // of the budget when it was sent
    float sent;         // squared norm of what it had
    bool ending;        // what wanted it has ended: drop it when it can be
} muster_replica;

/* Entries gathered for one message. */
typedef struct muster_draft {
    uint16_t to;
    muster_rowmsg head;
    muster_vec keys;
    muster_vec tags;
    muster_vec values;
} muster_draft;

/* What one peer has sent: everything below `next`, and some above. */
typedef struct muster_node_link {
    uint64_t sent; // to it
    uint64_t next;
    uint64_t seen[MUSTER_LINK_WINDOW / 64]; // bit link % WINDOW
    // Messages about rows, to find out when none is under way:
    uint64_t said;
    uint64_t heard;
    int64_t heard_ns; // last sign of life
    uint64_t updates; // it said that it made
    uint64_t told;    // and which of its tellings that was
} muster_node_link;

/* A worker's request under way. Bits are positions in its operation. */
typedef struct muster_request_record {
    muster_row_request *request; // NULL: free
    uint32_t generation;
    uint32_t words;
    uint64_t *open; // not done yet
    uint64_t *back; // of these: surely not done elsewhere
} muster_request_record;

/* A change of membership, as every node follows it; see loss.c. */
typedef struct muster_membership_change {
    uint32_t epoch;
    uint32_t phase; // done here; 0: none is under way
    // At the lead:
    uint32_t leading; // the newest epoch
    uint32_t resumed; // the last that came to its end
    uint64_t members; // of it
    uint64_t settled; // of the last that came to its end
    uint64_t begun_value;
    uint64_t lost_updates; // of nodes lost, as they last told
    uint32_t asked;        // phase
    uint32_t round;        // of counting
    uint64_t answered;     // nodes
    uint64_t sums[2];      // messages sent and received, of those answered
    uint64_t last[2];      // of the round before
    bool compared;         // `last` is of this phase
    muster_membership_news cost;
    // SETTLE, while the host is not prepared for it; kind 0: nothing waits.
    muster_rowmsg postponed;
} muster_membership_change;

/* Home: a node's intents for a row. Below 0: their end came first. */
typedef struct muster_home_intent {
    uint32_t next; // of the same row; UINT32_MAX ends the list
    uint16_t node;
    int32_t count;
} muster_home_intent;

typedef struct muster_home_intents {
    muster_map here;   // how many of this node's intents a row has
    muster_map wanted; // home: the first of a row's wants
    muster_vec wants;  // muster_home_intent
    uint32_t wants_free;
} muster_home_intents;

/* Who intends to use a row. */
typedef struct muster_intended_by {
    bool by_asker;
    bool by_others;
} muster_intended_by;

struct muster_protocol {
    muster_protocol_opts opts;
    muster_rowshape shapes[MUSTER_PS_TABLES_MAX];
    uint64_t alive; // members, this node too
    muster_membership_change change;
    uint16_t *home_at;        // [nodes]: who is home of keys % nodes
    uint16_t *settled_at;     // the same before the change under way
    uint16_t *next_at;        // the same after it
    muster_home_table *homes; // [nodes]: of the keys that are this modulo nodes
    muster_map copied_at;     // during a change: age << 10 | holder
    muster_vec held;          // muster_row_request *: wait for the change's end
    uint32_t note;            // from the lead, when we joined
    uint64_t told;            // how often updates were told
    int64_t beat_ns;          // when the next heartbeat is due
    int64_t looked_ns;        // when silence was last looked for
    muster_vec index;         // uint32_t: keys and tags of the message
    muster_heavy *asked_for[MUSTER_PS_TABLES_MAX]; // how often, at this home
    muster_node_link *links;
    muster_vec coming; // muster_arriving_row
    uint32_t coming_free;
    uint32_t coming_count; // that are not free
    muster_vec waits;      // muster_waiting_op
    uint32_t wait_free;
    muster_map copy_at;
    muster_vec copies;   // muster_replica
    uint32_t asked;      // copies with SYNC under way
    uint32_t quiet;      // times that none was found changed, one after another
    int64_t synced_ns;   // when all were last looked at
    muster_vec requests; // muster_request_record
    uint32_t requests_open;
    muster_vec drafts; // muster_draft; the first draft_count are in use
    uint32_t draft_count;
    muster_vec inbox; // muster_rowmsg: what the node says to itself
    muster_home_intents intents;
    int64_t now_ns;
    int64_t due_ns;
    uint32_t barrier_state; // see barrier.c
    uint64_t barriers;      // this node has asked to pass
    uint64_t met;           // members at the last
    uint32_t *arrived;      // lead: barriers each node has reached
    muster_protocol_counters counters;
    muster_protocol_out *out; // of the step under way
    bool failed;              // out of memory
};

/* A table whose rows or words are about to be used; see ps/store/holder.h. */
static inline muster_ps_table *muster_protocol_rows(muster_protocol *node,
                                                    uint32_t table)
{
    muster_ps_table *rows = node->opts.tables[table];
    muster_ps_table_use(rows);
    return rows;
}

/* How the rows of a table come to who asks for them. */
static inline muster_ps_manage
muster_protocol_manage(const muster_protocol *node, uint32_t table)
{
    return node->opts.manage == MUSTER_PS_AUTO &&
                   node->opts.tables[table]->in_turns
               ? MUSTER_PS_RELOCATE
               : node->opts.manage;
}

#define MUSTER_ARRIVING_NONE UINT32_MAX

static inline bool muster_protocol_lives(const muster_protocol *node,
                                         uint16_t peer)
{
    return peer < node->opts.nodes && (node->alive >> peer & 1) != 0;
}

/* A change of membership is under way: nothing new is asked for. */
static inline bool muster_protocol_paused(const muster_protocol *node)
{
    return node->change.phase != 0;
}

static inline uint16_t muster_home_of(const muster_protocol *node, uint32_t key)
{
    return node->home_at[key % node->opts.nodes];
}

/* Does the message come from who decides about the row? */
static inline bool muster_protocol_is_order(const muster_protocol *node,
                                            const muster_rowmsg *message,
                                            uint32_t key)
{
    return message->from == muster_home_of(node, key);
}

static inline muster_home_entry *
muster_home_entry_at(muster_protocol *node, uint32_t table, uint32_t key)
{
    uint32_t nodes = node->opts.nodes;
    return &node->homes[key % nodes].table[table][key / nodes];
}

/* The next node on the way to a row's owner: its home, or from there the owner
 * itself. */
static inline uint16_t muster_protocol_towards(muster_protocol *node,
                                               uint32_t table, uint32_t key)
{
    uint16_t home = muster_home_of(node, key);
    return home == node->opts.node
               ? muster_home_entry_at(node, table, key)->owner
               : home;
}

/* Make the table of homes of the keys that are `which` modulo the nodes, or
 * empty it: no owner is known. */
void muster_home_reset(muster_protocol *node, uint16_t which);

/* One more entry of the message described by `head`, to be sent when that is
 * full, at the end of the step at the latest. values may be NULL when the
 * kind has none. What is meant for a node that is lost goes back to who
 * asked. */
void muster_draft_add(muster_protocol *node, uint16_t to,
                      const muster_rowmsg *head, uint32_t key, uint32_t tag,
                      const float *values);
/* The same for who writes the values itself: where they go, to be written
 * before anything else is drafted. NULL when there are none, or nobody to
 * tell. */
float *muster_draft_room(muster_protocol *node, uint16_t to,
                         const muster_rowmsg *head, uint32_t key, uint32_t tag);
/* A message without entries. */
void muster_draft_plain(muster_protocol *node, uint16_t to,
                        const muster_rowmsg *head);
/* Turn drafts into messages. */
void muster_draft_flush(muster_protocol *node);
/* Messages that must have arrived before a change of membership goes on. */
static inline bool muster_node_link_counts(muster_rowmsg_kind kind)
{
    return muster_rowmsg_has_rows(kind) || kind == MUSTER_ROWMSG_STATS;
}
/* True when the message is new; it counts as seen from now on. */
bool muster_node_link_accept(muster_protocol *node,
                             const muster_rowmsg *message);

/* op.c: operations. */
void muster_protocol_on_rows(muster_protocol *node,
                             const muster_rowmsg *message);
void muster_protocol_on_reply(muster_protocol *node,
                              const muster_rowmsg *message);
/* An operation done: tell who asked. `row` is read for pulls. */
void muster_protocol_answer(muster_protocol *node, const muster_rowmsg *head,
                            uint32_t key, uint32_t position, const float *row);
/* Do an operation of a message or a waiter on a row that is held. */
void muster_protocol_apply(muster_protocol *node, const muster_rowmsg *head,
                           uint32_t key, uint32_t position, float *values,
                           float *row);

/* An entry whose row is on its way waits for it. A message's payload is kept
 * as long as its values are needed. */
void muster_arriving_wait(muster_protocol *node, uint32_t index,
                          const muster_rowmsg *message, uint32_t position,
                          float *values);
/* The row has come to lie in `row`: do all that waits, in order, and forget
 * that it was on its way. With `copy`, what others want goes on to the owner.
 * Returns what is to happen next with the row. */
muster_arriving_row muster_arriving_end(muster_protocol *node, uint32_t table,
                                        uint32_t key, float *row, bool copy);
/* The record of a row that is on its way here, or MUSTER_ARRIVING_NONE. */
static inline uint32_t muster_arriving_find(const muster_protocol *node,
                                            uint32_t table, uint32_t key)
{
    uint64_t word = atomic_load_explicit(&node->opts.tables[table]->words[key],
                                         memory_order_relaxed);
    return muster_word_state_of(word) == MUSTER_ROW_ARRIVING
               ? muster_word_slot(word)
               : MUSTER_ARRIVING_NONE;
}
/* Ask for a row; it is on its way from now on. */
void muster_arriving_ask(muster_protocol *node, uint32_t table, uint32_t key,
                         bool copy);

void muster_protocol_on_localize(muster_protocol *node,
                                 const muster_rowmsg *message);
void muster_protocol_on_hand_over(muster_protocol *node,
                                  const muster_rowmsg *message);
void muster_protocol_on_transfer(muster_protocol *node,
                                 const muster_rowmsg *message);
void muster_protocol_on_replica(muster_protocol *node,
                                const muster_rowmsg *message);
void muster_protocol_on_synced(muster_protocol *node,
                               const muster_rowmsg *message);

/* Send what copies have delta; `all`: also ask for those without a change.
 * True: some had been changed here. */
bool muster_replica_sync(muster_protocol *node, bool all);
/* The time has come to do so, and says when it comes again. */
void muster_replica_due(muster_protocol *node);
/* How long to wait between synchronisations. */
int64_t muster_replica_period_ns(const muster_protocol *node);

void muster_protocol_on_barrier(muster_protocol *node,
                                const muster_rowmsg *message);
void muster_protocol_on_release(muster_protocol *node,
                                const muster_rowmsg *message);
/* Go on with a barrier when what it waits for has come. */
void muster_protocol_barrier_step(muster_protocol *node);
/* After a change of membership. */
void muster_protocol_barrier_resume(muster_protocol *node);

/* A copy becomes the row itself. */
void muster_replica_adopt(muster_protocol *node, uint32_t table, uint32_t key);
/* Answers of lost nodes are no longer waited for; the age of a copy in ms. */
void muster_replica_forget_asked(muster_protocol *node);
uint32_t muster_replica_age_ms(const muster_protocol *node,
                               const muster_replica *copy);

/* protocol.c: begin and end a step of one's own. */
void muster_protocol_begin(muster_protocol *node, int64_t now_ns,
                           muster_protocol_out *out);
MUSTER_CHECKED muster_status muster_protocol_end(muster_protocol *node);
/* request.c: start a request; send entry `position` of one where its row is;
 * an entry is done, `row` holds what was pulled. */
void muster_request_start(muster_protocol *node, muster_row_request *request);
void muster_request_send(muster_protocol *node, uint64_t id, uint32_t position);
void muster_request_finish(muster_protocol *node, const muster_rowmsg *head,
                           uint32_t position, const float *row);
/* An entry of `head` was surely not done: tell who asked. */
void muster_request_return(muster_protocol *node, const muster_rowmsg *head,
                           uint32_t key, uint32_t position);
void muster_protocol_on_return(muster_protocol *node,
                               const muster_rowmsg *message);

/* life.c: who is there. */
void muster_membership_init(muster_protocol *node);
uint64_t
muster_membership_everybody(const muster_protocol *node); // one bit each
void muster_membership_tick(muster_protocol *node);
/* BEAT and BARRIER tell how many updates were made; `mask` numbers them, since
 * they may overtake each other. */
void muster_membership_add_updates(muster_protocol *node, muster_rowmsg *word);
void muster_membership_heard_updates(muster_protocol *node,
                                     const muster_rowmsg *word);
int64_t muster_membership_due_ns(const muster_protocol *node);
void muster_protocol_on_suspect(muster_protocol *node,
                                const muster_rowmsg *message);
void muster_protocol_tell(muster_protocol *node,
                          const muster_membership_news *news);

/* loss.c: changes of membership. The lead: begin one. */
void muster_membership_change_begin(muster_protocol *node, uint64_t members,
                                    uint64_t value);
void muster_protocol_on_phase(muster_protocol *node,
                              const muster_rowmsg *message);
/* Time has passed: an order may be obeyed that had to wait. */
void muster_membership_change_tick(muster_protocol *node);
void muster_protocol_on_count(muster_protocol *node,
                              const muster_rowmsg *message);
void muster_protocol_on_resume(muster_protocol *node,
                               const muster_rowmsg *message);
void muster_protocol_on_stats(muster_protocol *node,
                              const muster_rowmsg *message);

/* restore.c: what a node does in them. */
void muster_recovery_enter(muster_protocol *node);
void muster_recovery_report(muster_protocol *node);
/* Will SETTLE ask the host for rows? */
bool muster_recovery_needs_host(muster_protocol *node);
void muster_recovery_settle(muster_protocol *node);
void muster_recovery_agree(muster_protocol *node);
void muster_recovery_resume(muster_protocol *node);
void muster_protocol_on_report(muster_protocol *node,
                               const muster_rowmsg *message);
void muster_protocol_on_adopt(muster_protocol *node,
                              const muster_rowmsg *message);

/* intent.c: what is known of intents. */
void muster_home_intents_fini(muster_protocol *node);
void muster_protocol_on_intent(muster_protocol *node,
                               const muster_rowmsg *message);
muster_intended_by muster_home_intent_of(const muster_protocol *node,
                                         uint32_t table, uint32_t key,
                                         uint16_t asker);
bool muster_home_intent_here(const muster_protocol *node, uint32_t table,
                             uint32_t key);
/* A row has left that intents may still be for. */
void muster_home_intent_departed(muster_protocol *node, uint32_t table,
                                 uint32_t key);
/* A change of membership: homes forget, and later all tell again. */
void muster_home_intents_forget(muster_protocol *node);
void muster_home_intents_retell(muster_protocol *node);
/* A row that is here as a copy could not be used: send for the owner's. */
void muster_replica_spent(muster_protocol *node, uint32_t table, uint32_t key);
/* Is a copy, if there is one, wanted any longer? */
void muster_replica_keep(muster_protocol *node, muster_rowref ref, bool wanted);

#endif // MUSTER_PS_PROTOCOL_INSIDE_H
