/*
 * localize.c -- muster_ps_localize() and muster_ps_fetch(): a worker asks for
 * rows to be brought to its node.
 */
#include "ps/node/inside.h"

#define WISH_MAX 1024u // keys of one wish

uint32_t muster_ps_nodes(const muster_ps_worker *worker)
{
    return worker != NULL ? worker->ps->opts.nodes : 0;
}

muster_status muster_ps_localize(muster_ps_worker *worker, uint32_t table,
                                 const uint32_t *keys, size_t count)
{
    return muster_worker_localize(worker, table, keys, count, 0);
}

/* Could rows come here at all? */
static bool wishes_matter(const muster_ps_worker *worker)
{
    return worker->ps->mesh != NULL &&
           worker->ps->opts.manage != MUSTER_PS_CLASSIC;
}

muster_status muster_worker_localize(muster_ps_worker *worker, uint32_t table,
                                     const uint32_t *keys, size_t count,
                                     uint32_t copy)
{
    const muster_ps_table *rows =
        worker == NULL ? NULL
                       : muster_worker_check_keys(worker, table, keys, count);
    if (rows == NULL) {
        return MUSTER_ERR_INVALID;
    }
    if (!wishes_matter(worker)) {
        return MUSTER_OK;
    }
    uint32_t wanted[WISH_MAX - 2];
    uint32_t found = 0;
    bool kept = true;
    bool any = false;
    for (size_t i = 0; i < count && kept; i++) {
        uint64_t word =
            atomic_load_explicit(&rows->words[keys[i]], memory_order_relaxed);
        if (muster_word_state_of(word) == MUSTER_ROW_ABSENT) {
            wanted[found++] = keys[i];
        }
        if (found == WISH_MAX - 2 || (i + 1 == count && found > 0)) {
            uint32_t head[2] = {table | copy, found};
            kept = muster_localize_queue_put(worker->queue, head, 2, wanted);
            any = any || kept;
            found = 0;
        }
    }
    if (any) {
        muster_mesh_wake(worker->ps->mesh);
    }
    return kept ? MUSTER_OK : MUSTER_ERR_AGAIN;
}

muster_status muster_ps_fetch(muster_ps_worker *worker, uint32_t table,
                              const uint32_t *keys, size_t count)
{
    if (worker == NULL || muster_worker_open_rows(worker) > 0) {
        return MUSTER_ERR_INVALID;
    }
    muster_status status = muster_ps_localize(worker, table, keys, count);
    if ((status != MUSTER_OK && status != MUSTER_ERR_AGAIN) ||
        !wishes_matter(worker)) {
        return status;
    }
    // A pull waits for the row it meets on its way; its value is not needed.
    for (size_t i = 0; i < count; i++) {
        if (muster_ps_table_here(worker->tables[table], keys[i])) {
            continue;
        }
        float *unread = worker->copies + (size_t)(MUSTER_PS_OPEN_MAX - 1) * 2 *
                                             worker->copy_floats;
        muster_row_batch job = {.op = MUSTER_ROWOP_PULL,
                                .table = table,
                                .keys = &keys[i],
                                .count = 1,
                                .values = unread};
        status = muster_ps_call_run_one(worker, &job);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}
