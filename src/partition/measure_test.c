/*
 * measure_test.c -- coverage, drift and balance against a slow twin that
 * follows their definitions; the same bits for any number of threads.
 */
#include "partition/partition_test.h"

#define ROWS    530u
#define COLUMNS 9u
#define CLASSES 3u
#define WORKERS 5u

typedef struct measure_case {
    float *rows; // of unit length, so that the twin need not normalise
    float *labels;
    uint32_t owners[ROWS];
    muster_partition_opts opts;
} measure_case;

static void make_case(measure_case *c)
{
    c->rows = test_rows(ROWS, COLUMNS, 31, true);
    c->labels = test_labels(ROWS, CLASSES, 32);
    muster_rng rng = muster_rng_make(33, 0);
    for (uint32_t i = 0; i < ROWS; i++) {
        // The last worker gets nothing.
        c->owners[i] = (uint32_t)muster_rng_below(&rng, WORKERS - 1);
    }
    c->opts = (muster_partition_opts)MUSTER_PARTITION_OPTS_INIT;
    c->opts.workers = WORKERS;
    c->opts.label_kind = MUSTER_PARTITION_CLASSES;
    c->opts.rows = (muster_rows){.count = ROWS,
                                 .features = COLUMNS,
                                 .dense = c->rows,
                                 .stride = COLUMNS,
                                 .labels = c->labels};
}

static void end_case(measure_case *c)
{
    muster_mem_free(c->rows);
    muster_mem_free(c->labels);
}

static double slow_coverage(const measure_case *c, uint32_t worker)
{
    double sum = 0.0;
    for (uint32_t u = 0; u < ROWS; u++) {
        double best = 0.0;
        for (uint32_t a = 0; a < ROWS; a++) {
            if (c->owners[a] != worker || c->labels[a] != c->labels[u]) {
                continue;
            }
            double s = 0.0;
            for (uint32_t t = 0; t < COLUMNS; t++) {
                s += (double)c->rows[u * COLUMNS + t] *
                     (double)c->rows[a * COLUMNS + t];
            }
            best = fmax(best, s);
        }
        sum += best;
    }
    return sum / ROWS;
}

/* The mean of a class for one worker, or for all (WORKERS); its size. */
static uint32_t slow_mean(const measure_case *c, uint32_t class_number,
                          uint32_t worker, double *mean)
{
    uint32_t count = 0;
    memset(mean, 0, COLUMNS * sizeof(*mean));
    for (uint32_t i = 0; i < ROWS; i++) {
        if (c->labels[i] != (float)class_number ||
            (worker < WORKERS && c->owners[i] != worker)) {
            continue;
        }
        count++;
        for (uint32_t t = 0; t < COLUMNS; t++) {
            mean[t] += (double)c->rows[i * COLUMNS + t];
        }
    }
    for (uint32_t t = 0; count > 0 && t < COLUMNS; t++) {
        mean[t] /= count;
    }
    return count;
}

static void slow_drift_and_balance(const measure_case *c, double *drift_out,
                                   double *balance_out)
{
    *drift_out = 0.0;
    *balance_out = 0.0;
    for (uint32_t j = 0; j + 1 < WORKERS; j++) {
        uint32_t total = 0;
        for (uint32_t i = 0; i < ROWS; i++) {
            total += c->owners[i] == j;
        }
        for (uint32_t k = 0; k < CLASSES; k++) {
            double own[COLUMNS];
            double all[COLUMNS];
            double own_count = slow_mean(c, k, j, own);
            double all_count = slow_mean(c, k, WORKERS, all);
            double off = 0.0;
            for (uint32_t t = 0; t < COLUMNS; t++) {
                off += (own[t] - all[t]) * (own[t] - all[t]);
            }
            *drift_out = fmax(*drift_out, sqrt(off));
            *balance_out =
                fmax(*balance_out, fabs(own_count / total - all_count / ROWS));
        }
    }
}

static void measures_follow_their_definitions(void **state)
{
    (void)state;
    measure_case c;
    make_case(&c);
    muster_partition_measures m = MUSTER_PARTITION_MEASURES_INIT;
    double coverage[WORKERS];
    assert_int_equal(
        muster_partition_measure(&c.opts, c.owners, NULL, coverage, &m),
        MUSTER_OK);
    double lowest = INFINITY;
    double sum = 0.0;
    for (uint32_t j = 0; j < WORKERS; j++) {
        double slow = slow_coverage(&c, j);
        assert_true(fabs(coverage[j] - slow) < 1e-6);
        lowest = fmin(lowest, slow);
        sum += slow;
    }
    assert_true(fabs(m.coverage_min - lowest) < 1e-6);
    assert_int_equal(m.coverage_worker, WORKERS - 1);
    assert_true(fabs(m.coverage_mean - sum / WORKERS) < 1e-6);
    double drift;
    double balance;
    slow_drift_and_balance(&c, &drift, &balance);
    assert_true(fabs(m.drift_worst - drift) < 1e-6);
    assert_true(fabs(m.balance_worst - balance) < 1e-12);
    end_case(&c);
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    measure_case c;
    make_case(&c);
    c.opts.label_kind = MUSTER_PARTITION_UNLABELLED;
    double first[WORKERS];
    for (uint32_t threads = 1; threads <= 3; threads++) {
        muster_partition_measures m = MUSTER_PARTITION_MEASURES_INIT;
        double coverage[WORKERS];
        c.opts.threads = threads;
        assert_int_equal(
            muster_partition_measure(&c.opts, c.owners, NULL, coverage, &m),
            MUSTER_OK);
        if (threads == 1) {
            memcpy(first, coverage, sizeof(first));
        }
        assert_memory_equal(first, coverage, sizeof(first));
    }
    end_case(&c);
}

static void a_sample_of_clients_is_near_the_whole(void **state)
{
    (void)state;
    measure_case c;
    make_case(&c);
    muster_partition_measures whole = MUSTER_PARTITION_MEASURES_INIT;
    muster_partition_measures part = MUSTER_PARTITION_MEASURES_INIT;
    assert_int_equal(
        muster_partition_measure(&c.opts, c.owners, NULL, NULL, &whole),
        MUSTER_OK);
    c.opts.sample = 60;
    assert_int_equal(
        muster_partition_measure(&c.opts, c.owners, NULL, NULL, &part),
        MUSTER_OK);
    assert_true(fabs(whole.coverage_mean - part.coverage_mean) < 0.01);
    assert_true(whole.coverage_mean != part.coverage_mean);
    assert_true(whole.drift_worst == part.drift_worst);
    end_case(&c);
}

static void bad_owners_name_the_row(void **state)
{
    (void)state;
    measure_case c;
    muster_error error;
    make_case(&c);
    muster_partition_measures m = MUSTER_PARTITION_MEASURES_INIT;
    c.owners[77] = WORKERS;
    assert_int_equal(
        muster_partition_measure(&c.opts, c.owners, &error, NULL, &m),
        MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "row 77: owner 5"));
    c.owners[77] = 0;
    m.struct_size = 3;
    assert_int_equal(
        muster_partition_measure(&c.opts, c.owners, &error, NULL, &m),
        MUSTER_ERR_INVALID);
    end_case(&c);
}

static void every_failed_allocation_is_a_status(void **state)
{
    (void)state;
    measure_case c;
    make_case(&c);
    c.opts.sample = 60;
    muster_status status = MUSTER_ERR_NO_MEMORY;
    for (uint64_t allowed = 0; status != MUSTER_OK; allowed++) {
        assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
        muster_partition_measures m = MUSTER_PARTITION_MEASURES_INIT;
        muster_mem_fail_after(allowed);
        status = muster_partition_measure(&c.opts, c.owners, NULL, NULL, &m);
        muster_mem_fail_after(UINT64_MAX);
    }
    end_case(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measures_follow_their_definitions),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(a_sample_of_clients_is_near_the_whole),
        cmocka_unit_test(bad_owners_name_the_row),
        cmocka_unit_test(every_failed_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
