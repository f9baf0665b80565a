/*
 * simulate.c -- muster_simulate(): the same training in virtual time, for one
 * code or for several side by side (--code uncoded+frc:s=1), as JSON.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "muster/run.h"
#include "record/json.h"
#include "run/simulation.h"

static json_t *integer(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *describe(const muster_virtual *run)
{
    const muster_code_info *info = &run->info;
    double exact_share =
        run->steps_done > 0 ? (double)run->steps_exact / (double)run->steps_done
                            : NAN;
    json_t *object = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:{s:o, s:o}, s:o}", "name",
        info->name, "n", integer(info->workers), "k", integer(info->parts), "s",
        integer(info->stragglers), "m", integer(info->comm), "d",
        integer(info->load), "status", muster_status_name(run->status), "steps",
        integer(run->steps_done), "step_ms", "p50",
        muster_json_real(muster_histogram_quantile(&run->step_ms, 0.5)), "mean",
        muster_json_real(muster_histogram_mean(&run->step_ms)), "exact_share",
        muster_json_real(exact_share));
    json_t *more = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "bytes", integer(run->bytes_up + run->bytes_down), "bytes_up",
        integer(run->bytes_up), "bytes_down", integer(run->bytes_down),
        "bytes_moved", integer(run->bytes_moved), "messages_up",
        integer(run->messages_up), "late", integer(run->late), "losses",
        integer(run->losses), "grad_err_max",
        muster_json_real(run->grad_err_max), "grad_err_mean",
        muster_json_real(run->grad_err_sum / (double)run->steps_done),
        "degraded", integer(run->degraded), "plans", integer(run->plans),
        "virtual_s", muster_json_real((double)muster_sim_now(run->sim) * 1e-9),
        "history",
        json_sprintf("%016llx", (unsigned long long)muster_sim_hash(run->sim)));
    if (object == NULL || more == NULL || json_object_update(object, more)) {
        json_decref(object);
        object = NULL;
    }
    json_decref(more);
    return object;
}

/* In how many steps each part was in the sum. */
static int describe_parts(const muster_virtual *run, json_t *object)
{
    json_t *list = json_array();
    int failed = list == NULL;
    for (uint32_t part = 0; failed == 0 && part < run->info.parts; part++) {
        failed =
            json_array_append_new(list, integer(run->parts_received[part]));
    }
    return json_object_set_new(object, "parts_received", list) | failed;
}

/* What only real data can tell. */
static int describe_result(const muster_virtual *run, json_t *object)
{
    if (!isfinite(run->loss)) {
        return 0;
    }
    int failed =
        json_object_set_new(object, "loss", muster_json_real(run->loss));
    failed |= json_object_set_new(object, "theta_norm",
                                  muster_json_real(run->theta_norm));
    if (isfinite(run->test_loss)) {
        failed |= json_object_set_new(object, "test",
                                      muster_json_test(run->test_loss,
                                                       run->test_accuracy,
                                                       run->test_auc));
    }
    return failed;
}

static void tell(const muster_virtual *run)
{
    muster_log(MUSTER_LOG_INFO,
               "%s (s = %u, m = %u): %llu steps, median %.2f ms, mean %.2f ms, "
               "%llu exact, %.1f MB",
               run->info.name, run->info.stragglers, run->info.comm,
               (unsigned long long)run->steps_done,
               muster_histogram_quantile(&run->step_ms, 0.5),
               muster_histogram_mean(&run->step_ms),
               (unsigned long long)run->steps_exact,
               (double)(run->bytes_up + run->bytes_down) * 1e-6);
}

/* Run one code to its end and append what came of it. */
static muster_status run_code(muster_virtual *run, const char *code,
                              muster_error *error, json_t *codes)
{
    muster_status status = muster_virtual_run(run, error);
    if (status != MUSTER_OK) {
        return status;
    }
    tell(run);
    json_t *object = describe(run);
    if (object == NULL || describe_parts(run, object) != 0 ||
        describe_result(run, object) != 0 ||
        json_array_append_new(codes, object) != 0) {
        return muster_error_set(error, MUSTER_ERR_NO_MEMORY, "no memory");
    }
    return run->status == MUSTER_OK
               ? MUSTER_OK
               : muster_error_set(error, run->status, "%s: %s", code,
                                  run->reason);
}

static muster_status simulate_code(const muster_config *config,
                                   const char *code, muster_error *error,
                                   json_t *codes)
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
        return muster_error_set(error, MUSTER_ERR_NO_MEMORY, "no memory");
    }
    status = muster_virtual_init(run, &simulation.opts, error);
    if (status == MUSTER_OK) {
        status = run_code(run, code, error, codes);
        status = muster_simulation_recorded(&simulation, config, status, error);
        muster_virtual_fini(run);
    }
    muster_mem_free(run);
    muster_simulation_fini(&simulation);
    return status;
}

/* Each code of "a+b+c" in turn. In a comparison, that one of them ends for want
 * of workers is a result like any other; alone, it is how the verb ends. */
static muster_status simulate_codes(const muster_config *config,
                                    const char *names, muster_error *error,
                                    json_t *codes)
{
    muster_status worst = MUSTER_OK;
    while (*names != 0) {
        size_t length = strcspn(names, "+");
        char *name = muster_mem_string_n(names, length);
        if (name == NULL) {
            return muster_error_set(error, MUSTER_ERR_NO_MEMORY, "no memory");
        }
        muster_status status = simulate_code(config, name, error, codes);
        muster_mem_free(name);
        if (status < 0 && status != MUSTER_ERR_QUORUM) {
            return status;
        }
        if (status < 0) {
            muster_log(MUSTER_LOG_WARN, "%s", error->text);
            worst = status;
        }
        names += length + (names[length] == '+');
    }
    return json_array_size(codes) > 1 ? MUSTER_OK : worst;
}

static char *to_text(const muster_config *config, json_t *codes)
{
    json_t *object = json_pack(
        "{s:o, s:o, s:O}", "workers", integer(muster_config_workers(config)),
        "seed", integer(muster_config_uint(config, MUSTER_OPT_SEED)), "codes",
        codes);
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
    error_out = error_out != NULL ? error_out : &scratch;
    json_t *codes = json_array();
    if (codes == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY, "no memory");
    }
    const char *names = muster_config_string(config, MUSTER_OPT_CODE);
    muster_status status = simulate_codes(config, names, error_out, codes);
    if (json_array_size(codes) > 0) {
        *json_out = to_text(config, codes);
        if (*json_out == NULL) {
            status = muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                      "no memory for the result");
        }
    }
    json_decref(codes);
    return status;
}
