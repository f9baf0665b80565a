/*
 * runtime/stragglers.h -- who is slow, and what that costs, from the reports of
 * a run.
 *
 * Every answer is timed from the beginning of its own step and compared with
 * the step's median; that is what cluster/classes is told. An answer within a
 * millisecond of the median is not slow, however fast the others are. A worker
 * that does not answer is another matter: with a code it may have been told to
 * leave a step that others finished, again and again, without being slow. It
 * counts as straggling only when it has answered nothing for twenty medians
 * (and 20 ms); until then such a step says nothing of it.
 *
 *   Threads      One at a time.
 *   Allocation   At create only.
 */
#ifndef MUSTER_RUNTIME_STRAGGLERS_H
#define MUSTER_RUNTIME_STRAGGLERS_H

#include <stdint.h>

#include "cluster/classes.h"
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

/* When an ANSWER came, in ms since the beginning of the step that it answers;
 * NAN when that was long ago. Valid from the STEP_BEGIN on. */
double muster_stragglers_arrive_ms(const muster_stragglers *stragglers,
                                   const muster_report *report);

muster_class muster_stragglers_class(const muster_stragglers *stragglers,
                                     uint32_t worker);
muster_straggler_cost
muster_stragglers_cost(const muster_stragglers *stragglers, uint32_t worker);

/* How long a step waited for slow workers on average: from the last answer it
 * used of an active one to the last of all. */
double muster_stragglers_waited_ms(const muster_stragglers *stragglers);

#endif // MUSTER_RUNTIME_STRAGGLERS_H
