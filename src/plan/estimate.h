/*
 * plan/estimate.h -- how long a step takes with a scheme, on a cluster.
 *
 * The model of the cluster file: a worker's answer comes after the model's way
 * down, computing L (shift + Exp(mean)) / speed, and its message's way up; a
 * link takes latency + bytes / bandwidth for each try. With a two-layer code an
 * edge's message leaves when the edge can decode. A flat code's messages pass
 * the edge one by one, and share the edge's bandwidth. Where the coordinator or
 * an edge has a NIC of limited bandwidth, the copies of the model that it sends
 * share it, and so do the answers that it receives at a time (plan/nic.h). How
 * codes in stages end a step is in plan/staged.h; their stages take equally
 * long, each with its message's way up.
 *
 * `Surrogate` puts the mean of every delay in its place (the paper's joint node
 * and coding scheme selection). It is below the expected time where all are
 * waited for, since the mean of a maximum is at least the maximum of the means;
 * where a code may take the fastest it may be above. The Monte Carlo draws the
 * delays of `samples` steps once; all schemes are tried on the same draws, so
 * that their difference has little noise.
 *
 *   Determinism  A function of cluster, seed and sample count.
 *   Threads      An estimator belongs to one thread.
 */
#ifndef MUSTER_PLAN_ESTIMATE_H
#define MUSTER_PLAN_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/file.h"
#include "plan/scheme.h"

typedef struct muster_estimator muster_estimator;

typedef struct muster_estimator_opts {
    const muster_cluster *cluster; // lent
    double message_bytes;          // of a whole gradient; 0: no time
    uint32_t samples;
    uint64_t seed;
    // Of a subset: the numbers that its workers have in the whole cluster, and
    // how many that has, so that both draw the same. NULL: it is the whole.
    const uint32_t *numbers; // lent for the call
    uint32_t whole;
} muster_estimator_opts;

/* NULL when out of memory. */
muster_estimator *muster_estimator_create(const muster_estimator_opts *opts);
void muster_estimator_free(muster_estimator *estimator);

/* Has it lacked memory for a scheme? Its values are no good then. */
bool muster_estimator_has_failed(const muster_estimator *estimator);

/* With mean delays. */
double muster_estimate_surrogate_s(muster_estimator *estimator,
                                   const muster_scheme *scheme);

/* The mean over the first `samples` draws; the standard error of it in
 * *error_out unless NULL. */
double muster_estimate_mean_s(muster_estimator *estimator,
                              const muster_scheme *scheme, uint32_t samples,
                              double *error_out);

/* The step time of one draw. */
double muster_estimate_draw_s(muster_estimator *estimator,
                              const muster_scheme *scheme, uint32_t sample);

/* Of every worker: its load (1: an uncoded worker's; of a code in stages, of
 * its own share), the share of the data that it holds, the mean time until its
 * answer is where it is decoded first, and in how many of `samples` steps that
 * was before the step ended, 0..1. */
typedef struct muster_estimate_worker {
    double load;
    double storage;
    double mean_s;
    double in_time;
} muster_estimate_worker;

void muster_estimate_workers(muster_estimator *estimator,
                             const muster_scheme *scheme, uint32_t samples,
                             muster_estimate_worker *workers_out);

/* For tests: the times at which workers' answers (of a two-layer code: at their
 * edge) of this draw come, and edges' delays (NULL without edges). */
void muster_estimate_arrivals(muster_estimator *estimator,
                              const muster_scheme *scheme, uint32_t sample,
                              double *workers_out, double *edges_out);

#endif // MUSTER_PLAN_ESTIMATE_H
