/*
 * submodular.c -- class by class: kernel, greedy choice, swaps.
 *
 * Classes do not depend on one another. They are worked on side by side, the
 * largest first, each by one thread from kernel to swaps; when there are fewer
 * classes than threads, the kernel of a class is built by several.
 *
 * Rows of a class with a sparse kernel are taken in random order: then the
 * first of them are a sample, and the many samples of equal gain (0) that the
 * choice ends with are dealt at random.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "partition/features.h"
#include "partition/greedy.h"
#include "partition/kernel.h"
#include "partition/methods.h"
#include "partition/parallel.h"
#include "partition/quota.h"
#include "partition/refine.h"
#include "partition/shuffle.h"

/* Estimates for the share done, from one core: nanoseconds. */
#define PRODUCT_NS  0.011 // a multiplication and an addition in BLAS
#define COMPARE_NS  0.8   // a similarity that is offered to a list
#define DENSE_NS    0.2   // an entry of a dense gain
#define SPARSE_NS   1.2   // an entry of a sparse gain
#define EVALUATIONS 50.0  // of an item

/* What one class adds to the report. */
typedef struct class_tally {
    bool sparse;
    double recall;
    uint64_t evaluations;
    uint64_t swaps_tried;
    uint64_t swaps_done;
} class_tally;

typedef struct submodular_run {
    const muster_partition_opts *opts;
    muster_sample_classes *classes;
    muster_meter *meter;
    muster_features features;
    uint32_t *quotas; // classes x workers
    uint64_t *order;  // keys of the classes, the largest first
    class_tally *tallies;
    uint32_t inner_threads;
    uint32_t *owners_out;
} submodular_run;

/* One class under way. */
typedef struct class_work {
    submodular_run *run;
    uint32_t number;
    uint32_t size;
    uint32_t *members;
    const uint32_t *quotas;
    float *rows;
    uint32_t *owners; // of the members, by place
    uint32_t *places;
    double *values;
    muster_facility facility;
    class_tally *tally;
} class_work;

static uint32_t clients_of(const muster_partition_opts *opts, uint32_t size)
{
    return size < opts->sample ? size : opts->sample;
}

static double kernel_ns(const submodular_run *run, uint32_t size)
{
    double d = run->features.columns;
    double n = size;
    if (!muster_method_is_sparse(run->opts, size)) {
        return n * n * (0.5 * d * PRODUCT_NS * 2.0 + 1.0);
    }
    double clients = clients_of(run->opts, size);
    double half = clients == n ? 0.5 : 1.0;
    return n * clients * (half * d * PRODUCT_NS * 2.0 + COMPARE_NS);
}

static double greedy_ns(const submodular_run *run, uint32_t size)
{
    double n = size;
    return muster_method_is_sparse(run->opts, size)
               ? EVALUATIONS * n * run->opts->neighbours * SPARSE_NS
               : EVALUATIONS * n * n * DENSE_NS;
}

static muster_status build_kernel(class_work *w)
{
    const muster_partition_opts *opts = w->run->opts;
    muster_kernel_input input = {
        .rows = w->rows,
        .count = w->size,
        .columns = w->run->features.columns,
        .clients = clients_of(opts, w->size),
        .neighbours = opts->neighbours,
        .threads = w->run->inner_threads,
        .meter = w->run->meter,
        .work_ns = kernel_ns(w->run, w->size),
    };
    w->tally->recall = 1.0;
    if (!w->tally->sparse) {
        return muster_kernel_dense(&input, &w->facility);
    }
    muster_status status = muster_kernel_sparse(&input, &w->facility);
    if (status == MUSTER_OK && input.clients < input.count) {
        status = muster_kernel_recall(&input, &w->facility, &w->tally->recall);
    }
    return status;
}

static muster_status choose_owners(class_work *w)
{
    muster_greedy_input input = {
        .facility = &w->facility,
        .blocks = w->run->opts->workers,
        .quotas = w->quotas,
        .turn = w->run->opts->turn,
        .meter = w->run->meter,
        .work_ns = greedy_ns(w->run, w->size),
    };
    muster_greedy_result result = {
        .owners = w->owners, .places = w->places, .values = w->values};
    int64_t start = muster_clock_thread_cpu_ns();
    muster_status status = muster_greedy_run(&input, &result);
    w->tally->evaluations = result.evaluations;
    muster_meter_cpu(w->run->meter, MUSTER_METER_GREEDY, start);
    return status;
}

static muster_status swap_samples(class_work *w)
{
    const muster_partition_opts *opts = w->run->opts;
    if (!(opts->drift > 0.0) || opts->swaps == 0) {
        return MUSTER_OK;
    }
    muster_refine_input input = {
        .rows = w->rows,
        .count = w->size,
        .columns = w->run->features.columns,
        .blocks = opts->workers,
        .quotas = w->quotas,
        .places = w->places,
        .share = opts->drift,
        .trials = (uint64_t)opts->swaps * w->size,
        .rng = muster_rng_make(opts->seed, MUSTER_STREAM_SWAPS + w->number),
    };
    int64_t start = muster_clock_thread_cpu_ns();
    muster_status status = muster_refine_run(
        &input, w->owners, &w->tally->swaps_tried, &w->tally->swaps_done);
    muster_meter_cpu(w->run->meter, MUSTER_METER_REFINE, start);
    return status;
}

static muster_status work_on(class_work *w)
{
    int64_t start = muster_clock_thread_cpu_ns();
    muster_status status =
        muster_features_gather(&w->run->features, w->members, w->size, w->rows);
    muster_meter_cpu(w->run->meter, MUSTER_METER_KERNEL, start);
    if (status == MUSTER_OK) {
        status = build_kernel(w);
    }
    if (status == MUSTER_OK) {
        status = choose_owners(w);
    }
    muster_facility_fini(&w->facility);
    if (status == MUSTER_OK) {
        status = swap_samples(w);
    }
    for (uint32_t i = 0; status == MUSTER_OK && i < w->size; i++) {
        w->run->owners_out[w->members[i]] = w->owners[i];
    }
    return status;
}

/* Task `index`: the class at that place of the order. */
static muster_status do_class(void *context, uint32_t index)
{
    submodular_run *run = context;
    const muster_partition_opts *opts = run->opts;
    uint32_t number = (uint32_t)run->order[index];
    class_work w = {
        .run = run,
        .number = number,
        .size = muster_sample_classes_size(run->classes, number),
        .members = run->classes->members + run->classes->starts[number],
        .quotas = run->quotas + (size_t)number * opts->workers,
        .tally = &run->tallies[number],
    };
    w.tally->sparse = muster_method_is_sparse(opts, w.size);
    if (w.tally->sparse) {
        muster_shuffle(
            w.members, w.size,
            muster_rng_make(opts->seed, MUSTER_STREAM_SAMPLE + number));
    }
    w.rows = muster_mem_raw_aligned((size_t)w.size * run->features.columns,
                                    sizeof(*w.rows));
    w.owners = muster_mem_array(w.size, sizeof(*w.owners));
    w.places = muster_mem_array(w.size, sizeof(*w.places));
    w.values = muster_mem_array(opts->workers, sizeof(*w.values));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (w.rows != NULL && w.owners != NULL && w.places != NULL &&
        w.values != NULL) {
        status = work_on(&w);
    }
    muster_mem_free(w.rows);
    muster_mem_free(w.owners);
    muster_mem_free(w.places);
    muster_mem_free(w.values);
    return status;
}

static int compare_keys(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The largest first, then by number: a class is the low half of its key. */
static void order_classes(submodular_run *run)
{
    for (uint32_t c = 0; c < run->classes->count; c++) {
        uint64_t smaller =
            UINT32_MAX - muster_sample_classes_size(run->classes, c);
        run->order[c] = smaller << 32 | c;
    }
    qsort(run->order, run->classes->count, sizeof(*run->order), compare_keys);
}

static void sum_tallies(const submodular_run *run,
                        muster_partition_report *report)
{
    double rows = 0.0;
    double held = 0.0;
    for (uint32_t c = 0; c < run->classes->count; c++) {
        const class_tally *tally = &run->tallies[c];
        double size = muster_sample_classes_size(run->classes, c);
        report->classes_sparse += tally->sparse;
        report->classes_dense += !tally->sparse;
        report->evaluations += tally->evaluations;
        report->swaps_tried += tally->swaps_tried;
        report->swaps_done += tally->swaps_done;
        rows += tally->sparse ? size : 0.0;
        held += tally->sparse ? size * tally->recall : 0.0;
    }
    report->features = run->features.columns;
    report->recall = rows > 0.0 ? held / rows : 1.0;
}

static muster_status do_classes(submodular_run *run)
{
    const muster_partition_opts *opts = run->opts;
    muster_quota_input shape = {opts->speeds, opts->workers,
                                run->classes->starts, run->classes->count};
    muster_status status = muster_quota_make(&shape, run->quotas);
    if (status != MUSTER_OK) {
        return status;
    }
    order_classes(run);
    run->meter->total = 0.0;
    for (uint32_t c = 0; c < run->classes->count; c++) {
        uint32_t size = muster_sample_classes_size(run->classes, c);
        run->meter->total += kernel_ns(run, size) + greedy_ns(run, size);
    }
    uint32_t threads = opts->threads > 0 ? opts->threads : 1;
    uint32_t outer =
        threads < run->classes->count ? threads : run->classes->count;
    MUSTER_ASSERT(outer > 0);
    run->inner_threads = threads / outer;
    return muster_parallel_run(outer, run->classes->count, do_class, run);
}

muster_status muster_method_submodular(const muster_partition_opts *opts,
                                       muster_sample_classes *classes,
                                       muster_meter *meter,
                                       muster_error *error_out,
                                       uint32_t *owners_out,
                                       muster_partition_report *report)
{
    submodular_run run = {.opts = opts,
                          .classes = classes,
                          .meter = meter,
                          .owners_out = owners_out};
    muster_status status = muster_features_init(&run.features, opts, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    size_t cells = (size_t)classes->count * opts->workers;
    run.quotas = muster_mem_array(cells, sizeof(*run.quotas));
    run.order = muster_mem_array(classes->count, sizeof(*run.order));
    run.tallies = muster_mem_array(classes->count, sizeof(*run.tallies));
    status = MUSTER_ERR_NO_MEMORY;
    if (run.quotas != NULL && run.order != NULL && run.tallies != NULL) {
        status = do_classes(&run);
    }
    if (status == MUSTER_OK) {
        sum_tallies(&run, report);
    }
    muster_features_fini(&run.features);
    muster_mem_free(run.quotas);
    muster_mem_free(run.order);
    muster_mem_free(run.tallies);
    return status;
}
