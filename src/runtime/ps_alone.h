/*
 * runtime/ps_alone.h -- the only worker of a single node needs no latches.
 *
 * While a node has no mesh and one worker, nobody else can touch a row, and the
 * slot of a row is its key. Such a worker works on rows without their words:
 * one cache miss a row instead of two, and no atomic swap that keeps the
 * processor from looking ahead. It is told at once when a second worker comes.
 *
 * The worker says that it is inside, then looks whether the node is shared; a
 * second worker's creation says that the node is shared, then looks whether the
 * first is inside, and waits until it is not. Between a store and a following
 * load of another place both sides need a fence, or each might miss the other.
 * The worker's would cost as much as a latch, so the creator pays for both with
 * membarrier(2): it returns after every thread of the process has passed a full
 * fence, so that each load that came before it saw everything older, and each
 * store before it is seen. Where the system has no membarrier, a node counts as
 * shared from the start. A node that was shared once remains so.
 *
 *   Memory order  enter: a relaxed store, a compiler's fence, a relaxed load.
 *                 leave: a release store, which the creator's acquire load
 *                 reads: what was done without latches happens before all that
 *                 a second worker does.
 */
#ifndef MUSTER_RUNTIME_PS_ALONE_H
#define MUSTER_RUNTIME_PS_ALONE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "muster/status.h"

typedef struct muster_ps_alone {
    _Atomic uint32_t inside; // the lone worker is at a row
    _Atomic uint32_t shared; // there are, or were, several workers or nodes
} muster_ps_alone;

/* `possible`: the node has no mesh. */
void muster_ps_alone_init(muster_ps_alone *alone, bool possible);

/* From now on rows are latched; returns when no worker is at a row without.
 * MUSTER_ERR_AGAIN: one kept a row open for too long. */
MUSTER_CHECKED muster_status muster_ps_alone_end(muster_ps_alone *alone);

/* The lone worker goes to a row. False: not alone any more, nothing to leave.
 */
static inline bool muster_ps_alone_enter(muster_ps_alone *alone)
{
    atomic_store_explicit(&alone->inside, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&alone->shared, memory_order_relaxed) == 0) {
        return true;
    }
    atomic_store_explicit(&alone->inside, 0, memory_order_release);
    return false;
}

static inline void muster_ps_alone_leave(muster_ps_alone *alone)
{
    atomic_store_explicit(&alone->inside, 0, memory_order_release);
}

#endif // MUSTER_RUNTIME_PS_ALONE_H
