/*
 * role/arrivals.h -- how long a step should wait: a deadline from what was
 * seen.
 *
 * The last answers' delays are kept, those that were not waited for as "never".
 * The deadline is median + 5 MAD (median distance from the median; at least a
 * sixteenth of the median, so that very regular workers are not cut off by a
 * hair). "Never" counts as later than everything: when half of the workers were
 * not waited for there is no deadline, and all are heard again. So it cannot
 * close in on itself.
 *
 *   Allocation   init only.
 *   Determinism  The deadline follows from what was added.
 */
#ifndef MUSTER_ROLE_ARRIVALS_H
#define MUSTER_ROLE_ARRIVALS_H

#include <stdint.h>

#include "muster/status.h"

#define MUSTER_ARRIVAL_NEVER INT64_MAX

typedef struct muster_arrivals {
    int64_t *ring;    // the newest delays
    int64_t *scratch; // room for as many
    uint32_t workers;
    uint32_t room;
    uint64_t added;
} muster_arrivals;

MUSTER_CHECKED muster_status muster_arrivals_init(muster_arrivals *arrivals,
                                                  uint32_t workers);
void muster_arrivals_fini(muster_arrivals *arrivals);

/* A worker's delay, or MUSTER_ARRIVAL_NEVER. */
void muster_arrivals_add(muster_arrivals *arrivals, int64_t delay_ns);

/* For the next step, since its beginning; -1: not known, after less than one
 * step's answers or when most did not come in time. O(kept log kept), kept =
 * max(256, 4 workers). */
int64_t muster_arrivals_deadline_ns(const muster_arrivals *arrivals);

#endif // MUSTER_ROLE_ARRIVALS_H
