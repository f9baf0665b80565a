/*
 * record/summary.h -- adds a run up: summary.json.
 *
 * Told of every step and every answer, it keeps totals and histograms, so its
 * size depends on the number of workers, never on the length of the run.
 *
 *   Ownership    The caller's from create to free; texts are the caller's, for
 *                muster_mem_free().
 *   Allocation   create only; about 15 KB a worker.
 *   Threads      One at a time.
 *
 * Keys of summary.json: docs/run-folder.md.
 */
#ifndef MUSTER_RECORD_SUMMARY_H
#define MUSTER_RECORD_SUMMARY_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "muster/status.h"
#include "record/line.h"

typedef struct muster_summary muster_summary;

MUSTER_CHECKED muster_status
muster_summary_create(uint32_t workers, muster_summary **summary_out);
void muster_summary_free(muster_summary *summary);

void muster_summary_step(muster_summary *summary, const muster_step_line *line);
/* Workers beyond those of create are left out. */
void muster_summary_worker(muster_summary *summary,
                           const muster_worker_line *line);
void muster_summary_death(muster_summary *summary, uint32_t worker);

/* How workers straggled, and what fits it: NAN where nothing was counted. */
typedef struct muster_summary_straggling {
    double p_straggle;  // share of steps, over all workers
    double p_again;     // likewise, of the steps after one it straggled in
    double p_begin;     // likewise, of the others
    double spell_steps; // mean length of a slow spell
    const char *model;  // the one that fits best: one, bernoulli or markov
    double slow, p_slow, p_active; // as --delay bernoulli: has them
    double stay_slow, stay_active; // as --delay markov: has them
} muster_summary_straggling;

/* The object of summary.json; NULL when out of memory. */
json_t *muster_summary_straggling_json(const muster_summary_straggling *of);
/* An evaluation on the way. */
typedef struct muster_summary_evaluation {
    uint64_t step;  // steps that made the model
    double seconds; // of training until it stood
    double loss;    // NAN: left out
    double test_loss, test_accuracy;
    bool reached; // the target of --until
} muster_summary_evaluation;

/* What only the end of the run knows. Start from MUSTER_SUMMARY_END_INIT; NULL
 * and NAN mean "not known". */
typedef struct muster_summary_end {
    double wall_s;
    double loss; // objective on all training data
    double test_loss;
    double test_accuracy; // NAN together with test_loss: no test set
    double test_auc;      // NAN: not two classes
    double theta_norm;
    const char *code; // name, as resolved
    uint32_t n, s, m, d;
    const uint64_t *parts_received; // per part, how often it was used
    uint32_t part_count;
    const char *const *classes;     // per worker; NULL: from the straggle rate
    const double *slow_probability; // per worker, that it is slow; or NULL
    const double *behind_ms;        // per worker, how long after the median it
                                    // answers; or NULL
    double straggler_wait_ms;       // per step, for slow workers
    // With edges, which the lists above are about: their workers; or NULL.
    const muster_summary *below;
    const char *const *below_classes;             // per worker
    const uint32_t *edge_of;                      // per worker
    const muster_summary_straggling *straggling;  // or NULL
    const muster_summary_evaluation *evaluations; // on the way
    size_t evaluation_count;
} muster_summary_end;

#define MUSTER_SUMMARY_END_INIT                                             \
    {                                                                       \
        .wall_s = NAN, .loss = NAN, .test_loss = NAN, .test_accuracy = NAN, \
        .test_auc = NAN, .theta_norm = NAN, .straggler_wait_ms = NAN        \
    }

/* How many steps it was told of. */
uint64_t muster_summary_steps(const muster_summary *summary);
/* The sum of the step times. */
double muster_summary_step_s(const muster_summary *summary);
/* Steps that went on without enough workers for their exact code. */
uint64_t muster_summary_degraded(const muster_summary *summary);
/* The largest grad_err of all steps. */
double muster_summary_grad_err(const muster_summary *summary);
/* Answers of a worker that came in time. */
uint64_t muster_summary_in_time(const muster_summary *summary, uint32_t worker);
/* A quantile of the step times in ms; NAN before the first step. */
double muster_summary_step_ms(const muster_summary *summary, double q);

/* A quantile of a worker's compute times in ms; NAN before its first answer. */
double muster_summary_compute_ms(const muster_summary *summary, uint32_t worker,
                                 double q);

double muster_summary_compute_mean_ms(const muster_summary *summary,
                                      uint32_t worker);

/* Likewise: from computing to the answer's arrival, its share of the step that
 * was not computing; and from there to the end of the step. */
double muster_summary_send_ms(const muster_summary *summary, uint32_t worker,
                              double q);
double muster_summary_wait_ms(const muster_summary *summary, uint32_t worker,
                              double q);

/* Answers of a worker that came too late, and steps without one in time. */
uint64_t muster_summary_late(const muster_summary *summary, uint32_t worker);
double muster_summary_straggle_rate(const muster_summary *summary,
                                    uint32_t worker);

/* The object of summary.json; NULL when out of memory. */
char *muster_summary_json(const muster_summary *summary,
                          const muster_summary_end *end);

#endif // MUSTER_RECORD_SUMMARY_H
