/*
 * run/tracing.h -- the reports of a run as a trace (record/trace.h): the
 * coordinator on row 0, worker W on row W + 1; with edges, edge K on row K + 1
 * and the workers on the rows after all edges.
 *
 *   coordinator   wait: from the beginning of a step to the last answer that it
 *                 needed; decode and update: from there to the new model
 *   worker        receive, compute, send; then wait, to the end of the step.
 *                 What it does not compute until its answer comes is divided
 *                 evenly between receive and send: only their sum is measured.
 *                 Marks: late (an answer after the step), ready, lost.
 *
 *   Threads      One at a time.
 *   Allocation   At open only.
 */
#ifndef MUSTER_RUN_TRACING_H
#define MUSTER_RUN_TRACING_H

#include <stdint.h>

#include "muster/status.h"
#include "role/report.h"

typedef struct muster_tracing muster_tracing;

/* `edges` is 0 where the workers have none. */
MUSTER_CHECKED muster_status muster_tracing_open(const char *path,
                                                 uint32_t edges,
                                                 uint32_t workers,
                                                 muster_error *error_out,
                                                 muster_tracing **tracing_out);

MUSTER_CHECKED muster_status muster_tracing_report(muster_tracing *tracing,
                                                   const muster_report *report,
                                                   muster_error *error_out);

/* NULL is allowed; frees also on failure. */
MUSTER_CHECKED muster_status muster_tracing_close(muster_tracing *tracing,
                                                  muster_error *error_out);

#endif // MUSTER_RUN_TRACING_H
