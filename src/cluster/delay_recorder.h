/*
 * cluster/delay_recorder.h -- writes down how long workers took, as the csv
 * that cluster/delay_trace.h reads: --record-delays FILE.
 *
 * A worker whose time for a step is not known when the row is written (it was
 * told to leave the step, or is dead) gets the time that the step took: it
 * needed at least as long. Iterations count from the first step recorded.
 *
 *   Promise      The file is whole after every row: each step has every worker.
 *   Lifecycle    open; time and step; close.
 *   Threads      One at a time.
 *   Allocation   At open only. A row is written when MUSTER_DELAY_ROWS newer
 *                steps have begun, so that late answers count; times that come
 *                later still are left out.
 */
#ifndef MUSTER_CLUSTER_DELAY_RECORDER_H
#define MUSTER_CLUSTER_DELAY_RECORDER_H

#include <stdint.h>

#include "muster/status.h"

#define MUSTER_DELAY_ROWS 64u

typedef struct muster_delay_recorder muster_delay_recorder;

/* MUSTER_ERR_SYSTEM: the file cannot be written; MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_delay_recorder_open(
    const char *path, uint32_t workers, muster_error *error_out,
    muster_delay_recorder **recorder_out);

/* `worker` took so long for `step`, by itself. */
void muster_delay_recorder_time(muster_delay_recorder *recorder, uint64_t step,
                                uint32_t worker, double seconds);

/* `step` has ended after so long. */
void muster_delay_recorder_step(muster_delay_recorder *recorder, uint64_t step,
                                double seconds);

/* The shortest time of any worker so far, in seconds; 0 of none: what is over
 * it is delay. */
double muster_delay_recorder_fastest(const muster_delay_recorder *recorder);

/* Write the rows that are left and free the recorder; NULL is fine.
 * MUSTER_ERR_SYSTEM: not everything could be written. */
MUSTER_CHECKED muster_status muster_delay_recorder_close(
    muster_delay_recorder *recorder, muster_error *error_out);

#endif // MUSTER_CLUSTER_DELAY_RECORDER_H
