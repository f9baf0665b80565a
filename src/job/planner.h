/*
 * job/planner.h -- carries out PLAN jobs: a measured cluster in, a code out.
 * Where the order of the job's code goes by speeds, those of the workers in (a
 * double each), and the same code for them out. At an edge, makes that code.
 *
 *   Ownership    Codes that it gives out live until fini: a role may use one
 *                for the rest of the run. One of equal name is made once.
 *   Determinism  A function of the jobs.
 */
#ifndef MUSTER_JOB_PLANNER_H
#define MUSTER_JOB_PLANNER_H

#include "base/vec.h"
#include "muster/status.h"
#include "role/job.h"

typedef struct muster_planner {
    muster_vec made; // the codes given out, with their names
} muster_planner;

muster_planner muster_planner_make(void);
void muster_planner_fini(muster_planner *planner);

/* Sets code, expected_ms, in_force_ms and text of the result.
 * MUSTER_ERR_INVALID    the job has no cluster
 * MUSTER_ERR_INPUT      what it has is not one
 * MUSTER_ERR_NO_MEMORY */
MUSTER_CHECKED muster_status muster_planner_run(muster_planner *planner,
                                                const muster_job *job,
                                                muster_error *error_out,
                                                muster_job_result *result_out);

/* ADOPT of an edge: sets the code of the result to that of the plan in the
 * job's input, for the workers and edges of `like`.
 * MUSTER_ERR_PROTOCOL   the input is no plan of an edge
 * MUSTER_ERR_NO_MEMORY, or as muster_code_create() */
MUSTER_CHECKED muster_status muster_planner_adopt(
    muster_planner *planner, const muster_job *job, const muster_code *like,
    muster_error *error_out, muster_job_result *result_out);

#endif // MUSTER_JOB_PLANNER_H
