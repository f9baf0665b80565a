/*
 * bias.c -- see visitor.h: the side that pays for the fence.
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

bool muster_visitor_possible(void)
{
    return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

void muster_visitor_fence(void)
{
    // Once registered, it does not fail.
    bool fenced = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    MUSTER_ASSERT(fenced);
}

static uint64_t look(const muster_visitor *visitor)
{
    return atomic_load_explicit(&visitor->state, memory_order_acquire);
}

bool muster_visitors_leave(const muster_visitors *visitors, int64_t patience_ns)
{
    // No nap: a worker may be away from its rows for nanoseconds only.
    int64_t start = muster_clock_ns();
    uint32_t tries = 0;
    for (uint32_t i = 0; i < MUSTER_PS_WORKERS_MAX; i++) {
        while ((look(&visitors->all[i]) & MUSTER_VISITOR_BARE) != 0) {
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
static bool is_at(const muster_visitor *visitor, uint64_t place, uint64_t mask)
{
    uint64_t state = look(visitor);
    for (;;) {
        uint32_t open = muster_visitor_open(state);
        for (uint32_t i = 0; i < open && (state & MUSTER_VISITOR_BARE) != 0;
             i++) {
            if ((muster_visitor_place(visitor, i) & mask) == place) {
                return true;
            }
        }
        atomic_thread_fence(memory_order_acquire);
        uint64_t after = look(visitor);
        if (after == state) {
            return false;
        }
        state = after;
    }
}

bool muster_visitors_at(const muster_visitors *visitors,
                        const muster_visitor *self, uint64_t place)
{
    for (uint32_t i = 0; i < MUSTER_PS_WORKERS_MAX; i++) {
        const muster_visitor *visitor = &visitors->all[i];
        if (visitor != self &&
            is_at(visitor, place | MUSTER_PLACE_BARE, UINT64_MAX)) {
            return true;
        }
    }
    return false;
}

static bool is_at_table(const muster_visitor *visitor, uint32_t table)
{
    return is_at(visitor, muster_place(table, 0) | MUSTER_PLACE_BARE,
                 UINT64_MAX << 33 | MUSTER_PLACE_BARE);
}

bool muster_visitors_at_table(const muster_visitors *visitors, uint32_t table)
{
    for (uint32_t i = 0; i < MUSTER_PS_WORKERS_MAX; i++) {
        if (is_at_table(&visitors->all[i], table)) {
            return true;
        }
    }
    return false;
}

/* A visit that is not listed has ended when the count of visits is another. */
static bool has_left(const muster_visitor *visitor, uint64_t first,
                     uint32_t table)
{
    uint64_t state = look(visitor);
    return (state & MUSTER_VISITOR_BARE) == 0 ||
           (state >> MUSTER_VISITOR_VISIT_SHIFT !=
                first >> MUSTER_VISITOR_VISIT_SHIFT &&
            !is_at_table(visitor, table));
}

void muster_visitors_leave_table(const muster_visitors *visitors,
                                 uint32_t table)
{
    uint32_t tries = 0;
    for (uint32_t i = 0; i < MUSTER_PS_WORKERS_MAX; i++) {
        uint64_t first = look(&visitors->all[i]);
        while (!has_left(&visitors->all[i], first, table)) {
            muster_latch_pause(&tries);
        }
    }
}
