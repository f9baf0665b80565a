/*
 * ps_rows.c -- the data path of muster/ps.h: pull, push, set, begin and end.
 *
 * Keys are checked before the first row is touched. Batches look a few keys
 * ahead and prefetch, so that a cache miss is under way while another row is
 * worked on.
 */
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
 * every row that it holds. */
static bool in_order(const muster_ps_worker *worker, muster_ps_place place)
{
    return worker->open_count == 0 ||
           (worker->open_count < MUSTER_PS_OPEN_MAX &&
            worker->open[worker->open_count - 1] < place);
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
    size_t ahead = count < LOOK_AHEAD ? count : LOOK_AHEAD;
    for (size_t i = 1; i < ahead; i++) {
        muster_pstable_prefetch(rows, keys[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (i + LOOK_AHEAD < count) {
            muster_pstable_prefetch(rows, keys[i + LOOK_AHEAD]);
        }
        if (!muster_pstable_try(rows, op, keys[i], values + i * rows->width)) {
            return MUSTER_ERR_UNSUPPORTED;
        }
        if (worker->notes) {
            muster_ps_note(worker, table, keys[i]);
        }
    }
    return MUSTER_OK;
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

muster_status muster_ps_begin(muster_ps_worker *worker, uint32_t table,
                              uint32_t key, float **row_out)
{
    if (worker == NULL || row_out == NULL || table >= worker->table_count) {
        return MUSTER_ERR_INVALID;
    }
    muster_pstable *rows = worker->tables[table];
    muster_ps_place place = (uint64_t)table << 32 | key;
    if (key >= rows->keys || !in_order(worker, place)) {
        return MUSTER_ERR_INVALID;
    }
    float *row = muster_pstable_begin(rows, key);
    if (row == NULL) {
        return MUSTER_ERR_UNSUPPORTED;
    }
    worker->open[worker->open_count++] = place;
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
    muster_ps_place place = (uint64_t)table << 32 | key;
    // The row opened last is mostly the one closed first.
    for (uint32_t i = worker->open_count; i > 0; i--) {
        if (worker->open[i - 1] == place) {
            muster_pstable_end(worker->tables[table], key);
            worker->open_count--;
            for (uint32_t j = i - 1; j < worker->open_count; j++) {
                worker->open[j] = worker->open[j + 1];
            }
            return MUSTER_OK;
        }
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
