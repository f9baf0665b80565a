/*
 * run/stragglers.h -- what slow workers cost, from the reports of a run.
 *
 * Every answer is compared with the median of those that came in time for its
 * step. Which worker is slow is decided by role/watch.h and comes with each
 * STEP_END.
 *
 *   Threads      One at a time.
 *   Allocation   At create only.
 */
#ifndef MUSTER_RUN_STRAGGLERS_H
#define MUSTER_RUN_STRAGGLERS_H

#include <stdint.h>

#include "muster/status.h"
#include "role/report.h"

typedef struct muster_stragglers muster_stragglers;

/* What waiting for a worker costs. Means over the steps whose answer came, in
 * time or late; NAN where none did. */
typedef struct muster_straggler_cost {
    double arrive_ms; // from the beginning of the step
    double behind_ms; // that, less the step's median
} muster_straggler_cost;

/* MUSTER_ERR_NO_MEMORY */
MUSTER_CHECKED muster_status
muster_stragglers_create(uint32_t workers, muster_stragglers **stragglers_out);
void muster_stragglers_free(muster_stragglers *stragglers);

void muster_stragglers_report(muster_stragglers *stragglers,
                              const muster_report *report);

muster_straggler_cost
muster_stragglers_cost(const muster_stragglers *stragglers, uint32_t worker);

/* How long a step waited for slow workers on average: from the last answer it
 * used of an active one to the last of all. */
double muster_stragglers_waited_ms(const muster_stragglers *stragglers);

#endif // MUSTER_RUN_STRAGGLERS_H
