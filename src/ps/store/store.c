/*
 * store.c -- tables: words and slabs, the revocation of biases, row operations.
 *
 * Invariants
 *  1. A word names a slot only while its row is here; no two words name the
 *     same slot.
 *  2. A thread touches the bytes of a row only with the row's latch (latch.h),
 *     or unlatched while the row is biased to it (bias.h).
 */
#include "ps/store/store.h"

#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/simd.h"

/* Does the machine have the memory for the share? Its words are written, and
 * its rows unless they are 0. Memory that is missing would not fail a call; the
 * kernel would kill the process. */
static bool share_fits(const muster_ps_table *table,
                       const muster_ps_table_share *share)
{
    uint64_t rows = share->node < table->keys
                        ? (table->keys - 1 - share->node) / share->nodes + 1
                        : 0;
    uint64_t row =
        table->init == MUSTER_PS_ZERO ? 0 : muster_slab_stride(table->floats);
    return muster_slab_fits(rows * (row + sizeof(muster_word)));
}

static muster_status fill_share(muster_ps_table *table,
                                const muster_ps_table_share *share)
{
    for (uint32_t key = share->node; key < table->keys; key += share->nodes) {
        uint32_t slot = muster_slab_take(&table->slab);
        if (slot == MUSTER_SLAB_NONE) {
            return MUSTER_ERR_NO_MEMORY;
        }
        if (table->init != MUSTER_PS_ZERO) {
            muster_ps_table_fresh(table, key,
                                  muster_slab_row(&table->slab, slot));
        }
        muster_latch_publish(&table->words[key],
                             muster_word_make(MUSTER_ROW_OWNED, slot, 0));
    }
    return MUSTER_OK;
}

muster_status muster_ps_table_create(const muster_ps_table_opts *opts,
                                     const muster_ps_table_share *share,
                                     muster_ps_table **table_out)
{
    muster_ps_table *table = muster_mem_lines(1, sizeof(*table));
    if (table == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    table->keys = opts->keys;
    table->width = opts->width;
    table->floats = opts->width + muster_row_optimizer_state_floats(
                                      opts->optimizer, opts->width);
    table->rule = (muster_row_optimizer){.kind = opts->optimizer,
                                         .width = opts->width,
                                         .epsilon = opts->epsilon,
                                         .beta1 = opts->beta1,
                                         .beta2 = opts->beta2};
    atomic_init(&table->rate, opts->rate);
    table->init = opts->init;
    table->scale = opts->scale;
    table->seed = share->seed;
    table->number = share->number;
    table->in_turns = opts->in_turns != 0;
    table->damped = opts->merge == MUSTER_PS_MERGE_DAMPED;
    table->in_order = share->nodes == 1;
    atomic_init(&table->revoked, MUSTER_REVOKED_ALWAYS);
    atomic_init(&table->unlatched_keys, 0);
    if (!share_fits(table, share)) {
        muster_ps_table_free(table);
        return MUSTER_ERR_NO_MEMORY;
    }
    table->words_base = muster_slab_map(
        (size_t)table->keys * sizeof(muster_word), &table->words_mapped);
    table->words = table->words_base;
    // A replica has up to three slots (ps/protocol/replica.c).
    uint64_t slots = (uint64_t)table->keys * (share->nodes > 1 ? 3 : 1);
    uint32_t capacity =
        slots < MUSTER_SLAB_NONE ? (uint32_t)slots : MUSTER_SLAB_NONE - 1;
    if (table->words == NULL ||
        !muster_slab_init(&table->slab, table->floats, capacity) ||
        fill_share(table, share) != MUSTER_OK) {
        muster_ps_table_free(table);
        return MUSTER_ERR_NO_MEMORY;
    }
    *table_out = table;
    return MUSTER_OK;
}

void muster_ps_table_free(muster_ps_table *table)
{
    if (table == NULL) {
        return;
    }
    muster_slab_fini(&table->slab);
    muster_slab_unmap(table->words_base, table->words_mapped);
    muster_mem_free(table);
}

void muster_ps_table_allow_bias(muster_ps_table *table,
                                const muster_bias_holders *holders)
{
    MUSTER_ASSERT(table->holders == NULL);
    table->holders = holders;
    atomic_store(&table->revoked, table->in_order ? 0 : MUSTER_REVOKED_MESH);
    atomic_store(&table->unlatched_keys, table->in_order ? table->keys : 0);
    atomic_store(&table->row_bias,
                 table->in_order ? MUSTER_ROW_BIAS_ON : MUSTER_ROW_BIAS_NONE);
}

void muster_ps_table_revoke_for_workers(muster_ps_table *table)
{
    atomic_fetch_or(&table->revoked, MUSTER_REVOKED_WORKERS);
    atomic_store(&table->unlatched_keys, 0);
}

void muster_ps_table_revoke(muster_ps_table *table)
{
    MUSTER_ASSERT(!table->in_order && table->holders != NULL); // a mesh
    int64_t start = muster_clock_ns();
    atomic_fetch_or(&table->revoked, MUSTER_REVOKED_MESH);
    muster_bias_fence();
    muster_bias_wait_table(table->holders, table->number);
    table->revoke_ns += (muster_clock_ns() - start - table->revoke_ns) / 8;
}

void muster_ps_table_return_bias_now(muster_ps_table *table)
{
    uint32_t mesh = MUSTER_REVOKED_MESH;
    if (muster_ps_table_revoked_by_mesh(table)) {
        table->used = false;
        (void)atomic_compare_exchange_strong_explicit(&table->revoked, &mesh, 0,
                                                      memory_order_release,
                                                      memory_order_relaxed);
    }
}

void muster_ps_table_return_bias(muster_ps_table *table)
{
    if (!table->used) {
        muster_ps_table_return_bias_now(table);
    }
    table->used = false;
    // One that took long, because the worker had no processor, is forgotten.
    table->revoke_ns -= table->revoke_ns / 64;
}

bool muster_ps_table_bias_row(muster_ps_table *table, uint32_t key,
                              uint32_t owner)
{
    MUSTER_ASSERT(table->in_order && owner > 0);
    muster_word *word = &table->words[key];
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    while (muster_word_moves(seen) == 0) {
        if (atomic_compare_exchange_weak_explicit(
                word, &seen, seen | (uint64_t)owner << MUSTER_WORD_MOVES_SHIFT,
                memory_order_relaxed, memory_order_relaxed)) {
            return true;
        }
    }
    return muster_word_moves(seen) == owner;
}

/* Revoke the row bias of the table; returns when rows can be latched. */
static void revoke_row_bias(muster_ps_table *table)
{
    uint32_t on = MUSTER_ROW_BIAS_ON;
    uint32_t tries = 0;
    if (atomic_compare_exchange_strong(&table->row_bias, &on,
                                       MUSTER_ROW_BIAS_REVOKING)) {
        muster_bias_fence();
        atomic_store(&table->row_bias, MUSTER_ROW_BIAS_REVOKED);
    }
    while (atomic_load(&table->row_bias) == MUSTER_ROW_BIAS_REVOKING) {
        muster_latch_pause(&tries);
    }
}

bool muster_ps_table_pause_row_bias(muster_ps_table *table)
{
    uint32_t on = MUSTER_ROW_BIAS_ON;
    if (!atomic_compare_exchange_strong(&table->row_bias, &on,
                                        MUSTER_ROW_BIAS_REVOKING)) {
        return false;
    }
    muster_bias_fence();
    if (muster_bias_held_table(table->holders, table->number)) {
        // Do not wait: that worker may wait for us while it has the row open.
        muster_ps_table_resume_row_bias(table);
        return false;
    }
    return true;
}

void muster_ps_table_resume_row_bias(muster_ps_table *table)
{
    MUSTER_ASSERT(atomic_load(&table->row_bias) == MUSTER_ROW_BIAS_REVOKING);
    atomic_store(&table->row_bias, MUSTER_ROW_BIAS_ON);
}

/* The caller has latched the row: wait for workers that opened it unlatched
 * before the row bias was revoked. */
static void wait_for_holders(muster_ps_table *table,
                             const muster_bias_holder *holder,
                             muster_rowref ref)
{
    uint32_t tries = 0;
    uint32_t revoked = MUSTER_ROW_BIAS_REVOKED;
    while (muster_bias_held_row(table->holders, holder, ref)) {
        muster_latch_pause(&tries);
    }
    if (!muster_bias_held_table(table->holders, muster_rowref_table(ref))) {
        (void)atomic_compare_exchange_strong(&table->row_bias, &revoked,
                                             MUSTER_ROW_BIAS_NONE);
    }
}

bool muster_ps_table_latch(muster_ps_table *table,
                           const muster_bias_holder *holder, muster_rowref ref,
                           uint64_t *seen_out)
{
    muster_word *word = &table->words[muster_rowref_key(ref)];
    uint32_t row_bias = atomic_load(&table->row_bias);
    while (row_bias == MUSTER_ROW_BIAS_ON ||
           row_bias == MUSTER_ROW_BIAS_REVOKING) {
        revoke_row_bias(table);
        row_bias = atomic_load(&table->row_bias); // it may have been a pause
    }
    if (!muster_latch(word, seen_out)) {
        return false;
    }
    if (atomic_load(&table->row_bias) == MUSTER_ROW_BIAS_REVOKED) {
        wait_for_holders(table, holder, ref);
    }
    return true;
}

void muster_ps_table_fresh(const muster_ps_table *table, uint32_t key,
                           float *row)
{
    memset(row, 0, table->floats * sizeof(float));
    if (table->init == MUSTER_PS_ZERO) {
        return;
    }
    muster_rng rng = muster_rng_make(table->seed, key);
    for (uint32_t i = 0; i < table->width; i++) {
        double draw = table->init == MUSTER_PS_UNIFORM
                          ? 2 * muster_rng_uniform(&rng) - 1
                          : muster_rng_normal(&rng);
        row[i] = (float)draw * table->scale;
    }
}

uint64_t muster_ps_table_bytes(const muster_ps_table *table)
{
    return (uint64_t)table->slab.touched * table->slab.stride_bytes +
           (uint64_t)table->keys * sizeof(muster_word);
}

MUSTER_SIMD static void add(float *restrict row, const float *restrict values,
                            uint32_t width)
{
    for (uint32_t i = 0; i < width; i++) {
        row[i] += values[i];
    }
}

void muster_ps_table_apply(const muster_ps_table *table, muster_row_op op,
                           float *row, float *values)
{
    size_t bytes = table->width * sizeof(float);
    switch (op) {
    case MUSTER_ROWOP_PULL:
        memcpy(values, row, bytes);
        return;
    case MUSTER_ROWOP_PUSH:
        add(row, values, table->width);
        return;
    case MUSTER_ROWOP_GRADIENT:
        muster_row_optimizer_apply(
            &table->rule,
            atomic_load_explicit(&table->rate, memory_order_relaxed), values,
            row);
        return;
    case MUSTER_ROWOP_SET:
        memcpy(row, values, bytes);
        return;
    case MUSTER_ROWOP_NONE:
    case MUSTER_ROWOP_PULL_ROW: // the protocol's own: ps/protocol/op.c
    case MUSTER_ROWOP_PUSH_ROW:
        return;
    }
}

bool muster_ps_table_try(muster_ps_table *table, muster_row_op op, uint32_t key,
                         float *values)
{
    float *row = muster_ps_table_begin(table, key);
    if (row == NULL) {
        return false;
    }
    muster_ps_table_apply(table, op, row, values);
    muster_latch_release(&table->words[key], op != MUSTER_ROWOP_PULL);
    return true;
}
