/*
 * visitor.c -- see visitor.h: the side that pays for the fence.
 */
#define _GNU_SOURCE
#include "ps/visitor.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"

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

bool muster_visitors_leave(const muster_visitors *visitors, int64_t patience_ns)
{
    const struct timespec nap = {.tv_nsec = 20000};
    int64_t start = muster_clock_ns();
    for (uint32_t i = 0; i < MUSTER_PS_WORKERS_MAX; i++) {
        while ((atomic_load_explicit(&visitors->all[i].state,
                                     memory_order_acquire) &
                MUSTER_VISITOR_BARE) != 0) {
            if (muster_clock_ns() - start > patience_ns) {
                return false;
            }
            (void)nanosleep(&nap, NULL);
        }
    }
    return true;
}

/* Rows may be opened and closed while we look, which the state tells; a row that
 * is moved in the list of places is in both for a moment. */
static bool is_at(const muster_visitor *visitor, uint64_t place, uint64_t mask)
{
    uint64_t state =
        atomic_load_explicit(&visitor->state, memory_order_acquire);
    for (;;) {
        uint32_t open = muster_visitor_open(state);
        for (uint32_t i = 0; i < open && (state & MUSTER_VISITOR_BARE) != 0;
             i++) {
            if ((muster_visitor_place(visitor, i) & mask) == place) {
                return true;
            }
        }
        atomic_thread_fence(memory_order_acquire);
        uint64_t after =
            atomic_load_explicit(&visitor->state, memory_order_acquire);
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

bool muster_visitors_at_table(const muster_visitors *visitors, uint32_t table)
{
    uint64_t mask = UINT64_MAX << 33 | MUSTER_PLACE_BARE;
    uint64_t some = muster_place(table, 0) | MUSTER_PLACE_BARE;
    for (uint32_t i = 0; i < MUSTER_PS_WORKERS_MAX; i++) {
        if (is_at(&visitors->all[i], some, mask)) {
            return true;
        }
    }
    return false;
}
