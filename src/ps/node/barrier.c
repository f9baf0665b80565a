/*
 * barrier.c -- a worker's side of a mesh: queue and barriers.
 */
#include "base/mem.h"
#include "ps/node/inside.h"

#define WISH_MAX 1024u // keys of one wish

muster_status muster_worker_join_mesh(muster_ps_worker *worker)
{
    size_t most = 0;
    for (uint32_t i = 0; i < worker->table_count; i++) {
        size_t floats = worker->tables[i]->floats;
        most = floats > most ? floats : most;
    }
    worker->copy_floats = most;
    worker->queue = muster_mem_array(1, sizeof(*worker->queue));
    worker->copies =
        muster_mem_array((size_t)MUSTER_PS_OPEN_MAX * 2 * most, sizeof(float));
    if (worker->queue == NULL || worker->copies == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_status status = muster_worker_calls_init(worker);
    if (status == MUSTER_OK) {
        status = muster_intents_create(&worker->intents);
    }
    return status == MUSTER_OK
               ? muster_mesh_add_worker(worker->ps->mesh, worker)
               : status;
}

void muster_worker_leave_mesh(muster_ps_worker *worker)
{
    muster_mesh_remove_worker(worker->ps->mesh, worker);
    muster_worker_calls_fini(worker);
    muster_mem_free(worker->queue);
    muster_mem_free(worker->copies);
}

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

/* Let those who wait pass, if all have come. True: this node's are complete and
 * must meet the other nodes; to be told once the lock is released, since the
 * mesh's driver takes the two locks the other way round. */
static bool pass_if_complete(muster_ps *ps)
{
    if (ps->barrier_waiting == 0 || ps->barrier_cancelled ||
        ps->barrier_status != MUSTER_OK ||
        ps->barrier_waiting != atomic_load(&ps->workers_alive)) {
        return false;
    }
    ps->barrier_waiting = 0;
    if (ps->mesh == NULL) {
        ps->barrier_passed++;
        (void)pthread_cond_broadcast(&ps->barrier_cond);
    }
    return ps->mesh != NULL;
}

void muster_barrier_worker_left(muster_ps *ps)
{
    (void)pthread_mutex_lock(&ps->barrier_lock);
    atomic_fetch_sub(&ps->workers_alive, 1);
    bool complete = pass_if_complete(ps);
    (void)pthread_mutex_unlock(&ps->barrier_lock);
    if (complete) {
        muster_mesh_enter_barrier(ps->mesh);
    }
}

muster_status muster_ps_barrier(muster_ps_worker *worker)
{
    if (worker == NULL || muster_worker_open_rows(worker) > 0) {
        return MUSTER_ERR_INVALID;
    }
    muster_ps *ps = worker->ps;
    muster_worker_flush_counts(worker);
    (void)pthread_mutex_lock(&ps->barrier_lock);
    if (ps->mesh != NULL && muster_mesh_has_failed(ps->mesh)) {
        // Those who wait were sent off and others may be gone: nobody comes.
        (void)pthread_mutex_unlock(&ps->barrier_lock);
        return MUSTER_ERR_PEER_LOST;
    }
    uint64_t mine = ps->barrier_passed;
    ps->barrier_waiting++;
    if (pass_if_complete(ps)) {
        (void)pthread_mutex_unlock(&ps->barrier_lock);
        muster_mesh_enter_barrier(ps->mesh);
        (void)pthread_mutex_lock(&ps->barrier_lock);
    }
    // A loss is for good: whoever comes after it waits for nobody.
    while (ps->barrier_passed == mine && !ps->barrier_cancelled &&
           ps->barrier_status == MUSTER_OK) {
        (void)pthread_cond_wait(&ps->barrier_cond, &ps->barrier_lock);
    }
    muster_status status =
        ps->barrier_cancelled ? MUSTER_ERR_CANCELLED : ps->barrier_status;
    (void)pthread_mutex_unlock(&ps->barrier_lock);
    return status;
}

void muster_ps_barrier_cancel(muster_ps *ps)
{
    (void)pthread_mutex_lock(&ps->barrier_lock);
    ps->barrier_cancelled = true;
    (void)pthread_cond_broadcast(&ps->barrier_cond);
    (void)pthread_mutex_unlock(&ps->barrier_lock);
}
