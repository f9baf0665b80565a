/*
 * planner.c -- see planner.h.
 */
#include "job/planner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "code/numbers.h"
#include "muster/plan.h"

/* Draws of the Monte Carlo: few, for steps wait for the job. */
#define SAMPLES 256u

typedef struct made_code {
    muster_code *code;
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
    }
    muster_vec_fini(&planner->made);
}

/* The first code of a run is not one that was made here. */
static const char *name_of(const muster_planner *planner,
                           const muster_code *code)
{
    const made_code *all = planner->made.data;
    for (size_t i = 0; i < planner->made.count; i++) {
        if (all[i].code == code) {
            return all[i].name;
        }
    }
    return muster_code_numbers(code)->name;
}

static muster_status code_of(muster_planner *planner, const char *name,
                             uint32_t workers, muster_error *error_out,
                             const muster_code **code_out)
{
    const made_code *all = planner->made.data;
    for (size_t i = 0; i < planner->made.count; i++) {
        if (strcmp(all[i].name, name) == 0) {
            *code_out = all[i].code;
            return MUSTER_OK;
        }
    }
    made_code made = {.code = NULL};
    (void)snprintf(made.name, sizeof(made.name), "%s", name);
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    opts.name = name;
    opts.workers = workers;
    muster_status status = muster_code_create(&opts, error_out, &made.code);
    if (status == MUSTER_OK && !muster_vec_append(&planner->made, &made, 1)) {
        muster_code_free(made.code);
        status = muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                  "no memory for code %s", name);
    }
    *code_out = made.code;
    return status;
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
    const char *before = name_of(planner, job->code);
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
        status = code_of(planner, chosen.spec,
                         muster_code_numbers(job->code)->workers, error_out,
                         &result_out->code);
    }
    return status;
}

muster_status muster_planner_run(muster_planner *planner, const muster_job *job,
                                 muster_error *error_out,
                                 muster_job_result *result_out)
{
    const muster_blob *input = job->input;
    if (input == NULL || input->bytes == 0 || job->code == NULL ||
        ((const char *)input->data)[input->bytes - 1] != '\0') {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "there is no cluster to plan for");
    }
    muster_plan_opts opts = MUSTER_PLAN_OPTS_INIT;
    opts.cluster = input->data;
    opts.file = "the measured cluster";
    opts.samples = SAMPLES;
    opts.in_force = name_of(planner, job->code);
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
