/*
 * plan/subset.h -- a search over some of a cluster's machines.
 *
 *   Lifecycle    init; look at `search`; fini.
 *   Determinism  A worker's draws are those that it has in the whole cluster.
 */
#ifndef MUSTER_PLAN_SUBSET_H
#define MUSTER_PLAN_SUBSET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "muster/plan.h"
#include "plan/search.h"

typedef struct muster_subset {
    muster_cluster *own; // NULL: the whole cluster
    muster_search search;
} muster_subset;

typedef struct muster_subset_opts {
    const muster_cluster *whole;  // all are lent
    const bool *keep;             // who stays; NULL: all
    const muster_plan_opts *plan; // seed, model, in_force, even
    uint32_t samples;             // draws of the last stage
    bool quick;                   // as muster_search
    const muster_vec *only;
} muster_subset_opts;

/* Search. On failure (MUSTER_ERR_NO_MEMORY) nothing is left. */
MUSTER_CHECKED muster_status muster_subset_init(muster_subset *subset,
                                                const muster_subset_opts *opts);
void muster_subset_fini(muster_subset *subset);

/* The first finding that can be used; uncoded where codes gain nothing.
 * MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_subset_choose(const muster_subset *subset,
                                                  muster_finding *chosen_out);

/* The least expected time of the last stage, of codes that may be chosen. */
double muster_subset_best_s(const muster_subset *subset);

#endif // MUSTER_PLAN_SUBSET_H
