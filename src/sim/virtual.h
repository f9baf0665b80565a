/*
 * sim/virtual.h -- one training run in virtual time: the coordinator, its
 * workers, their machines, and the faults of the options.
 *
 * With data, every job is carried out exactly by job/executor; without,
 * payloads are lengths only. Either way a job takes virtual time by this model:
 *
 *   gradient   --compute for one n-th of the data, times the share of the data
 *              that the worker's plan names, over its speed, times its
 *              slowness, plus --slow's and --delay's sleep
 *   update     a quarter of a nanosecond per float and message
 *   others     a millisecond
 *
 * and messages pay a latency of 50 us and --bandwidth at either end. The clock
 * of the machine that runs the simulation is never looked at, so a seed has one
 * history.
 */
#ifndef MUSTER_SIM_VIRTUAL_H
#define MUSTER_SIM_VIRTUAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "cluster/delay.h"
#include "config/config.h"
#include "job/executor.h"
#include "muster/code.h"
#include "record/histogram.h"
#include "sim/sim.h"

/* What a worker computes under a plan. */
typedef struct muster_virtual_plan {
    uint32_t number;
    uint32_t parts;
} muster_virtual_plan;

typedef struct muster_virtual_host {
    muster_executor *executor;    // exact runs
    muster_virtual_plan plans[2]; // the newest it was sent
    muster_job job;               // under way; timing only: holds references
    int64_t busy_ns;
} muster_virtual_host;

typedef struct muster_virtual {
    const muster_config *config; // lent
    muster_code *code;
    muster_code_info info;
    bool exact; // with data
    size_t message_dim;
    uint64_t steps;
    muster_vec faults; // muster_fault
    double *speeds;    // per worker
    double *factors;   // per worker, --slow W:10x
    int64_t *sleeps;   // per worker, --slow W:200ms
    muster_delay *delay;
    muster_sim *sim;
    muster_virtual_host *hosts; // 0: coordinator; worker w is host w + 1
    muster_error failure;       // of what had to be made on the way
    int64_t longest_job_ns;     // so far
    int64_t step_end_ns;        // of the last step

    /* how it went */
    muster_status status;
    char reason[256];
    muster_histogram step_ms;
    uint64_t steps_done, steps_exact;
    uint64_t bytes_up, bytes_down, messages_up, bytes_moved;
    uint64_t late, losses;
    uint64_t degraded;        // steps
    uint32_t plans;           // the number of the last
    uint64_t *parts_received; // by part
    double loss, theta_norm, test_loss, test_accuracy;
    double grad_err_max, grad_err_sum;
} muster_virtual;

/* `code` names one code; everything else comes from the options. */
MUSTER_CHECKED muster_status muster_virtual_init(muster_virtual *run,
                                                 const muster_config *config,
                                                 const char *code,
                                                 muster_error *error_out);
void muster_virtual_fini(muster_virtual *run);

/*
 * To the end. What the coordinator ended with is in run->status; a failure of
 * the simulation itself is returned:
 * MUSTER_ERR_TIMED_OUT   the run hangs: for longer than any patience, transfer
 *                        and job could explain, no step has ended
 * MUSTER_ERR_NO_MEMORY
 */
MUSTER_CHECKED muster_status muster_virtual_run(muster_virtual *run,
                                                muster_error *error_out);

/* virtual_compute.c: how jobs are carried out. */
muster_sim_compute muster_virtual_compute(muster_virtual *run);

#endif // MUSTER_SIM_VIRTUAL_H
