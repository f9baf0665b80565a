/*
 * replica.c -- replicas of rows that other nodes own.
 *
 * A replica has two slots: the row that workers use, and its base, the owner's
 * row as last received plus all deltas sent since. The delta is row - base;
 * sending it sets base = row. When the owner's row comes back, it contains all
 * deltas sent, and what was written meanwhile, row - base, is added to it. So
 * no write is lost or counted twice.
 *
 * A third slot keeps what other nodes changed when the owner's row last came
 * (not in damped tables of adagrad, which do not ask):
 * budget.c learns from it how often the replica may be written until it comes
 * again. When that budget is spent, operations go to the owner, as if the row
 * were not here, and the first of them requests the owner's row. So a replica
 * that one node uses at a time hardly ever has to wait.
 */
#include <string.h>

#include "base/assert.h"
#include "ps/protocol/inside.h"
#include "ps/protocol/prefetch.h"

#define UNCHANGED_MAX_NS (3000 * 1000000ll) // then a replica is dropped

/* Writes since the owner's row came: the used part of the budget. */
static uint32_t writes_used(const muster_replica *replica, uint64_t word)
{
    uint32_t left = muster_word_budget(word);
    return left < replica->budget ? replica->budget - left : 0;
}

/* Are deltas sums of gradients, which need no measure of what others changed?
 */
static bool sums_gradients(const muster_ps_table *rows)
{
    return rows->damped && rows->rule.kind == MUSTER_PS_ADAGRAD;
}

/* The slots of a replica that workers do not use. */
static void take_slots(muster_ps_table *rows, muster_replica *replica)
{
    bool measured = !sums_gradients(rows);
    replica->base_slot = muster_slab_take(&rows->slab);
    replica->others_slot =
        measured ? muster_slab_take(&rows->slab) : MUSTER_SLAB_NONE;
    MUSTER_ASSERT(replica->base_slot != MUSTER_SLAB_NONE &&
                  (!measured || replica->others_slot != MUSTER_SLAB_NONE));
}

static void give_slots(muster_ps_table *rows, const muster_replica *replica)
{
    muster_slab_give(&rows->slab, replica->base_slot);
    if (replica->others_slot != MUSTER_SLAB_NONE) {
        muster_slab_give(&rows->slab, replica->others_slot);
    }
}

/* Put a new replica at the end of the list. */
static bool enlist(muster_protocol *node, const muster_replica *replica)
{
    return muster_map_set(&node->replicas.index, replica->ref,
                          (uint32_t)node->replicas.all.count) &&
           muster_vec_append(&node->replicas.all, replica, 1);
}

/* Count the bytes that one synchronisation of a replica sends or receives. */
static void count_bytes(muster_protocol *node, const muster_replica *replica,
                        bool more)
{
    uint64_t bytes =
        sizeof(float) *
        node->opts.tables[muster_rowref_table(replica->ref)]->floats;
    node->replicas.bytes += more ? bytes : 0 - bytes;
}

void muster_protocol_on_replica(muster_protocol *node,
                                const muster_rowmsg *message)
{
    muster_ps_table *rows = muster_protocol_rows(node, message->table);
    const float *values = muster_rowmsg_values(message);
    size_t bytes = rows->floats * sizeof(float);
    for (uint32_t i = 0; i < message->count && !node->failed; i++) {
        uint32_t key = muster_rowmsg_keys(message)[i];
        muster_rowref ref = muster_rowref_make(message->table, key);
        if (muster_arriving_find(node, message->table, key) ==
            MUSTER_ARRIVING_NONE) {
            node->counters.violations++;
            continue;
        }
        uint32_t slot = muster_slab_take(&rows->slab);
        muster_replica replica = {
            .ref = ref,
            .changed_ns = node->step.now_ns,
            .received_ns = node->step.now_ns,
            .used_ns = node->step.now_ns,
            .budget = muster_budget_first(node, message->table)};
        MUSTER_ASSERT(slot != MUSTER_SLAB_NONE);
        take_slots(rows, &replica);
        float *row = muster_slab_row(&rows->slab, slot);
        float *base = muster_slab_row(&rows->slab, replica.base_slot);
        memcpy(row, values + (size_t)i * rows->floats, bytes);
        memcpy(base, row, bytes);
        if (!enlist(node, &replica)) {
            node->failed = true;
            return;
        }
        count_bytes(node, &replica, true);
        muster_arriving_row ended =
            muster_arriving_end(node, message->table, key, row, true);
        // HAND_OVER goes only to an owner.
        node->counters.violations += ended.next_owner != MUSTER_NODE_NONE;
        uint64_t dirty = memcmp(row, base, bytes) != 0 ? MUSTER_WORD_DIRTY : 0;
        // Queued operations were applied: an unknown number of writes.
        muster_replica *all = node->replicas.all.data;
        all[node->replicas.all.count - 1].unsent_writes =
            dirty != 0 && !rows->damped ? replica.budget : dirty != 0;
        muster_latch_publish(&rows->words[key],
                             muster_word_replica(slot, replica.budget) | dirty);
        node->counters.replicas++;
    }
    muster_sweep_soon(node);
}

static muster_delta_shape shape_of(const muster_ps_table *rows)
{
    return (muster_delta_shape){.width = rows->width, .floats = rows->floats};
}

/* Take the delta of a replica whose row is latched. NULL: nobody wants it. */
static void take_delta(const muster_protocol *node, muster_replica *replica,
                       float *row, float *delta)
{
    muster_ps_table *rows =
        node->opts.tables[muster_rowref_table(replica->ref)];
    float *base = muster_slab_row(&rows->slab, replica->base_slot);
    if (sums_gradients(rows)) {
        if (delta != NULL) {
            muster_delta_take_gradients(row, base, delta, rows->width);
        } else {
            memcpy(base, row, rows->floats * sizeof(float));
        }
        return;
    }
    muster_delta_taken taken = muster_delta_take(
        row, base, delta != NULL ? delta : base,
        muster_slab_row(&rows->slab, replica->others_slot), shape_of(rows));
    muster_budget_note_delta(node, replica, taken);
    float share = rows->damped && delta != NULL
                      ? muster_budget_damping(node, replica)
                      : 1;
    if (share < 1) {
        muster_delta_damp(row, base, delta, rows->width, share);
    }
}

/* Send SYNC for a replica, with its index in the list, which the answer
 * repeats. Without `all` only when it has a delta. True: SYNC was sent. */
static bool sync_one(muster_protocol *node, uint32_t index, bool all)
{
    muster_replica *replica = (muster_replica *)node->replicas.all.data + index;
    uint32_t table = muster_rowref_table(replica->ref);
    uint32_t key = muster_rowref_key(replica->ref);
    muster_ps_table *rows = muster_protocol_rows(node, table);
    muster_word *word = &rows->words[key];
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    bool dirty = (seen & MUSTER_WORD_DIRTY) != 0;
    if (!dirty && !all) {
        return false;
    }
    muster_rowmsg sync = {.kind = MUSTER_ROWMSG_SYNC,
                          .op =
                              dirty ? MUSTER_ROWOP_PUSH_ROW : MUSTER_ROWOP_NONE,
                          .table = (uint16_t)table,
                          .origin = node->opts.node};
    uint16_t to = muster_protocol_next_hop(node, table, key);
    replica->changed_ns = dirty ? node->step.now_ns : replica->changed_ns;
    replica->synced_writes = 0;
    replica->counted_writes = writes_used(replica, seen);
    node->counters.syncs++;
    if (!dirty) {
        muster_draft_add(node, to, &sync, key, index, NULL);
        return true;
    }
    bool latched = muster_latch_here(word, &seen);
    MUSTER_ASSERT(latched && muster_word_state_of(seen) == MUSTER_ROW_REPLICA);
    float *row = muster_slab_row(&rows->slab, muster_word_slot(seen));
    replica->counted_writes = writes_used(replica, seen); // exact: latched
    node->counters.sync_bytes += rows->floats * sizeof(float);
    replica->synced_writes = replica->unsent_writes + replica->counted_writes;
    if (replica->all_writes < 1u << 31) {
        replica->all_writes += replica->synced_writes;
    }
    take_delta(node, replica, row,
               muster_draft_reserve(node, to, &sync, key, index));
    muster_latch_publish(word, seen & ~MUSTER_WORD_DIRTY);
    return true;
}

/* Remove a replica from the list; the caller changes its word and row. */
static void unlist(muster_protocol *node, uint32_t index)
{
    muster_replica *replicas = node->replicas.all.data;
    muster_replica *replica = &replicas[index];
    give_slots(node->opts.tables[muster_rowref_table(replica->ref)], replica);
    MUSTER_ASSERT(node->replicas.syncing >= replica->syncing);
    node->replicas.syncing -= replica->syncing;
    count_bytes(node, replica, false);
    muster_map_remove(&node->replicas.index, replica->ref);
    muster_replica last = replicas[--node->replicas.all.count];
    if (index < node->replicas.all.count) {
        *replica = last;
        muster_map_remove(&node->replicas.index, last.ref);
        // The map just lost an entry, so this cannot fail.
        node->failed |= !muster_map_set(&node->replicas.index, last.ref, index);
    }
}

/* Drop a replica, unless it has a delta that was not sent. */
static bool drop_one(muster_protocol *node, uint32_t index)
{
    const muster_replica *replica =
        (muster_replica *)node->replicas.all.data + index;
    uint32_t key = muster_rowref_key(replica->ref);
    muster_ps_table *rows =
        muster_protocol_rows(node, muster_rowref_table(replica->ref));
    uint64_t seen;
    bool latched = muster_latch_here(&rows->words[key], &seen);
    MUSTER_ASSERT(latched);
    if (seen & MUSTER_WORD_DIRTY) {
        muster_latch_release(&rows->words[key], false);
        return false;
    }
    muster_latch_publish(&rows->words[key],
                         muster_word_make(MUSTER_ROW_ABSENT, 0, 0));
    muster_slab_give(&rows->slab, muster_word_slot(seen));
    unlist(node, index);
    return true;
}

void muster_replica_adopt(muster_protocol *node, uint32_t table, uint32_t key)
{
    uint32_t index =
        muster_map_find(&node->replicas.index, muster_rowref_make(table, key));
    if (index == MUSTER_MAP_NONE) {
        node->counters.violations++;
        return;
    }
    muster_word *word = &muster_protocol_rows(node, table)->words[key];
    uint64_t seen;
    bool latched = muster_latch_here(word, &seen);
    MUSTER_ASSERT(latched && muster_word_state_of(seen) == MUSTER_ROW_REPLICA);
    muster_latch_publish(
        word, muster_word_make(MUSTER_ROW_OWNED, muster_word_slot(seen), 0));
    unlist(node, index);
    node->counters.adopted++;
}

void muster_replica_forget_syncs(muster_protocol *node)
{
    muster_replica *replicas = node->replicas.all.data;
    for (size_t i = 0; i < node->replicas.all.count; i++) {
        replicas[i].syncing = false;
    }
    node->replicas.syncing = 0;
}

uint32_t muster_replica_age_ms(const muster_protocol *node,
                               const muster_replica *replica)
{
    return (uint32_t)((node->step.now_ns - replica->received_ns) / 1000000);
}

void muster_replica_sync_one(muster_protocol *node, uint32_t index, bool all)
{
    muster_replica *replica = (muster_replica *)node->replicas.all.data + index;
    if (!replica->syncing && sync_one(node, index, all)) {
        replica->syncing = true;
        node->replicas.syncing++;
    }
}

void muster_replica_refresh(muster_protocol *node, uint32_t table, uint32_t key)
{
    uint32_t index =
        muster_map_find(&node->replicas.index, muster_rowref_make(table, key));
    if (index == MUSTER_MAP_NONE) {
        return;
    }
    muster_replica_sync_one(node, index, true);
}

void muster_replica_touch(muster_protocol *node, uint32_t table, uint32_t key)
{
    uint32_t index =
        muster_map_find(&node->replicas.index, muster_rowref_make(table, key));
    if (index != MUSTER_MAP_NONE) {
        muster_replica *all = node->replicas.all.data;
        all[index].used_ns = node->step.now_ns;
    }
}

void muster_replica_keep(muster_protocol *node, muster_rowref ref, bool wanted)
{
    uint32_t index = muster_map_find(&node->replicas.index, ref);
    if (index != MUSTER_MAP_NONE) {
        ((muster_replica *)node->replicas.all.data)[index].unwanted = !wanted;
        muster_sweep_soon(node);
    }
}

/* Have the intents for the replica ended? Or was it not changed for long, and
 * no worker of this node intends to use it? */
static bool is_unwanted(const muster_protocol *node,
                        const muster_replica *replica)
{
    int64_t now = node->step.now_ns;
    bool idle = now - replica->changed_ns > UNCHANGED_MAX_NS &&
                now - replica->used_ns > UNCHANGED_MAX_NS;
    return node->opts.manage != MUSTER_PS_STATIC &&
           (replica->unwanted ||
            (idle &&
             !muster_node_intents_local(node, muster_rowref_table(replica->ref),
                                        muster_rowref_key(replica->ref))));
}

bool muster_replica_has_changed(const muster_protocol *node, uint32_t index)
{
    const muster_replica *replica =
        (muster_replica *)node->replicas.all.data + index;
    const muster_ps_table *rows =
        node->opts.tables[muster_rowref_table(replica->ref)];
    uint64_t word = atomic_load_explicit(
        &rows->words[muster_rowref_key(replica->ref)], memory_order_relaxed);
    return (word & MUSTER_WORD_DIRTY) != 0 ||
           replica->changed_ns > node->replicas.sweep.turn_ns;
}

bool muster_replica_look_at(muster_protocol *node, uint32_t index, bool all)
{
    const muster_replica *replica =
        (muster_replica *)node->replicas.all.data + index;
    if (!replica->syncing && is_unwanted(node, replica) &&
        drop_one(node, index)) {
        return false;
    }
    muster_replica_sync_one(node, index, all);
    return true;
}

/* The replica of a row, or NULL. Mostly it still has the index that was sent
 * with SYNC. */
static muster_replica *find_replica(const muster_protocol *node,
                                    muster_rowref ref, uint32_t index)
{
    muster_replica *replicas = node->replicas.all.data;
    if (replicas == NULL) {
        return NULL;
    }
    if (index >= node->replicas.all.count || replicas[index].ref != ref) {
        index = muster_map_find(&node->replicas.index, ref);
    }
    return index != MUSTER_MAP_NONE ? &replicas[index] : NULL;
}

/* Prefetch the base of the replica of entry i, if its index is unchanged. */
static void prefetch_base(const muster_protocol *node,
                          const muster_rowmsg *message, uint32_t i)
{
    const muster_replica *replicas = node->replicas.all.data;
    uint32_t index =
        i < message->count ? muster_rowmsg_replica(message, i) : UINT32_MAX;
    if (replicas != NULL && index < node->replicas.all.count) {
        muster_ps_table_prefetch_row(
            node->opts.tables[muster_rowref_table(replicas[index].ref)],
            replicas[index].base_slot);
    }
}

/* The owner's row has come to a replica whose row is latched. */
static void merge_owner(muster_ps_table *rows, muster_replica *replica,
                        float *row, const float *owner)
{
    float *base = muster_slab_row(&rows->slab, replica->base_slot);
    if (sums_gradients(rows)) {
        muster_delta_add_owner(row, base, owner, rows->floats);
        return;
    }
    muster_delta_merged merged = muster_delta_merge(
        row, base, muster_slab_row(&rows->slab, replica->others_slot), owner,
        shape_of(rows));
    muster_budget_note_merge(replica, merged);
}

void muster_protocol_on_synced(muster_protocol *node,
                               const muster_rowmsg *message)
{
    muster_ps_table *rows = muster_protocol_rows(node, message->table);
    const float *values = muster_rowmsg_values(message);
    for (uint32_t i = 0; i < message->count && !node->failed; i++) {
        uint32_t key = muster_rowmsg_keys(message)[i];
        muster_protocol_prefetch(node, message, i);
        prefetch_base(node, message, i + MUSTER_PROTOCOL_ROWS_AHEAD);
        muster_replica *replica =
            find_replica(node, muster_rowref_make(message->table, key),
                         muster_rowmsg_replica(message, i));
        if (replica == NULL || !replica->syncing) {
            node->counters.violations++;
            continue;
        }
        replica->syncing = false;
        replica->received_ns = node->step.now_ns;
        node->counters.sync_bytes += rows->floats * sizeof(float);
        MUSTER_ASSERT(node->replicas.syncing > 0);
        node->replicas.syncing--;
        uint64_t seen;
        bool latched = muster_latch_here(&rows->words[key], &seen);
        MUSTER_ASSERT(latched &&
                      muster_word_state_of(seen) == MUSTER_ROW_REPLICA);
        float *row = muster_slab_row(&rows->slab, muster_word_slot(seen));
        merge_owner(rows, replica, row, values + (size_t)i * rows->floats);
        uint32_t used = writes_used(replica, seen);
        replica->unsent_writes = used - replica->counted_writes;
        muster_budget_set(node, replica, used);
        muster_latch_publish(
            &rows->words[key],
            muster_word_replica(muster_word_slot(seen), replica->budget) |
                (seen & MUSTER_WORD_DIRTY));
    }
}
