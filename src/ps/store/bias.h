/*
 * ps/store/bias.h -- biased locking: rows that only one thread uses need no
 * latches.
 *
 * A latch costs an atomic swap. The swap waits for all earlier stores and keeps
 * the processor from running ahead. As long as a single worker uses a set of
 * rows, that set is biased to this worker, which then uses the rows without
 * latches ("unlatched"). When another thread needs a row of the set, it revokes
 * the bias, and from then on the rows are latched. There are two variants of
 * biased locking:
 *
 *   table bias  A table is biased to the only worker of the node. A second
 *               worker revokes the bias of all tables for ever. In a mesh the
 *               protocol revokes the bias of a table when it uses the table's
 *               rows, and returns the bias when it has not used the table for
 *               some time. So rows are latched while they move or while
 *               replicas are synchronised, and unlatched between. This covers
 *               owned rows and replicas; the worker marks a replica that it
 *               writes in the replica's word.
 *   row bias    On a single node with several workers each row is biased to the
 *               worker that used it first; the row's word has the number of
 *               this worker. When a worker uses a row that is biased to another
 *               worker, it revokes the row bias of the whole table, for ever.
 *
 * Each worker has a record that other threads can read, its bias holder. Bias
 * and revocation are a Dekker pair in both variants:
 *
 *   the worker   stores in its record that it is at a row, then loads whether
 *                the bias still holds
 *   the revoker  stores that the bias is revoked, then loads the records, and
 *                waits for the workers that are at a row
 *
 * Each side stores one location and then loads the other, so each needs a full
 * fence between the two. A fence at the worker would cost as much as a latch.
 * So the revoker pays for both with membarrier(2), which returns after every
 * thread of the process has passed a full fence. A load that a worker did
 * before that fence saw all older stores, and a store before it is visible to
 * the revoker. Where the system has no membarrier, rows are always latched.
 *
 * The revoker of a table bias waits until no row of the table is in use
 * unlatched. It has no row open itself, so there is no deadlock. The revoker of
 * a row bias may have rows open, so it does not wait. Instead, a worker that
 * has latched a row of this table waits until no other worker uses this very
 * row unlatched. That is the same as if the other worker had the latch, and
 * workers open rows in the order of their references (muster/ps.h), so there is
 * no deadlock either.
 *
 *   Memory order  The worker loads the state of the bias with an acquire, which
 *                 reads from the release that granted it. The worker leaves a
 *                 row by a release store, and revokers load the records with an
 *                 acquire. So what the worker did unlatched happens before
 *                 everything that the revoker does next. All stores to a record
 *                 are releases, so that other threads see them in order.
 *
 * bias_model_test.c explores all interleavings of both variants, with stores
 * that become visible late.
 */
#ifndef MUSTER_PS_STORE_BIAS_H
#define MUSTER_PS_STORE_BIAS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "muster/ps.h"
#include "ps/store/rowref.h"

/* Why a table is not biased to the only worker of the node. */
#define MUSTER_REVOKED_WORKERS 1u // there are, or were, several workers
#define MUSTER_REVOKED_MESH    2u // the protocol uses the table
#define MUSTER_REVOKED_ALWAYS \
    (4u | MUSTER_REVOKED_WORKERS | MUSTER_REVOKED_MESH)

typedef _Atomic uint32_t muster_bias_revoked;

/* Are the rows of a table biased to workers? */
typedef enum muster_row_bias {
    MUSTER_ROW_BIAS_NONE = 0, // never, or no longer
    MUSTER_ROW_BIAS_ON = 1,
    MUSTER_ROW_BIAS_REVOKING = 2, // no row may be opened: it ends, or pauses
    MUSTER_ROW_BIAS_REVOKED = 3,  // rows may still be open unlatched
} muster_row_bias;

/*
 * The record of a worker that may hold biases. Its state is one word, so that
 * an access costs one store, and one load shows that no row is open:
 *
 *     bits 0..7   rows open unlatched
 *     bits 8..15  rows open with their latches
 *     bit  16     accesses are recorded: muster_ps_begin() latches every row
 *     bits 17..   accesses so far
 *
 * `refs` are the open rows. An access that begins and ends within one call of
 * the only worker may be missing there. The worker writes its record at every
 * access, so each record has cache lines of its own.
 */
typedef struct muster_bias_holder {
    _Alignas(MUSTER_MEM_APART) _Atomic uint64_t state;
    _Atomic muster_rowref refs[MUSTER_PS_OPEN_MAX];
} muster_bias_holder;

typedef struct muster_bias_holders {
    muster_bias_holder all[MUSTER_PS_WORKERS_MAX];
} muster_bias_holders;

#define MUSTER_BIAS_UNLATCHED     0xffull
#define MUSTER_BIAS_LATCHED       0x100ull // one of them
#define MUSTER_BIAS_LATCHED_SHIFT 8
#define MUSTER_BIAS_NOTES         0x10000ull
#define MUSTER_BIAS_BUSY          0x1ffffull // any of these
#define MUSTER_BIAS_ACCESS        0x20000ull
#define MUSTER_BIAS_ACCESS_SHIFT  17

/* Does this system have what biased locking needs? */
bool muster_bias_possible(void);

/* Make every thread of the process pass a full fence. */
void muster_bias_fence(void);

/* Wait until no row is open unlatched. False: a row was open for longer than
 * `patience_ns`. Call it after the fence. */
bool muster_bias_wait_all(const muster_bias_holders *holders,
                          int64_t patience_ns);

/* Wait until no row of this table, whose bias was revoked, is open unlatched;
 * rows of other tables may be. Call it after the fence. */
void muster_bias_wait_table(const muster_bias_holders *holders, uint32_t table);

/* Does a worker other than `self` have this row open unlatched? Does any worker
 * have a row of this table open unlatched? Call them after the fence. */
bool muster_bias_held_row(const muster_bias_holders *holders,
                          const muster_bias_holder *self, muster_rowref ref);
bool muster_bias_held_table(const muster_bias_holders *holders, uint32_t table);

static inline uint64_t muster_bias_state(const muster_bias_holder *holder)
{
    return atomic_load_explicit(&holder->state, memory_order_relaxed);
}

/* Number of rows that the worker has open. */
static inline uint32_t muster_bias_open_rows(uint64_t state)
{
    return (uint32_t)((state & MUSTER_BIAS_UNLATCHED) +
                      (state >> MUSTER_BIAS_LATCHED_SHIFT & 0xff));
}

/* Is exactly one row open, and unlatched? */
static inline bool muster_bias_only_unlatched(uint64_t state)
{
    return (uint16_t)state == 1;
}

static inline muster_rowref muster_bias_listed(const muster_bias_holder *holder,
                                               uint32_t i)
{
    return atomic_load_explicit(&holder->refs[i], memory_order_relaxed);
}

/* A release, so that a thread which reads a reused entry also sees the state
 * that tells that the row before it was closed or moved in the list. */
static inline void muster_bias_list(muster_bias_holder *holder, uint32_t i,
                                    muster_rowref ref)
{
    atomic_store_explicit(&holder->refs[i], ref, memory_order_release);
}

/* The worker changes a count of its own. A release, so that a thread which
 * reads the counts finds the open rows where they are listed now. */
static inline void muster_bias_state_add(muster_bias_holder *holder,
                                         uint64_t what)
{
    atomic_store_explicit(&holder->state, muster_bias_state(holder) + what,
                          memory_order_release);
}

/* The worker announces an unlatched access; afterwards it must check that the
 * bias still holds. `state` is its state as just read. */
static inline void muster_bias_enter(muster_bias_holder *holder, uint64_t state)
{
    atomic_store_explicit(&holder->state, state + MUSTER_BIAS_ACCESS + 1,
                          memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
}

/* The access ends; `state` is the state during the access. Or the bias was
 * revoked: back_out restores `state`, the state before the access. */
static inline void muster_bias_leave(muster_bias_holder *holder, uint64_t state)
{
    atomic_store_explicit(&holder->state, state - 1, memory_order_release);
}
static inline void muster_bias_back_out(muster_bias_holder *holder,
                                        uint64_t state)
{
    atomic_store_explicit(&holder->state, state, memory_order_release);
}

/* The worker reads its count of accesses and sets it to 0. */
static inline uint64_t muster_bias_take_count(muster_bias_holder *holder)
{
    uint64_t accesses = muster_bias_state(holder) >> MUSTER_BIAS_ACCESS_SHIFT;
    muster_bias_state_add(holder, 0 - accesses * MUSTER_BIAS_ACCESS);
    return accesses;
}

#endif // MUSTER_PS_STORE_BIAS_H
