/*
 * run/simulate_outcome.h -- what came of the simulated runs of one code, one a
 * seed: the object of `simulate --json`, a line for people, the rows of --csv.
 *
 * Steps, bytes and counters are sums over the seeds, quantiles are those of all
 * steps; what a run has one of (loss, straggling) is the mean over the seeds.
 *
 *   Lifecycle    init, add for each run, then the others; fini.
 */
#ifndef MUSTER_RUN_SIMULATE_OUTCOME_H
#define MUSTER_RUN_SIMULATE_OUTCOME_H

#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "base/vec.h"
#include "muster/status.h"
#include "record/summary.h"
#include "sim/virtual.h"

/* Times of a step in ms; as many as a distribution has figures. */
typedef struct muster_outcome_times {
    double p50, p90, p99, mean;
} muster_outcome_times;

/* Of one seed. */
typedef struct muster_outcome_run {
    uint64_t seed;
    muster_status status;
    muster_outcome_times step_ms;
    uint64_t steps, steps_exact;
    uint64_t bytes_up, bytes_down, bytes_moved, messages_up;
    uint64_t stages_dropped;
    uint64_t late, losses, degraded;
    uint32_t plans;
    double grad_err_max, grad_err_sum;
    double loss, theta_norm, test_loss, test_accuracy; // NAN without data
    double test_auc;                                   // NAN: not two classes
    double target_step, target_s; // of --until; NAN: never reached
    double virtual_s;
    uint64_t history;
    muster_summary_straggling straggling;
} muster_outcome_run;

typedef struct muster_outcome {
    char code[128]; // as it was asked for, cut off where too long
    char name[64];  // the code's own
    muster_code_info info;
    muster_histogram step_ms;
    muster_vec runs;          // muster_outcome_run
    uint32_t parts;           // that the coordinator decodes
    uint64_t *parts_received; // by part
} muster_outcome;

/* MUSTER_ERR_NO_MEMORY; nothing is left then. */
MUSTER_CHECKED muster_status muster_outcome_init(muster_outcome *outcome,
                                                 const char *code,
                                                 const muster_code_info *info);
void muster_outcome_fini(muster_outcome *outcome);

/* A run that has ended. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_outcome_add(muster_outcome *outcome,
                                                const muster_virtual *run);

/* How a double of muster_outcome_run, at `offset` there, differs from seed to
 * seed. */
typedef struct muster_outcome_spread {
    double min, max;
    double sd; // standard deviation; NAN of one seed
} muster_outcome_spread;
muster_outcome_spread muster_outcome_spread_of(const muster_outcome *outcome,
                                               size_t offset);

/* A new object; NULL when out of memory. */
json_t *muster_outcome_json(const muster_outcome *outcome);
/* A line for people, to the log. */
void muster_outcome_tell(const muster_outcome *outcome);

/* The line of names, and a row for each seed; < 0 when writing failed. */
int muster_outcome_csv_head(FILE *file);
int muster_outcome_csv(const muster_outcome *outcome, FILE *file);

#endif // MUSTER_RUN_SIMULATE_OUTCOME_H
