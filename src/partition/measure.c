/*
 * measure.c -- how good a partition is: coverage, drift, balance.
 *
 * Class by class. The rows of a class are gathered in the order of their
 * owners, so that the rows of a worker are neighbours and the nearest of them
 * to a client is the largest of a run of a tile. A task is a run of clients;
 * its sums are kept apart and added in order: no number of threads changes a
 * bit.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "muster/partition.h"
#include "partition/check.h"
#include "partition/classes.h"
#include "partition/features.h"
#include "partition/meter.h"
#include "partition/parallel.h"
#include "partition/shuffle.h"
#include "partition/tile.h"

/* The fields of the first release: no caller has fewer. */
#define MEASURES_MIN \
    (offsetof(muster_partition_measures, balance_worst) + sizeof(double))

typedef struct measure_run {
    const muster_partition_opts *opts;
    const uint32_t *owners;
    muster_sample_classes classes;
    muster_features features;
    muster_meter meter;
    uint32_t *totals; // workers: samples of all classes
    double *coverage; // workers: sums over the classes so far
    muster_partition_measures found;

    // The class under way.
    uint32_t number;
    uint32_t size;
    uint32_t clients;
    uint32_t *sorted;    // rows by owner
    uint32_t *starts;    // workers + 1 places in `sorted`
    uint32_t *sample;    // rows that are clients
    float *rows;         // size x columns
    float *client_rows;  // clients x columns; may be `rows`
    double *client_sums; // tasks x workers
} measure_run;

static uint32_t columns_of(const measure_run *run)
{
    return run->features.columns;
}

/* Rows of the class by owner, and where each owner begins. */
static void sort_by_owner(measure_run *run)
{
    uint32_t workers = run->opts->workers;
    const uint32_t *members =
        run->classes.members + run->classes.starts[run->number];
    memset(run->starts, 0, (workers + 1u) * sizeof(*run->starts));
    for (uint32_t i = 0; i < run->size; i++) {
        run->starts[run->owners[members[i]] + 1]++;
    }
    for (uint32_t j = 0; j < workers; j++) {
        run->starts[j + 1] += run->starts[j];
    }
    for (uint32_t i = 0; i < run->size; i++) {
        run->sorted[run->starts[run->owners[members[i]]]++] = members[i];
    }
    for (uint32_t j = workers; j > 0; j--) {
        run->starts[j] = run->starts[j - 1];
    }
    run->starts[0] = 0;
}

static float largest_in(const float *values, uint32_t count, float largest)
{
    for (uint32_t i = 0; i < count; i++) {
        largest = values[i] > largest ? values[i] : largest;
    }
    return largest;
}

/* Raise the best similarities by a tile: clients against rows first .. */
static void raise_best(const measure_run *run, const float *tile,
                       muster_tile_rows clients, uint32_t first, uint32_t count,
                       float *best)
{
    for (uint32_t j = 0; j < run->opts->workers; j++) {
        uint32_t begin = run->starts[j] > first ? run->starts[j] : first;
        uint32_t end = run->starts[j + 1] < first + count ? run->starts[j + 1]
                                                          : first + count;
        for (uint32_t u = 0; begin < end && u < clients.count; u++) {
            float *now = &best[(size_t)j * MUSTER_TILE + u];
            *now = largest_in(tile + (size_t)u * MUSTER_TILE + (begin - first),
                              end - begin, *now);
        }
    }
}

static muster_status measure_clients(void *context, uint32_t index)
{
    measure_run *run = context;
    uint32_t workers = run->opts->workers;
    float *tile = muster_mem_raw_aligned((size_t)MUSTER_TILE * MUSTER_TILE,
                                         sizeof(*tile));
    float *best =
        muster_mem_array((size_t)workers * MUSTER_TILE, sizeof(*best));
    if (tile == NULL || best == NULL) {
        muster_mem_free(tile);
        muster_mem_free(best);
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_tile_rows clients =
        muster_tile_run(run->client_rows, run->clients, columns_of(run), index);
    for (uint32_t k = 0; k < muster_tile_count(run->size); k++) {
        muster_tile_rows items =
            muster_tile_run(run->rows, run->size, columns_of(run), k);
        muster_tile_product(clients, items, tile, MUSTER_TILE);
        raise_best(run, tile, clients, k * MUSTER_TILE, items.count, best);
    }
    for (uint32_t j = 0; j < workers; j++) {
        double sum = 0.0;
        for (uint32_t u = 0; u < clients.count; u++) {
            sum += (double)best[(size_t)j * MUSTER_TILE + u];
        }
        run->client_sums[(size_t)index * workers + j] = sum;
    }
    muster_mem_free(tile);
    muster_mem_free(best);
    return muster_meter_add(&run->meter,
                            (double)clients.count * (double)run->size);
}

static muster_status measure_coverage(measure_run *run)
{
    uint32_t tasks = muster_tile_count(run->clients);
    uint32_t workers = run->opts->workers;
    run->client_sums =
        muster_mem_array((size_t)tasks * workers, sizeof(*run->client_sums));
    if (run->client_sums == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_status status =
        muster_parallel_run(run->opts->threads, tasks, measure_clients, run);
    double weight = (double)run->size / run->clients;
    for (uint32_t j = 0; status == MUSTER_OK && j < workers; j++) {
        double sum = 0.0;
        for (uint32_t task = 0; task < tasks; task++) {
            sum += run->client_sums[(size_t)task * workers + j];
        }
        run->coverage[j] += weight * sum;
    }
    muster_mem_free(run->client_sums);
    return status;
}

/* Adds rows begin .. end-1 to `sum`, which starts at zero. */
static void sum_rows(const measure_run *run, uint32_t begin, uint32_t end,
                     double *sum)
{
    uint32_t columns = columns_of(run);
    memset(sum, 0, columns * sizeof(*sum));
    for (uint32_t i = begin; i < end; i++) {
        const float *x = run->rows + (size_t)i * columns;
        for (uint32_t t = 0; t < columns; t++) {
            sum[t] += (double)x[t];
        }
    }
}

static void note_drift(measure_run *run, uint32_t worker, const double *sum,
                       const double *mean)
{
    double samples = run->starts[worker + 1] - run->starts[worker];
    double squares = 0.0;
    for (uint32_t t = 0; t < columns_of(run); t++) {
        double off = sum[t] / samples - mean[t];
        squares += off * off;
    }
    if (sqrt(squares) > run->found.drift_worst) {
        run->found.drift_worst = sqrt(squares);
        run->found.drift_worker = worker;
        run->found.drift_class = run->number;
    }
}

static muster_status measure_drift(measure_run *run)
{
    uint32_t columns = columns_of(run);
    double *mean = muster_mem_array(columns, sizeof(*mean));
    double *sum = muster_mem_array(columns, sizeof(*sum));
    if (mean == NULL || sum == NULL) {
        muster_mem_free(mean);
        muster_mem_free(sum);
        return MUSTER_ERR_NO_MEMORY;
    }
    sum_rows(run, 0, run->size, mean);
    for (uint32_t t = 0; t < columns; t++) {
        mean[t] /= run->size;
    }
    for (uint32_t j = 0; j < run->opts->workers; j++) {
        if (run->starts[j + 1] > run->starts[j]) {
            sum_rows(run, run->starts[j], run->starts[j + 1], sum);
            note_drift(run, j, sum, mean);
        }
    }
    muster_mem_free(mean);
    muster_mem_free(sum);
    return MUSTER_OK;
}

static void measure_balance(measure_run *run)
{
    double all = (double)run->size / run->classes.rows;
    for (uint32_t j = 0; j < run->opts->workers; j++) {
        double own = run->starts[j + 1] - run->starts[j];
        double off =
            run->totals[j] > 0 ? fabs(own / run->totals[j] - all) : 0.0;
        run->found.balance_worst = fmax(run->found.balance_worst, off);
    }
}

/* All rows, or as many as opts->sample by the seed. */
static muster_status gather_clients(measure_run *run)
{
    run->clients = run->size;
    run->client_rows = run->rows;
    if (run->size <= run->opts->sample) {
        return MUSTER_OK;
    }
    run->clients = run->opts->sample;
    run->client_rows = muster_mem_raw_aligned(
        (size_t)run->clients * columns_of(run), sizeof(float));
    run->sample = muster_mem_array(run->size, sizeof(*run->sample));
    if (run->client_rows == NULL || run->sample == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    memcpy(run->sample, run->classes.members + run->classes.starts[run->number],
           run->size * sizeof(*run->sample));
    muster_shuffle(
        run->sample, run->size,
        muster_rng_make(run->opts->seed, MUSTER_STREAM_MEASURE + run->number));
    return muster_features_gather(&run->features, run->sample, run->clients,
                                  run->client_rows);
}

static muster_status measure_class(measure_run *run, uint32_t number)
{
    run->number = number;
    run->size = muster_sample_classes_size(&run->classes, number);
    run->sample = NULL;
    run->client_rows = NULL;
    run->sorted = muster_mem_array(run->size, sizeof(*run->sorted));
    run->rows = muster_mem_raw_aligned((size_t)run->size * columns_of(run),
                                       sizeof(*run->rows));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (run->sorted != NULL && run->rows != NULL) {
        sort_by_owner(run);
        status = muster_features_gather(&run->features, run->sorted, run->size,
                                        run->rows);
    }
    if (status == MUSTER_OK) {
        status = gather_clients(run);
    }
    if (status == MUSTER_OK) {
        measure_balance(run);
        status = measure_drift(run);
    }
    if (status == MUSTER_OK) {
        status = measure_coverage(run);
    }
    if (run->client_rows != run->rows) {
        muster_mem_free(run->client_rows);
    }
    muster_mem_free(run->sample);
    muster_mem_free(run->sorted);
    muster_mem_free(run->rows);
    return status;
}

static void find_extremes(measure_run *run)
{
    uint32_t workers = run->opts->workers;
    double sum = 0.0;
    for (uint32_t j = 0; j < workers; j++) {
        run->coverage[j] /= run->classes.rows;
        sum += run->coverage[j];
        if (j == 0 || run->coverage[j] < run->found.coverage_min) {
            run->found.coverage_min = run->coverage[j];
            run->found.coverage_worker = j;
        }
    }
    run->found.coverage_mean = sum / workers;
}

static muster_status measure_classes(measure_run *run)
{
    run->meter.total = 0.0;
    for (uint32_t c = 0; c < run->classes.count; c++) {
        double size = muster_sample_classes_size(&run->classes, c);
        run->meter.total += size * fmin(size, run->opts->sample);
    }
    for (uint32_t r = 0; r < run->classes.rows; r++) {
        run->totals[run->owners[r]]++;
    }
    for (uint32_t c = 0; c < run->classes.count; c++) {
        muster_status status = measure_class(run, c);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    find_extremes(run);
    return MUSTER_OK;
}

static muster_status check_owners(const muster_partition_opts *opts,
                                  const uint32_t *owners,
                                  const muster_partition_measures *measures,
                                  muster_error *error_out)
{
    if (owners == NULL || measures == NULL ||
        !muster_sized_is_legal(measures, MEASURES_MIN)) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "owners or measures_out is NULL, or it has a "
                                "bad struct_size: start from "
                                "MUSTER_PARTITION_MEASURES_INIT");
    }
    for (uint32_t r = 0; r < opts->rows.count; r++) {
        if (owners[r] >= opts->workers) {
            return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                    "row %u: owner %u, but there are %u "
                                    "workers",
                                    r, owners[r], opts->workers);
        }
    }
    return MUSTER_OK;
}

static muster_status check_measure(const muster_partition_opts *opts,
                                   const uint32_t *owners,
                                   const muster_partition_measures *measures,
                                   muster_error *error_out)
{
    muster_partition_opts any_speed = *opts;
    any_speed.speeds = NULL;
    muster_status status =
        muster_partition_check_workers(&any_speed, error_out);
    return status == MUSTER_OK ? check_owners(opts, owners, measures, error_out)
                               : status;
}

static muster_status run_measure(measure_run *run, double *coverage_out,
                                 muster_partition_measures *measures_out)
{
    uint32_t workers = run->opts->workers;
    run->totals = muster_mem_array(workers, sizeof(*run->totals));
    run->coverage = muster_mem_array(workers, sizeof(*run->coverage));
    run->starts = muster_mem_array(workers + 1u, sizeof(*run->starts));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (run->totals != NULL && run->coverage != NULL && run->starts != NULL) {
        status = measure_classes(run);
    }
    if (status == MUSTER_OK) {
        muster_sized_fill(measures_out, &run->found, sizeof(run->found));
        for (uint32_t j = 0; coverage_out != NULL && j < workers; j++) {
            coverage_out[j] = run->coverage[j];
        }
    }
    muster_mem_free(run->totals);
    muster_mem_free(run->coverage);
    muster_mem_free(run->starts);
    return status;
}

muster_status muster_partition_measure(const muster_partition_opts *opts,
                                       const uint32_t *owners,
                                       muster_error *error_out,
                                       double *coverage_out,
                                       muster_partition_measures *measures_out)
{
    muster_partition_opts own;
    muster_status status = muster_partition_read(opts, error_out, &own);
    if (status == MUSTER_OK) {
        status = check_measure(&own, owners, measures_out, error_out);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    measure_run run = {.opts = &own, .owners = owners};
    run.found.struct_size = sizeof(run.found);
    status = muster_meter_init(&run.meter, &own);
    if (status != MUSTER_OK) {
        return muster_partition_explain(status, error_out);
    }
    status = muster_sample_classes_init(&run.classes, &own, error_out);
    if (status == MUSTER_OK) {
        status = muster_features_init(&run.features, &own, error_out);
        if (status == MUSTER_OK) {
            status = run_measure(&run, coverage_out, measures_out);
        }
        muster_features_fini(&run.features);
        muster_sample_classes_fini(&run.classes);
    }
    muster_meter_fini(&run.meter);
    return muster_partition_explain(status, error_out);
}
