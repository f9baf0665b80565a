/*
 * plan/plan.h -- plans inside the library: from a cluster in memory.
 */
#ifndef MUSTER_PLAN_PLAN_H
#define MUSTER_PLAN_PLAN_H

#include "cluster/file.h"
#include "muster/plan.h"

#define MUSTER_PLAN_SAMPLES 2048u

struct muster_plan {
    muster_plan_choice chosen;
    uint32_t choice_count;
    muster_plan_choice *choices; // beside it
    uint32_t worker_count;
    muster_plan_worker *workers;
    uint32_t edge_count;
    uint32_t samples;
    size_t schemes; // compared
    char *used;     // the machines used, as a cluster file
};

/* As muster_plan_create(); opts->cluster and opts->file are not looked at. */
MUSTER_CHECKED muster_status muster_plan_of_cluster(
    const muster_cluster *cluster, const muster_plan_opts *opts,
    muster_error *error_out, muster_plan **plan_out);

#endif // MUSTER_PLAN_PLAN_H
