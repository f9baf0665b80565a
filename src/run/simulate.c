/*
 * simulate.c -- muster_simulate(): the same training in virtual time, for one
 * code or for several side by side (--code uncoded+frc:s=1..3), each with one
 * seed or with several, as JSON.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/file.h"
#include "muster/run.h"
#include "run/network.h"
#include "run/simulate_outcome.h"
#include "run/simulate_sweep.h"
#include "run/simulation.h"

/* What the verb has made so far. */
typedef struct work {
    const muster_config *config;
    muster_error *error;
    json_t *codes;
    json_t *left_out; // those that these workers cannot have
    FILE *csv;        // NULL without --csv
} work;

static muster_status no_memory(muster_error *error)
{
    return muster_error_set(error, MUSTER_ERR_NO_MEMORY, "no memory");
}

/* The options with another seed. */
static muster_status with_seed(const muster_config *config, uint64_t seed,
                               muster_error *error, muster_config **config_out)
{
    char *json = muster_config_to_json(config);
    if (json == NULL) {
        return no_memory(error);
    }
    muster_config *copy = NULL;
    char text[32];
    snprintf(text, sizeof(text), "%" PRIu64, seed);
    muster_status status = muster_config_from_json(json, error, &copy);
    muster_config_text_free(json);
    if (status == MUSTER_OK) {
        status = muster_config_set(copy, "seed", text, error);
    }
    if (status == MUSTER_OK) {
        status = muster_config_check(copy, error);
    }
    if (status != MUSTER_OK) {
        muster_config_free(copy);
        return status;
    }
    *config_out = copy;
    return MUSTER_OK;
}

/* How a run ended, where that is an error. */
static muster_status explain_end(const muster_virtual *run,
                                 const muster_config *config, const char *code,
                                 muster_error *error)
{
    char why[200] = "";
    if (run->status == MUSTER_ERR_QUORUM && run->steps_done == 0) {
        muster_network_explain(config, why, sizeof(why));
    }
    return muster_error_set(error, run->status, "%s: %s%s", code, run->reason,
                            why);
}

/* Run to the end and add what came of it; the first run makes the outcome. */
static muster_status run_to_end(muster_virtual *run,
                                const muster_config *config, const char *code,
                                muster_error *error, muster_outcome *outcome)
{
    muster_status status = muster_virtual_run(run, error);
    if (status == MUSTER_OK && outcome->parts_received == NULL) {
        status = muster_outcome_init(outcome, code, &run->info);
    }
    if (status == MUSTER_OK) {
        status = muster_outcome_add(outcome, run);
    }
    if (status == MUSTER_ERR_NO_MEMORY) {
        return no_memory(error);
    }
    return status == MUSTER_OK && run->status != MUSTER_OK
               ? explain_end(run, config, code, error)
               : status;
}

static muster_status simulate_seed(const muster_config *config,
                                   const char *code, muster_error *error,
                                   muster_outcome *outcome)
{
    muster_simulation simulation;
    muster_status status =
        muster_simulation_init(&simulation, config, code, error);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_virtual *run = muster_mem_array(1, sizeof(*run));
    if (run == NULL) {
        muster_simulation_fini(&simulation);
        return no_memory(error);
    }
    status = muster_virtual_init(run, &simulation.opts, error);
    if (status == MUSTER_OK) {
        status = run_to_end(run, config, code, error, outcome);
        status = muster_simulation_recorded(&simulation, config, status, error);
        muster_virtual_fini(run);
    }
    muster_mem_free(run);
    muster_simulation_fini(&simulation);
    return status;
}

/* That one of several runs ends for want of workers is a result like any
 * other. */
static bool is_result(muster_status status)
{
    return status >= 0 || status == MUSTER_ERR_QUORUM;
}

/* One code with --seeds seeds. MUSTER_ERR_QUORUM when a run ended so. */
static muster_status simulate_seeds(const work *at, const char *code,
                                    muster_outcome *outcome)
{
    uint64_t first = muster_config_uint(at->config, MUSTER_OPT_SEED);
    uint64_t count = muster_config_uint(at->config, MUSTER_OPT_SEEDS);
    muster_status worst = simulate_seed(at->config, code, at->error, outcome);
    for (uint64_t i = 1; i < count && is_result(worst); i++) {
        muster_config *other = NULL;
        muster_status status =
            with_seed(at->config, first + i, at->error, &other);
        if (status == MUSTER_OK) {
            status = simulate_seed(other, code, at->error, outcome);
            muster_config_free(other);
        }
        worst = status < 0 ? status : worst;
    }
    return worst;
}

static muster_status report(const work *at, const muster_outcome *outcome)
{
    muster_outcome_tell(outcome);
    json_t *object = muster_outcome_json(outcome);
    if (object == NULL || json_array_append_new(at->codes, object) != 0) {
        return no_memory(at->error);
    }
    if (at->csv != NULL && muster_outcome_csv(outcome, at->csv) < 0) {
        return muster_error_set(
            at->error, MUSTER_ERR_SYSTEM, "--csv %s: %s",
            muster_config_string(at->config, MUSTER_OPT_CSV), strerror(errno));
    }
    return MUSTER_OK;
}

static muster_status simulate_code(const work *at, const char *code)
{
    muster_outcome outcome = {.parts_received = NULL};
    muster_status status = simulate_seeds(at, code, &outcome);
    if (is_result(status) && outcome.runs.count > 0) {
        muster_status reported = report(at, &outcome);
        status = reported < 0 ? reported : status;
    }
    muster_outcome_fini(&outcome);
    return status;
}

/* A code that these workers cannot have, and why: at->error says it. */
static muster_status leave_out(const work *at, const char *code)
{
    muster_log(MUSTER_LOG_WARN, "%s is left out: %s", code, at->error->text);
    json_t *object =
        json_pack("{s:s, s:s}", "code", code, "why", at->error->text);
    return object != NULL && json_array_append_new(at->left_out, object) == 0
               ? MUSTER_OK
               : no_memory(at->error);
}

/* One of several codes. That it ends for want of workers is a result, and that
 * it is not possible with these workers leaves it out. */
static muster_status compare_code(const work *at, const char *code)
{
    muster_status status = simulate_code(at, code);
    if (status == MUSTER_ERR_UNSUPPORTED) {
        return leave_out(at, code);
    }
    if (status < 0 && is_result(status)) {
        muster_log(MUSTER_LOG_WARN, "%s", at->error->text);
        return MUSTER_OK;
    }
    return status;
}

static muster_status simulate_codes(const work *at, const muster_vec *names)
{
    char *const *codes = names->data;
    if (names->count == 1) {
        return simulate_code(at, codes[0]);
    }
    for (size_t i = 0; i < names->count; i++) {
        muster_status status = compare_code(at, codes[i]);
        if (status < 0) {
            return status;
        }
    }
    return json_array_size(at->left_out) < names->count
               ? MUSTER_OK
               : muster_error_set(at->error, MUSTER_ERR_UNSUPPORTED,
                                  "--code: none of these codes is possible "
                                  "with %" PRIu32 " workers",
                                  muster_config_workers(at->config));
}

/* Virtual time has no processors that workers share: say so once. */
static muster_status check_cluster(const work *at)
{
    const char *path = muster_config_string(at->config, MUSTER_OPT_CLUSTER);
    muster_cluster *cluster = NULL;
    muster_status status = path != NULL
                               ? muster_cluster_read(path, at->error, &cluster)
                               : MUSTER_OK;
    if (cluster != NULL && cluster->processors > 0) {
        muster_log(MUSTER_LOG_WARN,
                   "%s: processors: %" PRIu32 " is not simulated: every worker "
                   "has its own; `muster plan` counts shared ones",
                   path, cluster->processors);
    }
    muster_cluster_free(cluster);
    return status;
}

static muster_status open_csv(work *at)
{
    const char *path = muster_config_string(at->config, MUSTER_OPT_CSV);
    if (path == NULL) {
        return MUSTER_OK;
    }
    at->csv = fopen(path, "w");
    if (at->csv == NULL || muster_outcome_csv_head(at->csv) < 0) {
        return muster_error_set(at->error, MUSTER_ERR_SYSTEM, "--csv %s: %s",
                                path, strerror(errno));
    }
    return MUSTER_OK;
}

static muster_status close_csv(work *at, muster_status status)
{
    if (at->csv != NULL && fclose(at->csv) != 0 && status >= 0) {
        status = muster_error_set(
            at->error, MUSTER_ERR_SYSTEM, "--csv %s: %s",
            muster_config_string(at->config, MUSTER_OPT_CSV), strerror(errno));
    }
    at->csv = NULL;
    return status;
}

static json_t *integer(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static char *to_text(const work *at)
{
    json_t *object = json_pack(
        "{s:o, s:o, s:o, s:O, s:O}", "workers",
        integer(muster_config_workers(at->config)), "seed",
        integer(muster_config_uint(at->config, MUSTER_OPT_SEED)), "seeds",
        integer(muster_config_uint(at->config, MUSTER_OPT_SEEDS)), "codes",
        at->codes, "left_out", at->left_out);
    char *dumped =
        object != NULL
            ? json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(12))
            : NULL;
    char *text = dumped != NULL ? muster_mem_string(dumped) : NULL;
    free(dumped); // heap: jansson's
    json_decref(object);
    return text;
}

muster_status muster_simulate(const muster_config *config,
                              muster_error *error_out, char **json_out)
{
    *json_out = NULL;
    muster_error scratch;
    work at = {.config = config,
               .error = error_out != NULL ? error_out : &scratch,
               .codes = json_array(),
               .left_out = json_array()};
    if (at.codes == NULL || at.left_out == NULL) {
        json_decref(at.codes);
        json_decref(at.left_out);
        return no_memory(at.error);
    }
    muster_vec names = {0};
    muster_status status = muster_sweep_init(
        muster_config_string(config, MUSTER_OPT_CODE), at.error, &names);
    if (status == MUSTER_OK) {
        status = check_cluster(&at);
    }
    if (status == MUSTER_OK) {
        status = open_csv(&at);
    }
    if (status == MUSTER_OK) {
        status = simulate_codes(&at, &names);
    }
    status = close_csv(&at, status);
    if (json_array_size(at.codes) > 0) {
        *json_out = to_text(&at);
        if (*json_out == NULL) {
            status = muster_error_set(at.error, MUSTER_ERR_NO_MEMORY,
                                      "no memory for the result");
        }
    }
    muster_sweep_fini(&names);
    json_decref(at.codes);
    json_decref(at.left_out);
    return status;
}
