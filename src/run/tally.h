/*
 * run/tally.h -- what a run has shown so far, counted from its reports.
 *
 * Feeds the progress line and the end of a run. Times and totals go into a
 * record/summary; beside it stands what only reports of membership tell.
 *
 *   Threads      The network thread's alone.
 *   Allocation   At init only.
 */
#ifndef MUSTER_RUN_TALLY_H
#define MUSTER_RUN_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "muster/status.h"
#include "record/summary.h"
#include "role/report.h"
#include "run/stragglers.h"

typedef struct muster_tally_worker {
    bool joined, ready;   // now
    uint64_t answers;     // late ones too
    uint64_t ready_steps; // steps that began while it was ready
    uint32_t deaths;      // times it was lost
} muster_tally_worker;

typedef struct muster_tally {
    uint32_t worker_count;
    muster_tally_worker *workers;
    muster_stragglers *costs;
    muster_summary *summary;
    uint64_t steps; // of this life
    double loss;    // of the last step
    uint32_t responders, stragglers;
    double grad_err; // of the last step
    bool degraded;   // the last step was not exact, though the code is
    const uint64_t *parts_received; // the role's, while that lives; or NULL
    const muster_classes *classes;  // likewise
    const uint32_t *first_shard;    // of each part; likewise
    muster_vec evaluations;         // muster_summary_evaluation; seconds from
                                    // first_ns on, and those of earlier lives
    int64_t first_ns;               // when the first step of this life began
    double earlier_s;               // that the steps of earlier lives took
    bool has_result;
    double result_loss, theta_norm, test_loss, test_accuracy, test_auc;
} muster_tally;

MUSTER_CHECKED muster_status muster_tally_init(uint32_t workers,
                                               muster_tally *tally_out);
void muster_tally_fini(muster_tally *tally);

void muster_tally_report(muster_tally *tally, const muster_report *report);

/* A report as a line of the run folder. */
muster_step_line muster_tally_step_line(const muster_report *report);
muster_worker_line muster_tally_worker_line(const muster_report *report);

typedef enum muster_worker_class {
    MUSTER_CLASS_ACTIVE = 0,
    MUSTER_CLASS_SLOW, // as the role says (role/watch.h)
    MUSTER_CLASS_LOST, // not there now
} muster_worker_class;

/* What the role believes of a worker; nothing before the first step. */
muster_class muster_tally_class(const muster_tally *tally, uint32_t worker);

/* How workers straggled, as summary.json has it. */
muster_summary_straggling
muster_straggling_of(const muster_classes_rates *rates,
                     const muster_classes_fit *fit);

/* How workers straggled so far, and what fits it; nothing counted before the
 * first step. The role must live. */
muster_summary_straggling muster_tally_straggling(const muster_tally *tally);

/* One class per worker, into classes_out[worker_count]. */
void muster_tally_classes(const muster_tally *tally,
                          muster_worker_class *classes_out);
const char *muster_worker_class_name(muster_worker_class class_of);

#endif // MUSTER_RUN_TALLY_H
