/*
 * open.c -- rows of muster/ps.h in place: begin and end.
 *
 * The worker's bias holder lists its open rows in the order in which they were
 * opened; open_copies[] of entries beyond them is NULL. The only worker of a
 * node opens rows without latches where it may (ps/store/bias.h): begin and end
 * are a few stores then.
 */
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "ps/node/inside.h"

/* Not inlined into the shorter paths, which would save registers for it. */
#define APART __attribute__((noinline))
#define COLD  __attribute__((cold, noinline))

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

bool muster_worker_latch(muster_ps_worker *worker, muster_ps_table *rows,
                         muster_rowref ref, uint64_t *seen_out)
{
    uint64_t word = atomic_load_explicit(&rows->words[muster_rowref_key(ref)],
                                         memory_order_relaxed);
    // The clock is read only where there is something to wait for.
    if ((word & MUSTER_WORD_LATCHED) == 0) {
        return muster_ps_table_latch(rows, worker->holder, ref, seen_out);
    }
    int64_t start = muster_clock_ns();
    bool latched = muster_ps_table_latch(rows, worker->holder, ref, seen_out);
    worker->counts.latch_wait_ns += muster_clock_ns() - start;
    return latched;
}

/* May the worker open a row now? It must come after every row that the worker
 * holds in place. Copies keep no other thread waiting. */
static inline bool in_order(const muster_ps_worker *worker, uint32_t open_rows,
                            muster_rowref ref)
{
    for (uint32_t i = 0; i < open_rows; i++) {
        muster_rowref open =
            muster_bias_listed(worker->holder, i) & ~MUSTER_ROWREF_UNLATCHED;
        if (open >= ref && (open == ref || worker->open_copies[i] == NULL)) {
            return false;
        }
    }
    return open_rows < MUSTER_PS_OPEN_MAX;
}

/* ---- why a row cannot be opened or ended --------------------------------- */

COLD static muster_status refuse_begin(muster_ps_worker *worker, uint32_t table,
                                       uint32_t key, float *const *row_out)
{
    return row_out == NULL ? muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                                  "begin: row_out is NULL")
                           : muster_worker_refuse_keys(worker, table, &key, 1);
}

COLD static muster_status refuse_key(muster_ps_worker *worker,
                                     muster_rowref ref)
{
    uint32_t key = muster_rowref_key(ref);
    return muster_worker_refuse_keys(worker, muster_rowref_table(ref), &key, 1);
}

COLD static muster_status refuse_order(muster_ps_worker *worker,
                                       muster_rowref ref)
{
    uint32_t open = muster_worker_open_rows(worker);
    if (open == MUSTER_PS_OPEN_MAX) {
        return muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                    "begin: %u rows are open already", open);
    }
    return muster_worker_refuse(
        worker, MUSTER_ERR_INVALID,
        "begin of table %u, key %u: rows are opened in the order of (table, "
        "key), and one that is open does not come before it",
        muster_rowref_table(ref), muster_rowref_key(ref));
}

COLD static muster_status refuse_wait(muster_ps_worker *worker, uint32_t table,
                                      uint32_t key)
{
    return muster_worker_refuse(
        worker, MUSTER_ERR_AGAIN,
        "table %u, key %u is on another node, and a row is held in place: end "
        "that one first",
        table, key);
}

COLD static muster_status refuse_end(muster_ps_worker *worker, uint32_t table,
                                     uint32_t key)
{
    return muster_worker_refuse(
        worker, MUSTER_ERR_INVALID,
        "end of table %u, key %u: this worker has not begun it", table, key);
}

/* ---- rows of other nodes, as copies -------------------------------------- */

/* Memory for a copy that no open row uses. */
static float *free_copy(const muster_ps_worker *worker)
{
    for (size_t slot = 0; slot < MUSTER_PS_OPEN_MAX; slot++) {
        float *copy = worker->copies + slot * 2 * worker->copy_floats;
        bool used = false;
        for (uint32_t i = 0; i < MUSTER_PS_OPEN_MAX; i++) {
            used = used || worker->open_copies[i] == copy;
        }
        if (!used) {
            return copy;
        }
    }
    MUSTER_ASSERT(false); // fewer than OPEN_MAX rows are open
    return NULL;
}

/* A row of another node, as a copy; end pushes what changed. */
static muster_status begin_copy(muster_ps_worker *worker, uint32_t table,
                                uint32_t key, float **row_out)
{
    muster_ps_table *rows = worker->tables[table];
    if (muster_worker_holds_rows(worker)) {
        // The driver may wait for a row that this worker holds, and the row
        // that this worker waits for would never come.
        return refuse_wait(worker, table, key);
    }
    float *copy = free_copy(worker);
    muster_row_batch batch = {MUSTER_ROWOP_PULL_ROW, table, &key, 1, copy};
    muster_status status = muster_ps_call_run_one(worker, &batch);
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
    muster_row_batch batch = {MUSTER_ROWOP_PUSH_ROW, table, &key, 1, copy};
    return muster_ps_call_run_one(worker, &batch);
}

/* ---- begin --------------------------------------------------------------- */

/* begin for a row whose latch another thread holds, or of another node, or of a
 * table whose row bias has just been revoked. */
APART static muster_status begin_contended(muster_ps_worker *worker,
                                           muster_rowref ref, float **row_out)
{
    uint32_t table = muster_rowref_table(ref);
    uint32_t key = muster_rowref_key(ref);
    muster_ps_table *rows = worker->tables[table];
    uint32_t open = muster_worker_open_rows(worker);
    float *copy = NULL;
    uint64_t seen;
    if (muster_worker_latch(worker, rows, ref, &seen)) {
        *row_out = muster_slab_row(&rows->slab, muster_word_slot(seen));
        muster_worker_count_latched(worker, ref, seen, true);
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
        return refuse_order(worker, ref);
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
    muster_worker_count_latched(worker, ref, seen, true);
    muster_bias_list(holder, open, ref);
    muster_bias_state_add(holder, MUSTER_BIAS_LATCHED + MUSTER_BIAS_ACCESS);
    *row_out = muster_slab_row(&rows->slab, muster_word_slot(seen));
    return MUSTER_OK;
}

/* begin in a table whose rows are biased to one worker each. */
APART static muster_status begin_biased(muster_ps_worker *worker,
                                        muster_rowref ref, float **row_out)
{
    muster_bias_holder *holder = worker->holder;
    uint64_t state = muster_bias_state(holder);
    uint32_t open = muster_bias_open_rows(state);
    if (open > 0 && !in_order(worker, open, ref)) {
        return refuse_order(worker, ref);
    }
    if (!muster_ps_table_enter_row(worker->tables[muster_rowref_table(ref)],
                                   holder, state, worker->slot + 1, ref,
                                   row_out)) {
        return begin_contended(worker, ref, row_out);
    }
    return MUSTER_OK;
}

/* begin where accesses are reported to samplers. */
APART static muster_status begin_reported(muster_ps_worker *worker,
                                          muster_rowref ref, float **row_out)
{
    muster_status status = begin_latched(worker, ref, row_out);
    if (status == MUSTER_OK) {
        muster_worker_report_access(worker, muster_rowref_table(ref),
                                    muster_rowref_key(ref));
    }
    return status;
}

/* begin for the only worker: with other rows open, in a mesh, or where accesses
 * are reported to samplers. */
APART static muster_status begin_alone(muster_ps_worker *worker,
                                       muster_rowref ref, float **row_out)
{
    muster_bias_holder *holder = worker->holder;
    uint64_t state = muster_bias_state(holder);
    uint32_t open = muster_bias_open_rows(state);
    if (open > 0 && !in_order(worker, open, ref)) {
        return refuse_order(worker, ref);
    }
    if ((state & MUSTER_BIAS_NOTES) != 0) {
        return begin_reported(worker, ref, row_out);
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
               ? begin_biased(worker, ref, row_out)
               : begin_latched(worker, ref, row_out);
}

/* The other paths are separate functions: this one saves no registers. */
muster_status muster_ps_begin(muster_ps_worker *worker, uint32_t table,
                              uint32_t key, float **row_out)
{
    if (worker == NULL || table >= worker->table_count || row_out == NULL) {
        return refuse_begin(worker, table, key, row_out);
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
        } // a second worker has just been made
    }
    if (muster_ps_table_may_enter_second(rows, holder, state, ref)) {
        muster_bias_list(holder, 1, ref | MUSTER_ROWREF_UNLATCHED);
        if (muster_ps_table_enter_ordered(rows, holder, state)) {
            *row_out = muster_ps_table_row(rows, key);
            return MUSTER_OK;
        }
    }
    if (key >= rows->keys) {
        return refuse_key(worker, ref);
    }
    if (!muster_ps_table_revoked(rows)) {
        return begin_alone(worker, ref, row_out);
    }
    if ((state & MUSTER_BIAS_NOTES) != 0) {
        return begin_reported(worker, ref, row_out);
    }
    return muster_ps_table_row_biased(rows)
               ? begin_biased(worker, ref, row_out)
               : begin_latched(worker, ref, row_out);
}

/* ---- end ----------------------------------------------------------------- */

/* End a row that is latched, or a copy. */
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

/* The index of an open row; MUSTER_PS_OPEN_MAX: it is not open. */
static uint32_t find_open(const muster_ps_worker *worker, muster_rowref ref)
{
    uint32_t open = muster_worker_open_rows(worker);
    MUSTER_ASSERT(open <= MUSTER_PS_OPEN_MAX);
    for (uint32_t i = 0; i < open; i++) {
        if ((muster_bias_listed(worker->holder, i) &
             ~MUSTER_ROWREF_UNLATCHED) == ref) {
            return i;
        }
    }
    return MUSTER_PS_OPEN_MAX;
}

/* Take the i-th open row off the list: the last one takes its index, and is at
 * no moment missing from the list. */
static void unlist(muster_ps_worker *worker, uint32_t i)
{
    muster_bias_holder *holder = worker->holder;
    uint32_t last = muster_worker_open_rows(worker) - 1;
    worker->open_copies[i] = worker->open_copies[last];
    worker->open_copies[last] = NULL;
    muster_bias_list(holder, i, muster_bias_listed(holder, last));
}

/* end for a row that was not the last to be opened, or is a copy. */
APART static muster_status end_among(muster_ps_worker *worker,
                                     muster_rowref ref)
{
    muster_bias_holder *holder = worker->holder;
    uint32_t table = muster_rowref_table(ref);
    uint32_t key = muster_rowref_key(ref);
    uint32_t i = find_open(worker, ref);
    if (i == MUSTER_PS_OPEN_MAX) {
        return refuse_end(worker, table, key);
    }
    muster_rowref listed = muster_bias_listed(holder, i);
    float *copy = worker->open_copies[i];
    if (copy != NULL && muster_worker_holds_rows(worker)) {
        return refuse_wait(worker, table, key); // as in begin_copy
    }
    unlist(worker, i);
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
        return refuse_end(worker, table, key);
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
    if (open > 0) { // mostly the row that was opened last is ended first
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

/* ---- rows that are only read --------------------------------------------- */

muster_status muster_row_begin_read(muster_ps_worker *worker, muster_rowref ref,
                                    const float **row_out)
{
    muster_ps_table *rows = worker->tables[muster_rowref_table(ref)];
    muster_bias_holder *holder = worker->holder;
    uint64_t state = muster_bias_state(holder);
    uint32_t open = muster_bias_open_rows(state);
    float *row = NULL;
    if (open > 0 && !in_order(worker, open, ref)) {
        return refuse_order(worker, ref);
    }
    if (!muster_ps_table_revoked(rows) && (state & MUSTER_BIAS_NOTES) == 0) {
        muster_unlatched_row lent;
        muster_bias_list(holder, open, ref | MUSTER_ROWREF_UNLATCHED);
        if (muster_ps_table_enter(rows, holder, state, muster_rowref_key(ref),
                                  &lent)) {
            muster_worker_count_unlatched(worker, rows, muster_rowref_key(ref),
                                          &lent, false);
            *row_out = lent.row;
            return MUSTER_OK;
        }
    }
    // A latched row is marked as written when it is released, not before.
    muster_status status = (state & MUSTER_BIAS_NOTES) != 0
                               ? begin_reported(worker, ref, &row)
                               : begin_latched(worker, ref, &row);
    *row_out = row;
    return status;
}

muster_status muster_row_end_read(muster_ps_worker *worker, muster_rowref ref)
{
    uint32_t table = muster_rowref_table(ref);
    uint32_t key = muster_rowref_key(ref);
    uint32_t i = find_open(worker, ref);
    if (i == MUSTER_PS_OPEN_MAX) {
        return refuse_end(worker, table, key);
    }
    muster_rowref listed = muster_bias_listed(worker->holder, i);
    const float *copy = worker->open_copies[i];
    unlist(worker, i);
    if (listed & MUSTER_ROWREF_UNLATCHED) {
        muster_bias_leave(worker->holder, muster_bias_state(worker->holder));
        return MUSTER_OK;
    }
    muster_bias_state_add(worker->holder, 0 - MUSTER_BIAS_LATCHED);
    if (copy == NULL) {
        muster_latch_release(&worker->tables[table]->words[key], false);
    }
    return MUSTER_OK;
}
