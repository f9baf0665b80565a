/*
 * op.c -- OP, SYNC and REPLICATE entries: applied when the row is owned here,
 * queued while the row arrives, else forwarded towards the owner; and replies.
 *
 * Invariants
 *  1. An entry is applied once, by the node that owns the row, or forwarded.
 *  2. A home that only waits for a replica queues nothing: it knows the owner.
 */
#include <string.h>

#include "base/assert.h"
#include "ps/protocol/inside.h"
#include "ps/protocol/prefetch.h"
#include "ps/store/delta.h"

void muster_protocol_reply(muster_protocol *node, const muster_rowmsg *head,
                           uint32_t key, uint32_t position, const float *row)
{
    if (head->origin == node->opts.node) {
        muster_request_finish(node, head, position, row);
        return;
    }
    muster_rowmsg reply = {.kind = MUSTER_ROWMSG_REPLY,
                           .op = head->op,
                           .table = head->table,
                           .origin = head->origin,
                           .request = head->request};
    muster_draft_add(node, head->origin, &reply, key, position, row);
}

static void apply_op(const muster_ps_table *table, muster_row_op op, float *row,
                     float *values)
{
    switch (op) {
    case MUSTER_ROWOP_PUSH:
    case MUSTER_ROWOP_GRADIENT:
    case MUSTER_ROWOP_SET:
        muster_ps_table_apply(table, op, row, values);
        return;
    case MUSTER_ROWOP_PUSH_ROW:
        muster_delta_apply(row, values, row, table->floats);
        return;
    case MUSTER_ROWOP_NONE:
    case MUSTER_ROWOP_PULL:
    case MUSTER_ROWOP_PULL_ROW:
        return;
    }
}

/* The delta of a replica. */
static void apply_delta(const muster_ps_table *table, float *row,
                        const float *delta, float *sent)
{
    if (table->damped && table->rule.kind == MUSTER_PS_ADAGRAD) {
        muster_delta_apply_gradients(row, delta, table->width);
        if (sent != row) {
            memcpy(sent, row, table->floats * sizeof(float));
        }
    } else {
        muster_delta_apply(row, delta, sent, table->floats);
    }
}

void muster_protocol_apply(muster_protocol *node, const muster_rowmsg *head,
                           uint32_t key, uint32_t tag, float *values,
                           float *row)
{
    const muster_ps_table *table = node->opts.tables[head->table];
    if (head->kind == MUSTER_ROWMSG_OP) {
        apply_op(table, head->op, row, values);
        muster_protocol_reply(node, head, key, tag, row);
        return;
    }
    bool sync = head->kind == MUSTER_ROWMSG_SYNC;
    MUSTER_ASSERT(sync || head->kind == MUSTER_ROWMSG_REPLICATE);
    muster_rowmsg back = {.kind = sync ? MUSTER_ROWMSG_SYNCED
                                       : MUSTER_ROWMSG_REPLICA,
                          .table = head->table,
                          .origin = head->origin};
    float *sent = muster_draft_reserve(node, head->origin, &back, key, tag);
    if (sync && head->op != MUSTER_ROWOP_NONE) {
        apply_delta(table, row, values, sent != NULL ? sent : row);
    } else if (sent != NULL) {
        memcpy(sent, row, table->floats * sizeof(float));
    }
}

/* Apply, queue or forward entry i of a message. */
static void route(muster_protocol *node, const muster_rowmsg *message,
                  uint32_t i, float *values)
{
    uint32_t key = muster_rowmsg_keys(message)[i];
    uint32_t tag = muster_rowmsg_tags(message)[i];
    muster_ps_table *table = muster_protocol_rows(node, message->table);
    // Only the protocol changes states: a row that is owned here stays here.
    uint64_t word =
        atomic_load_explicit(&table->words[key], memory_order_relaxed);
    if (muster_word_state_of(word) == MUSTER_ROW_OWNED) {
        float *row = muster_ps_table_begin(table, key);
        MUSTER_ASSERT(row != NULL);
        muster_protocol_apply(node, message, key, tag, values, row);
        muster_ps_table_end(table, key);
        return;
    }
    uint16_t to = muster_protocol_next_hop(node, message->table, key);
    uint32_t arriving = muster_arriving_find(node, message->table, key);
    // A home that only waits for a replica knows the owner. It must forward to
    // the owner: the entry may be the order to send that very replica.
    bool elsewhere =
        muster_home_of(node, key) == node->opts.node && to != node->opts.node;
    if (arriving != MUSTER_ARRIVING_NONE && !elsewhere) {
        muster_arriving_wait(node, arriving, message, tag, values);
        return;
    }
    if (to == node->opts.node) {
        node->counters.violations++;
        return;
    }
    node->counters.forwards++;
    muster_draft_add(node, to, message, key, tag, values);
}

void muster_protocol_on_rows(muster_protocol *node,
                             const muster_rowmsg *message)
{
    uint32_t floats = muster_rowmsg_floats(message->kind, message->op,
                                           &node->shapes[message->table]);
    float *values = muster_rowmsg_values(message);
    for (uint32_t i = 0; i < message->count && !node->failed; i++) {
        muster_protocol_prefetch(node, message, i);
        route(node, message, i, values + (size_t)i * floats);
    }
}

void muster_protocol_on_reply(muster_protocol *node,
                              const muster_rowmsg *message)
{
    uint32_t floats = muster_rowmsg_floats(message->kind, message->op,
                                           &node->shapes[message->table]);
    const float *values = muster_rowmsg_values(message);
    for (uint32_t i = 0; i < message->count; i++) {
        muster_request_finish(node, message, muster_rowmsg_position(message, i),
                              values + (size_t)i * floats);
    }
}
