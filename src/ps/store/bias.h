/*
 * ps/store/bias.h -- rows that only one thread uses need no latches.
 *
 * A latch costs an atomic swap, which waits for all stores before it and keeps
 * the processor from looking ahead. A row is open unlatched when a worker uses
 * it without its latch, and the worker says so in a record of its own that
 * others can read, its holder. It may do that
 *
 *   alone  the only worker of a node, in a table that is not barred. A second
 *          worker bars all tables for ever; the protocol of a mesh bars one
 *          that it works on, and gives it back when it has not used it for a
 *          while. So rows are latched while others ask for them or copies are
 *          synchronised, and not between: neither those that are owned nor the
 *          copies, whose words say then that they were written.
 *   own    one of several workers of a single node, in a table that is divided:
 *          a row belongs to the worker that used it first (its word says so).
 *          When a worker meets a row of another's, the table is divided no
 *          more.
 *
 * Both are the same bargain. The worker says that it is at a row, then looks
 * whether it may be; who takes the permission away does so, then looks who is
 * at a row, and waits for those. Between a store and a following load of
 * another place both sides need a fence, or each might miss the other. The
 * worker's would cost as much as a latch, so the other pays for both with
 * membarrier(2): it returns after every thread of the process has passed a full
 * fence, so that each load that came before it saw everything older, and each
 * store before it is seen. Where the system has no membarrier, rows are never
 * open unlatched.
 *
 * Who bars a table waits until none of its rows is open unlatched: it holds
 * none, so there is no circle. Who ends a row_bias may hold rows; it waits for
 * nobody, but from then on whoever has latched a row of that table waits until
 * no other worker has this very row open unlatched. That is as if the other
 * held the latch, and rows are taken in the order of their places
 * (muster/ps.h).
 *
 *   Memory order  The worker's look is an acquire, which reads what was
 *                 released when the permission was given. It leaves a row by a
 *                 release store, which those who wait read with an acquire:
 *                 what was done unlatched happens before all that they do. All
 *                 that it says of itself is released, so that others see it in
 *                 the order said.
 *
 * All interleavings of both bargains, with stores that others see late, are
 * explored in src/ps/store/bargain_test.c.
 */
#ifndef MUSTER_PS_STORE_BIAS_H
#define MUSTER_PS_STORE_BIAS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "muster/ps.h"
#include "ps/store/rowref.h"

/* Why rows of a table are not open to the only worker. */
#define MUSTER_REVOKED_WORKERS 1u // there are, or were, several workers
#define MUSTER_REVOKED_MESH    2u // the protocol works on it
#define MUSTER_REVOKED_ALWAYS \
    (4u | MUSTER_REVOKED_WORKERS | MUSTER_REVOKED_MESH)

typedef _Atomic uint32_t muster_bias_revoked;

/* Whether rows belong to workers. */
typedef enum muster_row_bias {
    MUSTER_ROW_BIAS_NONE = 0, // not any more, or never
    MUSTER_ROW_BIAS_ON = 1,   // yes
    MUSTER_ROW_BIAS_REVOKING =
        2, // nothing may be opened just now: it ends, or pauses
    MUSTER_ROW_BIAS_REVOKED = 3, // no, but rows may still be open unlatched
} muster_row_bias;

/*
 * A worker as others see it. Its state is one word, since one store is all that
 * a visit to a row should cost, and one look all that tells that nothing is
 * open:
 *
 *     bits 0..7   rows open unlatched
 *     bits 8..15  other rows open
 *     bit  16     visits are to be noted, so that begin makes none unlatched
 *     bits 17..   visits so far
 *
 * The places are those of the open rows. A visit that ends before the call that
 * made it may be missing there, if it is the only worker's. Only the worker
 * writes its record, all the time, so it lies apart from the others.
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

/* Can rows be open unlatched on this system? */
bool muster_bias_possible(void);

/* A full fence in every thread of the process. */
void muster_bias_fence(void);

/* Wait until no row at all is open unlatched. False: some was for longer than
 * `patience_ns`. After the fence. */
bool muster_bias_wait_all(const muster_bias_holders *holders,
                          int64_t patience_ns);

/* Wait until no row of a table that was barred is open unlatched; those of
 * others may be, all the time. After the fence. */
void muster_bias_wait_table(const muster_bias_holders *holders, uint32_t table);

/* Has anybody but `self` this row open unlatched; any row of this table?
 * After the fence. */
bool muster_bias_held_row(const muster_bias_holders *holders,
                          const muster_bias_holder *self, muster_rowref ref);
bool muster_bias_held_table(const muster_bias_holders *holders, uint32_t table);

static inline uint64_t muster_bias_state(const muster_bias_holder *holder)
{
    return atomic_load_explicit(&holder->state, memory_order_relaxed);
}

/* Rows that a worker has open. */
static inline uint32_t muster_bias_open_rows(uint64_t state)
{
    return (uint32_t)((state & MUSTER_BIAS_UNLATCHED) +
                      (state >> MUSTER_BIAS_LATCHED_SHIFT & 0xff));
}

/* Is one row open, and that unlatched? */
static inline bool muster_bias_only_unlatched(uint64_t state)
{
    return (uint16_t)state == 1;
}

static inline muster_rowref muster_bias_listed(const muster_bias_holder *holder,
                                               uint32_t i)
{
    return atomic_load_explicit(&holder->refs[i], memory_order_relaxed);
}

/* Released, so that who sees it sees the states before it: where an entry was
 * reused, its row has left or moved, and the state tells that. */
static inline void muster_bias_list(muster_bias_holder *holder, uint32_t i,
                                    muster_rowref ref)
{
    atomic_store_explicit(&holder->refs[i], ref, memory_order_release);
}

/* The worker counts something that concerns nobody else. Released, so that who
 * counts by it finds the rows that are open where they are listed now. */
static inline void muster_bias_state_add(muster_bias_holder *holder,
                                         uint64_t what)
{
    atomic_store_explicit(&holder->state, muster_bias_state(holder) + what,
                          memory_order_release);
}

/* It goes to a row, unlatched, and looks whether it may only after that;
 * `state` is as it has just read it. */
static inline void muster_bias_enter(muster_bias_holder *holder, uint64_t state)
{
    atomic_store_explicit(&holder->state, state + MUSTER_BIAS_ACCESS + 1,
                          memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
}

/* It has left the row; `state` is as it was there. Or it was not let in, and
 * `state` is as before. */
static inline void muster_bias_leave(muster_bias_holder *holder, uint64_t state)
{
    atomic_store_explicit(&holder->state, state - 1, memory_order_release);
}
static inline void muster_bias_back_out(muster_bias_holder *holder,
                                        uint64_t state)
{
    atomic_store_explicit(&holder->state, state, memory_order_release);
}

/* The worker takes its count of visits. */
static inline uint64_t muster_bias_take_count(muster_bias_holder *holder)
{
    uint64_t visits = muster_bias_state(holder) >> MUSTER_BIAS_ACCESS_SHIFT;
    muster_bias_state_add(holder, 0 - visits * MUSTER_BIAS_ACCESS);
    return visits;
}

#endif // MUSTER_PS_STORE_BIAS_H
