/*
 * rows.c -- the data path of muster/ps.h: pull, push and set. Rows are opened
 * in place in open.c.
 *
 * Keys are checked before the first row is touched. Batches look a few keys
 * ahead and prefetch, so that a cache miss is under way while another row is
 * worked on. Single rows take a short path where the only worker needs no latch
 * (ps/store/bias.h), or where no thread holds the latch: a cache miss takes as
 * long as some hundred instructions, and the fewer instructions a row takes,
 * the more misses the processor has under way at once.
 */
#include "base/simd.h"
#include "ps/node/inside.h"

#if defined(__GNUC__) && !defined(__clang__)
// Loops are over blocks; what remains is not worth a call or a frame.
#pragma GCC optimize("no-tree-vectorize", "no-tree-loop-distribute-patterns")
#endif

#define LOOK_AHEAD 4u

/* Kept out of the short paths, which would save registers for it. */
#define APART __attribute__((noinline))

muster_ps_table *muster_worker_check_keys(const muster_ps_worker *worker,
                                          uint32_t table, const uint32_t *keys,
                                          size_t count)
{
    if (worker == NULL || table >= worker->table_count ||
        (keys == NULL && count > 0)) {
        return NULL;
    }
    muster_ps_table *found = worker->tables[table];
    for (size_t i = 0; i < count; i++) {
        if (keys[i] >= found->keys) {
            return NULL;
        }
    }
    return found;
}

/* The table, or NULL: table, keys, values or operation are wrong, or a row is
 * open. */
static inline muster_ps_table *check_batch(const muster_ps_worker *worker,
                                           const muster_row_batch *batch)
{
    muster_ps_table *rows = muster_worker_check_keys(worker, batch->table,
                                                     batch->keys, batch->count);
    if (rows == NULL || worker == NULL || // the second for analysers
        (batch->values == NULL && batch->count > 0) ||
        batch->count > UINT32_MAX || muster_worker_open_rows(worker) > 0 ||
        (batch->op == MUSTER_ROWOP_GRADIENT &&
         rows->rule.kind == MUSTER_PS_NONE)) {
        return NULL;
    }
    return rows;
}

/* MUSTER_ERR_INVALID, with a text that says what the check above found. */
__attribute__((cold)) static muster_status
refuse_batch(muster_ps_worker *worker, const muster_row_batch *batch)
{
    if (worker == NULL ||
        muster_worker_check_keys(worker, batch->table, batch->keys,
                                 batch->count) == NULL ||
        (batch->values == NULL && batch->count > 0) ||
        batch->count > UINT32_MAX) {
        return muster_worker_refuse_keys(worker, batch->table, batch->keys,
                                         batch->count);
    }
    if (muster_worker_open_rows(worker) > 0) {
        return muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                    "a row is open: end it before rows are "
                                    "copied");
    }
    return muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                "a gradient for table %u, which has no "
                                "optimiser",
                                batch->table);
}

/* Serve a whole batch without latches, as the only worker of a single node.
 * False: nothing was done, and rows are to be acquired one by one. */
static bool serve_alone(const muster_ps_worker *worker,
                        const muster_row_batch *batch, muster_ps_table *rows)
{
    muster_bias_holder *holder = worker->holder;
    uint64_t state = muster_bias_state(holder);
    uint32_t count = (uint32_t)batch->count;
    muster_unlatched_row first;
    if (!rows->in_order || count == 0 || muster_ps_table_revoked(rows) ||
        (state & MUSTER_BIAS_BUSY) != 0 ||
        !muster_ps_table_enter(rows, holder, state, batch->keys[0], &first)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (count - i > LOOK_AHEAD) {
            muster_ps_table_prefetch_slot(rows, batch->keys[i + LOOK_AHEAD],
                                          batch->op != MUSTER_ROWOP_PULL);
        }
        muster_ps_table_apply(rows, batch->op,
                              muster_ps_table_row(rows, batch->keys[i]),
                              batch->values + (size_t)i * rows->width);
    }
    muster_bias_leave(holder, state + MUSTER_BIAS_ACCESS * count + 1);
    return true;
}

muster_row_access muster_row_acquire(muster_ps_worker *worker,
                                     muster_rowref ref, bool written,
                                     float **row_out)
{
    muster_ps_table *rows = worker->tables[muster_rowref_table(ref)];
    muster_bias_holder *holder = worker->holder;
    uint64_t state = muster_bias_state(holder);
    uint32_t key = muster_rowref_key(ref);
    muster_unlatched_row lent;
    if (!muster_ps_table_revoked(rows) &&
        muster_ps_table_enter(rows, holder, state, key, &lent)) {
        muster_worker_count_unlatched(worker, rows, key, &lent, written);
        *row_out = lent.row;
        return MUSTER_ACCESS_UNLATCHED;
    }
    if (muster_ps_table_row_biased(rows) &&
        muster_ps_table_enter_row(rows, holder, state, worker->slot + 1, ref,
                                  row_out)) {
        return MUSTER_ACCESS_UNLATCHED;
    }
    if (rows->in_order) { // both cache misses at once, row and word
        muster_ps_table_prefetch_slot(rows, key, written);
    }
    uint64_t seen;
    if (!muster_worker_latch(worker, rows, ref, &seen)) {
        return MUSTER_ACCESS_REMOTE;
    }
    muster_worker_count_latched(worker, ref, seen, written);
    *row_out = muster_slab_row(&rows->slab, muster_word_slot(seen));
    return MUSTER_ACCESS_LATCHED;
}

/* Serve the rows of this node; the positions of the others go to `call`. */
static void serve_local(muster_ps_worker *worker, const muster_row_batch *batch,
                        muster_ps_table *rows, muster_ps_call *call)
{
    const uint32_t *keys = batch->keys;
    uint32_t count = (uint32_t)batch->count;
    uint32_t ahead = count < LOOK_AHEAD ? count : LOOK_AHEAD;
    bool reports = muster_worker_reports_accesses(worker);
    bool written = batch->op != MUSTER_ROWOP_PULL;
    for (uint32_t i = 1; i < ahead; i++) {
        muster_ps_table_prefetch(rows, keys[i], written);
    }
    for (uint32_t i = 0; i < count; i++) {
        float *row;
        if (count - i > LOOK_AHEAD) {
            muster_ps_table_prefetch(rows, keys[i + LOOK_AHEAD], written);
        }
        muster_row_access access = muster_row_acquire(
            worker, muster_rowref_make(batch->table, keys[i]), written, &row);
        if (access == MUSTER_ACCESS_REMOTE) {
            uint32_t *positions = call->positions.data;
            positions[call->positions.count++] = i;
        } else {
            muster_ps_table_apply(rows, batch->op, row,
                                  batch->values + (size_t)i * rows->width);
            muster_row_release(worker, access, &rows->words[keys[i]], written);
        }
        // Accesses without a latch are counted in the bias holder.
        worker->counts.accesses += access != MUSTER_ACCESS_UNLATCHED;
        if (reports) {
            muster_worker_report_access(worker, batch->table, keys[i]);
        }
    }
}

/* Reserve room for every position, so that nothing can fail once a row was
 * touched. */
static bool reserve_positions(const muster_ps_worker *worker,
                              muster_ps_call *call, size_t count)
{
    call->positions.count = 0;
    return worker->ps->mesh == NULL ||
           muster_vec_reserve(&call->positions, count);
}

__attribute__((cold)) static muster_status
refuse_memory(muster_ps_worker *worker, size_t count)
{
    return muster_worker_refuse(worker, MUSTER_ERR_NO_MEMORY,
                                "no memory for a list of %zu rows", count);
}

/* Takes arguments rather than a batch, which each caller would have to write to
 * the stack. */
APART static muster_status apply_rows(muster_ps_worker *worker,
                                      muster_row_op op, uint32_t table,
                                      const uint32_t *keys, size_t count,
                                      float *values)
{
    muster_row_batch batch = {op, table, keys, count, values};
    muster_ps_table *rows = check_batch(worker, &batch);
    if (rows == NULL) {
        return refuse_batch(worker, &batch);
    }
    muster_ps_call *call = muster_worker_sync_call(worker);
    if (serve_alone(worker, &batch, rows)) {
        return MUSTER_OK;
    }
    if (!reserve_positions(worker, call, batch.count)) {
        return refuse_memory(worker, count);
    }
    serve_local(worker, &batch, rows, call);
    if (call->positions.count == 0) {
        return MUSTER_OK;
    }
    return muster_ps_call_run(worker, &batch, call);
}

/* Row operations other than a pull only read the values they are given. */
static inline float *input(const float *values)
{
    union {
        const float *given;
        float *taken;
    } same = {.given = values};
    return same.taken;
}

/* One row without its latch, by the only worker of a node of a mesh. False:
 * nothing was done. */
static inline bool apply_unlatched(muster_ps_worker *worker,
                                   muster_ps_table *rows, uint32_t key,
                                   muster_row_op op, float *values)
{
    muster_bias_holder *holder = worker->holder;
    uint64_t state = muster_bias_state(holder);
    muster_unlatched_row lent;
    if (muster_ps_table_revoked(rows) ||
        !muster_ps_table_enter(rows, holder, state, key, &lent)) {
        return false;
    }
    muster_ps_table_apply(rows, op, lent.row, values);
    muster_worker_count_unlatched(worker, rows, key, &lent,
                                  op != MUSTER_ROWOP_PULL);
    muster_bias_leave(holder, state + MUSTER_BIAS_ACCESS + 1);
    return true;
}

/* The same under its latch, if no thread holds it. */
static inline bool apply_latched(muster_ps_worker *worker,
                                 muster_ps_table *rows, uint32_t key,
                                 muster_row_op op, float *values)
{
    muster_word *word = &rows->words[key];
    if (rows->in_order) { // both cache misses at once, row and word
        muster_ps_table_prefetch_slot(rows, key, op != MUSTER_ROWOP_PULL);
    }
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    if (atomic_load_explicit(&rows->row_bias, memory_order_acquire) !=
            MUSTER_ROW_BIAS_NONE ||
        !muster_latch_try(word, &seen)) {
        return false;
    }
    float *row = muster_slab_row(&rows->slab, muster_word_slot(seen));
    muster_ps_table_apply(rows, op, row, values);
    muster_latch_release(word, op != MUSTER_ROWOP_PULL);
    muster_worker_count_latched(worker, muster_rowref_make(rows->number, key),
                                seen, op != MUSTER_ROWOP_PULL);
    worker->counts.accesses++;
    return true;
}

/* One of the two, while the worker has no row open and reports nothing. */
static bool apply_one(muster_ps_worker *worker, muster_ps_table *rows,
                      uint32_t key, muster_row_op op, float *values)
{
    uint64_t state = muster_bias_state(worker->holder);
    return (state & MUSTER_BIAS_BUSY) == 0 && key < rows->keys &&
           (apply_unlatched(worker, rows, key, op, values) ||
            apply_latched(worker, rows, key, op, values));
}

/* pull and push have these arguments in registers, and need not save any. */
APART static muster_status pull_one(muster_ps_worker *worker,
                                    muster_ps_table *rows, const uint32_t *keys,
                                    float *values_out)
{
    return apply_one(worker, rows, keys[0], MUSTER_ROWOP_PULL, values_out)
               ? MUSTER_OK
               : apply_rows(worker, MUSTER_ROWOP_PULL, rows->number, keys, 1,
                            values_out);
}

APART static muster_status push_one(muster_ps_worker *worker,
                                    muster_ps_table *rows, const uint32_t *keys,
                                    const float *deltas)
{
    return apply_one(worker, rows, keys[0], MUSTER_ROWOP_PUSH, input(deltas))
               ? MUSTER_OK
               : apply_rows(worker, MUSTER_ROWOP_PUSH, rows->number, keys, 1,
                            input(deltas));
}

static muster_status start_rows(muster_ps_worker *worker,
                                const muster_row_batch *batch,
                                uint64_t *handle_out)
{
    muster_ps_table *rows = check_batch(worker, batch);
    if (rows == NULL) {
        return refuse_batch(worker, batch);
    }
    if (handle_out == NULL) {
        return muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                    "handle_out is NULL");
    }
    muster_ps_call *call = muster_ps_call_find_free(worker);
    if (call == NULL) {
        return muster_worker_refuse(worker, MUSTER_ERR_AGAIN,
                                    "%u calls are under way: wait for one",
                                    MUSTER_PS_CALLS_MAX);
    }
    if (!reserve_positions(worker, call, batch->count)) {
        return refuse_memory(worker, batch->count);
    }
    serve_local(worker, batch, rows, call);
    *handle_out = MUSTER_PS_DONE;
    if (call->positions.count > 0) {
        call->started = true;
        *handle_out = muster_ps_call_handle(worker, call);
        muster_ps_call_submit(worker, batch, call);
    }
    return MUSTER_OK;
}

enum { LINE = 16, HALF = 8 }; // floats of a cache line

/* to = from, a cache line at a time. */
static inline void copy_row(float *to, const float *from, size_t count)
{
    size_t i = 0;
    for (size_t lines = count / LINE * LINE; i != lines; i += LINE) {
        muster_f8 left;
        muster_f8 right;
        MUSTER_F8_LOAD(left, from + i);
        MUSTER_F8_LOAD(right, from + i + HALF);
        MUSTER_F8_STORE(to + i, left);
        MUSTER_F8_STORE(to + i + HALF, right);
    }
    if (i == count) { // mostly
        return;
    }
    if (count - i >= HALF) {
        muster_f8 rest;
        MUSTER_F8_LOAD(rest, from + i);
        MUSTER_F8_STORE(to + i, rest);
        i += HALF;
    }
    for (; i != count; i++) {
        to[i] = from[i];
    }
}

static inline void add_half(float *to, const float *from)
{
    muster_f8 sum;
    muster_f8 more;
    MUSTER_F8_LOAD(sum, to);
    MUSTER_F8_LOAD(more, from);
    sum += more;
    MUSTER_F8_STORE(to, sum);
}

/* to += from. */
static inline void add_row(float *to, const float *from, size_t count)
{
    size_t i = 0;
    for (size_t lines = count / LINE * LINE; i != lines; i += LINE) {
        add_half(to + i, from + i);
        add_half(to + i + HALF, from + i + HALF);
    }
    if (i == count) {
        return;
    }
    if (count - i >= HALF) {
        add_half(to + i, from + i);
        i += HALF;
    }
    for (; i != count; i++) {
        to[i] += from[i];
    }
}

MUSTER_SIMD muster_status muster_ps_pull(muster_ps_worker *worker,
                                         uint32_t table, const uint32_t *keys,
                                         size_t count, float *values_out)
{
    if (count != 1 || worker == NULL || table >= worker->table_count ||
        keys == NULL || values_out == NULL) {
        return apply_rows(worker, MUSTER_ROWOP_PULL, table, keys, count,
                          values_out);
    }
    muster_ps_table *rows = worker->tables[table];
    muster_bias_holder *holder = worker->holder;
    uint64_t state = muster_bias_state(holder);
    uint32_t key = keys[0];
    if (!muster_ps_table_may_enter(rows, state, key) ||
        !muster_ps_table_enter_ordered(rows, holder, state)) {
        return pull_one(worker, rows, keys, values_out);
    }
    copy_row(values_out, muster_ps_table_row(rows, key), rows->width);
    muster_bias_leave(holder, state + MUSTER_BIAS_ACCESS + 1);
    return MUSTER_OK;
}

MUSTER_SIMD muster_status muster_ps_push(muster_ps_worker *worker,
                                         uint32_t table, const uint32_t *keys,
                                         size_t count, const float *deltas)
{
    if (count != 1 || worker == NULL || table >= worker->table_count ||
        keys == NULL || deltas == NULL) {
        return apply_rows(worker, MUSTER_ROWOP_PUSH, table, keys, count,
                          input(deltas));
    }
    muster_ps_table *rows = worker->tables[table];
    muster_bias_holder *holder = worker->holder;
    uint64_t state = muster_bias_state(holder);
    uint32_t key = keys[0];
    if (!muster_ps_table_may_enter(rows, state, key) ||
        !muster_ps_table_enter_ordered(rows, holder, state)) {
        return push_one(worker, rows, keys, deltas);
    }
    add_row(muster_ps_table_row(rows, key), deltas, rows->width);
    muster_bias_leave(holder, state + MUSTER_BIAS_ACCESS + 1);
    return MUSTER_OK;
}

muster_status muster_ps_push_gradient(muster_ps_worker *worker, uint32_t table,
                                      const uint32_t *keys, size_t count,
                                      const float *gradients)
{
    return apply_rows(worker, MUSTER_ROWOP_GRADIENT, table, keys, count,
                      input(gradients));
}

muster_status muster_ps_set(muster_ps_worker *worker, uint32_t table,
                            const uint32_t *keys, size_t count,
                            const float *values)
{
    return apply_rows(worker, MUSTER_ROWOP_SET, table, keys, count,
                      input(values));
}

muster_status muster_ps_pull_start(muster_ps_worker *worker, uint32_t table,
                                   const uint32_t *keys, size_t count,
                                   float *values_out, uint64_t *handle_out)
{
    muster_row_batch batch = {MUSTER_ROWOP_PULL, table, keys, count,
                              values_out};
    return start_rows(worker, &batch, handle_out);
}

muster_status muster_ps_push_start(muster_ps_worker *worker, uint32_t table,
                                   const uint32_t *keys, size_t count,
                                   const float *deltas, uint64_t *handle_out)
{
    muster_row_batch batch = {MUSTER_ROWOP_PUSH, table, keys, count,
                              input(deltas)};
    return start_rows(worker, &batch, handle_out);
}

muster_status muster_ps_push_gradient_start(muster_ps_worker *worker,
                                            uint32_t table,
                                            const uint32_t *keys, size_t count,
                                            const float *gradients,
                                            uint64_t *handle_out)
{
    muster_row_batch batch = {MUSTER_ROWOP_GRADIENT, table, keys, count,
                              input(gradients)};
    return start_rows(worker, &batch, handle_out);
}

muster_status muster_ps_set_start(muster_ps_worker *worker, uint32_t table,
                                  const uint32_t *keys, size_t count,
                                  const float *values, uint64_t *handle_out)
{
    muster_row_batch batch = {MUSTER_ROWOP_SET, table, keys, count,
                              input(values)};
    return start_rows(worker, &batch, handle_out);
}

void muster_ps_prefetch(const muster_ps_worker *worker, uint32_t table,
                        uint32_t key)
{
    if (worker != NULL && table < worker->table_count &&
        key < worker->tables[table]->keys) {
        muster_ps_table_prefetch(worker->tables[table], key, true);
    }
}

void muster_ps_prefetch_ahead(const muster_ps_worker *worker, uint32_t table,
                              uint32_t key, uint32_t later)
{
    if (worker != NULL && table < worker->table_count &&
        key < worker->tables[table]->keys &&
        later < worker->tables[table]->keys) {
        muster_ps_table_prefetch_word(worker->tables[table], later);
        muster_ps_table_prefetch(worker->tables[table], key, true);
    }
}
