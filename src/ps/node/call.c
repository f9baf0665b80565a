/*
 * call.c -- operations on rows of other nodes: handed to the mesh, waited for
 * now or later.
 *
 * A call is one of a worker's own. Its handle is the call's number above 0 and
 * its generation, which counts up when the handle is given back. So a handle
 * that was waited for, or belongs to another worker, differs from a live one
 * (unless its generation came round again, after 2^32 calls).
 */
#include "base/assert.h"
#include "base/clock.h"
#include "ps/node/inside.h"

muster_status muster_worker_calls_init(muster_ps_worker *worker)
{
    for (uint32_t i = 0; i <= MUSTER_PS_CALLS_MAX; i++) {
        muster_ps_call *call = &worker->calls[i];
        // Generations of different workers start apart.
        call->generation = (uint32_t)worker->number << 16;
        call->worker = worker;
        call->positions = muster_vec_make(sizeof(uint32_t));
        if (sem_init(&call->finished, 0, 0) != 0) {
            return MUSTER_ERR_SYSTEM;
        }
    }
    return MUSTER_OK;
}

void muster_worker_calls_fini(muster_ps_worker *worker)
{
    for (uint32_t i = 0; i <= MUSTER_PS_CALLS_MAX; i++) {
        muster_ps_call *call = &worker->calls[i];
        if (call->started) {
            (void)!muster_ps_call_wait(worker,
                                       call); // its buffers are given back
        }
        (void)sem_destroy(&call->finished);
        muster_vec_fini(&call->positions);
    }
}

/* Count the rows of call->positions, by why they are remote. */
static void count_remote(muster_ps_worker *worker,
                         const muster_row_batch *batch,
                         const muster_ps_call *call)
{
    const muster_ps_table *rows = worker->tables[batch->table];
    const uint32_t *positions = call->positions.data;
    worker->counts.remote_accesses += call->positions.count;
    for (size_t i = 0; i < call->positions.count; i++) {
        uint64_t word = atomic_load_explicit(
            &rows->words[batch->keys[positions[i]]], memory_order_relaxed);
        muster_word_state state = muster_word_state_of(word);
        worker->counts.arriving_accesses += state == MUSTER_ROW_ARRIVING;
        worker->counts.spent_accesses += state == MUSTER_ROW_REPLICA;
        worker->late_rows += state != MUSTER_ROW_REPLICA;
    }
}

/* Fill in the request for call->positions of a batch. */
static void make_request(muster_ps_worker *worker,
                         const muster_row_batch *batch, muster_ps_call *call)
{
    call->request =
        (muster_row_request){.op = batch->op,
                             .table = batch->table,
                             .keys = batch->keys,
                             .values = batch->values,
                             .positions = call->positions.data,
                             .count = (uint32_t)call->positions.count,
                             .context = call};
    count_remote(worker, batch, call);
}

/* The call's outcome, with a text if it failed. */
static muster_status outcome_of(muster_ps_worker *worker,
                                const muster_ps_call *call)
{
    if (call->outcome == MUSTER_OK) {
        return MUSTER_OK;
    }
    return muster_worker_refuse(worker, call->outcome,
                                "rows of another node: %s",
                                call->outcome == MUSTER_ERR_PEER_LOST &&
                                        muster_mesh_has_failed(worker->ps->mesh)
                                    ? muster_mesh_failure(worker->ps->mesh)
                                    : muster_status_text(call->outcome));
}

void muster_ps_call_submit(muster_ps_worker *worker,
                           const muster_row_batch *batch, muster_ps_call *call)
{
    make_request(worker, batch, call);
    muster_mesh_submit_call(worker->ps->mesh, call);
}

muster_status muster_ps_call_run(muster_ps_worker *worker,
                                 const muster_row_batch *batch,
                                 muster_ps_call *call)
{
    MUSTER_ASSERT(!muster_worker_holds_rows(worker)); // drive.c, invariant 5
    make_request(worker, batch, call);
    muster_worker_set_waits(worker, call);
    int64_t start = muster_clock_ns();
    muster_mesh_run_call(worker->ps->mesh, call);
    worker->counts.remote_wait_ns += muster_clock_ns() - start;
    muster_worker_set_waits(worker, NULL);
    return outcome_of(worker, call);
}

muster_status muster_ps_call_wait(muster_ps_worker *worker,
                                  muster_ps_call *call)
{
    MUSTER_ASSERT(!muster_worker_holds_rows(worker)); // drive.c, invariant 5
    if (sem_trywait(&call->finished) != 0) {
        muster_worker_set_waits(worker, call);
        int64_t start = muster_clock_ns();
        muster_mesh_wait_call(worker->ps->mesh, call);
        worker->counts.remote_wait_ns += muster_clock_ns() - start;
        muster_worker_set_waits(worker, NULL);
    }
    return outcome_of(worker, call);
}

muster_status muster_ps_call_run_one(muster_ps_worker *worker,
                                     const muster_row_batch *batch)
{
    muster_ps_call *call = muster_worker_sync_call(worker);
    uint32_t first = 0;
    call->positions.count = 0;
    if (!muster_vec_append(&call->positions, &first, 1)) {
        return muster_worker_refuse(worker, MUSTER_ERR_NO_MEMORY,
                                    "no memory for a call to another node");
    }
    return muster_ps_call_run(worker, batch, call);
}

/* The call of a live handle, or NULL. */
static muster_ps_call *call_of(muster_ps_worker *worker, uint64_t handle)
{
    uint32_t number = (uint32_t)handle;
    if (worker == NULL || number < 1 || number > MUSTER_PS_CALLS_MAX) {
        return NULL;
    }
    muster_ps_call *call = &worker->calls[number - 1];
    return call->started && call->generation == (uint32_t)(handle >> 32) ? call
                                                                         : NULL;
}

uint64_t muster_ps_call_handle(const muster_ps_worker *worker,
                               const muster_ps_call *call)
{
    return (uint64_t)call->generation << 32 |
           (uint64_t)(call - worker->calls + 1);
}

muster_ps_call *muster_ps_call_find_free(muster_ps_worker *worker)
{
    for (uint32_t i = 0; i < MUSTER_PS_CALLS_MAX; i++) {
        if (!worker->calls[i].started) {
            return &worker->calls[i];
        }
    }
    return NULL;
}

muster_status muster_ps_wait(muster_ps_worker *worker, uint64_t handle)
{
    if (worker != NULL && handle == MUSTER_PS_DONE) {
        return MUSTER_OK;
    }
    muster_ps_call *call = call_of(worker, handle);
    if (call == NULL) {
        return muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                    "wait: no such handle of this worker, or "
                                    "it was waited for before");
    }
    if (muster_worker_holds_rows(worker)) {
        return muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                    "wait while a row is held in place: end "
                                    "it first");
    }
    muster_status status = muster_ps_call_wait(worker, call);
    call->started = false;
    call->generation++;
    return status;
}

muster_status muster_ps_test(muster_ps_worker *worker, uint64_t handle,
                             bool *done_out)
{
    muster_ps_call *call = call_of(worker, handle);
    if (worker == NULL || done_out == NULL ||
        (call == NULL && handle != MUSTER_PS_DONE)) {
        return muster_worker_refuse(worker, MUSTER_ERR_INVALID,
                                    "test: NULL, or no such handle of this "
                                    "worker, or it was waited for before");
    }
    int posts = 1;
    if (call != NULL && sem_getvalue(&call->finished, &posts) != 0) {
        return muster_worker_refuse(worker, MUSTER_ERR_SYSTEM,
                                    "test: the semaphore cannot be read");
    }
    *done_out = posts > 0;
    return MUSTER_OK;
}
