/*
 * latch.c -- how a thread waits for a latch: some processor pauses, then a
 * yield, so that a preempted holder can finish when there are more threads than
 * cores.
 */
#define _POSIX_C_SOURCE 200809L
#include "ps/store/latch.h"

#include <sched.h>

#define LATCH_SPINS 64u

void muster_latch_pause(uint32_t *tries)
{
    if (++*tries < LATCH_SPINS) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
        return;
    }
    *tries = 0;
    (void)sched_yield();
}
