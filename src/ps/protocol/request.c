/*
 * request.c -- workers' requests: which of their entries are done, which
 * are under way, and which came back undone.
 *
 * Every entry has a bit that is set from the start until its answer, so that an
 * answer counts once and only where one is due, whatever a peer sends.
 */
#include <string.h>

#include "base/mem.h"
#include "ps/protocol/inside.h"

static bool bit_of(const uint64_t *bits, uint32_t position)
{
    return (bits[position / 64] >> position % 64 & 1) != 0;
}

/* The tally of a request that waits for this entry, or NULL. */
static muster_request_record *
tally_of(muster_protocol *node, const muster_rowmsg *head, uint32_t position)
{
    muster_request_record *tally = node->requests.records.data;
    uint32_t index = (uint32_t)head->request;
    if (index >= node->requests.records.count) {
        return NULL;
    }
    tally += index;
    bool due = tally->generation == (uint32_t)(head->request >> 32) &&
               tally->request != NULL && tally->request->op == head->op &&
               tally->request->table == head->table &&
               position / 64 < tally->words && bit_of(tally->open, position);
    return due ? tally : NULL;
}

static bool make_bits(muster_request_record *tally, uint32_t words)
{
    if (tally->words >= words) {
        return true;
    }
    muster_mem_free(tally->open);
    muster_mem_free(tally->returned);
    tally->open = muster_mem_array(words, sizeof(uint64_t));
    tally->returned = muster_mem_array(words, sizeof(uint64_t));
    tally->words = tally->open != NULL && tally->returned != NULL ? words : 0;
    return tally->words > 0;
}

/* A free tally with room for the request's positions. */
static muster_request_record *take_tally(muster_protocol *node,
                                         const muster_row_request *request,
                                         uint32_t *index_out)
{
    muster_request_record *all = node->requests.records.data;
    uint32_t index = 0;
    uint32_t most = 0;
    // Few are open at a time: one or some per worker.
    while (index < node->requests.records.count && all[index].request != NULL) {
        index++;
    }
    for (uint32_t i = 0; i < request->count; i++) {
        uint32_t position = request->positions[i];
        most = position > most ? position : most;
    }
    if (index == node->requests.records.count &&
        muster_vec_push(&node->requests.records) == NULL) {
        return NULL;
    }
    all = node->requests.records.data;
    *index_out = index;
    return make_bits(&all[index], most / 64 + 1) ? &all[index] : NULL;
}

void muster_request_send(muster_protocol *node, uint64_t id, uint32_t position)
{
    const muster_request_record *tally = node->requests.records.data;
    muster_row_request *request = tally[(uint32_t)id].request;
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
    // It may have come since the worker looked; a copy serves as well.
    float *row = muster_ps_table_begin(table, key);
    if (row != NULL) {
        muster_protocol_apply(node, &head, key, position, values, row);
        muster_ps_table_end(table, key);
        return;
    }
    uint32_t coming = muster_arriving_find(node, request->table, key);
    if (coming != MUSTER_ARRIVING_NONE) {
        muster_arriving_wait(node, coming, &head, position, values);
        return;
    }
    muster_replica_refresh(node, request->table, key);
    node->counters.remote_ops++;
    uint16_t to = muster_protocol_next_hop(node, request->table, key);
    muster_draft_add(node, to, &head, key, position, values);
}

void muster_request_start(muster_protocol *node, muster_row_request *request)
{
    uint32_t index = 0;
    muster_request_record *tally = take_tally(node, request, &index);
    if (tally == NULL) {
        node->failed = true;
        return;
    }
    memset(tally->open, 0, tally->words * sizeof(uint64_t));
    memset(tally->returned, 0, tally->words * sizeof(uint64_t));
    for (uint32_t i = 0; i < request->count; i++) {
        uint32_t position = request->positions[i];
        tally->open[position / 64] |= 1ull << position % 64;
    }
    request->left = request->count;
    tally->request = request;
    node->requests.open++;
    uint64_t id = (uint64_t)tally->generation << 32 | index;
    // The last entry that is done here ends the request: it may be gone then.
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
    muster_request_record *tally = tally_of(node, head, position);
    if (tally == NULL) {
        node->counters.violations++;
        return;
    }
    muster_row_request *request = tally->request;
    uint32_t floats = muster_rowmsg_floats(MUSTER_ROWMSG_REPLY, request->op,
                                           &node->shapes[request->table]);
    if (floats > 0) {
        memcpy(request->values + (size_t)position * floats, row,
               floats * sizeof(float));
    }
    tally->open[position / 64] &= ~(1ull << position % 64);
    if (--request->left > 0) {
        return;
    }
    tally->request = NULL;
    tally->generation++;
    node->requests.open--;
    if (!muster_vec_append(&node->step.out->done, &request, 1)) {
        node->failed = true;
    }
}

/* ---- entries that come back ---------------------------------------------- */

static void mark_back(muster_protocol *node, const muster_rowmsg *head,
                      uint32_t position)
{
    muster_request_record *tally = tally_of(node, head, position);
    if (tally == NULL) {
        node->counters.violations++;
        return;
    }
    tally->returned[position / 64] |= 1ull << position % 64;
}

void muster_request_return(muster_protocol *node, const muster_rowmsg *head,
                           uint32_t key, uint32_t position)
{
    if (head->origin == node->opts.node) {
        mark_back(node, head, position);
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
        mark_back(node, message, muster_rowmsg_position(message, i));
    }
}
