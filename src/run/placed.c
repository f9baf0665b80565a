/*
 * placed.c -- see placed.h.
 */
#include "run/placed.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/threads.h"
#include "code/numbers.h"
#include "data/owners.h"
#include "run/build.h"
#include "run/placement.h"

#define THREADS_MAX 16

/* Has each worker one part, which is its own? */
static bool is_one_each(const muster_code *code)
{
    const muster_code_info *info = muster_code_numbers(code);
    bool one = info->parts == info->workers;
    for (uint32_t worker = 0; one && worker < info->workers; worker++) {
        const uint32_t *parts = NULL;
        uint32_t count = 0;
        one = muster_code_parts(code, worker, &parts, &count) == MUSTER_OK &&
              count == 1 && parts[0] == worker;
    }
    return one;
}

/* As --threads says; else all processors here: no worker computes yet. */
static uint32_t threads_of(const muster_config *config)
{
    uint32_t here = muster_threads_here();
    if (muster_config_is_set(config, MUSTER_OPT_THREADS)) {
        return muster_config_threads(config);
    }
    return here < THREADS_MAX ? here : THREADS_MAX;
}

/* Where the sizes of the parts come from, for people. */
static const char *sizes_from(const muster_placing *placing, bool has_speeds)
{
    bool equal = placing->how.method == MUSTER_PARTITION_EQUAL_RANDOM ||
                 placing->how.method == MUSTER_PARTITION_EQUAL_STRATIFIED;
    if (muster_owners_is_file(placing->method)) {
        return " as the file says";
    }
    if (equal) {
        return has_speeds ? " of equal size, whatever --speeds says" : "";
    }
    return placing->speeds != NULL ? " sized by --speeds" : "";
}

static muster_status place(const muster_placing *placing,
                           const muster_config *config,
                           muster_executor *executor, uint32_t *owner_of,
                           muster_error *error_out)
{
    bool has_speeds = muster_config_is_set(config, MUSTER_OPT_SPEEDS);
    muster_status status = muster_placing_make(
        placing, muster_executor_data(executor), error_out, owner_of, NULL);
    if (status == MUSTER_OK) {
        status = muster_executor_place(executor, owner_of, placing->owners,
                                       error_out);
    }
    if (status == MUSTER_OK) {
        muster_log(MUSTER_LOG_INFO, "placement %s: %" PRIu32 " parts%s",
                   placing->method, placing->owners,
                   sizes_from(placing, has_speeds));
    }
    return status;
}

muster_status muster_placed_make(const muster_config *config,
                                 const muster_code *code,
                                 muster_executor *executor,
                                 muster_error *error_out)
{
    muster_placing placing = {
        .option = "--placement",
        .method = muster_config_string(config, MUSTER_OPT_PLACEMENT),
        .owners = muster_code_numbers(code)->parts,
        .owner = is_one_each(code) ? "worker" : "part",
        .seed = muster_config_uint(config, MUSTER_OPT_SEED),
        .threads = threads_of(config),
    };
    if (placing.method == NULL) {
        return MUSTER_OK;
    }
    muster_status status = muster_placing_read(&placing, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    bool measured = muster_config_speeds_measured(config);
    if (measured && !is_one_each(code)) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "--speeds measure: is for codes with one part "
                                "for each worker (uncoded, ignore)");
    }
    uint64_t samples = muster_executor_describe(executor).samples;
    if (measured) {
        placing.owners = muster_executor_describe(executor).shards;
        placing.owner = "shard";
    }
    if (measured && placing.owners > samples) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "--speeds measure: %" PRIu64 " samples are too "
                                "few for %" PRIu32 " shards; give fewer, such "
                                "as --shards %" PRIu32,
                                samples, placing.owners,
                                muster_code_numbers(code)->parts);
    }
    double *speeds = muster_mem_array(placing.owners, sizeof(*speeds));
    uint32_t *owner_of = muster_mem_array(samples, sizeof(*owner_of));
    if (speeds == NULL || owner_of == NULL) {
        status = muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                  "no memory for --placement");
    } else if (muster_config_is_set(config, MUSTER_OPT_SPEEDS) && !measured &&
               is_one_each(code)) {
        placing.speeds = speeds;
        status = muster_build_speeds(config, placing.owners, error_out, speeds);
    }
    if (status == MUSTER_OK) {
        status =
            muster_placing_read_features(&placing, config, samples, error_out);
    }
    if (status == MUSTER_OK) {
        status = place(&placing, config, executor, owner_of, error_out);
    }
    muster_mem_free(placing.features.dense);
    muster_mem_free(speeds);
    muster_mem_free(owner_of);
    return status;
}
