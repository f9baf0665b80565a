/*
 * cluster/delay_trace.h -- measured times of real workers, from a csv file.
 *
 * The first line is `iteration,worker,seconds`; each other line is one
 * measurement. Iterations and workers count from 0 and every pair must be
 * there exactly once.
 */
#ifndef MUSTER_CLUSTER_DELAY_TRACE_H
#define MUSTER_CLUSTER_DELAY_TRACE_H

#include <stdint.h>

#include "muster/status.h"

typedef struct muster_delay_trace {
    uint32_t iterations;
    uint32_t workers;
    double *seconds; // [iteration * workers + worker]
} muster_delay_trace;

/* MUSTER_ERR_INPUT names the file and line. */
MUSTER_CHECKED muster_status muster_delay_trace_load(
    const char *path, muster_error *error_out, muster_delay_trace *trace_out);
void muster_delay_trace_fini(muster_delay_trace *trace);

#endif // MUSTER_CLUSTER_DELAY_TRACE_H
