/*
 * runtime/tally.h -- what a run has shown so far, counted from its reports.
 *
 * Feeds the progress line, summary.json and cluster.yaml. Step times are all
 * kept (four bytes a step); of each worker's compute times a uniform sample of
 * at most 512 (Vitter's reservoir), enough for a median.
 *
 *   Threads      The network thread's alone.
 *   Allocation   At create; step times grow now and then (doubling).
 *   Determinism  The sample depends on the reports alone.
 */
#ifndef MUSTER_RUNTIME_TALLY_H
#define MUSTER_RUNTIME_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "muster/status.h"
#include "role/report.h"

#define MUSTER_TALLY_SAMPLE_MAX 512u

typedef struct muster_tally_worker {
    bool joined, ready;    // now
    uint64_t on_time;      // answers used or at least in time
    uint64_t late;         // answers after the step was decoded
    uint64_t ready_steps;  // steps that began while it was ready
    uint32_t deaths;       // times it was lost
    uint64_t compute_seen; // answers of either kind
    double compute_last_ms;
    float *compute_ms; // the sample
} muster_tally_worker;

typedef struct muster_tally {
    uint32_t worker_count;
    muster_tally_worker *workers;
    float *samples;     // backing of all compute_ms
    float *scratch;     // MUSTER_TALLY_SAMPLE_MAX
    float *medians;     // worker_count
    muster_vec step_ms; // of float
    uint64_t steps;
    double loss; // of the last step
    double step_ms_sum;
    double grad_err_max;
    uint64_t bytes_up, bytes_down, messages_up, bytes_moved;
    uint32_t responders, stragglers; // of the last step
    bool has_result;
    double result_loss, theta_norm, test_loss, test_accuracy;
} muster_tally;

MUSTER_CHECKED muster_status muster_tally_init(uint32_t workers,
                                               muster_tally *tally_out);
void muster_tally_fini(muster_tally *tally);

/* MUSTER_ERR_NO_MEMORY: a step time could not be kept. */
MUSTER_CHECKED muster_status muster_tally_report(muster_tally *tally,
                                                 const muster_report *report);

/* The p-quantile (0..1, nearest rank) of `count` values, which are reordered;
 * NAN of none. */
double muster_quantile(float *values, size_t count, double p);

/* Median of the worker's compute times; NAN when it never answered. */
double muster_tally_compute_ms(muster_tally *tally, uint32_t worker);

/* Share of all steps in which it was not heard in time. */
double muster_tally_straggle_rate(const muster_tally *tally, uint32_t worker);

typedef enum muster_worker_class {
    MUSTER_CLASS_ACTIVE = 0,
    MUSTER_CLASS_SLOW, // over twice the median worker's compute time, or ready
                       // for five steps and more without one answer
    MUSTER_CLASS_LOST, // not there now
} muster_worker_class;

/* One class per worker, into classes_out[worker_count]. */
void muster_tally_classes(muster_tally *tally,
                          muster_worker_class *classes_out);
const char *muster_worker_class_name(muster_worker_class class_of);

#endif // MUSTER_RUNTIME_TALLY_H
