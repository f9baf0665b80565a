/*
 * each.c -- rows of muster/ps.h in place, one after the other: read and
 * update. The keys are known, so rows are prefetched before they are begun.
 */
#include "ps/node/inside.h"

#define LOOK_AHEAD 8u

/* The rows of a call, and how many of them were prefetched. */
typedef struct each {
    muster_ps_worker *worker;
    const muster_ps_table *rows;
    const uint32_t *keys;
    size_t count;
    size_t prefetched;
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

/* By value, here and below: an address that escapes would keep the loops'
 * counters in memory. */
__attribute__((cold, noinline)) static muster_status refuse(each e,
                                                            uint32_t table)
{
    return e.rows == NULL
               ? muster_worker_refuse_keys(e.worker, table, e.keys, e.count)
               : muster_worker_refuse(e.worker, MUSTER_ERR_INVALID,
                                      "the callback is NULL");
}

/* Prefetch the rows from the i-th on. */
static inline void each_prefetch(each *e, size_t i, bool written)
{
    size_t ahead = e->count - i > LOOK_AHEAD ? i + LOOK_AHEAD : e->count;
    while (e->prefetched < ahead) {
        muster_ps_table_prefetch(e->rows, e->keys[e->prefetched++], written);
    }
}

/* Read rows of a mesh. A row of another node is pulled, and nothing is pushed.
 * A replica is not marked as written. On a single node there is neither, and
 * begin and end are faster. */
static muster_status read_in_mesh(each e, uint32_t table,
                                  muster_ps_reader reader, void *context)
{
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < e.count && status == MUSTER_OK; i++) {
        muster_rowref ref = muster_rowref_make(table, e.keys[i]);
        const float *row;
        each_prefetch(&e, i, false);
        status = muster_row_begin_read(e.worker, ref, &row);
        if (status == MUSTER_OK) {
            reader(context, i, row, e.rows->floats);
            status = muster_row_end_read(e.worker, ref);
        }
    }
    return status;
}

muster_status muster_ps_read(muster_ps_worker *worker, uint32_t table,
                             const uint32_t *keys, size_t count,
                             muster_ps_reader reader, void *context)
{
    each e = each_make(worker, table, keys, count);
    if (reader == NULL || e.rows == NULL) {
        return refuse(e, table);
    }
    if (!e.rows->in_order) { // in a mesh
        return read_in_mesh(e, table, reader, context);
    }
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        float *row;
        each_prefetch(&e, i, false);
        status = muster_ps_begin(worker, table, keys[i], &row);
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
        return refuse(e, table);
    }
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        float *row;
        each_prefetch(&e, i, true);
        status = muster_ps_begin(worker, table, keys[i], &row);
        if (status == MUSTER_OK) {
            updater(context, i, row, e.rows->floats);
            status = muster_ps_end(worker, table, keys[i]);
        }
    }
    return status;
}
