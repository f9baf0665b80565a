/*
 * real_test.c -- real data: the published value of facility location on mnist;
 * invariants and quality of partitions of mnist and a9a. Skipped, with a line
 * that says so, where the data is not (MUSTER_DATA, default ../shared/data).
 */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "data/dataset.h"
#include "partition/partition_test.h"
#include "partition/quota.h"

#define WORKERS 8u

static const double SPEEDS[WORKERS] = {1, 2, 3, 4, 1, 2, 3, 4};

/* The data set, or NULL after saying why the test is skipped. */
static muster_dataset *load(const char *name)
{
    char path[1024];
    const char *root = getenv("MUSTER_DATA");
    snprintf(path, sizeof(path), "%s/%s",
             root != NULL ? root : "../shared/data", name);
    if (access(path, R_OK) != 0) {
        const char *ci = getenv("CI");
        if (ci != NULL && strcmp(ci, "true") == 0) {
            fail_msg("%s is missing; set MUSTER_DATA", path);
        }
        print_message("skipped: no %s; set MUSTER_DATA to check real data\n",
                      path);
        return NULL;
    }
    muster_error error;
    muster_dataset *dataset = NULL;
    if (muster_dataset_load(path, NULL, &error, &dataset) != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    return dataset;
}

/* Cosines of rows without negative features. */
static float *cosines(muster_rows rows)
{
    size_t n = rows.count;
    size_t d = rows.features;
    float *unit = test_room(n * d, sizeof(*unit));
    float *kernel = test_room(n * n, sizeof(*kernel));
    for (size_t i = 0; i < n; i++) {
        const float *x = rows.dense + i * rows.stride;
        double squares = 0.0;
        for (size_t t = 0; t < d; t++) {
            squares += (double)x[t] * (double)x[t];
        }
        for (size_t t = 0; t < d; t++) {
            unit[i * d + t] = (float)((double)x[t] / sqrt(squares));
        }
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, (int)n, (int)d,
                1.0f, unit, (int)d, unit, (int)d, 0.0f, kernel, (int)n);
    muster_mem_free(unit);
    return kernel;
}

static void check_value(const float *kernel, uint32_t n, uint32_t budget,
                        double published)
{
    muster_partition_select_opts opts = MUSTER_PARTITION_SELECT_INIT;
    opts.budget = budget;
    opts.kernel = kernel;
    opts.kernel_count = n;
    opts.kernel_stride = n;
    opts.features.threads = 2;
    uint32_t *picks = test_room(budget, sizeof(*picks));
    double value = 0.0;
    assert_int_equal(muster_partition_select(&opts, NULL, picks, NULL, &value),
                     MUSTER_OK);
    print_message("%u of %u: %.4f, published %.4f\n", budget, n, value,
                  published);
    assert_true(fabs(value - published) <= 1e-6 * published);
    muster_mem_free(picks);
}

static void facility_location_has_the_published_value(void **state)
{
    (void)state;
    muster_dataset *mnist = load("mnist");
    if (mnist == NULL) {
        skip();
    }
    float *kernel = cosines(muster_dataset_rows(mnist, 0, 10000));
    check_value(kernel, 10000, 100, 7950.7716);
    check_value(kernel, 10000, 1000, 8646.5158);
    muster_mem_free(kernel);
    kernel = cosines(muster_dataset_rows(mnist, 0, 5000));
    check_value(kernel, 5000, 100, 3985.1426);
    muster_mem_free(kernel);
    muster_dataset_free(mnist);
}

static muster_partition_opts options(const muster_dataset *dataset,
                                     uint32_t count)
{
    muster_partition_opts opts = MUSTER_PARTITION_OPTS_INIT;
    opts.workers = WORKERS;
    opts.speeds = SPEEDS;
    opts.label_kind = MUSTER_PARTITION_CLASSES;
    opts.rows = muster_dataset_rows(dataset, 0, count);
    opts.threads = 2;
    return opts;
}

/* Counts by class and worker are the quotas. Labels are 0.. or -1, +1. */
static void check_counts(const muster_partition_opts *opts,
                         const uint32_t *owners)
{
    uint32_t counts[10 * WORKERS] = {0};
    uint32_t quotas[10 * WORKERS];
    uint32_t starts[11] = {0};
    for (uint32_t i = 0; i < opts->rows.count; i++) {
        float label = opts->rows.labels[i];
        uint32_t class_number = label > 0.0f ? (uint32_t)label : 0;
        assert_true(owners[i] < WORKERS);
        counts[class_number * WORKERS + owners[i]]++;
        starts[class_number + 1]++;
    }
    uint32_t classes = 0;
    for (; classes < 10 && starts[classes + 1] > 0; classes++) {
        starts[classes + 1] += starts[classes];
    }
    muster_quota_input shape = {SPEEDS, WORKERS, starts, classes};
    assert_int_equal(muster_quota_make(&shape, quotas), MUSTER_OK);
    assert_memory_equal(counts, quotas, classes * WORKERS * sizeof(counts[0]));
}

static muster_partition_measures place(muster_partition_opts *opts,
                                       uint32_t method, uint32_t kernel)
{
    uint32_t *owners = test_room(opts->rows.count, sizeof(*owners));
    muster_partition_measures m = MUSTER_PARTITION_MEASURES_INIT;
    muster_error error;
    opts->method = method;
    opts->kernel = kernel;
    if (muster_partition_make(opts, &error, owners, NULL) != MUSTER_OK ||
        muster_partition_measure(opts, owners, &error, NULL, &m) != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    check_counts(opts, owners);
    print_message("%s, kernel %u: coverage %.5f, drift %.5f\n",
                  muster_partition_method_name(method), kernel, m.coverage_min,
                  m.drift_worst);
    muster_mem_free(owners);
    return m;
}

static void compare_on(const char *name, uint32_t count)
{
    muster_dataset *dataset = load(name);
    if (dataset == NULL) {
        skip();
    }
    muster_partition_opts opts = options(dataset, count);
    muster_partition_measures random =
        place(&opts, MUSTER_PARTITION_PROPORTIONAL_STRATIFIED, 0);
    muster_partition_measures dense = place(&opts, MUSTER_PARTITION_SUBMODULAR,
                                            MUSTER_PARTITION_KERNEL_DENSE);
    muster_partition_measures sparse = place(&opts, MUSTER_PARTITION_SUBMODULAR,
                                             MUSTER_PARTITION_KERNEL_SPARSE);
    assert_true(dense.coverage_min > random.coverage_min);
    assert_true(sparse.coverage_min > random.coverage_min);
    assert_true(sparse.coverage_min > 0.99 * dense.coverage_min);
    assert_true(dense.drift_worst <= random.drift_worst);
    assert_true(sparse.drift_worst <= random.drift_worst);
    muster_dataset_free(dataset);
}

static void mnist_is_covered_better_than_at_random(void **state)
{
    (void)state;
    compare_on("mnist", 20000);
}

static void a9a_is_covered_better_than_at_random(void **state)
{
    (void)state;
    compare_on("a9a", 6000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facility_location_has_the_published_value),
        cmocka_unit_test(mnist_is_covered_better_than_at_random),
        cmocka_unit_test(a9a_is_covered_better_than_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
