/*
 * ps/store/store.h -- the tables of one node: words, slabs, row operations.
 *
 * What is here and what happens to it; nothing about who else has rows. Row
 * operations come in two kinds. Those named muster_ps_table_try_* may be called
 * by any thread: they latch, and answer false when the row is not here. Those
 * of the protocol (settle, depart, ..) belong to one thread per node and make
 * the transitions that latch.h lists.
 *
 *   Promise      A try_ call that answers true took effect once, at one moment
 *                between its call and its return.
 *   Ownership    A table owns its words and slab from create to free.
 *   Allocation   Only create.
 */
#ifndef MUSTER_PS_STORE_STORE_H
#define MUSTER_PS_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/ps.h"
#include "ps/store/bias.h"
#include "ps/store/latch.h"
#include "ps/store/optimizer.h"
#include "ps/store/rowop.h"
#include "ps/store/slab.h"

typedef struct muster_ps_table {
    muster_word *words; // one per key
    muster_slab slab;
    uint32_t keys;
    uint32_t width;  // weights of a row
    uint32_t floats; // with state
    _Atomic uint32_t
        unlatched_keys; // all, or 0: see muster_ps_table_enter_ordered()
    muster_row_optimizer rule;
    _Atomic float rate;
    uint32_t init;
    float scale;
    uint64_t seed; // of this table's rows
    bool in_turns; // nodes use its rows one after the other
    bool in_order; // one node: the slot of a row is its key
    bool used; // by the protocol, since muster_ps_table_return_bias() looked
    uint32_t number;
    muster_bias_revoked bar;   // why rows are not open to an only worker
    _Atomic uint32_t row_bias; // muster_row_bias
    const muster_bias_holders *holders; // NULL: rows are always latched
    void *words_base;                   // of the mapping that `words` is
    size_t words_mapped;
} muster_ps_table;

/* Which rows are here at the start: those with key % nodes == node. */
typedef struct muster_ps_table_share {
    uint32_t node;
    uint32_t nodes;
    uint32_t number; // of the table, in places
    uint64_t seed;
} muster_ps_table_share;

/* Options must be valid (see muster_ps_table_add). MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_ps_table_create(
    const muster_ps_table_opts *opts, const muster_ps_table_share *share,
    muster_ps_table **table_out);
void muster_ps_table_free(muster_ps_table *table);

/* From now on workers may open rows unlatched (holder.h): on a single node at
 * once, in a mesh when the protocol has given the table up. `holders` outlive
 * the table. */
void muster_ps_table_allow_bias(muster_ps_table *table,
                                const muster_bias_holders *holders);

/* Another worker comes; the caller has to wait until no row is open
 * unlatched. */
void muster_ps_table_revoke_for_workers(muster_ps_table *table);

/* The protocol works on the table from now on: no row of it is open
 * unlatched. */
void muster_ps_table_revoke(muster_ps_table *table);
static inline void muster_ps_table_use(muster_ps_table *table)
{
    if (!table->used) { // workers read this line all the time
        table->used = true;
    }
    if ((atomic_load_explicit(&table->bar, memory_order_relaxed) &
         MUSTER_REVOKED_MESH) == 0) {
        muster_ps_table_revoke(table);
    }
}

/* Called by the protocol's thread now and then: a table that it has not used
 * since the last call is left to the node's only worker. */
void muster_ps_table_return_bias(muster_ps_table *table);

/* Would an only worker have it but for the protocol? */
static inline bool muster_ps_table_revoked_by_mesh(const muster_ps_table *table)
{
    return atomic_load_explicit(&table->bar, memory_order_relaxed) ==
           MUSTER_REVOKED_MESH;
}

/* Write the initial row of `key`: weights and a zero state. */
void muster_ps_table_fresh(const muster_ps_table *table, uint32_t key,
                           float *row);

/* Bytes claimed by rows in use and by the words. */
uint64_t muster_ps_table_bytes(const muster_ps_table *table);

/* Apply an operation to a row that the caller holds. */
void muster_ps_table_apply(const muster_ps_table *table, muster_row_op op,
                           float *row, float *values);

/* Latch, apply, release. False: the row is not here, nothing was done. */
bool muster_ps_table_try(muster_ps_table *table, muster_row_op op, uint32_t key,
                         float *values);

/* Do rows have to be latched? If not, a visit will look again. */
static inline bool muster_ps_table_revoked(const muster_ps_table *table)
{
    return atomic_load_explicit(&table->bar, memory_order_relaxed) != 0;
}

/* Where a row lies in a table that is in order, whoever holds it. */
static inline float *muster_ps_table_row(const muster_ps_table *table,
                                         uint32_t key)
{
    return muster_slab_row(&table->slab, key);
}

/* The processor goes on by itself in rows that are longer than this. */
#define MUSTER_PS_TABLE_PREFETCH_BYTES 512u

static inline void muster_ps_table_prefetch_row(const muster_ps_table *table,
                                                uint32_t slot)
{
    enum { LINE = 64 };
    const char *row = (const char *)muster_slab_row(&table->slab, slot);
    size_t bytes = table->slab.stride_bytes;
    __builtin_prefetch(row, 1);
    if (bytes > LINE) {
        __builtin_prefetch(row + LINE, 1);
    }
    for (size_t at = (size_t)2 * LINE;
         at < bytes && at < MUSTER_PS_TABLE_PREFETCH_BYTES; at += LINE) {
        __builtin_prefetch(row + at, 1);
    }
}

/* A row that is lent without its latch; `word` is 0 in a table that is in
 * order. */
typedef struct muster_unlatched_row {
    float *row;
    uint64_t word;
} muster_unlatched_row;

/* Lend a row to the node's only worker; `state` is its holder's. False: it has
 * to be latched. */
static inline bool muster_ps_table_enter(const muster_ps_table *table,
                                         muster_bias_holder *holder,
                                         uint64_t state, uint32_t key,
                                         muster_unlatched_row *lent_out)
{
    muster_bias_enter(holder, state);
    if (atomic_load_explicit(&table->bar, memory_order_acquire) != 0) {
        muster_bias_back_out(holder, state);
        return false;
    }
    uint32_t slot = key;
    uint64_t word = 0;
    if (!table->in_order) {
        word = atomic_load_explicit(&table->words[key], memory_order_relaxed);
        if (muster_word_state_of(word) != MUSTER_ROW_OWNED &&
            !muster_word_usable(word)) {
            muster_bias_back_out(holder, state);
            return false;
        }
        slot = muster_word_slot(word);
    }
    *lent_out =
        (muster_unlatched_row){muster_slab_row(&table->slab, slot), word};
    return true;
}

/* A copy that is lent unlatched to be written is marked so at any time
 * before it is left: the protocol decides nothing by its word till then. */
static inline bool muster_unlatched_is_replica(const muster_unlatched_row *lent)
{
    return muster_word_state_of(lent->word) == MUSTER_ROW_REPLICA;
}
static inline void
muster_ps_table_mark_written(const muster_ps_table *table, uint32_t key,
                             const muster_unlatched_row *lent)
{
    atomic_store_explicit(&table->words[key],
                          muster_word_released(lent->word, true),
                          memory_order_relaxed);
}

/*
 * The same in fewer steps for a worker that has no row open, in a table that is
 * in order: `unlatched_keys` is 0 where rows have to be latched. First whether
 * it looks as if it might, then, with the row listed where that is wanted,
 * whether it may. Where the answer is no, nothing was done and nothing is known
 * of the key. Who takes the permission away does so in both words, `bar` first,
 * before the fence.
 */
static inline bool muster_ps_table_may_enter(const muster_ps_table *table,
                                             uint64_t state, uint32_t key)
{
    return (state & MUSTER_BIAS_BUSY) == 0 &&
           key < atomic_load_explicit(&table->unlatched_keys,
                                      memory_order_relaxed);
}

static inline bool muster_ps_table_enter_ordered(const muster_ps_table *table,
                                                 muster_bias_holder *holder,
                                                 uint64_t state)
{
    muster_bias_enter(holder, state);
    if (atomic_load_explicit(&table->unlatched_keys, memory_order_acquire) ==
        0) {
        muster_bias_back_out(holder, state);
        return false;
    }
    return true;
}

static inline bool muster_ps_table_row_biased(const muster_ps_table *table)
{
    return atomic_load_explicit(&table->row_bias, memory_order_relaxed) ==
           MUSTER_ROW_BIAS_ON;
}

/* A row that belongs to nobody is `owner`'s from now on. False: it is somebody
 * else's. */
bool muster_ps_table_bias_row(muster_ps_table *table, uint32_t key,
                              uint32_t owner);

/* Lend a row of a divided table to the worker that it belongs to, without its
 * latch; `owner` is the worker's number above 0, the row is the open-th of
 * those that it has open. False: it has to be latched. */
static inline bool muster_ps_table_enter_row(muster_ps_table *table,
                                             muster_bias_holder *holder,
                                             uint64_t state, uint32_t owner,
                                             muster_rowref ref, float **row_out)
{
    uint32_t key = muster_rowref_key(ref);
    uint64_t word =
        atomic_load_explicit(&table->words[key], memory_order_relaxed);
    if (muster_word_moves(word) != owner &&
        !muster_ps_table_bias_row(table, key, owner)) {
        return false;
    }
    muster_bias_list(holder, muster_bias_open_rows(state),
                     ref | MUSTER_ROWREF_UNLATCHED);
    muster_bias_enter(holder, state);
    if (atomic_load_explicit(&table->row_bias, memory_order_acquire) !=
        MUSTER_ROW_BIAS_ON) {
        muster_bias_back_out(holder, state);
        return false;
    }
    *row_out = muster_ps_table_row(table, key);
    return true;
}

/* Keep all workers from the rows of a divided table while the caller, who has
 * none open, looks at them. False: it is not divided, or somebody is there. */
bool muster_ps_table_pause_row_bias(muster_ps_table *table);
void muster_ps_table_resume_row_bias(muster_ps_table *table);

/* Latch a row for a worker, whatever stands in the way of it: false when it is
 * not here. Ends the table's row_bias. */
bool muster_ps_table_latch(muster_ps_table *table,
                           const muster_bias_holder *holder, muster_rowref ref,
                           uint64_t *seen_out);

/* Latch and lend the row, or NULL: not here. For the protocol. */
static inline float *muster_ps_table_begin(muster_ps_table *table, uint32_t key)
{
    uint64_t seen;
    if (table->in_order) {
        // Otherwise the row's miss would wait for the word's.
        muster_ps_table_prefetch_row(table, key);
    }
    if (!muster_latch(&table->words[key], &seen)) {
        return NULL;
    }
    return muster_slab_row(&table->slab, muster_word_slot(seen));
}

static inline void muster_ps_table_end(muster_ps_table *table, uint32_t key)
{
    muster_latch_release(&table->words[key], true);
}

/* Could a worker use the row now? */
static inline bool muster_ps_table_here(const muster_ps_table *table,
                                        uint32_t key)
{
    return muster_word_usable(
        atomic_load_explicit(&table->words[key], memory_order_relaxed));
}

/* Bring a row's word and bytes closer; only a hint. */
static inline void muster_ps_table_prefetch(const muster_ps_table *table,
                                            uint32_t key)
{
    if (table->in_order) {
        if (muster_ps_table_revoked(table)) {
            __builtin_prefetch(
                (const char *)table->words_base + sizeof(muster_word) * key, 1);
        }
        muster_ps_table_prefetch_row(table, key);
        return;
    }
    uint64_t word =
        atomic_load_explicit(&table->words[key], memory_order_relaxed);
    if (muster_word_here(word)) {
        muster_ps_table_prefetch_row(table, muster_word_slot(word));
    }
}

#endif // MUSTER_PS_STORE_STORE_H
