/*
 * bias.c -- see holder.h: the side that pays for the fence.
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
    // Once registered, it does not fail.
    bool fenced = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    MUSTER_ASSERT(fenced);
}

static uint64_t look(const muster_bias_holder *holder)
{
    return atomic_load_explicit(&holder->state, memory_order_acquire);
}

bool muster_bias_wait_all(const muster_bias_holders *holders,
                          int64_t patience_ns)
{
    // No nap: a worker may be away from its rows for nanoseconds only.
    int64_t start = muster_clock_ns();
    uint32_t tries = 0;
    for (uint32_t i = 0; i < MUSTER_PS_WORKERS_MAX; i++) {
        while ((look(&holders->all[i]) & MUSTER_BIAS_UNLATCHED) != 0) {
            if (muster_clock_ns() - start > patience_ns) {
                return false;
            }
            muster_latch_pause(&tries);
        }
    }
    return true;
}

/* Rows may be opened and closed while we look, which the state tells; a row
 * that is moved in the list of places is in both for a moment. */
static bool is_at(const muster_bias_holder *holder, muster_rowref ref,
                  uint64_t mask)
{
    uint64_t state = look(holder);
    for (;;) {
        uint32_t open = muster_bias_open_rows(state);
        for (uint32_t i = 0; i < open && (state & MUSTER_BIAS_UNLATCHED) != 0;
             i++) {
            if ((muster_bias_listed(holder, i) & mask) == ref) {
                return true;
            }
        }
        atomic_thread_fence(memory_order_acquire);
        uint64_t after = look(holder);
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
            is_at(holder, ref | MUSTER_ROWREF_UNLATCHED, UINT64_MAX)) {
            return true;
        }
    }
    return false;
}

static bool is_at_table(const muster_bias_holder *holder, uint32_t table)
{
    return is_at(holder, muster_rowref_make(table, 0) | MUSTER_ROWREF_UNLATCHED,
                 MUSTER_ROWREF_TABLE_MASK | MUSTER_ROWREF_UNLATCHED);
}

bool muster_bias_held_table(const muster_bias_holders *holders, uint32_t table)
{
    for (uint32_t i = 0; i < MUSTER_PS_WORKERS_MAX; i++) {
        if (is_at_table(&holders->all[i], table)) {
            return true;
        }
    }
    return false;
}

/* A visit that is not listed has ended when the count of visits is another. */
static bool has_left(const muster_bias_holder *holder, uint64_t first,
                     uint32_t table)
{
    uint64_t state = look(holder);
    return (state & MUSTER_BIAS_UNLATCHED) == 0 ||
           (state >> MUSTER_BIAS_ACCESS_SHIFT !=
                first >> MUSTER_BIAS_ACCESS_SHIFT &&
            !is_at_table(holder, table));
}

void muster_bias_wait_table(const muster_bias_holders *holders, uint32_t table)
{
    uint32_t tries = 0;
    for (uint32_t i = 0; i < MUSTER_PS_WORKERS_MAX; i++) {
        uint64_t first = look(&holders->all[i]);
        while (!has_left(&holders->all[i], first, table)) {
            muster_latch_pause(&tries);
        }
    }
}
