/*
 * plan.c -- `muster plan`: the plan of a cluster file.
 */
#include "plan/plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "config/config.h"
#include "muster/run.h"

static muster_status make_plan(const muster_config *config,
                               muster_error *error_out, muster_plan **plan_out)
{
    const char *path = muster_config_string(config, MUSTER_OPT_CLUSTER);
    muster_plan_opts opts = MUSTER_PLAN_OPTS_INIT;
    muster_cluster *cluster = NULL;
    opts.model_floats = muster_config_uint(config, MUSTER_OPT_MODEL_FLOATS);
    opts.all_workers = muster_config_bool(config, MUSTER_OPT_ALL_WORKERS);
    opts.seed = muster_config_uint(config, MUSTER_OPT_SEED);
    muster_status status = muster_cluster_read(path, error_out, &cluster);
    if (status == MUSTER_OK) {
        status = muster_plan_of_cluster(cluster, &opts, error_out, plan_out);
        muster_cluster_free(cluster);
    }
    return status;
}

static muster_status write_used(const muster_config *config,
                                const muster_plan *plan,
                                muster_error *error_out)
{
    const char *path = muster_config_string(config, MUSTER_OPT_USED);
    if (path == NULL) {
        return MUSTER_OK;
    }
    FILE *file = fopen(path, "w");
    bool written = file != NULL && fputs(plan->used, file) != EOF;
    written = file != NULL && fclose(file) == 0 && written;
    return written ? MUSTER_OK
                   : muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                      "--used %s: %s", path, strerror(errno));
}

muster_status muster_show_plan(const muster_config *config,
                               muster_error *error_out, char **text_out)
{
    bool explain = muster_config_bool(config, MUSTER_OPT_EXPLAIN);
    muster_plan *plan = NULL;
    muster_status status = make_plan(config, error_out, &plan);
    if (status == MUSTER_OK) {
        status = write_used(config, plan, error_out);
    }
    if (status != MUSTER_OK) {
        muster_plan_free(plan);
        return status;
    }
    *text_out = muster_config_bool(config, MUSTER_OPT_JSON)
                    ? muster_plan_json(plan, explain)
                    : muster_plan_text(plan, explain);
    muster_plan_free(plan);
    return *text_out != NULL ? MUSTER_OK
                             : muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                                "no memory for the text");
}
