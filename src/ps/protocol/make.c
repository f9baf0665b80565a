/*
 * make.c -- a node's beginning and end, and the tables of homes.
 *
 * At the beginning every row is owned by its home, key % nodes. A node that
 * takes a lost one's place owns nothing, and knows no owner, until it is told.
 */
#include "base/mem.h"
#include "ps/protocol/inside.h"
#include "ps/protocol/protocol.h"

#define MESSAGE_ENTRIES 4096u

muster_protocol_out muster_protocol_out_make(void)
{
    return (muster_protocol_out){
        .sends = muster_vec_make(sizeof(muster_protocol_send)),
        .done = muster_vec_make(sizeof(muster_row_request *)),
        .news = muster_vec_make(sizeof(muster_membership_news))};
}

void muster_protocol_out_fini(muster_protocol_out *out)
{
    const muster_protocol_send *sends = out->sends.data;
    for (size_t i = 0; i < out->sends.count; i++) {
        muster_blob_unref(sends[i].message.payload);
    }
    muster_vec_fini(&out->sends);
    muster_vec_fini(&out->done);
    muster_vec_fini(&out->news);
}

void muster_home_reset(muster_protocol *node, uint16_t which)
{
    uint32_t nodes = node->opts.nodes;
    for (uint32_t t = 0; t < node->opts.table_count; t++) {
        muster_home_entry **home = &node->homes[which].table[t];
        uint32_t count = node->shapes[t].keys / nodes + 1;
        if (*home == NULL) {
            *home = muster_mem_array(count, sizeof(**home));
        }
        if (*home == NULL) {
            node->failed = true;
            return;
        }
        for (uint32_t i = 0; i < count; i++) {
            (*home)[i] = (muster_home_entry){.owner = MUSTER_NODE_NONE,
                                             .asker = MUSTER_NODE_NONE};
        }
    }
}

static muster_status make_homes(muster_protocol *node)
{
    uint16_t nodes = node->opts.nodes;
    uint16_t self = node->opts.node;
    for (uint32_t t = 0; t < node->opts.table_count; t++) {
        const muster_ps_table *table = node->opts.tables[t];
        node->shapes[t] = (muster_rowshape){.keys = table->keys,
                                            .width = table->width,
                                            .floats = table->floats};
        if (muster_heavy_create(table->keys / nodes + 1, &node->asked_for[t]) !=
            MUSTER_OK) {
            return MUSTER_ERR_NO_MEMORY;
        }
    }
    for (uint16_t i = 0; i < nodes; i++) {
        node->home_at[i] = i;
        node->settled_at[i] = i;
    }
    muster_home_reset(node, self);
    for (uint32_t t = 0; t < node->opts.table_count && !node->failed; t++) {
        for (uint32_t key = self; key < node->shapes[t].keys; key += nodes) {
            muster_home_entry_at(node, t, key)->owner =
                node->opts.joins ? MUSTER_NODE_NONE : self;
        }
    }
    return node->failed ? MUSTER_ERR_NO_MEMORY : MUSTER_OK;
}

muster_status muster_protocol_create(const muster_protocol_opts *opts,
                                     muster_protocol **node_out)
{
    muster_protocol *node = muster_mem_array(1, sizeof(*node));
    if (node == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    node->opts = *opts;
    if (opts->message_entries == 0) {
        node->opts.message_entries = MESSAGE_ENTRIES;
    }
    node->coming = muster_vec_make(sizeof(muster_arriving_row));
    node->waits = muster_vec_make(sizeof(muster_waiting_op));
    node->copies = muster_vec_make(sizeof(muster_replica));
    node->requests = muster_vec_make(sizeof(muster_request_record));
    node->drafts = muster_vec_make(sizeof(muster_draft));
    node->inbox = muster_vec_make(sizeof(muster_rowmsg));
    node->held = muster_vec_make(sizeof(muster_row_request *));
    node->index = muster_vec_make(sizeof(uint32_t));
    node->intents.wants = muster_vec_make(sizeof(muster_home_intent));
    node->intents.wants_free = UINT32_MAX;
    node->coming_free = UINT32_MAX;
    node->wait_free = UINT32_MAX;
    node->due_ns = INT64_MAX;
    node->links = muster_mem_array(opts->nodes, sizeof(*node->links));
    node->arrived = muster_mem_array(opts->nodes, sizeof(*node->arrived));
    node->home_at = muster_mem_array(opts->nodes, sizeof(*node->home_at));
    node->settled_at = muster_mem_array(opts->nodes, sizeof(*node->settled_at));
    node->next_at = muster_mem_array(opts->nodes, sizeof(*node->next_at));
    node->homes = muster_mem_array(opts->nodes, sizeof(*node->homes));
    if (node->links == NULL || node->arrived == NULL || node->home_at == NULL ||
        node->settled_at == NULL || node->next_at == NULL ||
        node->homes == NULL || make_homes(node) != MUSTER_OK) {
        muster_protocol_free(node);
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_membership_init(node);
    *node_out = node;
    return MUSTER_OK;
}

void muster_protocol_free(muster_protocol *node)
{
    if (node == NULL) {
        return;
    }
    muster_waiting_op *waits = node->waits.data;
    for (size_t i = 0; i < node->waits.count; i++) {
        muster_blob_unref(waits[i].blob);
    }
    muster_draft *drafts = node->drafts.data;
    for (size_t i = 0; i < node->drafts.count; i++) {
        muster_vec_fini(&drafts[i].keys);
        muster_vec_fini(&drafts[i].tags);
        muster_vec_fini(&drafts[i].values);
    }
    const muster_request_record *tallies = node->requests.data;
    for (size_t i = 0; i < node->requests.count; i++) {
        muster_mem_free(tallies[i].open);
        muster_mem_free(tallies[i].back);
    }
    for (uint32_t t = 0; t < MUSTER_PS_TABLES_MAX; t++) {
        for (uint16_t i = 0; node->homes != NULL && i < node->opts.nodes; i++) {
            muster_mem_free(node->homes[i].table[t]);
        }
        muster_heavy_free(node->asked_for[t]);
    }
    muster_map_fini(&node->copy_at);
    muster_map_fini(&node->copied_at);
    muster_home_intents_fini(node);
    muster_vec_fini(&node->held);
    muster_vec_fini(&node->index);
    muster_vec_fini(&node->coming);
    muster_vec_fini(&node->waits);
    muster_vec_fini(&node->copies);
    muster_vec_fini(&node->requests);
    muster_vec_fini(&node->drafts);
    muster_vec_fini(&node->inbox);
    muster_mem_free(node->links);
    muster_mem_free(node->arrived);
    muster_mem_free(node->home_at);
    muster_mem_free(node->settled_at);
    muster_mem_free(node->next_at);
    muster_mem_free(node->homes);
    muster_mem_free(node);
}
