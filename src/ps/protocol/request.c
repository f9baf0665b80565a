/*
 * request.c -- requests of workers: which entries have no reply yet, and which
 * of these were returned unapplied.
 *
 * Every entry has a bit, set from the start of the request until its reply. So
 * a reply counts once, and only for an entry that waits, whatever peers send.
 */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "ps/protocol/inside.h"

#define USES_MAX 16u // round trips, after which a row is requested

static bool bit_of(const uint64_t *bits, uint32_t position)
{
    return (bits[position / 64] >> position % 64 & 1) != 0;
}

/* The record of the request that waits for this entry, or NULL. */
static muster_request_record *
open_record(muster_protocol *node, const muster_rowmsg *head, uint32_t position)
{
    muster_request_record *record = node->requests.records.data;
    uint32_t index = (uint32_t)head->request;
    if (index >= node->requests.records.count) {
        return NULL;
    }
    record += index;
    bool due = record->generation == (uint32_t)(head->request >> 32) &&
               record->request != NULL && record->request->op == head->op &&
               record->request->table == head->table &&
               position / 64 < record->words && bit_of(record->open, position);
    return due ? record : NULL;
}

static bool make_bits(muster_request_record *record, uint32_t words)
{
    if (record->words >= words) {
        return true;
    }
    muster_mem_free(record->open);
    muster_mem_free(record->returned);
    record->open = muster_mem_array(words, sizeof(uint64_t));
    record->returned = muster_mem_array(words, sizeof(uint64_t));
    record->words =
        record->open != NULL && record->returned != NULL ? words : 0;
    return record->words > 0;
}

/* A free record with bits for the positions of the request. */
static muster_request_record *take_record(muster_protocol *node,
                                          const muster_row_request *request,
                                          uint32_t *index_out)
{
    muster_request_record *all = node->requests.records.data;
    uint32_t index = 0;
    uint32_t max = 0;
    // Few requests are open at a time: one or some per worker.
    while (index < node->requests.records.count && all[index].request != NULL) {
        index++;
    }
    for (uint32_t i = 0; i < request->count; i++) {
        uint32_t position = request->positions[i];
        max = position > max ? position : max;
    }
    if (index == node->requests.records.count &&
        muster_vec_push(&node->requests.records) == NULL) {
        return NULL;
    }
    all = node->requests.records.data;
    *index_out = index;
    return make_bits(&all[index], max / 64 + 1) ? &all[index] : NULL;
}

/* A worker uses a row of another node without having asked for it. Its word
 * counts that; a row that is used often enough to be worth a move or a replica
 * is requested. */
static void bring_if_used(muster_protocol *node, uint32_t table, uint32_t key)
{
    muster_word *word = &muster_protocol_rows(node, table)->words[key];
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    if (muster_word_state_of(seen) != MUSTER_ROW_ABSENT ||
        muster_protocol_manage(node, table) != MUSTER_PS_AUTO ||
        muster_protocol_paused(node)) {
        return;
    }
    uint32_t uses = muster_word_slot(seen) + 1;
    if (uses < USES_MAX) {
        muster_latch_publish(word, muster_word_make(MUSTER_ROW_ABSENT, uses,
                                                    muster_word_moves(seen)));
        return;
    }
    muster_arriving_request(node, table, key, MUSTER_ROWOP_PULL);
}

void muster_request_send(muster_protocol *node, uint64_t id, uint32_t position)
{
    const muster_request_record *record = node->requests.records.data;
    muster_row_request *request = record[(uint32_t)id].request;
    muster_rowmsg head = {.kind = MUSTER_ROWMSG_OP,
                          .op = request->op,
                          .table = (uint16_t)request->table,
                          .from = node->opts.node,
                          .origin = node->opts.node,
                          .request = id};
    muster_ps_table *table = muster_protocol_rows(node, request->table);
    uint32_t in = muster_rowmsg_floats(MUSTER_ROWMSG_OP, request->op,
                                       &node->shapes[request->table]);
    uint32_t key = request->keys[position];
    float *values = request->values + (size_t)position * in;
    // The row may have arrived since the worker looked; a replica will do.
    float *row = muster_ps_table_begin(table, key);
    if (row != NULL) {
        muster_protocol_apply(node, &head, key, position, values, row);
        // A pull leaves a replica clean: it has no delta to send.
        bool written = request->op != MUSTER_ROWOP_PULL &&
                       request->op != MUSTER_ROWOP_PULL_ROW;
        muster_latch_release(&table->words[key], written);
        return;
    }
    bring_if_used(node, request->table, key);
    uint32_t arriving = muster_arriving_find(node, request->table, key);
    if (arriving != MUSTER_ARRIVING_NONE) {
        muster_arriving_wait(node, arriving, &head, position, values);
        return;
    }
    muster_replica_refresh(node, request->table, key);
    node->counters.remote_ops++;
    uint16_t to = muster_protocol_next_hop(node, request->table, key);
    muster_draft_add(node, to, &head, key, position, values);
}

void muster_request_start(muster_protocol *node, muster_row_request *request)
{
    MUSTER_ASSERT(request->count > 0); // else it would never end
    uint32_t index = 0;
    muster_request_record *record = take_record(node, request, &index);
    if (record == NULL) {
        node->failed = true;
        return;
    }
    memset(record->open, 0, record->words * sizeof(uint64_t));
    memset(record->returned, 0, record->words * sizeof(uint64_t));
    for (uint32_t i = 0; i < request->count; i++) {
        uint32_t position = request->positions[i];
        record->open[position / 64] |= 1ull << position % 64;
    }
    request->left = request->count;
    record->request = request;
    node->requests.open++;
    uint64_t id = (uint64_t)record->generation << 32 | index;
    // When the last entry is applied here, the request ends: do not touch it
    // after that.
    uint32_t count = request->count;
    for (uint32_t i = 0; i < count && !node->failed; i++) {
        muster_request_send(node, id, request->positions[i]);
    }
}

muster_status muster_protocol_request(muster_protocol *node, int64_t now_ns,
                                      muster_row_request *request,
                                      muster_protocol_out *out)
{
    muster_protocol_begin(node, now_ns, out);
    if (!muster_protocol_paused(node)) {
        muster_request_start(node, request);
    } else if (!muster_vec_append(&node->requests.delayed, &request, 1)) {
        node->failed = true;
    }
    return muster_protocol_end(node);
}

void muster_request_finish(muster_protocol *node, const muster_rowmsg *head,
                           uint32_t position, const float *row)
{
    muster_request_record *record = open_record(node, head, position);
    if (record == NULL) {
        node->counters.violations++;
        return;
    }
    muster_row_request *request = record->request;
    uint32_t floats = muster_rowmsg_floats(MUSTER_ROWMSG_REPLY, request->op,
                                           &node->shapes[request->table]);
    if (floats > 0) {
        memcpy(request->values + (size_t)position * floats, row,
               floats * sizeof(float));
    }
    MUSTER_ASSERT(request->left > 0 && node->requests.open > 0);
    record->open[position / 64] &= ~(1ull << position % 64);
    if (--request->left > 0) {
        return;
    }
    record->request = NULL;
    record->generation++;
    node->requests.open--;
    if (!muster_vec_append(&node->step.out->done, &request, 1)) {
        node->failed = true;
    }
}

/* ---- entries that are returned ------------------------------------------- */

static void mark_returned(muster_protocol *node, const muster_rowmsg *head,
                          uint32_t position)
{
    muster_request_record *record = open_record(node, head, position);
    if (record == NULL) {
        node->counters.violations++;
        return;
    }
    record->returned[position / 64] |= 1ull << position % 64;
}

void muster_request_return(muster_protocol *node, const muster_rowmsg *head,
                           uint32_t key, uint32_t position)
{
    if (head->origin == node->opts.node) {
        mark_returned(node, head, position);
    } else if (muster_protocol_is_member(node, head->origin)) {
        muster_rowmsg back = {.kind = MUSTER_ROWMSG_RETURN,
                              .op = head->op,
                              .table = head->table,
                              .origin = head->origin,
                              .request = head->request};
        muster_draft_add(node, head->origin, &back, key, position, NULL);
    }
}

void muster_protocol_on_return(muster_protocol *node,
                               const muster_rowmsg *message)
{
    for (uint32_t i = 0; i < message->count; i++) {
        mark_returned(node, message, muster_rowmsg_position(message, i));
    }
}
