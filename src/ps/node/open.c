/*
 * open.c -- rows of muster/ps.h in place: begin and end.
 *
 * The open rows of a worker are listed in the order in which they were opened;
 * entries beyond them have no copy. Rows of the only worker of a node are open
 * unlatched where they may be (ps/store/holder.h): begin and end are a few
 * stores then.
 */
#include <string.h>

#include "ps/node/inside.h"

/* Kept out of the shorter paths, which would save registers for it. */
#define APART __attribute__((noinline))

bool muster_worker_holds_rows(const muster_ps_worker *worker)
{
    uint32_t open = muster_worker_open_rows(worker);
    for (uint32_t i = 0; i < open; i++) {
        if (worker->open_copies[i] == NULL) {
            return true;
        }
    }
    return false;
}

/* True when the worker may take a row now: it must come after every row that it
 * holds in place. Copies hold nobody up. */
static inline bool in_order(const muster_ps_worker *worker, uint32_t open_rows,
                            muster_rowref ref)
{
    for (uint32_t i = 0; i < open_rows; i++) {
        muster_rowref taken =
            muster_bias_listed(worker->holder, i) & ~MUSTER_ROWREF_UNLATCHED;
        if (taken >= ref && (taken == ref || worker->open_copies[i] == NULL)) {
            return false;
        }
    }
    return open_rows < MUSTER_PS_OPEN_MAX;
}

/* Room for a copy: one that no open row uses. */
static float *free_copy(const muster_ps_worker *worker)
{
    for (size_t slot = 0;; slot++) {
        float *copy = worker->copies + slot * 2 * worker->copy_floats;
        bool used = false;
        for (uint32_t i = 0; i < MUSTER_PS_OPEN_MAX; i++) {
            used = used || worker->open_copies[i] == copy;
        }
        if (!used) {
            return copy;
        }
    }
}

/* A row that is elsewhere, as a copy; end will push what changed. */
static muster_status begin_copy(muster_ps_worker *worker, uint32_t table,
                                uint32_t key, float **row_out)
{
    muster_ps_table *rows = worker->tables[table];
    if (muster_worker_holds_rows(worker)) {
        // Waiting with a latch held could make who drives the mesh, and with
        // it the row that we wait for, wait for us.
        return MUSTER_ERR_AGAIN;
    }
    float *copy = free_copy(worker);
    muster_row_batch job = {MUSTER_ROWOP_PULL_ROW, table, &key, 1, copy};
    muster_status status = muster_ps_call_run_one(worker, &job);
    if (status == MUSTER_OK) {
        memcpy(copy + worker->copy_floats, copy, rows->floats * sizeof(float));
        *row_out = copy;
    }
    return status;
}

static muster_status end_copy(muster_ps_worker *worker, uint32_t table,
                              uint32_t key, float *copy)
{
    uint32_t floats = worker->tables[table]->floats;
    for (uint32_t i = 0; i < floats; i++) {
        copy[i] -= copy[worker->copy_floats + i];
    }
    muster_row_batch job = {MUSTER_ROWOP_PUSH_ROW, table, &key, 1, copy};
    return muster_ps_call_run_one(worker, &job);
}

/* begin for a row that somebody holds, or that is not here, or of a table that
 * has just ceased to be divided. */
APART static muster_status begin_contended(muster_ps_worker *worker,
                                           muster_rowref ref, float **row_out)
{
    uint32_t table = muster_rowref_table(ref);
    uint32_t key = muster_rowref_key(ref);
    muster_ps_table *rows = worker->tables[table];
    uint32_t open = muster_worker_open_rows(worker);
    float *copy = NULL;
    uint64_t seen;
    if (muster_ps_table_latch(rows, worker->holder, ref, &seen)) {
        *row_out = muster_slab_row(&rows->slab, muster_word_slot(seen));
        worker->copied += muster_word_state_of(seen) == MUSTER_ROW_REPLICA;
    } else {
        muster_status status = begin_copy(worker, table, key, &copy);
        if (status != MUSTER_OK) {
            return status;
        }
        *row_out = copy;
    }
    worker->open_copies[open] = copy;
    muster_bias_list(worker->holder, open, ref);
    muster_bias_state_add(worker->holder,
                          MUSTER_BIAS_LATCHED + MUSTER_BIAS_ACCESS);
    return MUSTER_OK;
}

/* begin for a row that several workers or nodes may use. */
APART static muster_status begin_latched(muster_ps_worker *worker,
                                         muster_rowref ref, float **row_out)
{
    muster_ps_table *rows = worker->tables[muster_rowref_table(ref)];
    muster_word *word = &rows->words[muster_rowref_key(ref)];
    muster_bias_holder *holder = worker->holder;
    uint64_t state = muster_bias_state(holder);
    uint32_t open = muster_bias_open_rows(state);
    if (open > 0 && !in_order(worker, open, ref)) {
        return MUSTER_ERR_INVALID;
    }
    if (rows->in_order) { // the row's miss need not wait for the word's
        muster_ps_table_prefetch_row(rows, muster_rowref_key(ref));
    }
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    if (atomic_load_explicit(&rows->row_bias, memory_order_acquire) !=
            MUSTER_ROW_BIAS_NONE ||
        !muster_latch_try(word, &seen)) {
        return begin_contended(worker, ref, row_out);
    }
    if (muster_word_state_of(seen) == MUSTER_ROW_REPLICA) {
        worker->copied++;
    }
    muster_bias_list(holder, open, ref);
    muster_bias_state_add(holder, MUSTER_BIAS_LATCHED + MUSTER_BIAS_ACCESS);
    *row_out = muster_slab_row(&rows->slab, muster_word_slot(seen));
    return MUSTER_OK;
}

/* begin in a table whose rows belong to workers. */
APART static muster_status begin_own(muster_ps_worker *worker,
                                     muster_rowref ref, float **row_out)
{
    muster_bias_holder *holder = worker->holder;
    uint64_t state = muster_bias_state(holder);
    uint32_t open = muster_bias_open_rows(state);
    if (open > 0 && !in_order(worker, open, ref)) {
        return MUSTER_ERR_INVALID;
    }
    if (!muster_ps_table_enter_row(worker->tables[muster_rowref_table(ref)],
                                   holder, state, worker->seat + 1, ref,
                                   row_out)) {
        return begin_contended(worker, ref, row_out);
    }
    return MUSTER_OK;
}

/* begin where samplers are told of accesses. */
APART static muster_status begin_noted(muster_ps_worker *worker,
                                       muster_rowref ref, float **row_out)
{
    muster_status status = begin_latched(worker, ref, row_out);
    if (status == MUSTER_OK) {
        muster_worker_report_access(worker, muster_rowref_table(ref),
                                    muster_rowref_key(ref));
    }
    return status;
}

/* begin for the only worker, with other rows open, in a mesh, or where samplers
 * are told of accesses. */
APART static muster_status begin_alone(muster_ps_worker *worker,
                                       muster_rowref ref, float **row_out)
{
    muster_bias_holder *holder = worker->holder;
    uint64_t state = muster_bias_state(holder);
    uint32_t open = muster_bias_open_rows(state);
    if (open > 0 && !in_order(worker, open, ref)) {
        return MUSTER_ERR_INVALID;
    }
    if ((state & MUSTER_BIAS_NOTES) != 0) {
        return begin_noted(worker, ref, row_out);
    }
    muster_ps_table *rows = worker->tables[muster_rowref_table(ref)];
    muster_bias_list(holder, open, ref | MUSTER_ROWREF_UNLATCHED);
    muster_unlatched_row lent;
    if (muster_ps_table_enter(rows, holder, state, muster_rowref_key(ref),
                              &lent)) {
        muster_worker_count_unlatched(worker, rows, muster_rowref_key(ref),
                                      &lent, true);
        *row_out = lent.row;
        return MUSTER_OK;
    }
    return muster_ps_table_row_biased(rows)
               ? begin_own(worker, ref, row_out)
               : begin_latched(worker, ref, row_out);
}

/* Apart from each other, none of the common ways has to save registers. */
muster_status muster_ps_begin(muster_ps_worker *worker, uint32_t table,
                              uint32_t key, float **row_out)
{
    if (worker == NULL || table >= worker->table_count || row_out == NULL) {
        return MUSTER_ERR_INVALID;
    }
    const muster_ps_table *rows = worker->tables[table];
    muster_bias_holder *holder = worker->holder;
    uint64_t state = muster_bias_state(holder);
    muster_rowref ref = muster_rowref_make(table, key);
    if (muster_ps_table_may_enter(rows, state, key)) {
        muster_bias_list(holder, 0, ref | MUSTER_ROWREF_UNLATCHED);
        if (muster_ps_table_enter_ordered(rows, holder, state)) {
            *row_out = muster_ps_table_row(rows, key);
            return MUSTER_OK;
        } // another worker has just come
    }
    if (key >= rows->keys) {
        return MUSTER_ERR_INVALID;
    }
    if (!muster_ps_table_revoked(rows)) {
        return begin_alone(worker, ref, row_out);
    }
    if ((state & MUSTER_BIAS_NOTES) != 0) {
        return begin_noted(worker, ref, row_out);
    }
    return muster_ps_table_row_biased(rows)
               ? begin_own(worker, ref, row_out)
               : begin_latched(worker, ref, row_out);
}

/* Let a row go that is open and not unlatched. */
static muster_status end_held(muster_ps_worker *worker, muster_rowref ref,
                              float *copy)
{
    uint32_t table = muster_rowref_table(ref);
    uint32_t key = muster_rowref_key(ref);
    muster_bias_state_add(worker->holder, 0 - MUSTER_BIAS_LATCHED);
    if (copy != NULL) {
        return end_copy(worker, table, key, copy);
    }
    muster_ps_table_end(worker->tables[table], key);
    return MUSTER_OK;
}

/* end for a row that was not the last to be opened, or is a copy. */
APART static muster_status end_among(muster_ps_worker *worker,
                                     muster_rowref ref)
{
    muster_bias_holder *holder = worker->holder;
    uint32_t open = muster_worker_open_rows(worker);
    uint32_t i = 0;
    while (i < open &&
           (muster_bias_listed(holder, i) & ~MUSTER_ROWREF_UNLATCHED) != ref) {
        i++;
    }
    if (i == open) {
        return MUSTER_ERR_INVALID;
    }
    muster_rowref listed = muster_bias_listed(holder, i);
    float *copy = worker->open_copies[i];
    if (copy != NULL && muster_worker_holds_rows(worker)) {
        return MUSTER_ERR_AGAIN; // as in begin_copy
    }
    // The last one takes its place, and is never missing from the list.
    worker->open_copies[i] = worker->open_copies[open - 1];
    worker->open_copies[open - 1] = NULL;
    muster_bias_list(holder, i, muster_bias_listed(holder, open - 1));
    if (listed & MUSTER_ROWREF_UNLATCHED) {
        muster_bias_leave(holder, muster_bias_state(holder));
        return MUSTER_OK;
    }
    return end_held(worker, ref, copy);
}

muster_status muster_ps_end(muster_ps_worker *worker, uint32_t table,
                            uint32_t key)
{
    if (worker == NULL || table >= worker->table_count) {
        return MUSTER_ERR_INVALID;
    }
    uint64_t state = muster_bias_state(worker->holder);
    muster_rowref ref = muster_rowref_make(table, key);
    if (muster_bias_only_unlatched(state) &&
        muster_bias_listed(worker->holder, 0) ==
            (ref | MUSTER_ROWREF_UNLATCHED)) {
        muster_bias_leave(worker->holder, state);
        return MUSTER_OK;
    }
    uint32_t open = muster_bias_open_rows(state);
    if (open > 0) { // the row opened last is mostly the one closed first
        muster_rowref last = muster_bias_listed(worker->holder, open - 1);
        if (last == (ref | MUSTER_ROWREF_UNLATCHED)) {
            muster_bias_leave(worker->holder, state);
            return MUSTER_OK;
        }
        if (last == ref && worker->open_copies[open - 1] == NULL) {
            return end_held(worker, ref, NULL);
        }
    }
    return end_among(worker, ref);
}
