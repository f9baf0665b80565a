/*
 * store_test.c -- slabs, tables and row optimisers against slow twins.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "ps/store/store.h"

static muster_ps_table *make_table(uint32_t keys, uint32_t width,
                                   uint32_t optimizer, uint32_t nodes)
{
    muster_ps_table_opts opts = MUSTER_PS_TABLE_OPTS_INIT;
    opts.keys = keys;
    opts.width = width;
    opts.optimizer = optimizer;
    opts.rate = 0.1f;
    opts.init = MUSTER_PS_UNIFORM;
    opts.scale = 0.5f;
    muster_ps_table_share share = {
        .node = nodes - 1, .nodes = nodes, .seed = 9};
    muster_ps_table *table = NULL;
    assert_int_equal(muster_ps_table_create(&opts, &share, &table), MUSTER_OK);
    return table;
}

static void slots_are_distinct_and_come_back(void **state)
{
    (void)state;
    muster_slab slab;
    assert_true(muster_slab_init(&slab, 3, 10));
    uint32_t slots[10];
    for (int i = 0; i < 10; i++) {
        slots[i] = muster_slab_take(&slab);
        assert_int_equal(slots[i], i);
    }
    assert_int_equal(muster_slab_take(&slab), MUSTER_SLAB_NONE);
    muster_slab_give(&slab, 4);
    muster_slab_give(&slab, 7);
    assert_int_equal(muster_slab_take(&slab), 7);
    assert_int_equal(muster_slab_take(&slab), 4);
    assert_int_equal(muster_slab_take(&slab), MUSTER_SLAB_NONE);
    assert_int_equal(slab.in_use, 10);
    muster_slab_fini(&slab);
}

static void strides_respect_lines_and_waste_little(void **state)
{
    (void)state;
    assert_int_equal(muster_slab_stride(8), 32);
    assert_int_equal(muster_slab_stride(15), 64);
    assert_int_equal(muster_slab_stride(32), 128);
    assert_int_equal(muster_slab_stride(30), 128);
    for (uint32_t floats = 1; floats < 600; floats++) {
        size_t bytes = floats * sizeof(float);
        size_t stride = muster_slab_stride(floats);
        assert_true(stride >= bytes && stride % sizeof(float) == 0);
        assert_true(stride - bytes <= bytes / 8);
    }
}

/* What this process has in memory, by the kernel's count. */
static double resident_bytes(void)
{
    char line[256];
    char *at;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    assert_int_equal(fclose(file), 0);
    (void)strtoul(line, &at, 10); // mapped
    return (double)strtoul(at, NULL, 10) * (double)sysconf(_SC_PAGESIZE);
}

/* A sanitizer keeps notes about every byte, and they count as resident. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
static const bool notes_are_kept = true;
#else
static const bool notes_are_kept = false;
#endif

static void narrow_rows_stay_within_the_bound_of_memory(void **s)
{
    (void)s;
    if (notes_are_kept) {
        print_message("a sanitizer's own memory cannot be told apart\n");
        skip();
    }
    enum { ROWS = 1000000, WIDTH = 8 };
    static const uint32_t optimizers[] = {MUSTER_PS_NONE, MUSTER_PS_ADAGRAD,
                                          MUSTER_PS_ADAM};
    for (size_t i = 0; i < 3; i++) {
        double before = resident_bytes();
        muster_ps_table *table = make_table(ROWS, WIDTH, optimizers[i], 1);
        float ones[WIDTH] = {1};
        for (uint32_t key = 0; key < ROWS; key++) {
            assert_true(
                muster_ps_table_try(table, MUSTER_ROWOP_PUSH, key, ones));
        }
        double ideal = (double)ROWS * table->floats * sizeof(float);
        double taken = resident_bytes() - before;
        assert_true(taken <= 1.3 * ideal);
        // Nor less: every row was written.
        assert_true(taken >= 0.9 * ideal);
        assert_true((double)muster_ps_table_bytes(table) <= 1.3 * ideal);
        muster_ps_table_free(table);
    }
}

static void a_node_starts_with_its_share_of_the_rows(void **state)
{
    (void)state;
    muster_ps_table *whole = make_table(10, 4, MUSTER_PS_NONE, 1);
    muster_ps_table *share = make_table(10, 4, MUSTER_PS_NONE, 3);
    for (uint32_t key = 0; key < 10; key++) {
        float values[2][4] = {{0}};
        assert_true(
            muster_ps_table_try(whole, MUSTER_ROWOP_PULL, key, values[0]));
        assert_int_equal(
            muster_ps_table_try(share, MUSTER_ROWOP_PULL, key, values[1]),
            key % 3 == 2);
        assert_int_equal(muster_ps_table_here(share, key), key % 3 == 2);
        if (key % 3 == 2) {
            // Initial rows do not depend on where they are.
            assert_memory_equal(values[0], values[1], sizeof(values[0]));
            assert_true(values[0][0] != values[0][1]);
        }
    }
    muster_ps_table_free(whole);
    muster_ps_table_free(share);
}

static void operations_do_what_they_say(void **state)
{
    (void)state;
    muster_ps_table *table = make_table(3, 2, MUSTER_PS_NONE, 1);
    float one[2] = {1, 2};
    float seen[2];
    assert_true(muster_ps_table_try(table, MUSTER_ROWOP_SET, 1, one));
    assert_true(muster_ps_table_try(table, MUSTER_ROWOP_PUSH, 1, one));
    assert_true(muster_ps_table_try(table, MUSTER_ROWOP_PULL, 1, seen));
    assert_true(seen[0] == 2 && seen[1] == 4);
    float *row = muster_ps_table_begin(table, 1);
    assert_non_null(row);
    row[0] = 7;
    muster_ps_table_end(table, 1);
    assert_true(muster_ps_table_try(table, MUSTER_ROWOP_PULL, 1, seen));
    assert_true(seen[0] == 7);
    muster_ps_table_free(table);
}

/* The optimisers in double, straight from their formulas. */
static void twin_step(uint32_t kind, int step, double g, double *w, double *a,
                      double *b)
{
    if (kind == MUSTER_PS_SGD) {
        *w -= 0.1 * g;
    } else if (kind == MUSTER_PS_ADAGRAD) {
        *a += g * g;
        *w -= 0.1 * g / (sqrt(*a) + 1e-8);
    } else {
        *a = 0.9 * *a + 0.1 * g;
        *b = 0.999 * *b + 0.001 * g * g;
        *w -= 0.1 * (*a / (1 - pow(0.9, step))) /
              (sqrt(*b / (1 - pow(0.999, step))) + 1e-8);
    }
}

static void optimisers_follow_their_formulas(void **state)
{
    (void)state;
    for (uint32_t kind = MUSTER_PS_SGD; kind <= MUSTER_PS_ADAM; kind++) {
        enum { WIDTH = 19 };
        muster_ps_table *table = make_table(2, WIDTH, kind, 1);
        float start[WIDTH];
        float gradient[WIDTH];
        float end[WIDTH];
        assert_true(muster_ps_table_try(table, MUSTER_ROWOP_PULL, 1, start));
        for (int step = 1; step <= 5; step++) {
            for (int i = 0; i < WIDTH; i++) {
                gradient[i] = sinf((float)(step * WIDTH + i));
            }
            assert_true(
                muster_ps_table_try(table, MUSTER_ROWOP_GRADIENT, 1, gradient));
        }
        assert_true(muster_ps_table_try(table, MUSTER_ROWOP_PULL, 1, end));
        for (int i = 0; i < WIDTH; i++) {
            double w = (double)start[i];
            double a = 0;
            double b = 0;
            for (int step = 1; step <= 5; step++) {
                double g = (double)sinf((float)(step * WIDTH + i));
                twin_step(kind, step, g, &w, &a, &b);
            }
            assert_true(fabs(w - (double)end[i]) < 2e-5);
        }
        muster_ps_table_free(table);
    }
}

/* Before a sleep the bias is returned though the table is used; where workers
 * took it, nothing is written. */
static void a_bias_that_workers_took_is_not_touched(void **state)
{
    (void)state;
    static const muster_bias_holders holders;
    muster_ps_table *table = make_table(4, 2, MUSTER_PS_NONE, 2);
    muster_ps_table_allow_bias(table, &holders);
    assert_true(muster_ps_table_revoked_by_mesh(table));
    table->used = true;
    muster_ps_table_return_bias(table);
    assert_true(muster_ps_table_revoked(table));
    table->used = true;
    muster_ps_table_return_bias_now(table);
    assert_false(muster_ps_table_revoked(table));
    muster_ps_table_revoke_for_workers(table);
    table->used = true;
    table->revoke_ns = 6400;
    muster_ps_table_return_bias_now(table);
    assert_true(table->used && table->revoke_ns == 6400);
    assert_true(muster_ps_table_revoked(table));
    muster_ps_table_free(table);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    muster_ps_table_opts opts = MUSTER_PS_TABLE_OPTS_INIT;
    opts.keys = 4;
    opts.width = 2;
    muster_ps_table_share share = {.node = 0, .nodes = 1, .seed = 1};
    muster_status status = MUSTER_ERR_NO_MEMORY;
    for (uint64_t n = 0; status == MUSTER_ERR_NO_MEMORY && n < 20; n++) {
        muster_ps_table *table = NULL;
        muster_mem_fail_after(n);
        status = muster_ps_table_create(&opts, &share, &table);
        muster_mem_fail_after(UINT64_MAX);
        assert_true(n > 1 || status == MUSTER_ERR_NO_MEMORY);
        muster_ps_table_free(table);
    }
    assert_int_equal(status, MUSTER_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_distinct_and_come_back),
        cmocka_unit_test(strides_respect_lines_and_waste_little),
        cmocka_unit_test(narrow_rows_stay_within_the_bound_of_memory),
        cmocka_unit_test(a_node_starts_with_its_share_of_the_rows),
        cmocka_unit_test(operations_do_what_they_say),
        cmocka_unit_test(optimisers_follow_their_formulas),
        cmocka_unit_test(a_bias_that_workers_took_is_not_touched),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
