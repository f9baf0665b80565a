/*
 * psnode.c -- a node's life, its steps, and operations on rows wherever they
 * are. Workers' requests are in psnode_request.c, moves in psnode_move.c,
 * copies in psnode_copy.c, barriers in psnode_barrier.c, lost nodes in
 * psnode_life.c, psnode_loss.c and psnode_restore.c.
 *
 * Invariants
 *  1. Of all nodes exactly one has a row OWNED, or it is in one TRANSFER.
 *  2. The home's owner of a row is the node that has it, or the one that will
 *     have it when all HAND_OVERs sent have been obeyed.
 *  3. A node has a row ARRIVING exactly while coming_at knows it; it has asked
 *     the home once, and will be answered by one TRANSFER or one REPLICA.
 *  4. A node is sent one HAND_OVER for each time it was made owner.
 *  5. A step leaves no draft and no message to itself behind.
 */
#include "role/psnode.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "role/psnode_inside.h"

#define BARRIER_NONE 0u

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
    muster_psmap_fini(&node->coming_at);
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

/* ---- operations ---------------------------------------------------------- */

void muster_psnode_answer(muster_psnode *node, const muster_rowmsg *head,
                          uint32_t key, uint32_t position, const float *row)
{
    if (head->origin == node->opts.node) {
        muster_psrequest_finish(node, head, position, row);
        return;
    }
    muster_rowmsg reply = {.kind = MUSTER_ROWMSG_REPLY,
                           .op = head->op,
                           .table = head->table,
                           .origin = head->origin,
                           .request = head->request};
    muster_psdraft_add(node, head->origin, &reply, key, position, row);
}

static void add_row(float *row, const float *values, uint32_t floats)
{
    for (uint32_t i = 0; i < floats; i++) {
        row[i] += values[i];
    }
}

static void apply_op(const muster_pstable *table, muster_rowmsg_op op,
                     float *row, float *values)
{
    switch (op) {
    case MUSTER_ROWOP_PUSH:
    case MUSTER_ROWOP_GRADIENT:
    case MUSTER_ROWOP_SET:
        muster_pstable_apply(table, (muster_row_op)op, row, values);
        return;
    case MUSTER_ROWOP_PUSH_ROW:
        add_row(row, values, table->floats);
        return;
    case MUSTER_ROWOP_NONE:
    case MUSTER_ROWOP_PULL:
    case MUSTER_ROWOP_PULL_ROW:
        return;
    }
}

void muster_psnode_apply(muster_psnode *node, const muster_rowmsg *head,
                         uint32_t key, uint32_t position, float *values,
                         float *row)
{
    const muster_pstable *table = node->opts.tables[head->table];
    if (head->kind == MUSTER_ROWMSG_OP) {
        apply_op(table, head->op, row, values);
        muster_psnode_answer(node, head, key, position, row);
        return;
    }
    muster_rowmsg back = {.kind = MUSTER_ROWMSG_REPLICA,
                          .table = head->table,
                          .origin = head->origin};
    if (head->kind == MUSTER_ROWMSG_SYNC) {
        back.kind = MUSTER_ROWMSG_SYNCED;
        if (head->op != MUSTER_ROWOP_NONE) {
            add_row(row, values, table->floats);
        }
    } else {
        MUSTER_ASSERT(head->kind == MUSTER_ROWMSG_REPLICATE);
    }
    muster_psdraft_add(node, head->origin, &back, key, 0, row);
}

/* Entry i of a message that acts on a row, wherever the row is. */
static void route(muster_psnode *node, const muster_rowmsg *message, uint32_t i,
                  float *values)
{
    uint32_t key = muster_rowmsg_keys(message)[i];
    uint32_t position = muster_rowmsg_extra(message)[i];
    muster_pstable *table = muster_psnode_rows(node, message->table);
    // Only this thread changes states, so a row seen here stays until we go on.
    uint64_t word =
        atomic_load_explicit(&table->words[key], memory_order_relaxed);
    if (muster_word_state_of(word) == MUSTER_ROW_OWNED) {
        float *row = muster_pstable_begin(table, key);
        MUSTER_ASSERT(row != NULL);
        muster_psnode_apply(node, message, key, position, values, row);
        muster_pstable_end(table, key);
        return;
    }
    uint16_t to = muster_psnode_towards(node, message->table, key);
    uint32_t coming = muster_pscoming_find(node, message->table, key);
    // A home that only waits for a copy knows the owner, and must not keep
    // messages from it: one may be the order to send that very copy.
    bool elsewhere =
        muster_pshome_of(node, key) == node->opts.node && to != node->opts.node;
    if (coming != MUSTER_PSMAP_NONE && !elsewhere) {
        muster_pscoming_wait(node, coming, message, position, values);
        return;
    }
    if (to == node->opts.node) {
        node->counters.violations++;
        return;
    }
    node->counters.forwards++;
    muster_psdraft_add(node, to, message, key, position, values);
}

static void on_rows(muster_psnode *node, const muster_rowmsg *message)
{
    uint32_t floats = muster_rowmsg_floats(message->kind, message->op,
                                           &node->shapes[message->table]);
    float *values = muster_rowmsg_values(message);
    for (uint32_t i = 0; i < message->count && !node->failed; i++) {
        route(node, message, i, values + (size_t)i * floats);
    }
}

static void on_reply(muster_psnode *node, const muster_rowmsg *message)
{
    uint32_t floats = muster_rowmsg_floats(message->kind, message->op,
                                           &node->shapes[message->table]);
    const float *values = muster_rowmsg_values(message);
    for (uint32_t i = 0; i < message->count; i++) {
        muster_psrequest_finish(node, message, muster_rowmsg_extra(message)[i],
                                values + (size_t)i * floats);
    }
}

static void handle(muster_psnode *node, const muster_rowmsg *message)
{
    switch (message->kind) {
    case MUSTER_ROWMSG_OP:
    case MUSTER_ROWMSG_SYNC:
    case MUSTER_ROWMSG_REPLICATE:
        on_rows(node, message);
        return;
    case MUSTER_ROWMSG_REPLY:
        on_reply(node, message);
        return;
    case MUSTER_ROWMSG_LOCALIZE:
        muster_psnode_on_localize(node, message);
        return;
    case MUSTER_ROWMSG_HAND_OVER:
        muster_psnode_on_hand_over(node, message);
        return;
    case MUSTER_ROWMSG_TRANSFER:
        muster_psnode_on_transfer(node, message);
        return;
    case MUSTER_ROWMSG_REPLICA:
        muster_psnode_on_replica(node, message);
        return;
    case MUSTER_ROWMSG_SYNCED:
        muster_psnode_on_synced(node, message);
        return;
    case MUSTER_ROWMSG_BARRIER:
        muster_psnode_on_barrier(node, message);
        return;
    case MUSTER_ROWMSG_RELEASE:
        muster_psnode_on_release(node, message);
        return;
    case MUSTER_ROWMSG_SUSPECT:
        muster_psnode_on_suspect(node, message);
        return;
    case MUSTER_ROWMSG_ASK:
        muster_psnode_on_ask(node, message);
        return;
    case MUSTER_ROWMSG_COUNT:
        muster_psnode_on_count(node, message);
        return;
    case MUSTER_ROWMSG_RESUME:
        muster_psnode_on_resume(node, message);
        return;
    case MUSTER_ROWMSG_STATS:
        muster_psnode_on_stats(node, message);
        return;
    case MUSTER_ROWMSG_OWNED:
    case MUSTER_ROWMSG_ABSENT:
    case MUSTER_ROWMSG_COPIED:
        muster_psnode_on_report(node, message);
        return;
    case MUSTER_ROWMSG_ADOPT:
        muster_psnode_on_adopt(node, message);
        return;
    case MUSTER_ROWMSG_RETURN:
        muster_psnode_on_return(node, message);
        return;
    case MUSTER_ROWMSG_INTENT:
        muster_psnode_on_intent(node, message);
        return;
    case MUSTER_ROWMSG_BEAT:
        muster_pslife_heard_updates(node, message);
        return;
    case MUSTER_ROWMSG_HELLO:
    case MUSTER_ROWMSG_LEAVE:
    case MUSTER_ROWMSG_QUIT:
    case MUSTER_ROWMSG_EXPEL:
        return;
    }
}

/* ---- steps --------------------------------------------------------------- */

void muster_psnode_begin(muster_psnode *node, int64_t now_ns,
                         muster_psnode_out *out)
{
    node->now_ns = now_ns;
    node->out = out;
}

/* Send what was drafted, and hear what the node told itself. */
muster_status muster_psnode_end(muster_psnode *node)
{
    do {
        muster_psdraft_flush(node);
        for (size_t i = 0; i < node->inbox.count; i++) {
            muster_rowmsg message = ((muster_rowmsg *)node->inbox.data)[i];
            if (!node->failed) {
                handle(node, &message);
            }
            muster_blob_unref(message.payload);
        }
        muster_vec_clear(&node->inbox);
        muster_psnode_barrier_step(node);
    } while (node->draft_count > 0 && !node->failed);
    node->out = NULL;
    return node->failed ? MUSTER_ERR_NO_MEMORY : MUSTER_OK;
}

/* A message of a node that is a member, or that makes us one. */
static bool comes_from_member(muster_psnode *node, const muster_rowmsg *message)
{
    if (muster_psnode_lives(node, message->from) ||
        (message->kind == MUSTER_ROWMSG_ASK && node->opts.joins)) {
        return true;
    }
    node->counters.late++;
    return false;
}

muster_status muster_psnode_message(muster_psnode *node, int64_t now_ns,
                                    const muster_rowmsg *message,
                                    muster_psnode_out *out)
{
    muster_psnode_begin(node, now_ns, out);
    muster_rowmsg mine = *message;
    if (mine.from >= node->opts.nodes || mine.origin >= node->opts.nodes ||
        mine.from == node->opts.node) {
        node->counters.violations++;
        return muster_psnode_end(node);
    }
    node->links[mine.from].heard_ns = now_ns;
    if (mine.kind == MUSTER_ROWMSG_EXPEL && mine.from != 0) {
        node->counters.violations++; // only the lead gives nodes up
    } else if (mine.kind == MUSTER_ROWMSG_EXPEL) {
        muster_psnode_tell(node,
                           &(muster_psnews){.kind = MUSTER_PSNEWS_EXPELLED,
                                            .node = mine.from});
    } else if (!comes_from_member(node, &mine)) {
        return muster_psnode_end(node);
    } else if (!muster_rowmsg_take_index(&mine, &node->index) ||
               !muster_rowmsg_check(&mine, node->shapes,
                                    node->opts.table_count)) {
        node->counters.violations++;
    } else if (mine.kind == MUSTER_ROWMSG_BEAT ||
               muster_pslink_accept(node, &mine)) {
        handle(node, &mine);
    }
    return muster_psnode_end(node);
}

muster_status muster_psnode_localize(muster_psnode *node, int64_t now_ns,
                                     const muster_pswish *wish,
                                     muster_psnode_out *out)
{
    muster_psnode_begin(node, now_ns, out);
    const muster_pstable *rows = node->opts.tables[wish->table];
    for (uint32_t i = 0; i < wish->count && !node->failed; i++) {
        uint64_t word = atomic_load_explicit(&rows->words[wish->keys[i]],
                                             memory_order_relaxed);
        if (muster_word_state_of(word) == MUSTER_ROW_ABSENT &&
            node->opts.manage != MUSTER_PSMANAGE_CLASSIC &&
            !muster_psnode_paused(node)) {
            muster_pscoming_ask(node, wish->table, wish->keys[i], wish->copy);
        }
    }
    return muster_psnode_end(node);
}

muster_status muster_psnode_tick(muster_psnode *node, int64_t now_ns,
                                 muster_psnode_out *out)
{
    muster_psnode_begin(node, now_ns, out);
    muster_pslife_tick(node);
    muster_pschange_tick(node);
    if (now_ns >= node->due_ns && !muster_psnode_paused(node)) {
        muster_pscopy_sync(node, true);
        node->due_ns = node->copies.count > 0
                           ? now_ns + muster_pscopy_period_ns(node)
                           : INT64_MAX;
    }
    return muster_psnode_end(node);
}

int64_t muster_psnode_due_ns(const muster_psnode *node)
{
    int64_t life = muster_pslife_due_ns(node);
    int64_t work = muster_psnode_paused(node) ? INT64_MAX : node->due_ns;
    return life < work ? life : work;
}

muster_psnode_counters muster_psnode_count(const muster_psnode *node)
{
    muster_psnode_counters counters = node->counters;
    counters.copies = (uint32_t)node->copies.count;
    return counters;
}

uint16_t muster_psnode_owner(const muster_psnode *node, uint32_t table,
                             uint32_t key)
{
    uint32_t nodes = node->opts.nodes;
    return node->homes[key % nodes].table[table][key / nodes].owner;
}

uint16_t muster_psnode_home(const muster_psnode *node, uint32_t key)
{
    return muster_pshome_of(node, key);
}

bool muster_psnode_idle(const muster_psnode *node)
{
    const muster_pscopy *copies = node->copies.data;
    if (node->coming_at.count > 0 || node->requests_open > 0 ||
        node->asked > 0 || node->barrier_state != BARRIER_NONE ||
        muster_psnode_paused(node)) {
        return false;
    }
    for (size_t i = 0; i < node->copies.count; i++) {
        const muster_pstable *table = node->opts.tables[copies[i].place >> 32];
        uint64_t word = atomic_load_explicit(
            &table->words[(uint32_t)copies[i].place], memory_order_relaxed);
        if (word & MUSTER_WORD_DIRTY) {
            return false;
        }
    }
    return true;
}
