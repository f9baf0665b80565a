/*
 * kernel_test.c -- kernels against a slow twin that computes every inner
 * product and sorts; for 1, 2 and 3 threads of ours, and one and two of BLAS.
 */
#include "partition/kernel.h"

#include <cblas.h>
#include <stdlib.h>

#include "partition/nearest.h"
#include "partition/partition_test.h"

typedef struct kernel_case {
    float *rows;
    muster_meter meter;
    muster_kernel_input input;
} kernel_case;

static void make_case(kernel_case *c, uint32_t count, uint32_t columns)
{
    memset(c, 0, sizeof(*c));
    test_meter(&c->meter);
    c->rows = test_rows(count, columns, 5, true);
    // Equal rows give equal similarities; a row of zeros has none.
    memcpy(c->rows + columns, c->rows, columns * sizeof(float));
    memset(c->rows + 2 * columns, 0, columns * sizeof(float));
    c->input = (muster_kernel_input){.rows = c->rows,
                                     .count = count,
                                     .columns = columns,
                                     .clients = count,
                                     .neighbours = 7,
                                     .threads = 1,
                                     .meter = &c->meter};
}

static void end_case(kernel_case *c)
{
    muster_mem_free(c->rows);
    muster_meter_fini(&c->meter);
}

static double inner(const kernel_case *c, uint32_t i, uint32_t u)
{
    double sum = 0.0;
    for (uint32_t t = 0; t < c->input.columns; t++) {
        sum += (double)c->rows[i * c->input.columns + t] *
               (double)c->rows[u * c->input.columns + t];
    }
    return sum > 0.0 ? sum : 0.0;
}

static void dense_kernels_hold_every_cosine(void **state)
{
    (void)state;
    kernel_case c;
    muster_facility f;
    make_case(&c, 300, 20);
    assert_int_equal(muster_kernel_dense(&c.input, &f), MUSTER_OK);
    for (uint32_t i = 0; i < 300; i++) {
        for (uint32_t u = 0; u < 300; u++) {
            float s = f.dense[i * f.stride + u];
            assert_true(fabs((double)s - inner(&c, i, u)) < 1e-5);
            assert_true(s == f.dense[u * f.stride + i]);
        }
    }
    muster_facility_fini(&f);
    end_case(&c);
}

static int compare_entries(const void *left, const void *right)
{
    const muster_nearest_entry *a = left;
    const muster_nearest_entry *b = right;
    if (a->similarity != b->similarity) {
        return a->similarity > b->similarity ? -1 : 1;
    }
    return (a->item > b->item) - (a->item < b->item);
}

static float entry_of(const muster_facility *f, uint32_t item, uint32_t client)
{
    for (uint64_t e = f->offsets[item]; e < f->offsets[item + 1]; e++) {
        if (f->columns[e] == client) {
            return f->values[e];
        }
    }
    return 0.0f;
}

/* Each client has its `keep` nearest items, and no others. Similarities are
 * taken from the dense kernel: the same products, so the same bits. */
static void check_lists(const kernel_case *c, const muster_facility *sparse,
                        uint32_t keep)
{
    muster_facility dense;
    assert_int_equal(muster_kernel_dense(&c->input, &dense), MUSTER_OK);
    muster_nearest_entry *all = test_room(c->input.count, sizeof(*all));
    for (uint32_t u = 0; u < c->input.clients; u++) {
        for (uint32_t i = 0; i < c->input.count; i++) {
            all[i] =
                (muster_nearest_entry){dense.dense[i * dense.stride + u], i};
        }
        qsort(all, c->input.count, sizeof(*all), compare_entries);
        for (uint32_t i = 0; i < c->input.count; i++) {
            float held = entry_of(sparse, all[i].item, u);
            float wanted = i < keep ? all[i].similarity : 0.0f;
            assert_true(fabsf(held - wanted) < 1e-5f ||
                        fabsf(all[i].similarity - all[keep - 1].similarity) <
                            1e-5f);
        }
    }
    muster_mem_free(all);
    muster_facility_fini(&dense);
}

static void sparse_kernels_hold_the_nearest(void **state)
{
    (void)state;
    kernel_case c;
    muster_facility f;
    make_case(&c, 600, 12);
    assert_int_equal(muster_kernel_sparse(&c.input, &f), MUSTER_OK);
    check_lists(&c, &f, 7);
    double recall = 0.0;
    assert_int_equal(muster_kernel_recall(&c.input, &f, &recall), MUSTER_OK);
    assert_true(recall > 0.999);
    muster_facility_fini(&f);
    end_case(&c);
}

static void sampled_kernels_hold_more_items_a_client(void **state)
{
    (void)state;
    kernel_case c;
    muster_facility f;
    make_case(&c, 600, 12);
    c.input.clients = 100;
    assert_int_equal(muster_kernel_sparse(&c.input, &f), MUSTER_OK);
    assert_int_equal(f.clients, 100);
    check_lists(&c, &f, 42);
    double recall = 0.0;
    assert_int_equal(muster_kernel_recall(&c.input, &f, &recall), MUSTER_OK);
    assert_true(recall > 0.1 && recall < 0.9);
    muster_facility_fini(&f);
    end_case(&c);
}

/* The nearest row of each is itself, which 500 of 600 rows do not have in the
 * sample: that is no recall of 1. */
static void a_lone_neighbour_outside_the_sample_is_not_held(void **state)
{
    (void)state;
    kernel_case c;
    muster_facility f;
    make_case(&c, 600, 12);
    c.input.clients = 100;
    c.input.neighbours = 1;
    assert_int_equal(muster_kernel_sparse(&c.input, &f), MUSTER_OK);
    double recall = 1.0;
    assert_int_equal(muster_kernel_recall(&c.input, &f, &recall), MUSTER_OK);
    assert_true(recall > 0.1 && recall < 0.25);
    muster_facility_fini(&f);
    end_case(&c);
}

static void check_same(const muster_facility *a, const muster_facility *b)
{
    if (a->dense != NULL) {
        for (uint32_t i = 0; i < a->items; i++) {
            assert_memory_equal(a->dense + i * a->stride,
                                b->dense + i * b->stride,
                                a->clients * sizeof(float));
        }
        return;
    }
    uint64_t entries = a->offsets[a->items];
    assert_memory_equal(a->offsets, b->offsets,
                        (a->items + 1) * sizeof(uint64_t));
    assert_memory_equal(a->columns, b->columns, entries * sizeof(uint32_t));
    assert_memory_equal(a->values, b->values, entries * sizeof(float));
}

static void build(const kernel_case *c, bool dense, muster_facility *facility)
{
    muster_status status = dense ? muster_kernel_dense(&c->input, facility)
                                 : muster_kernel_sparse(&c->input, facility);
    assert_int_equal(status, MUSTER_OK);
}

/* Threads of BLAS may change the last bits of a product, ours none. */
static void check_threads(uint32_t clients, bool dense, int blas)
{
    kernel_case c;
    muster_facility first;
    make_case(&c, 900, 50);
    c.input.clients = clients;
    openblas_set_num_threads(blas);
    build(&c, dense, &first);
    for (c.input.threads = 2; c.input.threads <= 3; c.input.threads++) {
        muster_facility f;
        build(&c, dense, &f);
        check_same(&first, &f);
        muster_facility_fini(&f);
    }
    openblas_set_num_threads(1);
    muster_facility_fini(&first);
    end_case(&c);
}

static void no_number_of_threads_changes_a_bit(void **state)
{
    (void)state;
    for (int blas = 1; blas <= 2; blas++) {
        check_threads(900, true, blas);
        check_threads(900, false, blas);
        check_threads(300, false, blas);
    }
}

static void every_failed_allocation_is_a_status(void **state)
{
    (void)state;
    kernel_case c;
    make_case(&c, 300, 8);
    for (int kind = 0; kind < 3; kind++) {
        c.input.clients = kind == 2 ? 100 : 300;
        muster_status status = MUSTER_ERR_NO_MEMORY;
        uint64_t allowed = 0;
        for (; status != MUSTER_OK; allowed++) {
            assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
            muster_facility f = {0};
            muster_mem_fail_after(allowed);
            status = kind == 0 ? muster_kernel_dense(&c.input, &f)
                               : muster_kernel_sparse(&c.input, &f);
            muster_mem_fail_after(UINT64_MAX);
            muster_facility_fini(&f);
        }
        assert_true(allowed > 1);
    }
    end_case(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_kernels_hold_every_cosine),
        cmocka_unit_test(sparse_kernels_hold_the_nearest),
        cmocka_unit_test(sampled_kernels_hold_more_items_a_client),
        cmocka_unit_test(a_lone_neighbour_outside_the_sample_is_not_held),
        cmocka_unit_test(no_number_of_threads_changes_a_bit),
        cmocka_unit_test(every_failed_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
