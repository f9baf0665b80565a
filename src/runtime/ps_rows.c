/*
 * ps_rows.c -- the data path of muster/ps.h: pull, push, set, begin and end.
 *
 * Keys are checked before the first row is touched. Batches look a few keys
 * ahead and prefetch, so that a cache miss is under way while another row is
 * worked on.
 */
#include <string.h>

#include "runtime/ps_inside.h"

#define LOOK_AHEAD 4u

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

static muster_status apply_rows(muster_ps_worker *worker, uint32_t table,
                                muster_row_op op, const uint32_t *keys,
                                size_t count, float *values)
{
    muster_pstable *rows = muster_ps_check(worker, table, keys, count);
    if (rows == NULL || (values == NULL && count > 0) ||
        worker->open_count > 0 ||
        (op == MUSTER_ROW_GRADIENT && rows->rule.kind == MUSTER_PS_NONE)) {
        return MUSTER_ERR_INVALID;
    }
    if (count > UINT32_MAX) {
        return MUSTER_ERR_INVALID;
    }
    worker->positions.count = 0;
    size_t ahead = count < LOOK_AHEAD ? count : LOOK_AHEAD;
    for (size_t i = 1; i < ahead; i++) {
        muster_pstable_prefetch(rows, keys[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (i + LOOK_AHEAD < count) {
            muster_pstable_prefetch(rows, keys[i + LOOK_AHEAD]);
        }
        if (!muster_pstable_try(rows, op, keys[i], values + i * rows->width)) {
            uint32_t position = (uint32_t)i;
            if (!muster_vec_append(&worker->positions, &position, 1)) {
                return MUSTER_ERR_NO_MEMORY;
            }
        }
        if (worker->notes) {
            muster_ps_note(worker, table, keys[i]);
        }
    }
    worker->accesses += count;
    return worker->positions.count == 0
               ? MUSTER_OK
               : muster_ps_remote(worker, (muster_rowmsg_op)op, table, keys,
                                  values);
}

muster_status muster_ps_pull(muster_ps_worker *worker, uint32_t table,
                             const uint32_t *keys, size_t count,
                             float *values_out)
{
    return apply_rows(worker, table, MUSTER_ROW_PULL, keys, count, values_out);
}

/* Row operations other than a pull only read the values they are given. */
static float *input(const float *values)
{
    union {
        const float *given;
        float *taken;
    } same = {.given = values};
    return same.taken;
}

muster_status muster_ps_push(muster_ps_worker *worker, uint32_t table,
                             const uint32_t *keys, size_t count,
                             const float *deltas)
{
    return apply_rows(worker, table, MUSTER_ROW_PUSH, keys, count,
                      input(deltas));
}

muster_status muster_ps_push_gradient(muster_ps_worker *worker, uint32_t table,
                                      const uint32_t *keys, size_t count,
                                      const float *gradients)
{
    return apply_rows(worker, table, MUSTER_ROW_GRADIENT, keys, count,
                      input(gradients));
}

muster_status muster_ps_set(muster_ps_worker *worker, uint32_t table,
                            const uint32_t *keys, size_t count,
                            const float *values)
{
    return apply_rows(worker, table, MUSTER_ROW_SET, keys, count,
                      input(values));
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
    for (uint32_t i = 0; i < worker->open_count; i++) {
        if (worker->open[i].copy == NULL) {
            // Waiting with a latch held could make the network thread, and
            // with it the row that we wait for, wait for us.
            return MUSTER_ERR_AGAIN;
        }
    }
    float *copy = free_copy(worker);
    uint32_t zero = 0;
    worker->positions.count = 0;
    if (!muster_vec_append(&worker->positions, &zero, 1)) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_status status =
        muster_ps_remote(worker, MUSTER_ROWOP_PULL_ROW, table, &key, copy);
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
    uint32_t zero = 0;
    for (uint32_t i = 0; i < floats; i++) {
        copy[i] -= copy[worker->copy_floats + i];
    }
    worker->positions.count = 0;
    return muster_vec_append(&worker->positions, &zero, 1)
               ? muster_ps_remote(worker, MUSTER_ROWOP_PUSH_ROW, table, &key,
                                  copy)
               : MUSTER_ERR_NO_MEMORY;
}

muster_status muster_ps_begin(muster_ps_worker *worker, uint32_t table,
                              uint32_t key, float **row_out)
{
    if (worker == NULL || row_out == NULL || table >= worker->table_count) {
        return MUSTER_ERR_INVALID;
    }
    muster_pstable *rows = worker->tables[table];
    uint64_t place = (uint64_t)table << 32 | key;
    if (key >= rows->keys || !in_order(worker, place)) {
        return MUSTER_ERR_INVALID;
    }
    float *row = muster_pstable_begin(rows, key);
    float *copy = NULL;
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

muster_status muster_ps_end(muster_ps_worker *worker, uint32_t table,
                            uint32_t key)
{
    if (worker == NULL) {
        return MUSTER_ERR_INVALID;
    }
    uint64_t place = (uint64_t)table << 32 | key;
    // The row opened last is mostly the one closed first.
    for (uint32_t i = worker->open_count; i > 0; i--) {
        if (worker->open[i - 1].place != place) {
            continue;
        }
        float *copy = worker->open[i - 1].copy;
        muster_status status = MUSTER_OK;
        if (copy == NULL) {
            muster_pstable_end(worker->tables[table], key);
        } else {
            status = end_copy(worker, table, key, copy);
        }
        worker->open_count--;
        for (uint32_t j = i - 1; j < worker->open_count; j++) {
            worker->open[j] = worker->open[j + 1];
        }
        return status;
    }
    return MUSTER_ERR_INVALID;
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
