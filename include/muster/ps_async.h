/*
 * muster/ps_async.h -- rows of a parameter server before they are needed: calls
 * that are waited for later, and intents.
 *
 * A worker that knows what comes next need not wait for rows of other nodes. It
 * starts a call and goes on, or it says which rows it will use and when, by a
 * clock of its own, and finds them on its node:
 *
 *     muster_ps_pull_start(worker, table, keys, count, values, &handle);
 *     ..                                       // something else
 *     muster_ps_wait(worker, handle);          // now the values are there
 *
 *     muster_ps_intent(worker, table, keys, count, batch + 50, batch + 51);
 *     muster_ps_clock_advance(worker);         // after every batch
 *
 *   Promise      As muster/ps.h: every push that was acknowledged, here by
 *                wait, counts exactly once. Intents never change a result,
 *                only on which node a row is.
 *   Lifecycle    Between the creation of a worker and its end, which waits for
 *                calls under way and ends the worker's intents.
 *   Ownership    Keys and values of a call belong to it until it was waited
 *                for. Keys of an intent are copied.
 *   Threads      As muster/ps.h: a worker belongs to one thread at a time.
 *   Allocation   A list of the rows of other nodes, kept for the next call.
 *   Errors       muster_ps_error_text() says why a call failed.
 */
#ifndef MUSTER_PS_ASYNC_H
#define MUSTER_PS_ASYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/export.h"
#include "muster/ps.h"
#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Calls that one worker may have started and not yet waited for. */
#define MUSTER_PS_CALLS_MAX 16u
/* The handle of a call that has nothing left to wait for. */
#define MUSTER_PS_DONE 0u
/* Keys of a worker's intents that have not ended. */
#define MUSTER_PS_INTENT_KEYS_MAX 1048576u

/*
 * The calls of muster/ps.h without waiting: rows of this node are served before
 * the call returns, the others while the worker goes on. *handle_out is
 * MUSTER_PS_DONE when nothing is under way; any other handle must be waited
 * for, once, and until then keys and values belong to the call. Calls under way
 * are not ordered among each other, nor against what the worker does meanwhile:
 * wait for a push before you pull what it wrote. A barrier waits for them all,
 * but does not end their handles.
 * MUSTER_ERR_INVALID    a wrong table, key or NULL; a row is open; a gradient
 *                       for a table without optimiser
 * MUSTER_ERR_AGAIN      CALLS_MAX are under way; nothing was done, wait for one
 * MUSTER_ERR_NO_MEMORY  for the list of rows; nothing was done
 */
MUSTER_API MUSTER_CHECKED muster_status muster_ps_pull_start(
    muster_ps_worker *worker, uint32_t table, const uint32_t *keys,
    size_t count, float *values_out, uint64_t *handle_out);
MUSTER_API MUSTER_CHECKED muster_status muster_ps_push_start(
    muster_ps_worker *worker, uint32_t table, const uint32_t *keys,
    size_t count, const float *deltas, uint64_t *handle_out);
MUSTER_API MUSTER_CHECKED muster_status muster_ps_push_gradient_start(
    muster_ps_worker *worker, uint32_t table, const uint32_t *keys,
    size_t count, const float *gradients, uint64_t *handle_out);
MUSTER_API MUSTER_CHECKED muster_status muster_ps_set_start(
    muster_ps_worker *worker, uint32_t table, const uint32_t *keys,
    size_t count, const float *values, uint64_t *handle_out);

/*
 * Wait until a call has ended and give its handle back; the status is the
 * call's own. MUSTER_PS_DONE is MUSTER_OK at once.
 * MUSTER_ERR_INVALID    not a handle of this worker, waited for before, or a
 *                       row is held in place
 * MUSTER_ERR_NO_MEMORY  the call could not be handed over; nothing was done to
 *                       rows of other nodes
 * MUSTER_ERR_PEER_LOST  a node that the call needed is lost
 */
MUSTER_API MUSTER_CHECKED muster_status muster_ps_wait(muster_ps_worker *worker,
                                                       uint64_t handle);
/*
 * Would wait return at once? The handle stays valid.
 * MUSTER_ERR_INVALID    not a handle of this worker, waited for before, or NULL
 * MUSTER_ERR_SYSTEM     the semaphore could not be read
 */
MUSTER_API MUSTER_CHECKED muster_status muster_ps_test(muster_ps_worker *worker,
                                                       uint64_t handle,
                                                       bool *done_out);

/*
 * Say ahead of time what will be used: this worker intends to use the rows
 * while its clock is in start..end-1. The clock is the worker's own, starts at
 * 0, and counts what the caller likes to count: batches, say. Shortly before
 * `start`, judging by how fast the clock goes, the rows are brought to this
 * node: relocated if no other node intends to use them at that time, else
 * replicated. Replicas are given back after `end`. A hint as localize is, and
 * like it nothing on a single node: calls work, only slower, when the row is
 * not there in time.
 * MUSTER_ERR_INVALID    a wrong table, key or NULL; or end is not after start
 * MUSTER_ERR_AGAIN      INTENT_KEYS_MAX keys are intended already, or the queue
 *                       is full; some of these keys were not taken
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_intent(muster_ps_worker *worker, uint32_t table, const uint32_t *keys,
                 size_t count, uint64_t start, uint64_t end);
/* One tick of the worker's clock, and what it shows; 0 for NULL. */
MUSTER_API void muster_ps_clock_advance(muster_ps_worker *worker);
MUSTER_API uint64_t muster_ps_clock(const muster_ps_worker *worker);

#ifdef __cplusplus
}
#endif
#endif // MUSTER_PS_ASYNC_H
