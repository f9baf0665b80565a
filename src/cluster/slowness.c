/*
 * slowness.c -- see slowness.h.
 */
#include "cluster/slowness.h"

#include <stddef.h>

int64_t muster_slowness_ns(const muster_slowness *slowness, uint64_t step,
                           int64_t compute_ns)
{
    double slower_ns = (slowness->factor - 1) * (double)compute_ns;
    int64_t ns = slowness->sleep_ns + (int64_t)slower_ns;
    if (slowness->delay != NULL) {
        ns += muster_delay_ns(slowness->delay, slowness->worker, step);
    }
    return ns;
}
