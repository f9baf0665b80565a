/*
 * ps/store/store.h -- the tables of one node: latch words, slabs, row
 * operations.
 *
 * The store knows which rows are at this node and what is done to them. It does
 * not know which other nodes have rows. Three kinds of threads use it:
 *
 *   workers       open rows, latched (muster_ps_table_latch) or unlatched
 *                 (muster_ps_table_enter_*, see bias.h)
 *   the protocol  latches rows with muster_ps_table_begin(), and makes the
 *                 other transitions of latch.h; one thread at a time
 *   any thread    muster_ps_table_try(): latch, apply, release
 *
 *   Promise      A muster_ps_table_try() that returns true took effect once, at
 *                one moment between its call and its return.
 *   Ownership    A table owns its words and slab from create to free.
 *   Allocation   Only create.
 */
#ifndef MUSTER_PS_STORE_STORE_H
#define MUSTER_PS_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prefetch.h"
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
    uint32_t width;                  // weights of a row
    uint32_t floats;                 // with state
    _Atomic uint32_t unlatched_keys; // keys while the table is biased, else 0;
                                     // see muster_ps_table_enter_ordered()
    muster_row_optimizer rule;
    _Atomic float rate;
    uint32_t init;
    float scale;
    uint64_t seed; // of this table's rows
    bool in_turns; // a row is used by one node after the other
    bool damped;   // MUSTER_PS_MERGE_DAMPED
    bool in_order; // single node: the slot of a row is its key
    bool used; // by the protocol since the last muster_ps_table_return_bias()
    int64_t revoke_ns; // how long muster_ps_table_revoke() took of late
    uint32_t number;
    muster_bias_revoked revoked; // MUSTER_REVOKED_*; 0: biased to the worker
    _Atomic uint32_t row_bias;   // muster_row_bias
    const muster_bias_holders *holders; // NULL: no biased locking
    void *words_base;                   // the mapping that contains `words`
    size_t words_mapped;
} muster_ps_table;

/* The rows that are here at the start: those with key % nodes == node. */
typedef struct muster_ps_table_share {
    uint32_t node;
    uint32_t nodes;
    uint32_t number; // of the table, in row references
    uint64_t seed;
} muster_ps_table_share;

/* Options must be valid (see muster_ps_table_add). MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_ps_table_create(
    const muster_ps_table_opts *opts, const muster_ps_table_share *share,
    muster_ps_table **table_out);
void muster_ps_table_free(muster_ps_table *table);

/* Allow biased locking (bias.h). On a single node the bias begins at once, in a
 * mesh when the protocol returns it. `holders` outlive the table. */
void muster_ps_table_allow_bias(muster_ps_table *table,
                                const muster_bias_holders *holders);

/* The node gets another worker: revoke the table bias for ever. The caller then
 * has to wait until no row is open unlatched. */
void muster_ps_table_revoke_for_workers(muster_ps_table *table);

/* The protocol is about to use the table: revoke the table bias. Afterwards no
 * row is open unlatched. _use() does so when the table is biased. */
void muster_ps_table_revoke(muster_ps_table *table);
static inline void muster_ps_table_use(muster_ps_table *table)
{
    if (!table->used) { // no store if not needed: workers read this line
        table->used = true;
    }
    if ((atomic_load_explicit(&table->revoked, memory_order_relaxed) &
         MUSTER_REVOKED_MESH) == 0) {
        muster_ps_table_revoke(table);
    }
}

/* The protocol's thread calls this now and then: a table that the protocol has
 * not used since the last call is biased to the node's only worker again. */
void muster_ps_table_return_bias(muster_ps_table *table);

/* The same, used or not. Without a store where the bias cannot be returned, as
 * with two workers or more: they read this line. */
void muster_ps_table_return_bias_now(muster_ps_table *table);

/* Is the protocol the only reason why the table is not biased? */
static inline bool muster_ps_table_revoked_by_mesh(const muster_ps_table *table)
{
    return atomic_load_explicit(&table->revoked, memory_order_relaxed) ==
           MUSTER_REVOKED_MESH;
}

/* Write the initial row of `key`: weights and a zero state. */
void muster_ps_table_fresh(const muster_ps_table *table, uint32_t key,
                           float *row);

/* Bytes of the rows in use and of the words. */
uint64_t muster_ps_table_bytes(const muster_ps_table *table);

/* Apply an operation to a row that the caller has open. */
void muster_ps_table_apply(const muster_ps_table *table, muster_row_op op,
                           float *row, float *values);

/* Latch, apply, release. False: the row is not here, nothing was done. */
bool muster_ps_table_try(muster_ps_table *table, muster_row_op op, uint32_t key,
                         float *values);

/* Do rows have to be latched? A hint: an unlatched access checks again. */
static inline bool muster_ps_table_revoked(const muster_ps_table *table)
{
    return atomic_load_explicit(&table->revoked, memory_order_relaxed) != 0;
}

/* The row of a key in a table that is in order. */
static inline float *muster_ps_table_row(const muster_ps_table *table,
                                         uint32_t key)
{
    return muster_slab_row(&table->slab, key);
}

/* The hardware prefetcher continues in rows that are longer than this. */
#define MUSTER_PS_TABLE_PREFETCH_BYTES 512u

/* Rows that are only read stay in the caches of other processors. */
static inline void muster_ps_table_prefetch_line(const char *at, bool written)
{
    if (written) {
        muster_prefetch_write(at);
    } else {
        __builtin_prefetch(at);
    }
}

static inline void muster_ps_table_prefetch_slot(const muster_ps_table *table,
                                                 uint32_t slot, bool written)
{
    enum { LINE = 64 };
    const char *row = (const char *)muster_slab_row(&table->slab, slot);
    size_t bytes = table->slab.stride_bytes;
    muster_ps_table_prefetch_line(row, written);
    if (bytes > LINE) {
        muster_ps_table_prefetch_line(row + LINE, written);
    }
    for (size_t at = (size_t)2 * LINE;
         at < bytes && at < MUSTER_PS_TABLE_PREFETCH_BYTES; at += LINE) {
        muster_ps_table_prefetch_line(row + at, written);
    }
}

/* The same for a row that will be written. */
static inline void muster_ps_table_prefetch_row(const muster_ps_table *table,
                                                uint32_t slot)
{
    muster_ps_table_prefetch_slot(table, slot, true);
}

/* A row that is open unlatched; `word` is 0 in a table that is in order. */
typedef struct muster_unlatched_row {
    float *row;
    uint64_t word;
} muster_unlatched_row;

/* Open a row unlatched for the node's only worker; `state` is the state of its
 * holder. False: the row has to be latched. */
static inline bool muster_ps_table_enter(const muster_ps_table *table,
                                         muster_bias_holder *holder,
                                         uint64_t state, uint32_t key,
                                         muster_unlatched_row *lent_out)
{
    muster_bias_enter(holder, state);
    if (atomic_load_explicit(&table->revoked, memory_order_acquire) != 0) {
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

/* A replica that is open unlatched for writing is marked in its word before it
 * is closed. Until then the protocol does not use the word. */
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
 * in order. `unlatched_keys` is 0 when rows have to be latched, so one compare
 * checks the key and the bias. may_enter() is a hint. Then the caller lists the
 * row if it has to be listed, and enter_ordered() decides. False: nothing was
 * done, and the key was not checked. A revoker changes `revoked` first, then
 * `unlatched_keys`, then passes the fence.
 */
static inline bool muster_ps_table_may_enter(const muster_ps_table *table,
                                             uint64_t state, uint32_t key)
{
    return (state & MUSTER_BIAS_BUSY) == 0 &&
           key < atomic_load_explicit(&table->unlatched_keys,
                                      memory_order_relaxed);
}

/* The same for a worker that has one row open, unlatched, which comes before
 * this one. */
static inline bool
muster_ps_table_may_enter_second(const muster_ps_table *table,
                                 const muster_bias_holder *holder,
                                 uint64_t state, muster_rowref ref)
{
    return (state & MUSTER_BIAS_BUSY) == 1 &&
           muster_rowref_key(ref) <
               atomic_load_explicit(&table->unlatched_keys,
                                    memory_order_relaxed) &&
           (muster_bias_listed(holder, 0) & ~MUSTER_ROWREF_UNLATCHED) < ref;
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

/* Bias a row to the worker `owner` (its number plus one) unless it is biased
 * already. False: it is biased to another worker. */
bool muster_ps_table_bias_row(muster_ps_table *table, uint32_t key,
                              uint32_t owner);

/* Open a row unlatched for the worker that it is biased to. `owner` is the
 * number of the worker plus one, `state` the state of its holder. False: the
 * row has to be latched. */
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

/* Keep all workers from the rows of a table with row bias while the caller,
 * which has no row open, reads them. False: the table has no row bias, or a
 * worker has a row of it open. */
bool muster_ps_table_pause_row_bias(muster_ps_table *table);
void muster_ps_table_resume_row_bias(muster_ps_table *table);

/* Latch a row for a worker; revokes the row bias of the table. False: the row
 * is not here. */
bool muster_ps_table_latch(muster_ps_table *table,
                           const muster_bias_holder *holder, muster_rowref ref,
                           uint64_t *seen_out);

/* Latch the row. NULL: it is not here, or a spent replica. For the protocol. */
static inline float *muster_ps_table_begin(muster_ps_table *table, uint32_t key)
{
    uint64_t seen;
    if (table->in_order) {
        // Else the cache miss of the row would wait for that of the word.
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

/* Can a worker use the row now? */
static inline bool muster_ps_table_here(const muster_ps_table *table,
                                        uint32_t key)
{
    return muster_word_usable(
        atomic_load_explicit(&table->words[key], memory_order_relaxed));
}

/* Prefetch the word of a row. Where a row is found by its key and needs no
 * latch, the word is not used. Rows with a bias only have their words read:
 * eight words share a line, and their rows may be of as many workers. */
static inline void muster_ps_table_prefetch_word(const muster_ps_table *table,
                                                 uint32_t key)
{
    if (!table->in_order || muster_ps_table_revoked(table)) {
        muster_ps_table_prefetch_line((const char *)table->words_base +
                                          sizeof(muster_word) * key,
                                      !muster_ps_table_row_biased(table));
    }
}

/* Prefetch the word and the bytes of a row. In a mesh the bytes are found by
 * the word, which is waited for. */
static inline void muster_ps_table_prefetch(const muster_ps_table *table,
                                            uint32_t key, bool written)
{
    if (table->in_order) {
        muster_ps_table_prefetch_word(table, key);
        muster_ps_table_prefetch_slot(table, key, written);
        return;
    }
    uint64_t word =
        atomic_load_explicit(&table->words[key], memory_order_relaxed);
    if (muster_word_here(word)) {
        muster_ps_table_prefetch_slot(table, muster_word_slot(word), written);
    }
}

#endif // MUSTER_PS_STORE_STORE_H
