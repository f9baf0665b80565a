/*
 * select.c -- muster_partition_select(): the greedy choice with one block.
 */
#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "muster/partition.h"
#include "partition/check.h"
#include "partition/features.h"
#include "partition/greedy.h"
#include "partition/kernel.h"
#include "partition/meter.h"
#include "partition/methods.h"
#include "partition/parallel.h"
#include "partition/shuffle.h"

/* The fields of the first release: no caller has fewer. */
#define SELECT_MIN                                      \
    (offsetof(muster_partition_select_opts, features) + \
     MUSTER_PARTITION_OPTS_MIN)

/* Rows of a given kernel that are one task. */
#define GAIN_ROWS 64u

/* Shares of the work, roughly. */
#define KERNEL_SHARE 0.7
#define GREEDY_SHARE 0.3

typedef struct select_run {
    const muster_partition_select_opts *opts;
    uint32_t count;
    muster_facility facility;
    muster_meter meter;
    uint32_t *members;   // row of an item; NULL: the same
    double *first_gains; // of a given kernel
    const float *zeros;  // `best` of an empty set
    uint32_t *bad;       // a task's first row that is not finite, or count
} select_run;

static muster_status gain_rows(void *context, uint32_t index)
{
    select_run *run = context;
    uint32_t begin = index * GAIN_ROWS;
    uint32_t end =
        run->count - begin < GAIN_ROWS ? run->count : begin + GAIN_ROWS;
    run->bad[index] = run->count;
    for (uint32_t i = begin; i < end; i++) {
        if (!muster_facility_row_is_finite(&run->facility, i)) {
            run->bad[index] = i;
            break;
        }
        run->first_gains[i] =
            muster_facility_gain(&run->facility, run->zeros, i);
    }
    return MUSTER_OK;
}

static muster_status refuse_row(const select_run *run, uint32_t tasks,
                                muster_error *error_out)
{
    for (uint32_t task = 0; task < tasks; task++) {
        if (run->bad[task] < run->count) {
            return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                    "kernel row %u: a similarity is not a "
                                    "finite number",
                                    run->bad[task]);
        }
    }
    return MUSTER_OK;
}

/* A given kernel is checked while it is read for the first gains. */
static muster_status take_kernel(select_run *run, muster_error *error_out)
{
    const muster_partition_select_opts *opts = run->opts;
    uint32_t tasks = run->count / GAIN_ROWS + (run->count % GAIN_ROWS != 0);
    run->facility = (muster_facility){.items = run->count,
                                      .clients = run->count,
                                      .dense = opts->kernel,
                                      .stride = opts->kernel_stride};
    float *zeros = muster_mem_array(run->count, sizeof(*zeros));
    run->zeros = zeros;
    run->first_gains = muster_mem_array(run->count, sizeof(*run->first_gains));
    run->bad = muster_mem_array(tasks, sizeof(*run->bad));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (zeros != NULL && run->first_gains != NULL && run->bad != NULL) {
        status =
            muster_parallel_run(opts->features.threads, tasks, gain_rows, run);
    }
    if (status == MUSTER_OK) {
        status = refuse_row(run, tasks, error_out);
    }
    muster_mem_free(zeros);
    muster_mem_free(run->bad);
    return status;
}

static muster_status list_rows(select_run *run, bool sparse)
{
    run->members = muster_mem_array(run->count, sizeof(*run->members));
    if (run->members == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < run->count; i++) {
        run->members[i] = i;
    }
    if (sparse) {
        muster_shuffle(
            run->members, run->count,
            muster_rng_make(run->opts->features.seed, MUSTER_STREAM_SAMPLE));
    }
    return MUSTER_OK;
}

static muster_status fill_kernel(select_run *run,
                                 const muster_features *features, bool sparse,
                                 float *rows)
{
    const muster_partition_opts *opts = &run->opts->features;
    muster_status status =
        muster_features_gather(features, run->members, run->count, rows);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_kernel_input input = {
        .rows = rows,
        .count = run->count,
        .columns = features->columns,
        .clients = run->count < opts->sample ? run->count : opts->sample,
        .neighbours = opts->neighbours,
        .threads = opts->threads,
        .meter = &run->meter,
        .work_ns = KERNEL_SHARE,
    };
    return sparse ? muster_kernel_sparse(&input, &run->facility)
                  : muster_kernel_dense(&input, &run->facility);
}

static muster_status make_kernel(select_run *run, muster_error *error_out)
{
    const muster_partition_opts *opts = &run->opts->features;
    bool sparse = muster_method_is_sparse(opts, run->count);
    muster_features features;
    muster_status status = muster_features_init(&features, opts, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    float *rows = muster_mem_raw_aligned((size_t)run->count * features.columns,
                                         sizeof(*rows));
    status = rows != NULL ? list_rows(run, sparse) : MUSTER_ERR_NO_MEMORY;
    if (status == MUSTER_OK) {
        status = fill_kernel(run, &features, sparse, rows);
    }
    muster_mem_free(rows);
    muster_features_fini(&features);
    return status;
}

/* Arrays of the choice; outputs are copied from them in the end. */
typedef struct select_arrays {
    uint32_t *owners;
    uint32_t *picks;
    double *gains;
    double value;
} select_arrays;

static muster_status choose_rows(select_run *run, select_arrays *arrays)
{
    muster_greedy_input input = {
        .facility = &run->facility,
        .blocks = 1,
        .quotas = &run->opts->budget,
        .first_gains = run->first_gains,
        .meter = &run->meter,
        .work_ns = GREEDY_SHARE,
    };
    muster_greedy_result result = {.owners = arrays->owners,
                                   .picks = arrays->picks,
                                   .gains = arrays->gains,
                                   .values = &arrays->value};
    return muster_greedy_run(&input, &result);
}

/* A sampled kernel stands for more clients than it has. */
static double client_weight(const select_run *run)
{
    return (double)run->count / run->facility.clients;
}

static muster_status choose_and_copy(select_run *run, uint32_t *picks_out,
                                     double *gains_out, double *value_out)
{
    uint32_t budget = run->opts->budget;
    select_arrays arrays = {0};
    arrays.owners = muster_mem_array(run->count, sizeof(*arrays.owners));
    arrays.picks = muster_mem_array(budget, sizeof(*arrays.picks));
    arrays.gains = muster_mem_array(budget, sizeof(*arrays.gains));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (arrays.owners != NULL && arrays.picks != NULL && arrays.gains != NULL) {
        status = choose_rows(run, &arrays);
    }
    if (status == MUSTER_OK) {
        status = muster_meter_add(&run->meter, 1.0);
    }
    double weight = client_weight(run);
    for (uint32_t i = 0; status == MUSTER_OK && i < budget; i++) {
        picks_out[i] = run->members != NULL ? run->members[arrays.picks[i]]
                                            : arrays.picks[i];
        if (gains_out != NULL) {
            gains_out[i] = weight * arrays.gains[i];
        }
    }
    if (status == MUSTER_OK && value_out != NULL) {
        *value_out = weight * arrays.value;
    }
    muster_mem_free(arrays.owners);
    muster_mem_free(arrays.picks);
    muster_mem_free(arrays.gains);
    return status;
}

/* The caller's options, and those inside, of any version. Options that a given
 * kernel leaves unread may be anything: they are checked as if there were a
 * row. */
static muster_status read_opts(const muster_partition_select_opts *theirs,
                               muster_error *error_out,
                               muster_partition_select_opts *own_out)
{
    *own_out = (muster_partition_select_opts)MUSTER_PARTITION_SELECT_INIT;
    if (theirs == NULL || !muster_sized_read(theirs, SELECT_MIN, own_out) ||
        own_out->features.struct_size < MUSTER_PARTITION_OPTS_MIN) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "muster_partition_select_opts: bad "
                                "struct_size or unknown options: start from "
                                "MUSTER_PARTITION_SELECT_INIT");
    }
    own_out->features.struct_size = sizeof(own_out->features);
    muster_partition_opts features = own_out->features;
    if (own_out->kernel != NULL) {
        features.rows.count = 1;
    }
    return muster_partition_check(&features, error_out);
}

static muster_status check_select(const muster_partition_select_opts *opts,
                                  const uint32_t *picks_out,
                                  muster_error *error_out)
{
    if (picks_out == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "picks_out is NULL");
    }
    bool given = opts->kernel != NULL;
    uint32_t count = given ? opts->kernel_count : opts->features.rows.count;
    if (given && opts->kernel_stride < count) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "kernel_stride is %zu, must be at least the "
                                "%u columns",
                                opts->kernel_stride, count);
    }
    if (opts->budget == 0 || opts->budget > count) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "budget is %u, must be in 1..%u (the rows)",
                                opts->budget, count);
    }
    return MUSTER_OK;
}

muster_status muster_partition_select(const muster_partition_select_opts *opts,
                                      muster_error *error_out,
                                      uint32_t *picks_out, double *gains_out,
                                      double *value_out)
{
    muster_partition_select_opts own;
    muster_status status = read_opts(opts, error_out, &own);
    if (status == MUSTER_OK) {
        status = check_select(&own, picks_out, error_out);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    select_run run = {.opts = &own};
    run.count = own.kernel != NULL ? own.kernel_count : own.features.rows.count;
    status = muster_meter_init(&run.meter, &own.features);
    if (status != MUSTER_OK) {
        return muster_partition_explain(status, error_out);
    }
    status = own.kernel != NULL ? take_kernel(&run, error_out)
                                : make_kernel(&run, error_out);
    if (status == MUSTER_OK) {
        status = choose_and_copy(&run, picks_out, gains_out, value_out);
    }
    muster_facility_fini(&run.facility);
    muster_mem_free(run.members);
    muster_mem_free(run.first_gains);
    muster_meter_fini(&run.meter);
    return muster_partition_explain(status, error_out);
}
