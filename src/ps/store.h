/*
 * ps/store.h -- the tables of one node: words, slabs, row operations.
 *
 * What is here and what happens to it; nothing about who else has rows. Row
 * operations come in two kinds. Those named muster_table_try_* may be called by
 * any thread: they latch, and answer false when the row is not here. Those of
 * the protocol (settle, depart, ..) belong to one thread per node and make the
 * transitions that ps/latch.h lists.
 *
 *   Promise      A try_ call that answers true took effect once, at one moment
 *                between its call and its return.
 *   Ownership    A table owns its words and slab from create to free.
 *   Allocation   Only create.
 */
#ifndef MUSTER_PS_STORE_H
#define MUSTER_PS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/ps.h"
#include "ps/latch.h"
#include "ps/rule.h"
#include "ps/slab.h"

typedef struct muster_table {
    muster_word *words; // one per key
    muster_slab slab;
    uint32_t keys;
    uint32_t width;  // weights of a row
    uint32_t floats; // with state
    muster_rule rule;
    _Atomic float rate;
    uint32_t init;
    float scale;
    uint64_t seed;    // of this table's rows
    void *words_base; // of the mapping that `words` is
    size_t words_mapped;
} muster_table;

/* Which rows are here at the start: those with key % nodes == node. */
typedef struct muster_table_share {
    uint32_t node;
    uint32_t nodes;
    uint64_t seed;
} muster_table_share;

/* Options must be valid (see muster_ps_table_add). MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status
muster_table_create(const muster_ps_table_opts *opts,
                    const muster_table_share *share, muster_table **table_out);
void muster_table_free(muster_table *table);

/* Write the initial row of `key`: weights and a zero state. */
void muster_table_fresh(const muster_table *table, uint32_t key, float *row);

/* Bytes claimed by rows in use and by the words. */
uint64_t muster_table_bytes(const muster_table *table);

typedef enum muster_row_op {
    MUSTER_ROW_PULL = 1,     // weights out
    MUSTER_ROW_PUSH = 2,     // weights += values
    MUSTER_ROW_GRADIENT = 3, // optimiser
    MUSTER_ROW_SET = 4,      // weights = values
} muster_row_op;

/* Apply an operation to a row that the caller holds. */
void muster_table_apply(const muster_table *table, muster_row_op op, float *row,
                        float *values);

/* Latch, apply, release. False: the row is not here, nothing was done. */
bool muster_table_try(muster_table *table, muster_row_op op, uint32_t key,
                      float *values);

/* Latch and lend the row, or NULL: not here. */
static inline float *muster_table_begin(muster_table *table, uint32_t key)
{
    uint64_t seen;
    if (!muster_latch(&table->words[key], &seen)) {
        return NULL;
    }
    return muster_slab_row(&table->slab, muster_word_slot(seen));
}

static inline void muster_table_end(muster_table *table, uint32_t key)
{
    muster_latch_release(&table->words[key], true);
}

static inline bool muster_table_here(const muster_table *table, uint32_t key)
{
    return muster_word_here(
        atomic_load_explicit(&table->words[key], memory_order_relaxed));
}

/* Bring a row's word and bytes closer; only a hint. */
static inline void muster_table_prefetch(const muster_table *table,
                                         uint32_t key)
{
    uint64_t word =
        atomic_load_explicit(&table->words[key], memory_order_relaxed);
    const char *row =
        (const char *)muster_slab_row(&table->slab, muster_word_slot(word));
    __builtin_prefetch(row, 1);
    if (table->slab.stride_bytes > 64) {
        __builtin_prefetch(row + 64, 1);
    }
}

#endif // MUSTER_PS_STORE_H
