/*
 * run/below.h -- what the workers under edges did, counted from the reports of
 * a run: the edges tell the coordinator some steps at a time, and the last few
 * steps of a run may be missing.
 *
 *   Threads      The network thread's alone.
 *   Allocation   At init only.
 */
#ifndef MUSTER_RUN_BELOW_H
#define MUSTER_RUN_BELOW_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/code.h"
#include "muster/status.h"
#include "record/summary.h"
#include "role/report.h"

typedef struct muster_below {
    uint32_t worker_count; // 0: the workers have no edges
    muster_summary *summary;
    bool *slow;           // what each worker's edge said last
    uint32_t *edge_of;    // by worker
    const char **classes; // "slow", "active"; filled by muster_below_end()
} muster_below;

/* For a hier code. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_below_init(const muster_code *hier,
                                               muster_below *below_out);
/* A zeroed one is fine. */
void muster_below_fini(muster_below *below);

void muster_below_report(muster_below *below, const muster_report *report);
muster_worker_line muster_below_line(const muster_report *report);

/* Fill in what summary.json says of them. */
void muster_below_end(muster_below *below, muster_summary_end *end_out);

/* Name the slow ones to people. */
void muster_below_tell(const muster_below *below);

#endif // MUSTER_RUN_BELOW_H
