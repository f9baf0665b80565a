/*
 * ps_rows.c -- the data path of muster/ps.h: pull, push, set, begin and end.
 *
 * Keys are checked before the first row is touched. Batches look a few keys
 * ahead and prefetch, so that a cache miss is under way while another row is
 * worked on. The paths of a lone worker (ps_alone.h) are kept short and apart,
 * so that the processor sees several of a loop's calls at once.
 */
#include <string.h>

#include "runtime/ps_inside.h"

#define LOOK_AHEAD 4u

/* Kept out of the short paths, which would save registers for it. */
#define APART __attribute__((noinline))

muster_pstable *muster_ps_check(const muster_ps_worker *worker, uint32_t table,
                                const uint32_t *keys, size_t count)
{
    if (worker == NULL || table >= worker->table_count ||
        (keys == NULL && count > 0)) {
        return NULL;
    }
    muster_pstable *found = worker->tables[table];
    for (size_t i = 0; i < count; i++) {
        if (keys[i] >= found->keys) {
            return NULL;
        }
    }
    return found;
}

bool muster_ps_holds(const muster_ps_worker *worker)
{
    for (uint32_t i = 0; i < worker->open_count; i++) {
        if (worker->open[i].copy == NULL) {
            return true;
        }
    }
    return false;
}

/* True when the worker may take the latch of a row now: it must come after
 * every row that it holds in place. Copies hold nobody up. */
static bool in_order(const muster_ps_worker *worker, uint64_t place)
{
    for (uint32_t i = 0; i < worker->open_count; i++) {
        const muster_ps_open *open = &worker->open[i];
        if (open->place == place ||
            (open->copy == NULL && open->place > place)) {
            return false;
        }
    }
    return worker->open_count < MUSTER_PS_OPEN_MAX;
}

/* Are table, keys, values and operation right, and is no row open? */
static inline muster_pstable *check_job(const muster_ps_worker *worker,
                                        const muster_ps_job *job)
{
    muster_pstable *rows =
        muster_ps_check(worker, job->table, job->keys, job->count);
    if (rows == NULL || (job->values == NULL && job->count > 0) ||
        job->count > UINT32_MAX || worker->open_count > 0 ||
        (job->op == MUSTER_ROWOP_GRADIENT &&
         rows->rule.kind == MUSTER_PS_NONE)) {
        return NULL;
    }
    return rows;
}

/* All of a job by the only worker: every row is here, and nobody else is. */
static inline void serve_alone(muster_ps_worker *worker,
                               const muster_ps_job *job, muster_pstable *rows)
{
    uint32_t count = (uint32_t)job->count;
    for (uint32_t i = 0; i < count; i++) {
        if (count - i > LOOK_AHEAD) {
            muster_pstable_prefetch_row(rows, job->keys[i + LOOK_AHEAD]);
        }
        muster_pstable_apply(rows, (muster_row_op)job->op,
                             muster_pstable_row(rows, job->keys[i]),
                             job->values + (size_t)i * rows->width);
        if (worker->notes) {
            muster_ps_note(worker, job->table, job->keys[i]);
        }
    }
    worker->accesses += count;
}

/* Count a row that was found here in a copy. */
static inline void count_copy(muster_ps_worker *worker,
                              const muster_pstable *rows, uint32_t key)
{
    uint64_t word =
        atomic_load_explicit(&rows->words[key], memory_order_relaxed);
    worker->copied += muster_word_state_of(word) == MUSTER_ROW_REPLICA;
}

/* Do what can be done here; the positions of the other rows go to `call`. */
static void serve_here(muster_ps_worker *worker, const muster_ps_job *job,
                       muster_pstable *rows, muster_ps_call *call)
{
    const uint32_t *keys = job->keys;
    uint32_t count = (uint32_t)job->count;
    uint32_t ahead = count < LOOK_AHEAD ? count : LOOK_AHEAD;
    for (uint32_t i = 1; i < ahead; i++) {
        muster_pstable_prefetch(rows, keys[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (count - i > LOOK_AHEAD) {
            muster_pstable_prefetch(rows, keys[i + LOOK_AHEAD]);
        }
        if (!muster_pstable_try(rows, (muster_row_op)job->op, keys[i],
                                job->values + (size_t)i * rows->width)) {
            uint32_t *positions = call->positions.data;
            positions[call->positions.count++] = i;
        } else if (worker->ps->mesh != NULL) {
            count_copy(worker, rows, keys[i]);
        }
        if (worker->notes) {
            muster_ps_note(worker, job->table, keys[i]);
        }
    }
    worker->accesses += count;
}

/* Room for every position, so that nothing can fail once a row was touched. */
static bool ready_call(const muster_ps_worker *worker, muster_ps_call *call,
                       size_t count)
{
    call->positions.count = 0;
    return worker->ps->mesh == NULL ||
           muster_vec_reserve(&call->positions, count);
}

APART static muster_status apply_shared(muster_ps_worker *worker,
                                        muster_ps_job job)
{
    muster_pstable *rows = worker->tables[job.table];
    muster_ps_call *call = muster_ps_own_call(worker);
    if (!ready_call(worker, call, job.count)) {
        return MUSTER_ERR_NO_MEMORY;
    }
    serve_here(worker, &job, rows, call);
    if (call->positions.count == 0) {
        return MUSTER_OK;
    }
    return muster_ps_do(worker, &job, call);
}

static inline muster_status apply_rows(muster_ps_worker *worker,
                                       muster_ps_job job)
{
    muster_pstable *rows = check_job(worker, &job);
    if (rows == NULL) {
        return MUSTER_ERR_INVALID;
    }
    if (!muster_ps_enter(worker)) {
        return apply_shared(worker, job);
    }
    serve_alone(worker, &job, rows);
    muster_ps_leave(worker);
    return MUSTER_OK;
}

static muster_status start_rows(muster_ps_worker *worker,
                                const muster_ps_job *job, uint64_t *handle_out)
{
    muster_pstable *rows = check_job(worker, job);
    if (rows == NULL || handle_out == NULL) {
        return MUSTER_ERR_INVALID;
    }
    muster_ps_call *call = muster_ps_call_free(worker);
    if (call == NULL) {
        return MUSTER_ERR_AGAIN;
    }
    if (!ready_call(worker, call, job->count)) {
        return MUSTER_ERR_NO_MEMORY;
    }
    serve_here(worker, job, rows, call);
    *handle_out = MUSTER_PS_DONE;
    if (call->positions.count > 0) {
        call->started = true;
        *handle_out = muster_ps_call_handle(worker, call);
        muster_ps_submit(worker, job, call);
    }
    return MUSTER_OK;
}

/* Row operations other than a pull only read the values they are given. */
static inline muster_ps_job input(muster_rowmsg_op op, uint32_t table,
                                  const uint32_t *keys, size_t count,
                                  const float *values)
{
    union {
        const float *given;
        float *taken;
    } same = {.given = values};
    return (muster_ps_job){op, table, keys, count, same.taken};
}

muster_status muster_ps_pull(muster_ps_worker *worker, uint32_t table,
                             const uint32_t *keys, size_t count,
                             float *values_out)
{
    muster_ps_job job = {MUSTER_ROWOP_PULL, table, keys, count, values_out};
    return apply_rows(worker, job);
}

muster_status muster_ps_push(muster_ps_worker *worker, uint32_t table,
                             const uint32_t *keys, size_t count,
                             const float *deltas)
{
    muster_ps_job job = input(MUSTER_ROWOP_PUSH, table, keys, count, deltas);
    return apply_rows(worker, job);
}

muster_status muster_ps_push_gradient(muster_ps_worker *worker, uint32_t table,
                                      const uint32_t *keys, size_t count,
                                      const float *gradients)
{
    muster_ps_job job =
        input(MUSTER_ROWOP_GRADIENT, table, keys, count, gradients);
    return apply_rows(worker, job);
}

muster_status muster_ps_set(muster_ps_worker *worker, uint32_t table,
                            const uint32_t *keys, size_t count,
                            const float *values)
{
    muster_ps_job job = input(MUSTER_ROWOP_SET, table, keys, count, values);
    return apply_rows(worker, job);
}

muster_status muster_ps_pull_start(muster_ps_worker *worker, uint32_t table,
                                   const uint32_t *keys, size_t count,
                                   float *values_out, uint64_t *handle_out)
{
    muster_ps_job job = {MUSTER_ROWOP_PULL, table, keys, count, values_out};
    return start_rows(worker, &job, handle_out);
}

muster_status muster_ps_push_start(muster_ps_worker *worker, uint32_t table,
                                   const uint32_t *keys, size_t count,
                                   const float *deltas, uint64_t *handle_out)
{
    muster_ps_job job = input(MUSTER_ROWOP_PUSH, table, keys, count, deltas);
    return start_rows(worker, &job, handle_out);
}

muster_status muster_ps_push_gradient_start(muster_ps_worker *worker,
                                            uint32_t table,
                                            const uint32_t *keys, size_t count,
                                            const float *gradients,
                                            uint64_t *handle_out)
{
    muster_ps_job job =
        input(MUSTER_ROWOP_GRADIENT, table, keys, count, gradients);
    return start_rows(worker, &job, handle_out);
}

muster_status muster_ps_set_start(muster_ps_worker *worker, uint32_t table,
                                  const uint32_t *keys, size_t count,
                                  const float *values, uint64_t *handle_out)
{
    muster_ps_job job = input(MUSTER_ROWOP_SET, table, keys, count, values);
    return start_rows(worker, &job, handle_out);
}

/* Room for a copy: one that no open row uses. */
static float *free_copy(const muster_ps_worker *worker)
{
    for (size_t slot = 0;; slot++) {
        float *copy = worker->copies + slot * 2 * worker->copy_floats;
        bool used = false;
        for (uint32_t i = 0; i < worker->open_count; i++) {
            used = used || worker->open[i].copy == copy;
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
    muster_pstable *rows = worker->tables[table];
    if (muster_ps_holds(worker)) {
        // Waiting with a latch held could make who drives the mesh, and with
        // it the row that we wait for, wait for us.
        return MUSTER_ERR_AGAIN;
    }
    float *copy = free_copy(worker);
    muster_ps_job job = {MUSTER_ROWOP_PULL_ROW, table, &key, 1, copy};
    muster_status status = muster_ps_remote(worker, &job);
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
    muster_ps_job job = {MUSTER_ROWOP_PUSH_ROW, table, &key, 1, copy};
    return muster_ps_remote(worker, &job);
}

/* Latch and lend a row of several workers or nodes, or NULL: not here. */
static inline float *begin_here(muster_ps_worker *worker, muster_pstable *rows,
                                uint32_t key)
{
    uint64_t seen;
    if (rows->in_order) {
        return muster_pstable_begin(rows, key);
    }
    if (!muster_latch(&rows->words[key], &seen)) {
        return NULL;
    }
    worker->copied += muster_word_state_of(seen) == MUSTER_ROW_REPLICA;
    return muster_slab_row(&rows->slab, muster_word_slot(seen));
}

/* begin in every case but the commonest. */
APART static muster_status begin_shared(muster_ps_worker *worker,
                                        uint32_t table, uint32_t key,
                                        float **row_out)
{
    muster_pstable *rows = worker->tables[table];
    uint64_t place = (uint64_t)table << 32 | key;
    if (!in_order(worker, place)) {
        return MUSTER_ERR_INVALID;
    }
    float *copy = NULL;
    float *row = muster_ps_enter(worker) ? muster_pstable_row(rows, key)
                                         : begin_here(worker, rows, key);
    if (row == NULL) {
        muster_status status = begin_copy(worker, table, key, &copy);
        if (status != MUSTER_OK) {
            return status;
        }
        row = copy;
    }
    worker->accesses++;
    worker->open[worker->open_count++] = (muster_ps_open){place, copy};
    if (worker->notes) {
        muster_ps_note(worker, table, key);
    }
    *row_out = row;
    return MUSTER_OK;
}

muster_status muster_ps_begin(muster_ps_worker *worker, uint32_t table,
                              uint32_t key, float **row_out)
{
    if (worker == NULL || row_out == NULL || table >= worker->table_count ||
        key >= worker->tables[table]->keys) {
        return MUSTER_ERR_INVALID;
    }
    if (worker->open_count > 0 || worker->notes || !muster_ps_enter(worker)) {
        return begin_shared(worker, table, key, row_out);
    }
    worker->accesses++;
    worker->open_count = 1;
    worker->open[0].place = (uint64_t)table << 32 | key;
    *row_out = muster_pstable_row(worker->tables[table], key);
    return MUSTER_OK;
}

/* end in every case but the commonest. */
APART static muster_status end_shared(muster_ps_worker *worker, uint32_t table,
                                      uint32_t key)
{
    uint64_t place = (uint64_t)table << 32 | key;
    // The row opened last is mostly the one closed first.
    for (uint32_t i = worker->open_count; i > 0; i--) {
        if (worker->open[i - 1].place != place) {
            continue;
        }
        float *copy = worker->open[i - 1].copy;
        muster_status status = MUSTER_OK;
        if (copy != NULL) {
            status = end_copy(worker, table, key, copy);
        } else if (!worker->lone) {
            muster_pstable_end(worker->tables[table], key);
        }
        worker->open_count--;
        for (uint32_t j = i - 1; j < worker->open_count; j++) {
            worker->open[j] = worker->open[j + 1];
        }
        worker->open[worker->open_count].copy = NULL;
        return status;
    }
    return MUSTER_ERR_INVALID;
}

muster_status muster_ps_end(muster_ps_worker *worker, uint32_t table,
                            uint32_t key)
{
    if (worker == NULL) {
        return MUSTER_ERR_INVALID;
    }
    if (!worker->lone || worker->open_count != 1 ||
        worker->open[0].place != ((uint64_t)table << 32 | key)) {
        return end_shared(worker, table, key);
    }
    worker->open_count = 0;
    muster_ps_leave(worker);
    return MUSTER_OK;
}

muster_status muster_ps_read(muster_ps_worker *worker, uint32_t table,
                             uint32_t key, muster_ps_reader reader,
                             void *context)
{
    float *row;
    if (reader == NULL) {
        return MUSTER_ERR_INVALID;
    }
    muster_status status = muster_ps_begin(worker, table, key, &row);
    if (status != MUSTER_OK) {
        return status;
    }
    reader(context, row, worker->tables[table]->floats);
    return muster_ps_end(worker, table, key);
}

muster_status muster_ps_update(muster_ps_worker *worker, uint32_t table,
                               uint32_t key, muster_ps_updater updater,
                               void *context)
{
    float *row;
    if (updater == NULL) {
        return MUSTER_ERR_INVALID;
    }
    muster_status status = muster_ps_begin(worker, table, key, &row);
    if (status != MUSTER_OK) {
        return status;
    }
    updater(context, row, worker->tables[table]->floats);
    return muster_ps_end(worker, table, key);
}

void muster_ps_prefetch(const muster_ps_worker *worker, uint32_t table,
                        uint32_t key)
{
    if (worker != NULL && table < worker->table_count &&
        key < worker->tables[table]->keys) {
        muster_pstable_prefetch(worker->tables[table], key);
    }
}
