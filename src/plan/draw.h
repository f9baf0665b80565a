/*
 * plan/draw.h -- the random numbers of the Monte Carlo.
 *
 * Every step has one number for each delay of each worker and edge, drawn once.
 * All schemes are tried on the same steps, and so are all subsets of a cluster:
 * a worker keeps its numbers.
 *
 *   Determinism  A function of cluster, seed and sample count.
 *   Lifecycle    init; any number of looks; fini.
 *   Allocation   init only.
 */
#ifndef MUSTER_PLAN_DRAW_H
#define MUSTER_PLAN_DRAW_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/file.h"

/* Of one step: for each worker, for each edge. */
typedef struct muster_step_draw {
    const float *compute; // Exp(1)
    const float *down;    // tries
    const float *up;
    const float *relay; // of a message on the edge's link
    const float *edge_down;
    const float *edge_up;
} muster_step_draw;

typedef struct muster_step_draws_opts {
    const muster_cluster *cluster; // lent for init, as all pointers here
    const uint32_t *edge_of;       // by worker; not looked at without edges
    uint32_t samples;
    uint64_t seed;
    // Of a subset: the numbers that its workers have in the whole cluster, and
    // how many that has. NULL: it is the whole.
    const uint32_t *numbers;
    uint32_t whole;
} muster_step_draws_opts;

typedef struct muster_step_draws {
    uint32_t workers, edges;
    float *steps; // a step after the other
    float *mean;  // one of mean delays
} muster_step_draws;

/* False: out of memory. */
bool muster_step_draws_init(muster_step_draws *draws,
                            const muster_step_draws_opts *opts);
/* One that is all zero, or has failed to init, is allowed. */
void muster_step_draws_fini(muster_step_draws *draws);

muster_step_draw muster_step_draws_at(const muster_step_draws *draws,
                                      uint32_t sample);
muster_step_draw muster_step_draws_mean(const muster_step_draws *draws);

#endif // MUSTER_PLAN_DRAW_H
