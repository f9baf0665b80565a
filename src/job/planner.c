/*
 * planner.c -- see planner.h.
 */
#include "job/planner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "code/hier.h"
#include "code/numbers.h"
#include "muster/plan.h"
#include "wire/edge_terms.h"

/* Draws of the Monte Carlo: few, for steps wait for the job. */
#define SAMPLES 256u

typedef struct made_code {
    muster_code *code;
    double *speeds; // of its workers; NULL: equal
    char name[96];
} made_code;

muster_planner muster_planner_make(void)
{
    return (muster_planner){muster_vec_make(sizeof(made_code))};
}

void muster_planner_fini(muster_planner *planner)
{
    made_code *all = planner->made.data;
    for (size_t i = 0; i < planner->made.count; i++) {
        muster_code_free(all[i].code);
        muster_mem_free(all[i].speeds);
    }
    muster_vec_fini(&planner->made);
}

/* The first code of a run is not one that was made here. */
static void name_of(const muster_planner *planner, const muster_code *code,
                    char *name_out, size_t size)
{
    const made_code *all = planner->made.data;
    for (size_t i = 0; i < planner->made.count; i++) {
        if (all[i].code == code) {
            (void)snprintf(name_out, size, "%s", all[i].name);
            return;
        }
    }
    if (muster_code_is_hier(code)) {
        muster_hier_numbers numbers = muster_hier_numbers_of(code);
        muster_hier_name(&numbers, name_out, size);
    } else {
        (void)snprintf(name_out, size, "%s", muster_code_numbers(code)->name);
    }
}

/* For the workers, and under the edges, that `like` has. */
static muster_status create_like(const char *name, const muster_code *like,
                                 const double *speeds, muster_error *error_out,
                                 muster_code **code_out)
{
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    opts.name = name;
    opts.workers = muster_code_numbers(like)->workers;
    opts.speeds = speeds;
    char *topology = NULL;
    if (muster_code_is_hier(like)) {
        topology = muster_hier_topology(like);
        if (topology == NULL) {
            return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                    "no memory for code %s", name);
        }
        opts.topology = topology;
    }
    muster_status status = muster_code_create(&opts, error_out, code_out);
    muster_mem_free(topology);
    return status;
}

/* Are both NULL, or equal? */
static bool speeds_match(const double *one, const double *two, uint32_t workers)
{
    bool both = one != NULL && two != NULL;
    return both ? memcmp(one, two, workers * sizeof(*one)) == 0 : one == two;
}

static double *copy_speeds(const double *speeds, uint32_t workers)
{
    double *copy =
        speeds != NULL ? muster_mem_array(workers, sizeof(double)) : NULL;
    if (copy != NULL) {
        memcpy(copy, speeds, workers * sizeof(*copy));
    }
    return copy;
}

/* `speeds` of the workers; NULL: equal. */
static muster_status code_of(muster_planner *planner, const char *name,
                             const muster_code *like, const double *speeds,
                             muster_error *error_out,
                             const muster_code **code_out)
{
    uint32_t workers = muster_code_numbers(like)->workers;
    const made_code *all = planner->made.data;
    for (size_t i = 0; i < planner->made.count; i++) {
        if (strcmp(all[i].name, name) == 0 &&
            speeds_match(all[i].speeds, speeds, workers)) {
            *code_out = all[i].code;
            return MUSTER_OK;
        }
    }
    made_code made = {.speeds = copy_speeds(speeds, workers)};
    (void)snprintf(made.name, sizeof(made.name), "%s", name);
    muster_status status =
        create_like(name, like, speeds, error_out, &made.code);
    bool room = speeds == NULL || made.speeds != NULL;
    if (status == MUSTER_OK &&
        !(room && muster_vec_append(&planner->made, &made, 1))) {
        muster_code_free(made.code);
        made.code = NULL;
        status = muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                  "no memory for code %s", name);
    }
    if (status != MUSTER_OK) {
        muster_mem_free(made.speeds);
    }
    *code_out = made.code;
    return status;
}

muster_status muster_planner_adopt(muster_planner *planner,
                                   const muster_job *job,
                                   const muster_code *like,
                                   muster_error *error_out,
                                   muster_job_result *result_out)
{
    const muster_blob *input = job->input;
    muster_edge_terms terms;
    if (input == NULL || input->data == NULL || like == NULL ||
        muster_edge_terms_read(input->data, input->bytes, &terms) < 0) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "the coordinator's plan is not an edge's");
    }
    const muster_hier_numbers numbers = {
        .edge_stragglers = terms.edge_stragglers,
        .worker_stragglers = terms.worker_stragglers,
        .edge_comm = terms.edge_comm,
        .worker_comm = terms.worker_comm};
    char name[96];
    muster_hier_name(&numbers, name, sizeof(name));
    return code_of(planner, name, like, NULL, error_out, &result_out->code);
}

/* What is expected of the code in force; NAN: the plan does not have it. */
static double in_force_ms(const muster_plan *plan)
{
    for (uint32_t i = 0; i < muster_plan_alternative_count(plan); i++) {
        muster_plan_choice choice = MUSTER_PLAN_CHOICE_INIT;
        if (muster_plan_alternative(plan, i, &choice) == MUSTER_OK &&
            strcmp(choice.label, "in force") == 0) {
            return choice.expected_ms;
        }
    }
    return (double)NAN;
}

static muster_status take(muster_planner *planner, const muster_plan *plan,
                          const muster_job *job, muster_error *error_out,
                          muster_job_result *result_out)
{
    muster_plan_choice chosen = MUSTER_PLAN_CHOICE_INIT;
    char before[96];
    name_of(planner, job->code, before, sizeof(before));
    muster_status status = muster_plan_chosen(plan, &chosen);
    if (status == MUSTER_OK) {
        result_out->expected_ms = chosen.expected_ms;
        result_out->in_force_ms = in_force_ms(plan);
        (void)snprintf(result_out->text, sizeof(result_out->text),
                       "%s in place of %s", chosen.spec, before);
        if (strcmp(chosen.spec, before) == 0) {
            result_out->code = job->code;
            return MUSTER_OK;
        }
        status = code_of(planner, chosen.spec, job->code, NULL, error_out,
                         &result_out->code);
    }
    return status;
}

/* The code of the job, for workers of the speeds that the job has. */
static muster_status reorder(muster_planner *planner, const muster_job *job,
                             muster_error *error_out,
                             muster_job_result *result_out)
{
    static const char *const starts[] = {"", ",start=now", ",start=asked"};
    const muster_code_info *info = muster_code_numbers(job->code);
    char name[96];
    if (job->input == NULL ||
        job->input->bytes != info->workers * sizeof(double)) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "there are no speeds to order by");
    }
    (void)snprintf(name, sizeof(name),
                   "scheduled:s=%u,order=speeds,pieces=%u%s", info->stragglers,
                   info->own_stages, starts[muster_code_starts(job->code)]);
    return code_of(planner, name, job->code, job->input->data, error_out,
                   &result_out->code);
}

muster_status muster_planner_run(muster_planner *planner, const muster_job *job,
                                 muster_error *error_out,
                                 muster_job_result *result_out)
{
    const muster_blob *input = job->input;
    if (job->code != NULL &&
        muster_code_order(job->code) != MUSTER_CODE_ORDER_FIXED) {
        return reorder(planner, job, error_out, result_out);
    }
    if (input == NULL || input->bytes == 0 || job->code == NULL ||
        ((const char *)input->data)[input->bytes - 1] != '\0') {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "there is no cluster to plan for");
    }
    muster_plan_opts opts = MUSTER_PLAN_OPTS_INIT;
    opts.cluster = input->data;
    opts.file = "the measured cluster";
    opts.samples = SAMPLES;
    char in_force[96];
    name_of(planner, job->code, in_force, sizeof(in_force));
    opts.in_force = in_force;
    opts.layered = muster_code_is_hier(job->code);
    opts.even = true;
    opts.all_workers = true;
    muster_plan *plan = NULL;
    muster_status status = muster_plan_create(&opts, error_out, &plan);
    if (status == MUSTER_OK) {
        status = take(planner, plan, job, error_out, result_out);
    }
    muster_plan_free(plan);
    return status;
}
