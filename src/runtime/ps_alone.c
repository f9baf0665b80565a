/*
 * ps_alone.c -- see ps_alone.h: the side that pays for the fence.
 */
#define _GNU_SOURCE
#include "runtime/ps_alone.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define PATIENCE_NS (1000 * MUSTER_NS_PER_MS)

static bool membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

void muster_ps_alone_init(muster_ps_alone *alone, bool possible)
{
    bool can =
        possible && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    atomic_init(&alone->inside, 0);
    atomic_init(&alone->shared, can ? 0 : 1);
}

muster_status muster_ps_alone_end(muster_ps_alone *alone)
{
    // Once registered, the barrier itself does not fail.
    if (atomic_exchange(&alone->shared, 1) == 0 &&
        !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
        return MUSTER_ERR_SYSTEM;
    }
    const struct timespec nap = {.tv_nsec = 20000};
    int64_t end = muster_clock_ns() + PATIENCE_NS;
    while (atomic_load_explicit(&alone->inside, memory_order_acquire) != 0) {
        if (muster_clock_ns() > end) {
            return MUSTER_ERR_AGAIN;
        }
        (void)nanosleep(&nap, NULL);
    }
    return MUSTER_OK;
}
