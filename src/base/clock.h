/*
 * base/clock.h -- the real clocks, in nanoseconds. Roles never call them: time
 * reaches a role inside its events, so that the simulator can make it up.
 */
#ifndef MUSTER_BASE_CLOCK_H
#define MUSTER_BASE_CLOCK_H

#include <stdint.h>

#define MUSTER_NS_PER_US 1000ll
#define MUSTER_NS_PER_MS 1000000ll
#define MUSTER_NS_PER_S  1000000000ll

/* Monotonic time since an arbitrary start. */
int64_t muster_clock_ns(void);

/* CPU time that the calling thread has used. */
int64_t muster_clock_thread_cpu_ns(void);

/* Seconds since 1970, for file names and logs only. */
int64_t muster_clock_wall_s(void);

#endif // MUSTER_BASE_CLOCK_H
