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

muster_psnode_out muster_psnode_out_make(void)
{
    return (muster_psnode_out){.sends =
                                   muster_vec_make(sizeof(muster_psnode_send)),
                               .done = muster_vec_make(sizeof(muster_psreq *)),
                               .news = muster_vec_make(sizeof(muster_psnews))};
}

void muster_psnode_out_fini(muster_psnode_out *out)
{
    const muster_psnode_send *sends = out->sends.data;
    for (size_t i = 0; i < out->sends.count; i++) {
        muster_blob_unref(sends[i].message.payload);
    }
    muster_vec_fini(&out->sends);
    muster_vec_fini(&out->done);
    muster_vec_fini(&out->news);
}

void muster_pshome_reset(muster_psnode *node, uint16_t which)
{
    uint32_t nodes = node->opts.nodes;
    for (uint32_t t = 0; t < node->opts.table_count; t++) {
        muster_pshome **home = &node->homes[which].table[t];
        uint32_t count = node->shapes[t].keys / nodes + 1;
        if (*home == NULL) {
            *home = muster_mem_array(count, sizeof(**home));
        }
        if (*home == NULL) {
            node->failed = true;
            return;
        }
        for (uint32_t i = 0; i < count; i++) {
            (*home)[i] = (muster_pshome){.owner = MUSTER_PSNODE_NOBODY,
                                         .asker = MUSTER_PSNODE_NOBODY};
        }
    }
}

static muster_status make_homes(muster_psnode *node)
{
    uint16_t nodes = node->opts.nodes;
    uint16_t self = node->opts.node;
    for (uint32_t t = 0; t < node->opts.table_count; t++) {
        const muster_pstable *table = node->opts.tables[t];
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
    muster_pshome_reset(node, self);
    for (uint32_t t = 0; t < node->opts.table_count && !node->failed; t++) {
        for (uint32_t key = self; key < node->shapes[t].keys; key += nodes) {
            muster_pshome_at(node, t, key)->owner =
                node->opts.joins ? MUSTER_PSNODE_NOBODY : self;
        }
    }
    return node->failed ? MUSTER_ERR_NO_MEMORY : MUSTER_OK;
}

muster_status muster_psnode_create(const muster_psnode_opts *opts,
                                   muster_psnode **node_out)
{
    muster_psnode *node = muster_mem_array(1, sizeof(*node));
    if (node == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    node->opts = *opts;
    if (opts->message_entries == 0) {
        node->opts.message_entries = MESSAGE_ENTRIES;
    }
    node->coming = muster_vec_make(sizeof(muster_pscoming));
    node->waits = muster_vec_make(sizeof(muster_pswait));
    node->copies = muster_vec_make(sizeof(muster_pscopy));
    node->requests = muster_vec_make(sizeof(muster_pstally));
    node->drafts = muster_vec_make(sizeof(muster_psdraft));
    node->inbox = muster_vec_make(sizeof(muster_rowmsg));
    node->held = muster_vec_make(sizeof(muster_psreq *));
    node->index = muster_vec_make(sizeof(uint32_t));
    node->intents.wants = muster_vec_make(sizeof(muster_pswant));
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
        muster_psnode_free(node);
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_pslife_init(node);
    *node_out = node;
    return MUSTER_OK;
}

void muster_psnode_free(muster_psnode *node)
{
    if (node == NULL) {
        return;
    }
    muster_pswait *waits = node->waits.data;
    for (size_t i = 0; i < node->waits.count; i++) {
        muster_blob_unref(waits[i].blob);
    }
    muster_psdraft *drafts = node->drafts.data;
    for (size_t i = 0; i < node->drafts.count; i++) {
        muster_vec_fini(&drafts[i].keys);
        muster_vec_fini(&drafts[i].extra);
        muster_vec_fini(&drafts[i].values);
    }
    const muster_pstally *tallies = node->requests.data;
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
    muster_psmap_fini(&node->copy_at);
    muster_psmap_fini(&node->copied_at);
    muster_psintents_fini(node);
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
