/*
 * relocate.c -- rows that change their owner.
 *
 * A row that arrives has a record with a queue of the operations that wait for
 * it, and with the node that it must be transferred to next, when its home has
 * already made another node the owner. There is at most one such node, because
 * the home sends the next HAND_OVER to the new owner.
 */
#include <string.h>

#include "base/assert.h"
#include "ps/protocol/inside.h"

static uint32_t take_record(muster_protocol *node)
{
    uint32_t index = node->arriving.rows_free;
    if (index != UINT32_MAX) {
        const muster_arriving_row *all = node->arriving.rows.data;
        MUSTER_ASSERT(all[index].ref == MUSTER_ROWREF_NONE);
        node->arriving.rows_free = all[index].free_next;
        return index;
    }
    index = (uint32_t)node->arriving.rows.count;
    return muster_vec_push(&node->arriving.rows) == NULL ? UINT32_MAX : index;
}

void muster_arriving_request(muster_protocol *node, uint32_t table,
                             uint32_t key, muster_row_op how)
{
    uint32_t index = take_record(node);
    if (index == UINT32_MAX) {
        node->failed = true;
        return;
    }
    node->arriving.count++;
    muster_arriving_row *all = node->arriving.rows.data;
    all[index] = (muster_arriving_row){.ref = muster_rowref_make(table, key),
                                       .first = UINT32_MAX,
                                       .last = UINT32_MAX,
                                       .next_owner = MUSTER_NODE_NONE};
    muster_word *word = &muster_protocol_rows(node, table)->words[key];
    uint64_t before = atomic_load_explicit(word, memory_order_relaxed);
    muster_latch_publish(word, muster_word_make(MUSTER_ROW_ARRIVING, index,
                                                muster_word_moves(before)));
    muster_rowmsg ask = {.kind = MUSTER_ROWMSG_LOCALIZE,
                         .op = how,
                         .table = (uint16_t)table,
                         .origin = node->opts.node};
    muster_draft_add(node, muster_home_of(node, key), &ask, key, 0, NULL);
}

void muster_arriving_wait(muster_protocol *node, uint32_t index,
                          const muster_rowmsg *message, uint32_t tag,
                          float *values)
{
    uint32_t at = node->arriving.ops_free;
    if (at == UINT32_MAX) {
        at = (uint32_t)node->arriving.ops.count;
        if (muster_vec_push(&node->arriving.ops) == NULL) {
            node->failed = true;
            return;
        }
    } else {
        node->arriving.ops_free =
            ((muster_waiting_op *)node->arriving.ops.data)[at].next;
    }
    muster_waiting_op *waits = node->arriving.ops.data;
    waits[at] = (muster_waiting_op){.next = UINT32_MAX,
                                    .kind = message->kind,
                                    .op = message->op,
                                    .origin = message->origin,
                                    .tag = tag,
                                    .request = message->request,
                                    .blob = muster_blob_ref(message->payload),
                                    .values = values};
    MUSTER_ASSERT(index < node->arriving.rows.count);
    muster_arriving_row *arriving = node->arriving.rows.data;
    arriving += index;
    if (arriving->last == UINT32_MAX) {
        arriving->first = at;
    } else {
        waits[arriving->last].next = at;
    }
    arriving->last = at;
}

muster_arriving_row muster_arriving_end(muster_protocol *node, uint32_t table,
                                        uint32_t key, float *row, bool replica)
{
    uint32_t index = muster_arriving_find(node, table, key);
    muster_arriving_row *all = node->arriving.rows.data;
    MUSTER_ASSERT(index < node->arriving.rows.count &&
                  all[index].ref == muster_rowref_make(table, key));
    muster_arriving_row ended = all[index];
    for (uint32_t at = ended.first; at != UINT32_MAX;) {
        muster_waiting_op *waits = node->arriving.ops.data;
        muster_waiting_op wait = waits[at];
        muster_rowmsg head = {.kind = wait.kind,
                              .op = wait.op,
                              .table = (uint16_t)table,
                              .origin = wait.origin,
                              .request = wait.request};
        // Entries of other nodes are for the owner. Applied to a replica they
        // would be acknowledged before the owner has them.
        if (replica &&
            (wait.origin != node->opts.node || wait.kind != MUSTER_ROWMSG_OP)) {
            node->counters.forwards++;
            muster_draft_add(node, muster_protocol_next_hop(node, table, key),
                             &head, key, wait.tag, wait.values);
        } else {
            muster_protocol_apply(node, &head, key, wait.tag, wait.values, row);
        }
        muster_blob_unref(wait.blob);
        waits[at].blob = NULL;
        waits[at].next = node->arriving.ops_free;
        node->arriving.ops_free = at;
        at = wait.next;
    }
    MUSTER_ASSERT(node->arriving.count > 0);
    all[index].ref = MUSTER_ROWREF_NONE;
    all[index].free_next = node->arriving.rows_free;
    node->arriving.rows_free = index;
    node->arriving.count--;
    return ended;
}

#define REQUESTS_PER_AGE 65536u
#define USE_WINDOW_MS    1000u // for rows that are requested by use

/* Count the request; old requests lose their weight. */
static void count_demand(muster_heavy *asked_for, uint32_t key)
{
    muster_heavy_note(asked_for, key);
    if (muster_heavy_total(asked_for) >= REQUESTS_PER_AGE) {
        muster_heavy_age(asked_for);
    }
}

/* Did another node request the row not long ago? A row that was used often
 * before it was requested is requested less often. */
static bool is_contested(const muster_protocol *node,
                         const muster_home_entry *home,
                         const muster_rowmsg *message)
{
    uint32_t now_ms = (uint32_t)(node->step.now_ns / 1000000);
    uint32_t window_ms = message->op == MUSTER_ROWOP_PULL
                             ? USE_WINDOW_MS
                             : (uint32_t)(node->opts.contest_ns / 1000000);
    return home->requester != MUSTER_NODE_NONE &&
           home->requester != message->origin &&
           now_ms - home->requested_ms <= window_ms;
}

/* The home decides: does the owner keep the row and send a replica? False: the
 * row moves. */
static bool should_share(const muster_protocol *node,
                         const muster_home_entry *home,
                         const muster_rowmsg *message, uint32_t key)
{
    uint16_t requester = message->origin;
    muster_intended_by intended =
        muster_node_intents_of(node, message->table, key, requester);
    switch (muster_protocol_manage(node, message->table)) {
    case MUSTER_PS_REPLICATE:
        return true;
    case MUSTER_PS_STATIC:
        return muster_keyset_has(node->opts.replicated, message->table, key);
    case MUSTER_PS_AUTO:
        if (intended.requester || intended.others) {
            return intended.others;
        }
        return message->op == MUSTER_ROWOP_PULL_ROW ||
               muster_heavy_is_hot(node->homes.demand[message->table],
                                   node->opts.hot_factor, key) ||
               is_contested(node, home, message);
    case MUSTER_PS_RELOCATE:
    case MUSTER_PS_CLASSIC:
        break;
    }
    return false;
}

void muster_protocol_on_localize(muster_protocol *node,
                                 const muster_rowmsg *message)
{
    muster_rowmsg order = {.table = message->table, .origin = message->origin};
    for (uint32_t i = 0; i < message->count && !node->failed; i++) {
        uint32_t key = muster_rowmsg_keys(message)[i];
        if (muster_home_of(node, key) != node->opts.node) {
            node->counters.violations++;
            continue;
        }
        muster_home_entry *home =
            muster_home_entry_at(node, message->table, key);
        if (home->owner == message->origin) {
            node->counters.violations++;
            continue;
        }
        uint16_t owner = home->owner;
        count_demand(node->homes.demand[message->table], key);
        if (should_share(node, home, message, key)) {
            order.kind = MUSTER_ROWMSG_REPLICATE;
        } else {
            order.kind = MUSTER_ROWMSG_HAND_OVER;
            home->owner = message->origin;
            home->moves++;
        }
        home->requester = message->origin;
        home->requested_ms = (uint32_t)(node->step.now_ns / 1000000);
        muster_draft_add(node, owner, &order, key, home->moves, NULL);
    }
}

/* Transfer a row to another node and free its slot. */
static void depart(muster_protocol *node, uint32_t table, uint32_t key,
                   uint16_t to, uint32_t moves, uint32_t slot)
{
    muster_ps_table *rows = muster_protocol_rows(node, table);
    muster_rowmsg transfer = {
        .kind = MUSTER_ROWMSG_TRANSFER, .table = (uint16_t)table, .origin = to};
    muster_draft_add(node, to, &transfer, key, moves,
                     muster_slab_row(&rows->slab, slot));
    muster_latch_publish(&rows->words[key],
                         muster_word_make(MUSTER_ROW_ABSENT, 0, moves));
    muster_slab_give(&rows->slab, slot);
}

void muster_protocol_on_hand_over(muster_protocol *node,
                                  const muster_rowmsg *message)
{
    muster_ps_table *rows = muster_protocol_rows(node, message->table);
    for (uint32_t i = 0; i < message->count && !node->failed; i++) {
        uint32_t key = muster_rowmsg_keys(message)[i];
        uint32_t moves = muster_rowmsg_moves(message, i);
        uint32_t arriving = muster_arriving_find(node, message->table, key);
        if (!muster_protocol_from_home(node, message, key)) {
            node->counters.violations++;
            continue;
        }
        if (arriving != MUSTER_ARRIVING_NONE) {
            muster_arriving_row *all = node->arriving.rows.data;
            if (all[arriving].next_owner != MUSTER_NODE_NONE) {
                node->counters.violations++;
                continue;
            }
            all[arriving].next_owner = message->origin;
            all[arriving].next_moves = moves;
            continue;
        }
        uint64_t word;
        if (!muster_latch_here(&rows->words[key], &word) ||
            muster_word_state_of(word) != MUSTER_ROW_OWNED) {
            if (muster_word_here(word)) {
                muster_latch_release(&rows->words[key], false);
            }
            node->counters.violations++;
            continue;
        }
        depart(node, message->table, key, message->origin, moves,
               muster_word_slot(word));
        muster_node_intents_row_departed(node, message->table, key);
    }
}

void muster_protocol_on_transfer(muster_protocol *node,
                                 const muster_rowmsg *message)
{
    muster_ps_table *rows = muster_protocol_rows(node, message->table);
    const float *values = muster_rowmsg_values(message);
    for (uint32_t i = 0; i < message->count && !node->failed; i++) {
        uint32_t key = muster_rowmsg_keys(message)[i];
        uint32_t moves = muster_rowmsg_moves(message, i);
        if (muster_arriving_find(node, message->table, key) ==
            MUSTER_ARRIVING_NONE) {
            node->counters.violations++;
            continue;
        }
        uint32_t slot = muster_slab_take(&rows->slab);
        MUSTER_ASSERT(slot != MUSTER_SLAB_NONE);
        float *row = muster_slab_row(&rows->slab, slot);
        memcpy(row, values + (size_t)i * rows->floats,
               rows->floats * sizeof(float));
        node->counters.relocations++;
        muster_arriving_row ended =
            muster_arriving_end(node, message->table, key, row, false);
        if (ended.next_owner != MUSTER_NODE_NONE) {
            depart(node, message->table, key, ended.next_owner,
                   ended.next_moves, slot);
            muster_node_intents_row_departed(node, message->table, key);
        } else {
            muster_latch_publish(
                &rows->words[key],
                muster_word_make(MUSTER_ROW_OWNED, slot, moves));
        }
    }
}
