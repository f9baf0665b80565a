/*
 * store.c -- tables: words and slabs made together, and the row operations.
 *
 * Invariants
 *  1. A word names a slot only while its row is here; no two words name the
 *     same slot.
 *  2. A row's bytes are touched only under its latch (see latch.h), or by a
 *     worker that may open it bare (see visitor.h).
 */
#include "ps/store/store.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "ps/store/simd.h"

/* Words are written for the rows of the share, and the rows themselves unless
 * they are 0: more than there is would not fail, but end the process. */
static bool share_fits(const muster_pstable *table,
                       const muster_pstable_share *share)
{
    uint64_t rows = share->node < table->keys
                        ? (table->keys - 1 - share->node) / share->nodes + 1
                        : 0;
    uint64_t row =
        table->init == MUSTER_PS_ZERO ? 0 : muster_slab_stride(table->floats);
    return muster_slab_fits(rows * (row + sizeof(muster_word)));
}

static muster_status fill_share(muster_pstable *table,
                                const muster_pstable_share *share)
{
    for (uint32_t key = share->node; key < table->keys; key += share->nodes) {
        uint32_t slot = muster_slab_take(&table->slab);
        if (slot == MUSTER_SLAB_NONE) {
            return MUSTER_ERR_NO_MEMORY;
        }
        if (table->init != MUSTER_PS_ZERO) {
            muster_pstable_fresh(table, key,
                                 muster_slab_row(&table->slab, slot));
        }
        muster_latch_publish(&table->words[key],
                             muster_word_make(MUSTER_ROW_OWNED, slot, 0));
    }
    return MUSTER_OK;
}

muster_status muster_pstable_create(const muster_ps_table_opts *opts,
                                    const muster_pstable_share *share,
                                    muster_pstable **table_out)
{
    muster_pstable *table = muster_mem_lines(1, sizeof(*table));
    if (table == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    table->keys = opts->keys;
    table->width = opts->width;
    table->floats =
        opts->width + muster_rule_state_floats(opts->optimizer, opts->width);
    table->rule = (muster_rule){.kind = opts->optimizer,
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
    table->in_order = share->nodes == 1;
    atomic_init(&table->bar, MUSTER_BAR_ALWAYS);
    atomic_init(&table->bare_keys, 0);
    if (!share_fits(table, share)) {
        muster_pstable_free(table);
        return MUSTER_ERR_NO_MEMORY;
    }
    table->words_base = muster_slab_map(
        (size_t)table->keys * sizeof(muster_word), &table->words_mapped);
    table->words = table->words_base;
    // A replica keeps a second slot for what was last agreed on.
    uint32_t capacity = share->nodes > 1 ? 2 * table->keys : table->keys;
    if (table->words == NULL ||
        !muster_slab_init(&table->slab, table->floats, capacity) ||
        fill_share(table, share) != MUSTER_OK) {
        muster_pstable_free(table);
        return MUSTER_ERR_NO_MEMORY;
    }
    *table_out = table;
    return MUSTER_OK;
}

void muster_pstable_free(muster_pstable *table)
{
    if (table == NULL) {
        return;
    }
    muster_slab_fini(&table->slab);
    muster_slab_unmap(table->words_base, table->words_mapped);
    muster_mem_free(table);
}

void muster_pstable_admit(muster_pstable *table,
                          const muster_visitors *visitors)
{
    table->visitors = visitors;
    atomic_store(&table->bar, table->in_order ? 0 : MUSTER_BAR_MESH);
    atomic_store(&table->bare_keys, table->in_order ? table->keys : 0);
    atomic_store(&table->division,
                 table->in_order ? MUSTER_DIVIDED : MUSTER_SHARED);
}

void muster_pstable_bar_alone(muster_pstable *table)
{
    atomic_fetch_or(&table->bar, MUSTER_BAR_WORKERS);
    atomic_store(&table->bare_keys, 0);
}

void muster_pstable_bar(muster_pstable *table)
{
    MUSTER_ASSERT(atomic_load(&table->bare_keys) == 0); // in a mesh
    atomic_fetch_or(&table->bar, MUSTER_BAR_MESH);
    muster_visitor_fence();
    muster_visitors_leave_table(table->visitors, table->number);
}

void muster_pstable_rest(muster_pstable *table)
{
    uint32_t mesh = MUSTER_BAR_MESH;
    if (!table->used) {
        (void)atomic_compare_exchange_strong_explicit(
            &table->bar, &mesh, 0, memory_order_release, memory_order_relaxed);
    }
    table->used = false;
}

bool muster_pstable_claim(muster_pstable *table, uint32_t key, uint32_t owner)
{
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

/* Rows belong to nobody any more; returns when they can be latched. */
static void unite(muster_pstable *table)
{
    uint32_t divided = MUSTER_DIVIDED;
    uint32_t tries = 0;
    if (atomic_compare_exchange_strong(&table->division, &divided,
                                       MUSTER_ENDING)) {
        muster_visitor_fence();
        atomic_store(&table->division, MUSTER_ENDED);
    }
    while (atomic_load(&table->division) == MUSTER_ENDING) {
        muster_latch_pause(&tries);
    }
}

bool muster_pstable_pause(muster_pstable *table)
{
    uint32_t divided = MUSTER_DIVIDED;
    if (!atomic_compare_exchange_strong(&table->division, &divided,
                                        MUSTER_ENDING)) {
        return false;
    }
    muster_visitor_fence();
    if (muster_visitors_at_table(table->visitors, table->number)) {
        // No waiting: who is there may wait for us with a row open.
        muster_pstable_resume(table);
        return false;
    }
    return true;
}

void muster_pstable_resume(muster_pstable *table)
{
    atomic_store(&table->division, MUSTER_DIVIDED);
}

/* The row is latched; wait for who may have it open bare since before. */
static void wait_for_visitors(muster_pstable *table,
                              const muster_visitor *visitor, uint64_t place)
{
    uint32_t tries = 0;
    uint32_t ended = MUSTER_ENDED;
    while (muster_visitors_at(table->visitors, visitor, place)) {
        muster_latch_pause(&tries);
    }
    if (!muster_visitors_at_table(table->visitors, muster_place_table(place))) {
        (void)atomic_compare_exchange_strong(&table->division, &ended,
                                             MUSTER_SHARED);
    }
}

bool muster_pstable_latch(muster_pstable *table, const muster_visitor *visitor,
                          uint64_t place, uint64_t *seen_out)
{
    muster_word *word = &table->words[muster_place_key(place)];
    uint32_t division = atomic_load(&table->division);
    while (division == MUSTER_DIVIDED || division == MUSTER_ENDING) {
        unite(table);
        division = atomic_load(&table->division); // it may only have paused
    }
    if (!muster_latch(word, seen_out)) {
        return false;
    }
    if (atomic_load(&table->division) == MUSTER_ENDED) {
        wait_for_visitors(table, visitor, place);
    }
    return true;
}

void muster_pstable_fresh(const muster_pstable *table, uint32_t key, float *row)
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

uint64_t muster_pstable_bytes(const muster_pstable *table)
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

void muster_pstable_apply(const muster_pstable *table, muster_row_op op,
                          float *row, float *values)
{
    size_t bytes = table->width * sizeof(float);
    switch (op) {
    case MUSTER_ROW_PULL:
        memcpy(values, row, bytes);
        return;
    case MUSTER_ROW_PUSH:
        add(row, values, table->width);
        return;
    case MUSTER_ROW_GRADIENT:
        muster_rule_apply(
            &table->rule,
            atomic_load_explicit(&table->rate, memory_order_relaxed), values,
            row);
        return;
    case MUSTER_ROW_SET:
        memcpy(row, values, bytes);
        return;
    }
}

bool muster_pstable_try(muster_pstable *table, muster_row_op op, uint32_t key,
                        float *values)
{
    float *row = muster_pstable_begin(table, key);
    if (row == NULL) {
        return false;
    }
    muster_pstable_apply(table, op, row, values);
    muster_latch_release(&table->words[key], op != MUSTER_ROW_PULL);
    return true;
}
