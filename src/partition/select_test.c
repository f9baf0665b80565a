/*
 * select_test.c -- subset selection picks what naive greedy picks, from a
 * given kernel and from rows, for any number of threads; bad input is named.
 */
#include "partition/partition_test.h"

#define ROWS    90u
#define COLUMNS 6u
#define BUDGET  25u

typedef struct select_case {
    float *rows;
    float kernel[ROWS * ROWS];
    uint32_t picks[BUDGET];
    double gains[BUDGET];
    double value;
    muster_partition_select_opts opts;
} select_case;

static void make_case(select_case *c)
{
    memset(c, 0, sizeof(*c));
    c->rows = test_rows(ROWS, COLUMNS, 41, true);
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t u = 0; u < ROWS; u++) {
            double s = 0.0;
            for (uint32_t t = 0; t < COLUMNS; t++) {
                s += (double)c->rows[i * COLUMNS + t] *
                     (double)c->rows[u * COLUMNS + t];
            }
            c->kernel[i * ROWS + u] = (float)s;
        }
    }
    c->opts = (muster_partition_select_opts)MUSTER_PARTITION_SELECT_INIT;
    c->opts.budget = BUDGET;
    c->opts.kernel = c->kernel;
    c->opts.kernel_count = ROWS;
    c->opts.kernel_stride = ROWS;
}

static void use_rows(select_case *c)
{
    c->opts.kernel = NULL;
    c->opts.features.rows = (muster_rows){.count = ROWS,
                                          .features = COLUMNS,
                                          .dense = c->rows,
                                          .stride = COLUMNS};
}

static void choose(select_case *c)
{
    assert_int_equal(
        muster_partition_select(&c->opts, NULL, c->picks, c->gains, &c->value),
        MUSTER_OK);
}

static double naive_pick(const float *kernel, const double *best,
                         uint32_t *pick_out)
{
    double largest = -1.0;
    for (uint32_t i = 0; i < ROWS; i++) {
        double gain = 0.0;
        for (uint32_t u = 0; u < ROWS; u++) {
            gain += fmax(0.0, (double)kernel[i * ROWS + u] - best[u]);
        }
        if (gain > largest) {
            largest = gain;
            *pick_out = i;
        }
    }
    return largest;
}

static void check_naive(const select_case *c)
{
    double best[ROWS] = {0};
    double value = 0.0;
    for (uint32_t k = 0; k < BUDGET; k++) {
        uint32_t pick = ROWS;
        double gain = naive_pick(c->kernel, best, &pick);
        assert_int_equal(pick, c->picks[k]);
        assert_true(fabs(gain - c->gains[k]) < 1e-4);
        value += gain;
        for (uint32_t u = 0; u < ROWS; u++) {
            best[u] = fmax(best[u], (double)c->kernel[pick * ROWS + u]);
        }
    }
    assert_true(fabs(value - c->value) < 1e-4);
}

static void picks_are_those_of_naive_greedy(void **state)
{
    (void)state;
    select_case c;
    make_case(&c);
    choose(&c);
    check_naive(&c);
    muster_mem_free(c.rows);
}

/* Rounding of the cosines decides between picks of equal gain (two rows that
 * are nearest to each other): the gains must agree, not the picks. */
static void rows_give_the_gains_of_their_kernel(void **state)
{
    (void)state;
    select_case c;
    double gains[BUDGET];
    make_case(&c);
    choose(&c);
    memcpy(gains, c.gains, sizeof(gains));
    use_rows(&c);
    // A sparse kernel that holds everything is the dense one.
    c.opts.features.neighbours = ROWS;
    for (uint32_t kernel = MUSTER_PARTITION_KERNEL_DENSE;
         kernel <= MUSTER_PARTITION_KERNEL_SPARSE; kernel++) {
        c.opts.features.kernel = kernel;
        choose(&c);
        for (uint32_t k = 0; k < BUDGET; k++) {
            assert_true(fabs(gains[k] - c.gains[k]) < 1e-4);
        }
    }
    muster_mem_free(c.rows);
}

static void threads_change_no_pick(void **state)
{
    (void)state;
    select_case c;
    make_case(&c);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        c.opts.features.threads = threads;
        choose(&c);
        check_naive(&c);
    }
    muster_mem_free(c.rows);
}

static void the_whole_budget_takes_every_row(void **state)
{
    (void)state;
    select_case c;
    uint32_t picks[ROWS];
    uint32_t seen[ROWS] = {0};
    make_case(&c);
    c.opts.budget = ROWS;
    assert_int_equal(muster_partition_select(&c.opts, NULL, picks, NULL, NULL),
                     MUSTER_OK);
    for (uint32_t i = 0; i < ROWS; i++) {
        assert_int_equal(seen[picks[i]]++, 0);
    }
    muster_mem_free(c.rows);
}

static void refuse(select_case *c, const char *wanted)
{
    muster_error error = {MUSTER_OK, ""};
    assert_int_equal(
        muster_partition_select(&c->opts, &error, c->picks, NULL, NULL),
        MUSTER_ERR_INVALID);
    if (strstr(error.text, wanted) == NULL) {
        fail_msg("'%s' does not say '%s'", error.text, wanted);
    }
}

static void bad_input_is_named(void **state)
{
    (void)state;
    select_case c;
    make_case(&c);
    c.opts.budget = ROWS + 1;
    refuse(&c, "budget is 91");
    c.opts.budget = 0;
    refuse(&c, "budget is 0");
    c.opts.budget = 3;
    c.opts.kernel_stride = ROWS - 1;
    refuse(&c, "kernel_stride");
    c.opts.kernel_stride = ROWS;
    c.kernel[70 * ROWS + 3] = NAN;
    refuse(&c, "kernel row 70");
    c.opts.kernel = NULL;
    refuse(&c, "rows.count");
    c.opts.struct_size = 0;
    refuse(&c, "struct_size");
    muster_mem_free(c.rows);
}

static void every_failed_allocation_is_a_status(void **state)
{
    (void)state;
    select_case c;
    make_case(&c);
    for (int given = 0; given < 2; given++) {
        muster_status status = MUSTER_ERR_NO_MEMORY;
        for (uint64_t allowed = 0; status != MUSTER_OK; allowed++) {
            assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
            muster_mem_fail_after(allowed);
            status =
                muster_partition_select(&c.opts, NULL, c.picks, NULL, NULL);
            muster_mem_fail_after(UINT64_MAX);
        }
        use_rows(&c);
    }
    muster_mem_free(c.rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(picks_are_those_of_naive_greedy),
        cmocka_unit_test(rows_give_the_gains_of_their_kernel),
        cmocka_unit_test(threads_change_no_pick),
        cmocka_unit_test(the_whole_budget_takes_every_row),
        cmocka_unit_test(bad_input_is_named),
        cmocka_unit_test(every_failed_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
