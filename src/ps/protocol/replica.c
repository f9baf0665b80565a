/*
 * replica.c -- copies of rows that others own.
 *
 * A copy has two slots: the row that workers use, and `base`, the owner's row
 * as last heard plus what was sent since. What a copy has delta is row - base;
 * sending it makes base = row. When the owner's row comes back, it contains
 * everything sent; what was delta meanwhile is put on top. So the sum over all
 * copies and the owner of what each delta is never counted twice or lost.
 *
 * What several nodes gain from the same old row adds up, and when each has gone
 * far on its own the sum overshoots. So a copy may be written a limited number
 * of times until the owner's row has come back; then operations go to the owner
 * like those on a row that is not here, and the first of them sends for it. The
 * limit becomes half of the writes that there were whenever both what was sent
 * and what others have done meanwhile are large beside the row, else it grows:
 * a copy that one node works on at a time is hardly ever held up.
 */
#include <string.h>

#include "base/assert.h"
#include "ps/protocol/inside.h"
#include "ps/protocol/prefetch.h"
#include "ps/store/delta.h"

#define UNCHANGED_MAX_NS \
    (3000 * 1000000ll) // without a change, then a copy is dropped

#define BUDGET_FIRST 64u
#define BUDGET_MIN   8u
#define BUDGET_MAX   (1u << 20)
#define LARGE_SHARE  0.0625f // of the row's norm

/* Few copies are synchronised more often than they must be: a copy costs both
 * ends less than a microsecond, so this takes a few percent of a core. It is
 * done half as often after each time that none had been changed here. */
#define PERIOD_MIN_NS      1000000ll
#define PERIOD_PER_COPY_NS 10000ll
#define IDLE_ROUNDS_MAX    20u

int64_t muster_replica_period_ns(const muster_protocol *node)
{
    int64_t period = (int64_t)node->replicas.all.count * PERIOD_PER_COPY_NS;
    period = period < PERIOD_MIN_NS ? PERIOD_MIN_NS : period;
    return period < node->opts.sync_ns >> node->replicas.idle_rounds
               ? period << node->replicas.idle_rounds
               : node->opts.sync_ns;
}

/* Synchronise soon, however long none was changed. */
static void sync_soon(muster_protocol *node)
{
    node->replicas.idle_rounds = 0;
    int64_t due = node->step.now_ns + muster_replica_period_ns(node);
    node->replicas.due_ns =
        due < node->replicas.due_ns ? due : node->replicas.due_ns;
}

/* Writes since the owner's row came. */
static uint32_t writes_used(const muster_replica *replica, uint64_t word)
{
    uint32_t left = muster_word_budget(word);
    return left < replica->budget ? replica->budget - left : 0;
}

/* How often the copy may be written until the owner's row comes again. */
static void set_budget(muster_replica *replica, muster_delta_norms norms)
{
    float both = norms.others < replica->synced_norm2 ? norms.others
                                                      : replica->synced_norm2;
    if (both > LARGE_SHARE * LARGE_SHARE * norms.owner) {
        // What it could have been is no measure: it may have grown for long.
        uint32_t half = replica->synced_writes / 2;
        replica->budget = half > BUDGET_MIN ? half : BUDGET_MIN;
        replica->budget_max = replica->budget;
    } else if (replica->synced_norm2 > 0) {
        // Quickly back to half of what was too much, and slowly beyond it.
        uint32_t max = replica->budget_max + replica->budget_max / 32 + 1;
        uint32_t more = replica->budget + replica->budget / 4;
        replica->budget_max = max < BUDGET_MAX ? max : BUDGET_MAX;
        replica->budget =
            more < replica->budget_max ? more : replica->budget_max;
    }
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
        muster_replica replica = {.ref = ref,
                                  .changed_ns = node->step.now_ns,
                                  .received_ns = node->step.now_ns,
                                  .budget = BUDGET_FIRST,
                                  .budget_max = BUDGET_MAX,
                                  .base_slot = muster_slab_take(&rows->slab)};
        MUSTER_ASSERT(slot != MUSTER_SLAB_NONE &&
                      replica.base_slot != MUSTER_SLAB_NONE);
        float *row = muster_slab_row(&rows->slab, slot);
        float *base = muster_slab_row(&rows->slab, replica.base_slot);
        memcpy(row, values + (size_t)i * rows->floats, bytes);
        memcpy(base, row, bytes);
        if (!muster_map_set(&node->replicas.index, ref,
                            (uint32_t)node->replicas.all.count) ||
            !muster_vec_append(&node->replicas.all, &replica, 1)) {
            node->failed = true;
            return;
        }
        muster_arriving_row ended =
            muster_arriving_end(node, message->table, key, row, true);
        // Nobody is told to hand over a row that it was not made owner of.
        node->counters.violations += ended.next_owner != MUSTER_NODE_NONE;
        uint64_t dirty = memcmp(row, base, bytes) != 0 ? MUSTER_WORD_DIRTY : 0;
        // What waited for it was done: some writes, nobody counted how many.
        muster_replica *all = node->replicas.all.data;
        all[node->replicas.all.count - 1].unsent_writes =
            dirty != 0 ? BUDGET_FIRST : 0;
        muster_latch_publish(&rows->words[key],
                             muster_word_replica(slot, replica.budget) | dirty);
        node->counters.replicas++;
    }
    sync_soon(node);
}

/* Send what a copy has delta, and where it stands in the list, which the
 * answer has again. True: a SYNC is under way for it. */
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
    replica->synced_norm2 = 0;
    replica->synced_writes = 0;
    replica->counted_writes = writes_used(replica, seen);
    node->counters.syncs++;
    if (!dirty) {
        muster_draft_add(node, to, &sync, key, index, NULL);
        return true;
    }
    bool latched = muster_latch_here(word, &seen);
    MUSTER_ASSERT(latched);
    float *row = muster_slab_row(&rows->slab, muster_word_slot(seen));
    float *base = muster_slab_row(&rows->slab, replica->base_slot);
    replica->counted_writes = writes_used(replica, seen); // nobody writes now
    replica->synced_writes = replica->unsent_writes + replica->counted_writes;
    float *delta = muster_draft_reserve(node, to, &sync, key, index);
    replica->synced_norm2 = muster_delta_take(
        row, base, delta != NULL ? delta : base, rows->width, rows->floats);
    muster_latch_publish(word, seen & ~MUSTER_WORD_DIRTY);
    return true;
}

/* Take a copy out of the list; its row and word are the caller's. */
static void unlist(muster_protocol *node, uint32_t index)
{
    muster_replica *replicas = node->replicas.all.data;
    muster_replica *replica = &replicas[index];
    muster_slab_give(
        &node->opts.tables[muster_rowref_table(replica->ref)]->slab,
        replica->base_slot);
    node->replicas.syncing -= replica->syncing;
    muster_map_remove(&node->replicas.index, replica->ref);
    muster_replica last = replicas[--node->replicas.all.count];
    if (index < node->replicas.all.count) {
        *replica = last;
        muster_map_remove(&node->replicas.index, last.ref);
        // Room was just made, so this cannot fail.
        node->failed |= !muster_map_set(&node->replicas.index, last.ref, index);
    }
}

/* Forget a copy that nobody has changed for long, if nobody does just now. */
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
    MUSTER_ASSERT(latched);
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

void muster_replica_refresh(muster_protocol *node, uint32_t table, uint32_t key)
{
    uint32_t index =
        muster_map_find(&node->replicas.index, muster_rowref_make(table, key));
    if (index == MUSTER_MAP_NONE) {
        return;
    }
    muster_replica *replica = (muster_replica *)node->replicas.all.data + index;
    if (!replica->syncing && sync_one(node, index, true)) {
        replica->syncing = true;
        node->replicas.syncing++;
    }
}

void muster_replica_keep(muster_protocol *node, muster_rowref ref, bool wanted)
{
    uint32_t index = muster_map_find(&node->replicas.index, ref);
    if (index != MUSTER_MAP_NONE) {
        ((muster_replica *)node->replicas.all.data)[index].unwanted = !wanted;
        sync_soon(node);
    }
}

/* What it was wanted for has ended, or nobody has changed it for long and
 * nobody here intends to use it. */
static bool is_unwanted(const muster_protocol *node,
                        const muster_replica *replica)
{
    bool idle = node->step.now_ns - replica->changed_ns > UNCHANGED_MAX_NS;
    return node->opts.manage != MUSTER_PS_STATIC &&
           (replica->unwanted ||
            (idle &&
             !muster_node_intents_local(node, muster_rowref_table(replica->ref),
                                        muster_rowref_key(replica->ref))));
}

/* Has a copy been changed here since all were last looked at? */
static bool has_changed(const muster_protocol *node,
                        const muster_replica *replica)
{
    const muster_ps_table *rows =
        node->opts.tables[muster_rowref_table(replica->ref)];
    uint64_t word = atomic_load_explicit(
        &rows->words[muster_rowref_key(replica->ref)], memory_order_relaxed);
    return (word & MUSTER_WORD_DIRTY) != 0 ||
           replica->changed_ns > node->replicas.synced_ns;
}

/* Bring the rows of copies closer that come some after the i-th. */
static void prefetch_replicas(const muster_protocol *node, uint32_t i)
{
    const muster_replica *replicas = node->replicas.all.data;
    size_t left = node->replicas.all.count - i;
    if (left > MUSTER_PROTOCOL_WORDS_AHEAD) {
        muster_protocol_prefetch_word(
            node, replicas[i + MUSTER_PROTOCOL_WORDS_AHEAD].ref);
    }
    if (left > MUSTER_PROTOCOL_ROWS_AHEAD) {
        const muster_replica *next = &replicas[i + MUSTER_PROTOCOL_ROWS_AHEAD];
        muster_protocol_prefetch_row(node, next->ref);
        muster_ps_table_prefetch_row(
            node->opts.tables[muster_rowref_table(next->ref)], next->base_slot);
    }
}

bool muster_replica_sync(muster_protocol *node, bool all)
{
    bool changed = false;
    for (uint32_t i = 0; i < node->replicas.all.count && !node->failed;) {
        muster_replica *replica = (muster_replica *)node->replicas.all.data + i;
        prefetch_replicas(node, i);
        changed = changed || has_changed(node, replica);
        if (!replica->syncing && is_unwanted(node, replica) &&
            drop_one(node, i)) {
            continue;
        }
        if (!replica->syncing && sync_one(node, i, all)) {
            replica->syncing = true;
            node->replicas.syncing++;
        }
        i++;
    }
    return changed;
}

void muster_replica_due(muster_protocol *node)
{
    int64_t waited_ns = node->step.now_ns - node->replicas.synced_ns;
    if (muster_replica_sync(node, true) || node->replicas.all.count == 0) {
        node->replicas.idle_rounds = 0;
    } else if (waited_ns >= muster_replica_period_ns(node) &&
               node->replicas.idle_rounds <
                   IDLE_ROUNDS_MAX) { // and it was not a barrier's time
        node->replicas.idle_rounds++;
    }
    node->replicas.synced_ns = node->step.now_ns;
    node->replicas.due_ns =
        node->replicas.all.count > 0
            ? node->step.now_ns + muster_replica_period_ns(node)
            : INT64_MAX;
}

/* The copy of a row, or NULL. It mostly is where it was when it was sent. */
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

/* Bring the base of the i-th entry's copy closer, if it is where it was. */
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
        node->replicas.syncing--;
        uint64_t seen;
        bool latched = muster_latch_here(&rows->words[key], &seen);
        MUSTER_ASSERT(latched);
        float *row = muster_slab_row(&rows->slab, muster_word_slot(seen));
        float *base = muster_slab_row(&rows->slab, replica->base_slot);
        const float *owner = values + (size_t)i * rows->floats;
        muster_delta_norms norms =
            muster_delta_merge(row, base, owner, rows->width, rows->floats);
        replica->unsent_writes =
            writes_used(replica, seen) - replica->counted_writes;
        set_budget(replica, norms);
        muster_latch_publish(
            &rows->words[key],
            muster_word_replica(muster_word_slot(seen), replica->budget) |
                (seen & MUSTER_WORD_DIRTY));
    }
}
