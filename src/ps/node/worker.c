/*
 * worker.c -- workers of a node: made and ended here, outside any hot path.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "ps/node/inside.h"

#define PATIENCE_NS MUSTER_NS_PER_S // with rows kept open

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

void muster_worker_flush_counts(muster_ps_worker *worker)
{
    muster_ps *ps = worker->ps;
    atomic_fetch_add(&ps->accesses,
                     worker->accesses + muster_bias_take_count(worker->holder));
    atomic_fetch_add(&ps->remote, worker->remote);
    atomic_fetch_add(&ps->copied, worker->copied);
    worker->accesses = 0;
    worker->remote = 0;
    worker->copied = 0;
}

/* Another worker comes: nobody is alone any more. Once the tables are left,
 * workers may have rows of their own open, which concern no newcomer. */
static muster_status bar_all(muster_ps *ps)
{
    uint32_t tables = ps->table_count;
    if (!ps->unlatched || atomic_load(&ps->tables_left) == tables) {
        return MUSTER_OK;
    }
    for (uint32_t i = 0; i < tables; i++) {
        muster_ps_table_revoke_for_workers(ps->tables[i]);
    }
    muster_bias_fence();
    if (!muster_bias_wait_all(&ps->holders, PATIENCE_NS)) {
        return MUSTER_ERR_AGAIN;
    }
    atomic_store(&ps->tables_left, tables);
    return MUSTER_OK;
}

/* The lowest number that no worker has. */
static uint32_t take_seat(muster_ps *ps)
{
    uint32_t seat = 0;
    (void)pthread_mutex_lock(&ps->barrier_lock);
    while (ps->seats[seat / 64] >> seat % 64 & 1) {
        seat++;
    }
    ps->seats[seat / 64] |= 1ull << seat % 64;
    (void)pthread_mutex_unlock(&ps->barrier_lock);
    atomic_store(&ps->holders.all[seat].state, 0);
    return seat;
}

static void give_seat(muster_ps *ps, uint32_t seat)
{
    (void)pthread_mutex_lock(&ps->barrier_lock);
    ps->seats[seat / 64] &= ~(1ull << seat % 64);
    (void)pthread_mutex_unlock(&ps->barrier_lock);
}

muster_status muster_ps_worker_create(muster_ps *ps,
                                      muster_ps_worker **worker_out)
{
    if (ps == NULL || worker_out == NULL ||
        (ps->opts.nodes > 1 && ps->mesh == NULL)) {
        return MUSTER_ERR_INVALID;
    }
    muster_ps_worker *worker = muster_mem_lines(1, sizeof(*worker));
    if (worker == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    uint32_t others = atomic_fetch_add(&ps->workers_alive, 1);
    muster_status first = others >= MUSTER_PS_WORKERS_MAX ? MUSTER_ERR_INVALID
                          : others > 0                    ? bar_all(ps)
                                                          : MUSTER_OK;
    if (first != MUSTER_OK) {
        muster_barrier_worker_left(ps);
        muster_mem_free(worker);
        return first;
    }
    worker->ps = ps;
    worker->seat = take_seat(ps);
    worker->holder = &ps->holders.all[worker->seat];
    memcpy(worker->tables, ps->tables, sizeof(worker->tables));
    worker->table_count = ps->table_count;
    worker->number =
        (uint64_t)ps->opts.node << 32 | atomic_fetch_add(&ps->workers_made, 1);
    if (ps->mesh != NULL) {
        muster_status status = muster_worker_join_mesh(worker);
        if (status != MUSTER_OK) {
            muster_ps_worker_free(worker);
            return status;
        }
    }
    *worker_out = worker;
    return MUSTER_OK;
}

static void close_rows(muster_ps_worker *worker, bool copies)
{
    for (uint32_t i = muster_worker_open_rows(worker); i > 0; i--) {
        muster_rowref ref = muster_bias_listed(worker->holder, i - 1);
        if ((worker->open_copies[i - 1] != NULL) == copies) {
            (void)!muster_ps_end(worker, muster_rowref_table(ref),
                                 muster_rowref_key(ref));
        }
    }
}

void muster_ps_worker_free(muster_ps_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    close_rows(worker, false);
    close_rows(worker, true); // these may have to wait, so nothing is held then
    if (worker->ps->mesh != NULL) {
        muster_worker_leave_mesh(worker);
    }
    muster_worker_samplers_fini(worker);
    muster_worker_flush_counts(worker);
    give_seat(worker->ps, worker->seat);
    muster_barrier_worker_left(worker->ps);
    muster_mem_free(worker);
}
