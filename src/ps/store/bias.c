/*
 * bias.c -- the revoker's side of biased locking; see bias.h.
 */
#define _GNU_SOURCE
#include "ps/store/bias.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "ps/store/latch.h"

static bool membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

bool muster_bias_possible(void)
{
    return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

void muster_bias_fence(void)
{
    // After the registration in muster_bias_possible() it cannot fail.
    bool fenced = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    MUSTER_ASSERT(fenced);
}

static uint64_t load_state(const muster_bias_holder *holder)
{
    return atomic_load_explicit(&holder->state, memory_order_acquire);
}

bool muster_bias_wait_all(const muster_bias_holders *holders,
                          int64_t patience_ns)
{
    // No sleep: the worker may close its rows for nanoseconds only.
    int64_t start = muster_clock_ns();
    uint32_t tries = 0;
    for (uint32_t i = 0; i < MUSTER_PS_WORKERS_MAX; i++) {
        while ((load_state(&holders->all[i]) & MUSTER_BIAS_UNLATCHED) != 0) {
            if (muster_clock_ns() - start > patience_ns) {
                return false;
            }
            muster_latch_pause(&tries);
        }
    }
    return true;
}

/* Does the worker have a row open whose reference is `ref` under `mask`? The
 * worker may open and close rows meanwhile; its state shows that, and the list
 * is read again. A row that moves within the list is in both entries for a
 * moment. */
static bool has_row(const muster_bias_holder *holder, muster_rowref ref,
                    uint64_t mask)
{
    uint64_t state = load_state(holder);
    for (;;) {
        uint32_t open = muster_bias_open_rows(state);
        for (uint32_t i = 0; i < open && (state & MUSTER_BIAS_UNLATCHED) != 0;
             i++) {
            if ((muster_bias_listed(holder, i) & mask) == ref) {
                return true;
            }
        }
        atomic_thread_fence(memory_order_acquire);
        uint64_t after = load_state(holder);
        if (after == state) {
            return false;
        }
        state = after;
    }
}

bool muster_bias_held_row(const muster_bias_holders *holders,
                          const muster_bias_holder *self, muster_rowref ref)
{
    for (uint32_t i = 0; i < MUSTER_PS_WORKERS_MAX; i++) {
        const muster_bias_holder *holder = &holders->all[i];
        if (holder != self &&
            has_row(holder, ref | MUSTER_ROWREF_UNLATCHED, UINT64_MAX)) {
            return true;
        }
    }
    return false;
}

static bool has_row_of_table(const muster_bias_holder *holder, uint32_t table)
{
    return has_row(holder,
                   muster_rowref_make(table, 0) | MUSTER_ROWREF_UNLATCHED,
                   MUSTER_ROWREF_TABLE_MASK | MUSTER_ROWREF_UNLATCHED);
}

bool muster_bias_held_table(const muster_bias_holders *holders, uint32_t table)
{
    for (uint32_t i = 0; i < MUSTER_PS_WORKERS_MAX; i++) {
        if (has_row_of_table(&holders->all[i], table)) {
            return true;
        }
    }
    return false;
}

/* Has the worker closed its rows of the table? An access that is not listed has
 * ended when the count of accesses has changed. */
static bool has_left(const muster_bias_holder *holder, uint64_t first,
                     uint32_t table)
{
    uint64_t state = load_state(holder);
    return (state & MUSTER_BIAS_UNLATCHED) == 0 ||
           (state >> MUSTER_BIAS_ACCESS_SHIFT !=
                first >> MUSTER_BIAS_ACCESS_SHIFT &&
            !has_row_of_table(holder, table));
}

void muster_bias_wait_table(const muster_bias_holders *holders, uint32_t table)
{
    uint32_t tries = 0;
    for (uint32_t i = 0; i < MUSTER_PS_WORKERS_MAX; i++) {
        uint64_t first = load_state(&holders->all[i]);
        while (!has_left(&holders->all[i], first, table)) {
            muster_latch_pause(&tries);
        }
    }
}
