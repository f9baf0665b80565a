/*
 * make.c -- create and free a node, and its home tables.
 *
 * At the start every row is owned by its home, node key % nodes. A node that
 * joins later owns nothing, and knows no owner until the members report.
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
        muster_home_entry **home = &node->homes.tables[which].table[t];
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
                                             .requester = MUSTER_NODE_NONE};
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
        if (muster_heavy_create(table->keys / nodes + 1,
                                &node->homes.demand[t]) != MUSTER_OK) {
            return MUSTER_ERR_NO_MEMORY;
        }
    }
    for (uint16_t i = 0; i < nodes; i++) {
        node->homes.at[i] = i;
        node->homes.before[i] = i;
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
    node->arriving.rows = muster_vec_make(sizeof(muster_arriving_row));
    node->arriving.ops = muster_vec_make(sizeof(muster_waiting_op));
    node->replicas.all = muster_vec_make(sizeof(muster_replica));
    node->replicas.sweep.asked = muster_vec_make(sizeof(muster_rowref));
    node->requests.records = muster_vec_make(sizeof(muster_request_record));
    node->drafts.all = muster_vec_make(sizeof(muster_draft));
    node->drafts.to_self = muster_vec_make(sizeof(muster_rowmsg));
    node->requests.delayed = muster_vec_make(sizeof(muster_row_request *));
    node->step.index = muster_vec_make(sizeof(uint32_t));
    node->intents.entries = muster_vec_make(sizeof(muster_home_intent));
    node->intents.free = UINT32_MAX;
    node->arriving.rows_free = UINT32_MAX;
    node->arriving.ops_free = UINT32_MAX;
    node->replicas.sweep.pace = 4;
    node->replicas.sweep.due_ns = INT64_MAX;
    node->links = muster_mem_array(opts->nodes, sizeof(*node->links));
    node->barrier.arrived =
        muster_mem_array(opts->nodes, sizeof(*node->barrier.arrived));
    node->homes.at = muster_mem_array(opts->nodes, sizeof(*node->homes.at));
    node->homes.before =
        muster_mem_array(opts->nodes, sizeof(*node->homes.before));
    node->homes.after =
        muster_mem_array(opts->nodes, sizeof(*node->homes.after));
    node->homes.tables =
        muster_mem_array(opts->nodes, sizeof(*node->homes.tables));
    if (node->links == NULL || node->barrier.arrived == NULL ||
        node->homes.at == NULL || node->homes.before == NULL ||
        node->homes.after == NULL || node->homes.tables == NULL ||
        make_homes(node) != MUSTER_OK) {
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
    muster_waiting_op *waits = node->arriving.ops.data;
    for (size_t i = 0; i < node->arriving.ops.count; i++) {
        muster_blob_unref(waits[i].blob);
    }
    muster_draft *drafts = node->drafts.all.data;
    for (size_t i = 0; i < node->drafts.all.count; i++) {
        muster_vec_fini(&drafts[i].keys);
        muster_vec_fini(&drafts[i].tags);
        muster_vec_fini(&drafts[i].values);
    }
    const muster_request_record *records = node->requests.records.data;
    for (size_t i = 0; i < node->requests.records.count; i++) {
        muster_mem_free(records[i].open);
        muster_mem_free(records[i].returned);
    }
    for (uint32_t t = 0; t < MUSTER_PS_TABLES_MAX; t++) {
        for (uint16_t i = 0; node->homes.tables != NULL && i < node->opts.nodes;
             i++) {
            muster_mem_free(node->homes.tables[i].table[t]);
        }
        muster_heavy_free(node->homes.demand[t]);
    }
    muster_map_fini(&node->replicas.index);
    muster_map_fini(&node->homes.offers);
    muster_node_intents_fini(node);
    muster_vec_fini(&node->requests.delayed);
    muster_vec_fini(&node->step.index);
    muster_vec_fini(&node->arriving.rows);
    muster_vec_fini(&node->arriving.ops);
    muster_vec_fini(&node->replicas.all);
    muster_vec_fini(&node->replicas.sweep.asked);
    muster_vec_fini(&node->requests.records);
    muster_vec_fini(&node->drafts.all);
    muster_vec_fini(&node->drafts.to_self);
    muster_mem_free(node->links);
    muster_mem_free(node->barrier.arrived);
    muster_mem_free(node->homes.at);
    muster_mem_free(node->homes.before);
    muster_mem_free(node->homes.after);
    muster_mem_free(node->homes.tables);
    muster_mem_free(node);
}
