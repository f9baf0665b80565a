/*
 * recovery.c -- what a node does in the phases of a change of membership.
 *
 * When no message is under way between members, the words of their tables are
 * complete: a row is OWNED by one member, or it is lost. A home that is still a
 * member knows the owner, unless the owner is lost or waits for a row that was
 * lost in a TRANSFER (ABSENT). A node that becomes the home of keys learns
 * their owners from reports (OWNED).
 *
 * A lost row is replaced by the replica that received the owner's row last. The
 * other replicas send the deltas that they have not sent yet with their next
 * SYNC. A delta that was sent and not answered may be contained in the replica
 * or not; it is not sent again, so that nothing counts twice.
 */
#include "base/assert.h"
#include "ps/protocol/inside.h"

#define HOLDER_BITS 10u
#define AGE_MAX_MS  ((1u << (32 - HOLDER_BITS)) - 2)

/* The home of a lost node goes to the next member; a node that is a member
 * again gets its own back. While older messages are under way (phase PAUSE),
 * homes at members stay where they are. */
static void deal_homes(muster_protocol *node)
{
    uint16_t nodes = node->opts.nodes;
    MUSTER_ASSERT(muster_protocol_is_member(node, node->opts.node));
    for (uint16_t h = 0; h < nodes; h++) {
        uint16_t at = h;
        while (!muster_protocol_is_member(node, at)) {
            at = (uint16_t)((at + 1) % nodes);
        }
        node->homes.after[h] = at;
        node->homes.at[h] =
            muster_protocol_is_member(node, node->homes.before[h])
                ? node->homes.before[h]
                : at;
        if (at == node->opts.node && node->homes.before[h] != at) {
            muster_home_reset(node, h);
        }
    }
}

void muster_recovery_enter(muster_protocol *node)
{
    deal_homes(node);
    muster_map_fini(&node->homes.offers);
}

/* ---- report -------------------------------------------------------------- */

/* Return the operations that wait for a row that will never arrive. */
static void return_ops(muster_protocol *node, uint32_t table, uint32_t key,
                       uint32_t first)
{
    for (uint32_t at = first; at != UINT32_MAX;) {
        muster_waiting_op *wait =
            (muster_waiting_op *)node->arriving.ops.data + at;
        muster_rowmsg head = {.kind = wait->kind,
                              .op = wait->op,
                              .table = (uint16_t)table,
                              .origin = wait->origin,
                              .request = wait->request};
        if (wait->kind == MUSTER_ROWMSG_OP) {
            muster_request_return(node, &head, key, wait->tag);
        }
        muster_blob_unref(wait->blob);
        wait->blob = NULL;
        at = wait->next;
    }
}

static void withdraw_arriving(muster_protocol *node)
{
    muster_rowmsg absent = {.kind = MUSTER_ROWMSG_ABSENT,
                            .origin = node->opts.node};
    const muster_arriving_row *rows = node->arriving.rows.data;
    for (size_t i = 0; i < node->arriving.rows.count; i++) {
        if (rows[i].ref == MUSTER_ROWREF_NONE) {
            continue;
        }
        uint32_t table = muster_rowref_table(rows[i].ref);
        uint32_t key = muster_rowref_key(rows[i].ref);
        return_ops(node, table, key, rows[i].first);
        muster_latch_publish(&muster_protocol_rows(node, table)->words[key],
                             muster_word_make(MUSTER_ROW_ABSENT, 0, 0));
        absent.table = (uint16_t)table;
        muster_draft_add(node, muster_home_of(node, key), &absent, key, 0,
                         NULL);
    }
    muster_vec_clear(&node->arriving.rows);
    node->arriving.count = 0;
    muster_vec_clear(&node->arriving.ops);
    node->arriving.rows_free = UINT32_MAX;
    node->arriving.ops_free = UINT32_MAX;
}

/* Report the owned rows of these keys to their new home. */
static void report_owned(muster_protocol *node, uint16_t which)
{
    muster_rowmsg owned = {.kind = MUSTER_ROWMSG_OWNED,
                           .origin = node->opts.node};
    for (uint32_t t = 0; t < node->opts.table_count; t++) {
        const muster_ps_table *table = node->opts.tables[t];
        owned.table = (uint16_t)t;
        for (uint32_t key = which; key < table->keys && !node->failed;
             key += node->opts.nodes) {
            uint64_t word =
                atomic_load_explicit(&table->words[key], memory_order_relaxed);
            if (muster_word_state_of(word) == MUSTER_ROW_OWNED) {
                muster_draft_add(node, node->homes.at[which], &owned, key,
                                 muster_word_moves(word), NULL);
            }
        }
    }
}

static void report_replicas(muster_protocol *node)
{
    muster_rowmsg copied = {.kind = MUSTER_ROWMSG_REPLICATED,
                            .origin = node->opts.node};
    const muster_replica *replicas = node->replicas.all.data;
    MUSTER_ASSERT(node->opts.nodes > 0);
    for (size_t i = 0; i < node->replicas.all.count && !node->failed; i++) {
        uint32_t key = muster_rowref_key(replicas[i].ref);
        copied.table = (uint16_t)muster_rowref_table(replicas[i].ref);
        muster_draft_add(node, muster_home_of(node, key), &copied, key,
                         muster_replica_age_ms(node, &replicas[i]), NULL);
    }
}

void muster_recovery_report(muster_protocol *node)
{
    MUSTER_ASSERT(node->opts.nodes > 0);
    for (uint16_t h = 0; h < node->opts.nodes; h++) {
        node->homes.at[h] = node->homes.after[h];
    }
    withdraw_arriving(node);
    for (uint16_t h = 0; h < node->opts.nodes; h++) {
        if (node->homes.at[h] != node->homes.before[h]) {
            report_owned(node, h);
        }
    }
    report_replicas(node);
}

static void add_offer(muster_protocol *node, muster_rowref ref, uint32_t age_ms,
                      uint16_t holder)
{
    uint32_t age = age_ms < AGE_MAX_MS ? age_ms : AGE_MAX_MS;
    uint32_t offer = age << HOLDER_BITS | holder;
    // MUSTER_MAP_NONE is larger than every offer.
    if (offer < muster_map_find(&node->homes.offers, ref) &&
        !muster_map_set(&node->homes.offers, ref, offer)) {
        node->failed = true;
    }
}

void muster_protocol_on_report(muster_protocol *node,
                               const muster_rowmsg *message)
{
    for (uint32_t i = 0; i < message->count && !node->failed; i++) {
        uint32_t key = muster_rowmsg_keys(message)[i];
        if (node->homes.after[key % node->opts.nodes] != node->opts.node ||
            !muster_protocol_paused(node)) {
            node->counters.violations++;
            continue;
        }
        muster_home_entry *home =
            muster_home_entry_at(node, message->table, key);
        if (message->kind == MUSTER_ROWMSG_OWNED) {
            home->owner = message->origin;
            uint32_t moves = muster_rowmsg_moves(message, i);
            home->moves = moves > home->moves ? moves : home->moves;
        } else if (message->kind == MUSTER_ROWMSG_REPLICATED) {
            add_offer(node, muster_rowref_make(message->table, key),
                      muster_rowmsg_age_ms(message, i), message->origin);
        } else if (home->owner == message->origin) {
            home->owner = MUSTER_NODE_NONE;
        }
    }
}

/* ---- settle -------------------------------------------------------------- */

/* Restore a lost row here, from the host or with its initial value. */
static bool restore_row(muster_protocol *node, uint32_t table, uint32_t key,
                        uint32_t moves)
{
    muster_ps_table *rows = muster_protocol_rows(node, table);
    uint64_t word =
        atomic_load_explicit(&rows->words[key], memory_order_relaxed);
    if (muster_word_state_of(word) != MUSTER_ROW_ABSENT) {
        node->counters.violations++;
        return false;
    }
    uint32_t slot = muster_slab_take(&rows->slab);
    MUSTER_ASSERT(slot != MUSTER_SLAB_NONE);
    float *row = muster_slab_row(&rows->slab, slot);
    bool known = node->opts.restore != NULL &&
                 node->opts.restore(node->opts.host, table, key, row);
    if (!known) {
        muster_ps_table_fresh(rows, key, row);
    }
    muster_latch_publish(&rows->words[key],
                         muster_word_make(MUSTER_ROW_OWNED, slot, moves));
    node->counters.restored += known;
    node->counters.fresh += !known;
    return true;
}

/* Give every row of these keys an owner. Adds to *copied the rows that replicas
 * replace. */
static void settle_homes(muster_protocol *node, uint32_t table, uint16_t which,
                         uint64_t *copied)
{
    muster_rowmsg adopt = {.kind = MUSTER_ROWMSG_ADOPT,
                           .table = (uint16_t)table,
                           .origin = node->opts.node};
    for (uint32_t key = which; key < node->shapes[table].keys && !node->failed;
         key += node->opts.nodes) {
        muster_home_entry *home = muster_home_entry_at(node, table, key);
        if (home->owner != MUSTER_NODE_NONE &&
            muster_protocol_is_member(node, home->owner)) {
            continue;
        }
        uint32_t offer = muster_map_find(&node->homes.offers,
                                         muster_rowref_make(table, key));
        home->moves++;
        if (offer != MUSTER_MAP_NONE) {
            home->owner = (uint16_t)(offer & ((1u << HOLDER_BITS) - 1));
            muster_draft_add(node, home->owner, &adopt, key, home->moves, NULL);
            (*copied)++;
        } else if (restore_row(node, table, key, home->moves)) {
            home->owner = node->opts.node;
        }
    }
}

bool muster_recovery_needs_host(muster_protocol *node)
{
    uint16_t nodes = node->opts.nodes;
    MUSTER_ASSERT(nodes > 0);
    for (uint32_t t = 0; t < node->opts.table_count; t++) {
        for (uint32_t key = 0; key < node->shapes[t].keys; key++) {
            if (node->homes.at[key % nodes] != node->opts.node) {
                continue;
            }
            uint16_t owner = muster_home_entry_at(node, t, key)->owner;
            bool lost = owner == MUSTER_NODE_NONE ||
                        !muster_protocol_is_member(node, owner);
            if (lost && muster_map_find(&node->homes.offers,
                                        muster_rowref_make(t, key)) ==
                            MUSTER_MAP_NONE) {
                return true;
            }
        }
    }
    return false;
}

/* Would the operation count twice if it were applied twice? A SET does not: it
 * has the same effect, as if it had come late. */
static bool counts_twice(muster_row_op op)
{
    return op == MUSTER_ROWOP_PUSH || op == MUSTER_ROWOP_GRADIENT ||
           op == MUSTER_ROWOP_PUSH_ROW;
}

/* Number of updates whose reply will never come. */
static uint64_t count_unanswered(const muster_protocol *node)
{
    const muster_request_record *record = node->requests.records.data;
    uint64_t count = 0;
    for (size_t i = 0; i < node->requests.records.count; i++) {
        if (record[i].request == NULL || !counts_twice(record[i].request->op)) {
            continue;
        }
        for (uint32_t w = 0; w < record[i].words; w++) {
            count += (uint64_t)__builtin_popcountll(record[i].open[w] &
                                                    ~record[i].returned[w]);
        }
    }
    return count;
}

void muster_recovery_settle(muster_protocol *node)
{
    muster_node_intents_forget(node);
    uint64_t copied = 0;
    uint64_t restored = node->counters.restored;
    uint64_t fresh = node->counters.fresh;
    for (uint16_t h = 0; h < node->opts.nodes; h++) {
        for (uint32_t t = 0;
             t < node->opts.table_count && node->homes.at[h] == node->opts.node;
             t++) {
            settle_homes(node, t, h, &copied);
        }
    }
    restored = node->counters.restored - restored;
    fresh = node->counters.fresh - fresh;
    muster_rowmsg stats = {.kind = MUSTER_ROWMSG_STATS,
                           .origin = node->opts.node,
                           .request = count_unanswered(node) << 32 | fresh,
                           .mask = copied << 32 | restored};
    if (node->opts.updates != NULL) {
        stats.value = node->opts.updates(node->opts.host);
    }
    muster_draft_control(node, 0, &stats);
}

void muster_protocol_on_adopt(muster_protocol *node,
                              const muster_rowmsg *message)
{
    for (uint32_t i = 0; i < message->count && !node->failed; i++) {
        uint32_t key = muster_rowmsg_keys(message)[i];
        if (!muster_protocol_paused(node) ||
            !muster_protocol_from_home(node, message, key)) {
            node->counters.violations++;
            continue;
        }
        muster_replica_adopt(node, message->table, key);
    }
}

/* ---- resume -------------------------------------------------------------- */

/* An entry without a reply: send it again when it cannot count twice, else end
 * it. */
static void request_again(muster_protocol *node, uint32_t index,
                          uint32_t position)
{
    muster_request_record *record =
        (muster_request_record *)node->requests.records.data + index;
    uint64_t bit = 1ull << position % 64;
    bool returned = (record->returned[position / 64] & bit) != 0;
    muster_rowmsg head = {.op = record->request->op,
                          .table = (uint16_t)record->request->table,
                          .request =
                              (uint64_t)record->generation << 32 | index};
    record->returned[position / 64] &= ~bit;
    if (returned || !counts_twice(head.op)) {
        muster_request_send(node, head.request, position);
    } else {
        node->counters.unanswered++;
        muster_request_finish(node, &head, position, NULL);
    }
}

static void request_all_again(muster_protocol *node, uint32_t index)
{
    for (uint32_t w = 0;; w++) {
        const muster_request_record *record =
            (muster_request_record *)node->requests.records.data + index;
        if (record->request == NULL || w >= record->words || node->failed) {
            return;
        }
        for (uint64_t bits = record->open[w]; bits != 0; bits &= bits - 1) {
            request_again(node, index,
                          w * 64 + (uint32_t)__builtin_ctzll(bits));
        }
    }
}

void muster_recovery_commit_homes(muster_protocol *node)
{
    for (uint16_t h = 0; h < node->opts.nodes; h++) {
        node->homes.before[h] = node->homes.at[h];
    }
}

void muster_recovery_resume(muster_protocol *node)
{
    muster_recovery_commit_homes(node);
    muster_map_fini(&node->homes.offers);
    muster_replica_forget_syncs(node);
    for (uint32_t i = 0; i < node->requests.records.count; i++) {
        request_all_again(node, i);
    }
    muster_row_request **delayed = node->requests.delayed.data;
    for (size_t i = 0; i < node->requests.delayed.count && !node->failed; i++) {
        muster_request_start(node, delayed[i]);
    }
    muster_vec_clear(&node->requests.delayed);
    muster_node_intents_resend(node);
    muster_protocol_barrier_resume(node);
    muster_sweep_soon(node);
}
