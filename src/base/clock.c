#define _POSIX_C_SOURCE 200809L
#include "base/clock.h"

#include <time.h>

#include "base/assert.h"

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;
    int failed = clock_gettime(clock, &now);
    MUSTER_ASSERT(failed == 0);
    return (int64_t)now.tv_sec * MUSTER_NS_PER_S + now.tv_nsec;
}

int64_t muster_clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t muster_clock_thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int64_t muster_clock_wall_s(void)
{
    return (int64_t)time(NULL);
}
