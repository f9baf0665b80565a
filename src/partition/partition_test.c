/*
 * partition_test.c -- the public call: every method gives an exact partition
 * whose counts are the quotas; owners do not depend on threads; labels of all
 * kinds, CSR rows and projections; bad input is named; every allocation fails
 * in turn.
 */
#include "partition/partition_test.h"

#include <stdio.h>

#include "partition/quota.h"

#define ROWS    700u
#define COLUMNS 12u
#define CLASSES 4u
#define WORKERS 6u

static const double SPEEDS[WORKERS] = {1, 2, 3, 4, 1, 2};

typedef struct partition_case {
    float *rows;
    float *labels;
    muster_partition_opts opts;
    uint32_t owners[ROWS];
    muster_partition_report report;
} partition_case;

static void make_case(partition_case *c, uint32_t method)
{
    c->rows = test_rows(ROWS, COLUMNS, 21, false);
    c->labels = test_labels(ROWS, CLASSES, 22);
    c->opts = (muster_partition_opts)MUSTER_PARTITION_OPTS_INIT;
    c->opts.method = method;
    c->opts.workers = WORKERS;
    c->opts.speeds = SPEEDS;
    c->opts.label_kind = MUSTER_PARTITION_CLASSES;
    c->opts.rows = (muster_rows){.count = ROWS,
                                 .features = COLUMNS,
                                 .dense = c->rows,
                                 .stride = COLUMNS,
                                 .labels = c->labels};
    memset(c->owners, 0xee, sizeof(c->owners));
    c->report = (muster_partition_report)MUSTER_PARTITION_REPORT_INIT;
}

static void end_case(partition_case *c)
{
    muster_mem_free(c->rows);
    muster_mem_free(c->labels);
}

static void make_owners(partition_case *c)
{
    muster_error error = {MUSTER_OK, ""};
    muster_status status =
        muster_partition_make(&c->opts, &error, c->owners, &c->report);
    if (status != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
}

/* Counts of the owners beside the quotas of the shape. */
static void check_counts(const partition_case *c, const double *speeds,
                         bool stratified)
{
    uint32_t starts[CLASSES + 1] = {0};
    uint32_t counts[CLASSES * WORKERS] = {0};
    uint32_t quotas[CLASSES * WORKERS];
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t class_number = stratified ? (uint32_t)c->labels[i] : 0;
        assert_true(c->owners[i] < WORKERS);
        counts[class_number * WORKERS + c->owners[i]]++;
        starts[class_number + 1]++;
    }
    uint32_t classes = stratified ? CLASSES : 1;
    for (uint32_t k = 0; k < classes; k++) {
        starts[k + 1] += starts[k];
    }
    muster_quota_input shape = {speeds, WORKERS, starts, classes};
    assert_int_equal(muster_quota_make(&shape, quotas), MUSTER_OK);
    assert_memory_equal(counts, quotas, classes * WORKERS * sizeof(counts[0]));
}

static void counts_are_the_quotas_for_every_method(void **state)
{
    (void)state;
    for (uint32_t method = MUSTER_PARTITION_EQUAL_RANDOM;
         method <= MUSTER_PARTITION_CLASS_SORTED; method++) {
        partition_case c;
        make_case(&c, method);
        make_owners(&c);
        bool equal = method == MUSTER_PARTITION_EQUAL_RANDOM ||
                     method == MUSTER_PARTITION_EQUAL_STRATIFIED;
        bool stratified = method == MUSTER_PARTITION_EQUAL_STRATIFIED ||
                          method == MUSTER_PARTITION_PROPORTIONAL_STRATIFIED ||
                          method == MUSTER_PARTITION_SUBMODULAR;
        check_counts(&c, equal ? NULL : SPEEDS, stratified);
        assert_int_equal(c.report.classes, CLASSES);
        end_case(&c);
    }
}

static void sparse_and_round_robin_keep_the_quotas(void **state)
{
    (void)state;
    partition_case c;
    make_case(&c, MUSTER_PARTITION_SUBMODULAR);
    c.opts.kernel = MUSTER_PARTITION_KERNEL_SPARSE;
    c.opts.neighbours = 5;
    make_owners(&c);
    check_counts(&c, SPEEDS, true);
    assert_int_equal(c.report.classes_sparse, CLASSES);
    assert_true(c.report.recall == 1.0);
    c.opts.sample = 40;
    c.opts.turn = MUSTER_PARTITION_ROUND_ROBIN;
    make_owners(&c);
    check_counts(&c, SPEEDS, true);
    assert_true(c.report.recall > 0.0 && c.report.recall < 1.0);
    end_case(&c);
}

static void class_sorted_keeps_classes_together(void **state)
{
    (void)state;
    partition_case c;
    make_case(&c, MUSTER_PARTITION_CLASS_SORTED);
    make_owners(&c);
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t k = 0; k < ROWS; k++) {
            assert_true(c.owners[i] <= c.owners[k] ||
                        c.labels[i] >= c.labels[k]);
        }
    }
    end_case(&c);
}

/* Owners of a case for 1, 2 and 3 threads. */
static void check_threads(partition_case *c)
{
    uint32_t first[ROWS];
    for (uint32_t threads = 1; threads <= 3; threads++) {
        c->opts.threads = threads;
        make_owners(c);
        if (threads == 1) {
            memcpy(first, c->owners, sizeof(first));
        }
        assert_memory_equal(first, c->owners, sizeof(first));
    }
}

static void owners_do_not_depend_on_threads(void **state)
{
    (void)state;
    partition_case c;
    make_case(&c, MUSTER_PARTITION_SUBMODULAR);
    check_threads(&c);
    c.opts.kernel = MUSTER_PARTITION_KERNEL_SPARSE;
    c.opts.neighbours = 8;
    check_threads(&c);
    c.opts.label_kind = MUSTER_PARTITION_UNLABELLED;
    check_threads(&c);
    c.opts.sample = 300;
    check_threads(&c);
    c.opts.kernel = MUSTER_PARTITION_KERNEL_DENSE;
    c.opts.project = 9;
    check_threads(&c);
    end_case(&c);
}

static void seeds_draw_other_random_partitions(void **state)
{
    (void)state;
    partition_case c;
    make_case(&c, MUSTER_PARTITION_PROPORTIONAL_STRATIFIED);
    make_owners(&c);
    uint32_t first[ROWS];
    memcpy(first, c.owners, sizeof(first));
    make_owners(&c);
    assert_memory_equal(first, c.owners, sizeof(first));
    c.opts.seed = 2;
    make_owners(&c);
    assert_memory_not_equal(first, c.owners, sizeof(first));
    end_case(&c);
}

static muster_partition_measures measure(const partition_case *c)
{
    muster_partition_measures m = MUSTER_PARTITION_MEASURES_INIT;
    assert_int_equal(
        muster_partition_measure(&c->opts, c->owners, NULL, NULL, &m),
        MUSTER_OK);
    return m;
}

static void submodular_covers_more_and_drifts_less(void **state)
{
    (void)state;
    partition_case c;
    make_case(&c, MUSTER_PARTITION_PROPORTIONAL_STRATIFIED);
    make_owners(&c);
    muster_partition_measures random = measure(&c);
    c.opts.method = MUSTER_PARTITION_CLASS_SORTED;
    make_owners(&c);
    muster_partition_measures sorted = measure(&c);
    c.opts.method = MUSTER_PARTITION_SUBMODULAR;
    make_owners(&c);
    muster_partition_measures ours = measure(&c);
    assert_true(ours.coverage_min > random.coverage_min);
    assert_true(ours.drift_worst < random.drift_worst);
    assert_true(ours.balance_worst == random.balance_worst);
    assert_true(sorted.coverage_min < random.coverage_min);
    assert_true(sorted.balance_worst > 0.3);
    end_case(&c);
}

static void targets_are_dealt_by_quantiles(void **state)
{
    (void)state;
    partition_case c;
    make_case(&c, MUSTER_PARTITION_SUBMODULAR);
    for (uint32_t i = 0; i < ROWS; i++) {
        c.labels[i] = (float)((i * 211) % ROWS) * 0.5f;
    }
    c.opts.label_kind = MUSTER_PARTITION_TARGETS;
    c.opts.quantiles = CLASSES;
    make_owners(&c);
    for (uint32_t i = 0; i < ROWS; i++) {
        c.labels[i] = floorf(c.labels[i] * 2.0f * CLASSES / ROWS);
    }
    check_counts(&c, SPEEDS, true);
    end_case(&c);
}

typedef struct csr_rows {
    uint64_t offsets[ROWS + 1];
    uint32_t columns[ROWS * COLUMNS];
    float values[ROWS * COLUMNS];
} csr_rows;

/* The rows of a case as CSR, a third of the entries left out of both. */
static void make_csr(partition_case *c, csr_rows *csr, uint32_t spread)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        csr->offsets[i] = at;
        for (uint32_t t = 0; t < COLUMNS; t++) {
            if ((i + t) % 3 == 0) {
                c->rows[i * COLUMNS + t] = 0.0f;
                continue;
            }
            csr->columns[at] = t * spread;
            csr->values[at++] = c->rows[i * COLUMNS + t];
        }
    }
    csr->offsets[ROWS] = at;
}

static void use_csr(partition_case *c, csr_rows *csr, uint32_t features)
{
    c->opts.rows.dense = NULL;
    c->opts.rows.features = features;
    c->opts.rows.offsets = csr->offsets;
    c->opts.rows.columns = csr->columns;
    c->opts.rows.values = csr->values;
}

static void csr_rows_are_placed_as_dense_ones(void **state)
{
    (void)state;
    static csr_rows csr;
    partition_case c;
    uint32_t first[ROWS];
    make_case(&c, MUSTER_PARTITION_SUBMODULAR);
    make_csr(&c, &csr, 1);
    make_owners(&c);
    memcpy(first, c.owners, sizeof(first));
    use_csr(&c, &csr, COLUMNS);
    make_owners(&c);
    assert_memory_equal(first, c.owners, sizeof(first));
    assert_int_equal(c.report.features, COLUMNS);
    end_case(&c);
}

static void wide_csr_rows_are_projected(void **state)
{
    (void)state;
    static csr_rows csr;
    partition_case c;
    make_case(&c, MUSTER_PARTITION_SUBMODULAR);
    make_csr(&c, &csr, 1000);
    use_csr(&c, &csr, COLUMNS * 1000);
    make_owners(&c);
    check_counts(&c, SPEEDS, true);
    assert_int_equal(c.report.features, 256);
    muster_partition_measures projected = measure(&c);
    // The space is nearly the same as that of the dense rows.
    c.opts.rows.dense = c.rows;
    c.opts.rows.offsets = NULL;
    c.opts.rows.features = COLUMNS;
    muster_partition_measures exact = measure(&c);
    assert_true(fabs(projected.coverage_min - exact.coverage_min) < 0.02);
    end_case(&c);
}

static void huge_and_tiny_features_stay_finite(void **state)
{
    (void)state;
    partition_case c;
    make_case(&c, MUSTER_PARTITION_SUBMODULAR);
    for (uint32_t t = 0; t < COLUMNS; t++) {
        c.rows[t] *= 2e38f;
        c.rows[COLUMNS + t] *= 1e-42f;
        c.rows[2 * COLUMNS + t] = 0.0f;
    }
    make_owners(&c);
    check_counts(&c, SPEEDS, true);
    c.opts.project = 20;
    make_owners(&c);
    muster_partition_measures m = measure(&c);
    assert_true(isfinite(m.coverage_mean) && isfinite(m.drift_worst));
    end_case(&c);
}

static void a_small_class_is_reported_with_who_gets_none(void **state)
{
    (void)state;
    partition_case c;
    make_case(&c, MUSTER_PARTITION_SUBMODULAR);
    c.labels[5] = 9.0f;
    c.labels[6] = 9.0f;
    make_owners(&c);
    assert_int_equal(c.report.classes_small, 1);
    assert_int_equal(c.report.workers_empty, 0);
    assert_non_null(strstr(c.report.warning, "class 9 has 2 samples for 6 "
                                             "workers"));
    for (uint32_t j = 0; j < WORKERS; j++) {
        char name[16];
        snprintf(name, sizeof(name), " %u", j);
        bool has = c.owners[5] == j || c.owners[6] == j;
        const char *list = strstr(c.report.warning, "for worker ");
        assert_non_null(list);
        assert_true((strstr(list + 10, name) != NULL) == !has);
    }
    end_case(&c);
}

static void many_small_classes_still_fit_the_warning(void **state)
{
    (void)state;
    partition_case c;
    make_case(&c, MUSTER_PARTITION_PROPORTIONAL_STRATIFIED);
    for (uint32_t i = 0; i < ROWS; i++) {
        c.labels[i] = (float)(i / 2) * 1.2345678e30f;
    }
    c.opts.workers = 600;
    c.opts.speeds = NULL;
    make_owners(&c);
    assert_int_equal(c.report.classes_small, ROWS / 2);
    assert_non_null(strstr(c.report.warning, "in all 598"));
    end_case(&c);
}

static bool count_up(void *context, double share)
{
    double *last = context;
    assert_true(share >= *last && share <= 1.0);
    *last = share;
    return true;
}

static bool stop_at_half(void *context, double share)
{
    (void)context;
    return share < 0.5;
}

static void progress_goes_up_to_one(void **state)
{
    (void)state;
    partition_case c;
    make_case(&c, MUSTER_PARTITION_SUBMODULAR);
    c.opts.on_progress = count_up;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        double last = 0.0;
        c.opts.threads = threads;
        c.opts.progress_context = &last;
        make_owners(&c);
        assert_true(last == 1.0);
    }
    end_case(&c);
}

static void a_cancelled_call_writes_nothing(void **state)
{
    (void)state;
    partition_case c;
    muster_error error;
    make_case(&c, MUSTER_PARTITION_SUBMODULAR);
    c.opts.on_progress = stop_at_half;
    uint32_t before = c.owners[0];
    assert_int_equal(
        muster_partition_make(&c.opts, &error, c.owners, &c.report),
        MUSTER_ERR_CANCELLED);
    assert_int_equal(c.owners[0], before);
    assert_int_equal(error.status, MUSTER_ERR_CANCELLED);
    end_case(&c);
}

/* The call must be refused with a text that holds `wanted`. */
static void refuse(partition_case *c, const char *wanted)
{
    muster_error error = {MUSTER_OK, ""};
    assert_int_equal(
        muster_partition_make(&c->opts, &error, c->owners, &c->report),
        MUSTER_ERR_INVALID);
    if (strstr(error.text, wanted) == NULL) {
        fail_msg("'%s' does not say '%s'", error.text, wanted);
    }
}

static void bad_speeds_name_the_worker(void **state)
{
    (void)state;
    static const double bad[] = {0.0, -1.0, NAN, INFINITY};
    partition_case c;
    make_case(&c, MUSTER_PARTITION_PROPORTIONAL_RANDOM);
    double speeds[WORKERS];
    memcpy(speeds, SPEEDS, sizeof(speeds));
    c.opts.speeds = speeds;
    for (size_t i = 0; i < 4; i++) {
        speeds[3] = bad[i];
        refuse(&c, "worker 3: speed");
    }
    end_case(&c);
}

static void bad_features_name_the_row(void **state)
{
    (void)state;
    static csr_rows csr;
    partition_case c;
    make_case(&c, MUSTER_PARTITION_SUBMODULAR);
    make_csr(&c, &csr, 1);
    c.rows[17 * COLUMNS + 4] = NAN;
    refuse(&c, "row 17: feature 4");
    c.rows[17 * COLUMNS + 4] = INFINITY;
    refuse(&c, "row 17: feature 4");
    use_csr(&c, &csr, COLUMNS);
    csr.values[csr.offsets[9]] = NAN;
    refuse(&c, "row 9: feature");
    csr.values[csr.offsets[9]] = 1.0f;
    csr.columns[csr.offsets[9]] = COLUMNS;
    refuse(&c, "row 9: column 12");
    end_case(&c);
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    partition_case c;
    make_case(&c, MUSTER_PARTITION_SUBMODULAR);
    c.opts.rows.stride = COLUMNS - 1;
    refuse(&c, "stride");
    c.opts.rows.stride = COLUMNS;
    c.opts.workers = ROWS + 1;
    refuse(&c, "701 workers for 700 rows");
    c.opts.workers = 0;
    refuse(&c, "workers is 0");
    c.opts.workers = WORKERS;
    c.opts.rows.count = 0;
    refuse(&c, "rows.count");
    c.opts.rows.count = ROWS;
    c.opts.rows.dense = NULL;
    refuse(&c, "need features");
    c.opts.rows.dense = c.rows;
    c.opts.neighbours = 0;
    refuse(&c, "neighbours");
    c.opts.neighbours = 4;
    c.opts.drift = NAN;
    refuse(&c, "drift");
    c.opts.drift = 1.0;
    c.opts.method = 77;
    refuse(&c, "method 77");
    c.opts.method = MUSTER_PARTITION_NONE;
    refuse(&c, "method 0");
    c.opts.method = MUSTER_PARTITION_SUBMODULAR;
    c.opts.struct_size = 1;
    refuse(&c, "struct_size");
    end_case(&c);
}

/* A caller with a newer header: its struct is larger; what it sets there is
 * unknown here. */
static void newer_options_are_taken_unless_set(void **state)
{
    (void)state;
    struct {
        muster_partition_opts known;
        uint64_t unknown;
    } newer;
    partition_case c;
    make_case(&c, MUSTER_PARTITION_EQUAL_RANDOM);
    memset(&newer, 0, sizeof(newer));
    newer.known = c.opts;
    newer.known.struct_size = sizeof(newer);
    assert_int_equal(muster_partition_make(&newer.known, NULL, c.owners, NULL),
                     MUSTER_OK);
    newer.unknown = 1;
    assert_int_equal(muster_partition_make(&newer.known, NULL, c.owners, NULL),
                     MUSTER_ERR_INVALID);
    end_case(&c);
}

static void names_and_numbers_agree(void **state)
{
    (void)state;
    for (uint32_t method = 1; method <= 6; method++) {
        assert_int_equal(muster_partition_method_number(
                             muster_partition_method_name(method)),
                         method);
    }
    assert_null(muster_partition_method_name(0));
    assert_null(muster_partition_method_name(7));
    assert_int_equal(muster_partition_method_number("random"), 0);
    assert_int_equal(muster_partition_method_number(NULL), 0);
    assert_string_equal(muster_partition_method_name(4),
                        "proportional-stratified");
}

static void every_failed_allocation_is_a_status(void **state)
{
    (void)state;
    for (uint32_t kernel = 1; kernel <= 2; kernel++) {
        partition_case c;
        make_case(&c, MUSTER_PARTITION_SUBMODULAR);
        c.opts.kernel = kernel;
        c.opts.project = 6;
        c.opts.sample = 100;
        c.opts.rows.count = 300;
        muster_status status = MUSTER_ERR_NO_MEMORY;
        uint64_t allowed = 0;
        for (; status != MUSTER_OK; allowed++) {
            assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
            muster_mem_fail_after(allowed);
            status = muster_partition_make(&c.opts, NULL, c.owners, NULL);
            muster_mem_fail_after(UINT64_MAX);
        }
        assert_true(allowed > 20);
        end_case(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_the_quotas_for_every_method),
        cmocka_unit_test(sparse_and_round_robin_keep_the_quotas),
        cmocka_unit_test(class_sorted_keeps_classes_together),
        cmocka_unit_test(owners_do_not_depend_on_threads),
        cmocka_unit_test(seeds_draw_other_random_partitions),
        cmocka_unit_test(submodular_covers_more_and_drifts_less),
        cmocka_unit_test(targets_are_dealt_by_quantiles),
        cmocka_unit_test(csr_rows_are_placed_as_dense_ones),
        cmocka_unit_test(wide_csr_rows_are_projected),
        cmocka_unit_test(huge_and_tiny_features_stay_finite),
        cmocka_unit_test(a_small_class_is_reported_with_who_gets_none),
        cmocka_unit_test(many_small_classes_still_fit_the_warning),
        cmocka_unit_test(progress_goes_up_to_one),
        cmocka_unit_test(a_cancelled_call_writes_nothing),
        cmocka_unit_test(bad_speeds_name_the_worker),
        cmocka_unit_test(bad_features_name_the_row),
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
        cmocka_unit_test(newer_options_are_taken_unless_set),
        cmocka_unit_test(names_and_numbers_agree),
        cmocka_unit_test(every_failed_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
