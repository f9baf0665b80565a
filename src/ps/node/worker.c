/*
 * worker.c -- workers of a node: made and ended here, outside any hot path; and
 * the text of a worker's last failure.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "ps/node/inside.h"

/* For the only worker to close its rows when a second one is made. */
#define PATIENCE_NS MUSTER_NS_PER_S

/* ---- failures ------------------------------------------------------------ */

muster_status muster_worker_refuse(muster_ps_worker *worker,
                                   muster_status status, const char *format,
                                   ...)
{
    if (worker != NULL) {
        va_list values;
        va_start(values, format);
        worker->error.status = status;
        (void)vsnprintf(worker->error.text, sizeof(worker->error.text), format,
                        values);
        va_end(values);
    }
    return status;
}

muster_status muster_worker_refuse_keys(muster_ps_worker *worker,
                                        uint32_t table, const uint32_t *keys,
                                        size_t count)
{
    if (worker != NULL && table >= worker->table_count) {
        return muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                    "there is no table %u: %u were added",
                                    table, worker->table_count);
    }
    for (size_t i = 0; worker != NULL && keys != NULL && i < count; i++) {
        uint32_t rows = worker->tables[table]->keys;
        if (keys[i] >= rows) {
            return muster_worker_refuse(
                worker, MUSTER_ERR_INVALID,
                "key %u of table %u: its keys are 0..%u", keys[i], table,
                rows - 1);
        }
    }
    return muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                "an argument is NULL, or 2^32 rows at once");
}

const char *muster_ps_error_text(const muster_ps_worker *worker)
{
    return worker != NULL ? worker->error.text : "there is no worker: NULL";
}

/* ---- counts -------------------------------------------------------------- */

void muster_worker_flush_counts(muster_ps_worker *worker)
{
    muster_ps_atomics *shared = &worker->ps->shared;
    muster_worker_counts *counts = &worker->counts;
    atomic_fetch_add(&shared->accesses,
                     counts->accesses + muster_bias_take_count(worker->holder));
    atomic_fetch_add(&shared->remote_accesses, counts->remote_accesses);
    atomic_fetch_add(&shared->replica_accesses, counts->replica_accesses);
    atomic_fetch_add(&shared->arriving_accesses, counts->arriving_accesses);
    atomic_fetch_add(&shared->spent_accesses, counts->spent_accesses);
    atomic_fetch_add(&shared->remote_wait_ns, (uint64_t)counts->remote_wait_ns);
    atomic_fetch_add(&shared->latch_wait_ns, (uint64_t)counts->latch_wait_ns);
    *counts = (muster_worker_counts){0};
}

/* ---- beginning ----------------------------------------------------------- */

/* A second worker comes: revoke the tables' bias towards the only worker. Once
 * all tables are revoked there is nothing to wait for: rows that are open
 * without latches then belong to one worker each (bias.h). */
static muster_status revoke_all(muster_ps *ps)
{
    uint32_t tables = ps->table_count;
    if (!ps->unlatched || atomic_load(&ps->shared.tables_revoked) == tables) {
        return MUSTER_OK;
    }
    for (uint32_t i = 0; i < tables; i++) {
        muster_ps_table_revoke_for_workers(ps->tables[i]);
    }
    muster_bias_fence();
    if (!muster_bias_wait_all(&ps->holders, PATIENCE_NS)) {
        return MUSTER_ERR_AGAIN;
    }
    atomic_store(&ps->shared.tables_revoked, tables);
    return MUSTER_OK;
}

/* The lowest worker slot that is free. */
static uint32_t take_slot(muster_ps *ps)
{
    uint32_t slot = 0;
    (void)pthread_mutex_lock(&ps->barrier.lock);
    while (ps->barrier.slots[slot / 64] >> slot % 64 & 1) {
        slot++;
        MUSTER_ASSERT(slot < MUSTER_PS_WORKERS_MAX); // workers_alive is below
    }
    ps->barrier.slots[slot / 64] |= 1ull << slot % 64;
    (void)pthread_mutex_unlock(&ps->barrier.lock);
    atomic_store(&ps->holders.all[slot].state, 0);
    return slot;
}

static void give_slot(muster_ps *ps, uint32_t slot)
{
    (void)pthread_mutex_lock(&ps->barrier.lock);
    MUSTER_ASSERT(ps->barrier.slots[slot / 64] >> slot % 64 & 1);
    ps->barrier.slots[slot / 64] &= ~(1ull << slot % 64);
    (void)pthread_mutex_unlock(&ps->barrier.lock);
}

static muster_status join_mesh(muster_ps_worker *worker)
{
    size_t floats_max = 0;
    for (uint32_t i = 0; i < worker->table_count; i++) {
        size_t floats = worker->tables[i]->floats;
        floats_max = floats > floats_max ? floats : floats_max;
    }
    worker->copy_floats = floats_max;
    worker->queue = muster_mem_array(1, sizeof(*worker->queue));
    worker->copies = muster_mem_array(
        (size_t)MUSTER_PS_OPEN_MAX * 2 * floats_max, sizeof(float));
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

static void leave_mesh(muster_ps_worker *worker)
{
    muster_mesh_remove_worker(worker->ps->mesh, worker);
    muster_worker_calls_fini(worker);
    muster_mem_free(worker->queue);
    muster_mem_free(worker->copies);
}

/* Count one more worker, if there may be one. */
static muster_status add_worker(muster_ps *ps, muster_error *error_out)
{
    uint32_t others = atomic_fetch_add(&ps->shared.workers_alive, 1);
    muster_status status = MUSTER_OK;
    if (others >= MUSTER_PS_WORKERS_MAX) {
        status = muster_error_set(error_out, MUSTER_ERR_INVALID,
                                  "parameter server: at most %u workers",
                                  MUSTER_PS_WORKERS_MAX);
    } else if (others > 0 && revoke_all(ps) != MUSTER_OK) {
        status = muster_error_set(error_out, MUSTER_ERR_AGAIN,
                                  "parameter server: the only worker so far "
                                  "kept a row open for a second: end it");
    }
    if (status != MUSTER_OK) {
        muster_barrier_worker_left(ps);
    }
    return status;
}

muster_status muster_ps_worker_create(muster_ps *ps, muster_error *error_out,
                                      muster_ps_worker **worker_out)
{
    if (ps == NULL || worker_out == NULL ||
        (ps->opts.nodes > 1 && ps->mesh == NULL)) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "parameter server: worker: %s",
                                ps == NULL || worker_out == NULL
                                    ? "NULL argument"
                                    : "connect to the other nodes first");
    }
    muster_ps_worker *worker = muster_mem_lines(1, sizeof(*worker));
    if (worker == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "parameter server: no memory for a worker");
    }
    muster_status status = add_worker(ps, error_out);
    if (status != MUSTER_OK) {
        muster_mem_free(worker);
        return status;
    }
    worker->ps = ps;
    worker->slot = take_slot(ps);
    worker->holder = &ps->holders.all[worker->slot];
    memcpy(worker->tables, ps->tables, sizeof(worker->tables));
    worker->table_count = ps->table_count;
    worker->number = (uint64_t)ps->opts.node << 32 |
                     atomic_fetch_add(&ps->shared.workers_made, 1);
    status = ps->mesh != NULL ? join_mesh(worker) : MUSTER_OK;
    if (status != MUSTER_OK) {
        muster_ps_worker_free(worker);
        return muster_error_set(error_out, status,
                                "parameter server: worker: %s",
                                muster_status_text(status));
    }
    *worker_out = worker;
    return MUSTER_OK;
}

/* ---- end ----------------------------------------------------------------- */

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
    close_rows(worker, true); // they wait, so no row may be held in place
    if (worker->ps->mesh != NULL) {
        leave_mesh(worker);
    }
    muster_worker_samplers_fini(worker);
    muster_worker_flush_counts(worker);
    give_slot(worker->ps, worker->slot);
    muster_barrier_worker_left(worker->ps);
    muster_mem_free(worker);
}
