/*
 * cluster/slowness.h -- by how much a worker is made slow on purpose.
 *
 * `--slow W:200ms` is sleep_ns, `--slow W:10x` is factor, `--delay MODEL` is
 * delay; `--slow W:200ms@50` is a change at step 50. A process sleeps what
 * muster_slowness_ns() says after it has computed a gradient (in stages: a
 * stage; sleep_ns after the first of a step); the simulator
 * adds the same to the virtual duration.
 *
 *   Ownership    `changes` belongs to the slowness, for muster_slowness_fini().
 *   Threads      As cluster/delay.h: one at a time.
 */
#ifndef MUSTER_CLUSTER_SLOWNESS_H
#define MUSTER_CLUSTER_SLOWNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/delay.h"

/* From `step` on. */
typedef struct muster_slowness_change {
    uint64_t step;
    int64_t sleep_ns; // negative: as before
    double factor;    // 0: as before
} muster_slowness_change;

typedef struct muster_slowness {
    int64_t sleep_ns;    // in every step, >= 0
    double factor;       // how many times as slow, >= 1
    muster_delay *delay; // NULL: none; lent
    uint32_t worker;     // whose delays are drawn
    bool edge;           // `worker` is the number of an edge
    uint32_t change_count;
    muster_slowness_change *changes; // by ascending step; NULL: none
} muster_slowness;

#define MUSTER_SLOWNESS_NONE                                                   \
    {                                                                          \
        .sleep_ns = 0, .factor = 1, .delay = NULL, .worker = 0, .edge = false, \
        .change_count = 0, .changes = NULL                                     \
    }

void muster_slowness_fini(muster_slowness *slowness);

/* The time that a worker loses in `step`, after it has done `work`. */
int64_t muster_slowness_ns(const muster_slowness *slowness, uint64_t step,
                           const muster_delay_work *work);

/*
 * Until when a thread sleeps that was given work at start_ns and has done it by
 * now_ns. A factor multiplies the thread's own time: 5 ms of work take 50 ms
 * with 10x. So the sleep counts from when the work would have ended on a core
 * of its own, and what the thread waited for a core is part of it. Else slow
 * workers on few cores would be slower than asked for, each by another time.
 */
int64_t muster_slowness_until_ns(const muster_slowness *slowness, uint64_t step,
                                 const muster_delay_work *work,
                                 int64_t start_ns, int64_t now_ns);

/*
 * How long a thread sleeps before it begins with work of about compute_ns: an
 * eighth of the sleep that a factor asks for, or half of the time that it gives
 * beyond three times the work's. Workers that share cores do not all compute
 * when a step begins then: its messages find a core first, and after them those
 * with little time to lose.
 */
int64_t muster_slowness_before_ns(const muster_slowness *slowness,
                                  uint64_t step, int64_t compute_ns);

/* Does it look at the work's compute_ns in any step? */
bool muster_slowness_multiplies(const muster_slowness *slowness);

#endif // MUSTER_CLUSTER_SLOWNESS_H
