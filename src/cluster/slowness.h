/*
 * cluster/slowness.h -- by how much a worker is made slow on purpose.
 *
 * `--slow W:200ms` is sleep_ns, `--slow W:10x` is factor, `--delay MODEL` is
 * delay. A process sleeps what muster_slowness_ns() says after it has computed
 * a gradient; the simulator adds the same to the virtual duration.
 *
 *   Threads      As cluster/delay.h: one at a time.
 */
#ifndef MUSTER_CLUSTER_SLOWNESS_H
#define MUSTER_CLUSTER_SLOWNESS_H

#include <stdint.h>

#include "cluster/delay.h"

typedef struct muster_slowness {
    int64_t sleep_ns;    // in every step, >= 0
    double factor;       // how many times as slow, >= 1
    muster_delay *delay; // NULL: none; lent
    uint32_t worker;     // whose delays are drawn
} muster_slowness;

#define MUSTER_SLOWNESS_NONE                                   \
    {                                                          \
        .sleep_ns = 0, .factor = 1, .delay = NULL, .worker = 0 \
    }

/* The time that a worker loses in `step`, after it has computed for
 * compute_ns. */
int64_t muster_slowness_ns(const muster_slowness *slowness, uint64_t step,
                           int64_t compute_ns);

#endif // MUSTER_CLUSTER_SLOWNESS_H
