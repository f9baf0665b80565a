/*
 * each.c -- rows of muster/ps.h in place, one after the other: read and
 * update. The keys are known, so rows are brought closer before they are begun.
 */
#include "ps/node/inside.h"

#define LOOK_AHEAD 8u

/* The rows of a call, and how far they were asked for. */
typedef struct each {
    muster_ps_worker *worker;
    const muster_ps_table *rows;
    const uint32_t *keys;
    size_t count;
    size_t asked;
} each;

static each each_make(muster_ps_worker *worker, uint32_t table,
                      const uint32_t *keys, size_t count)
{
    each e = {.worker = worker,
              .rows = muster_worker_check_keys(worker, table, keys, count),
              .keys = keys,
              .count = count};
    return e;
}

/* Begin the i-th row, and look beyond it. */
static inline muster_status each_begin(each *e, uint32_t table, size_t i,
                                       float **row_out)
{
    size_t ahead = e->count - i > LOOK_AHEAD ? i + LOOK_AHEAD : e->count;
    while (e->asked < ahead) {
        muster_ps_table_prefetch(e->rows, e->keys[e->asked++]);
    }
    return muster_ps_begin(e->worker, table, e->keys[i], row_out);
}

muster_status muster_ps_read(muster_ps_worker *worker, uint32_t table,
                             const uint32_t *keys, size_t count,
                             muster_ps_reader reader, void *context)
{
    each e = each_make(worker, table, keys, count);
    if (reader == NULL || e.rows == NULL) {
        return MUSTER_ERR_INVALID;
    }
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        float *row;
        status = each_begin(&e, table, i, &row);
        if (status == MUSTER_OK) {
            reader(context, i, row, e.rows->floats);
            status = muster_ps_end(worker, table, keys[i]);
        }
    }
    return status;
}

muster_status muster_ps_update(muster_ps_worker *worker, uint32_t table,
                               const uint32_t *keys, size_t count,
                               muster_ps_updater updater, void *context)
{
    each e = each_make(worker, table, keys, count);
    if (updater == NULL || e.rows == NULL) {
        return MUSTER_ERR_INVALID;
    }
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        float *row;
        status = each_begin(&e, table, i, &row);
        if (status == MUSTER_OK) {
            updater(context, i, row, e.rows->floats);
            status = muster_ps_end(worker, table, keys[i]);
        }
    }
    return status;
}
