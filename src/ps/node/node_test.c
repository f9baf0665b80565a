/*
 * node_test.c -- nodes, tables and workers: options that are refused, counters,
 * memory that is refused.
 */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "muster/ps_sample.h"

#include "ps/node/node_test.h"

enum { KEYS = 100, WIDTH = 4 };

static muster_ps *make_node(void)
{
    return test_alone_open(&(test_mesh){.keys = KEYS, .width = WIDTH});
}

static void options_are_checked(void **state)
{
    (void)state;
    muster_ps *ps = make_node();
    muster_error error;
    uint32_t number = 77;
    muster_ps_table_opts bad[9];
    for (int i = 0; i < 9; i++) {
        bad[i] = (muster_ps_table_opts)MUSTER_PS_TABLE_OPTS_INIT;
        bad[i].keys = 1;
        bad[i].width = 1;
    }
    bad[0].keys = 0;
    bad[1].width = MUSTER_PS_WIDTH_MAX + 1;
    bad[2].optimizer = 9;
    bad[3].beta1 = 1;
    bad[4].struct_size = 1;
    bad[5].epsilon = INFINITY;
    bad[6].keys = MUSTER_PS_KEYS_MAX + 1;
    bad[7].epsilon = 0;
    bad[8].init = MUSTER_PS_NORMAL + 1;
    for (int i = 0; i < 9; i++) {
        assert_int_equal(muster_ps_table_add(ps, &bad[i], &error, &number),
                         MUSTER_ERR_INVALID);
    }
    assert_int_equal(muster_ps_bytes(NULL), 0);
    assert_int_equal(muster_ps_nodes(NULL), 0);
    assert_int_equal(muster_ps_clock(NULL), 0);
    assert_int_equal(muster_ps_row_floats(NULL, 0), 0);
    // Beyond any machine, though its addresses might be had.
    muster_ps_table_opts vast = MUSTER_PS_TABLE_OPTS_INIT;
    vast.keys = MUSTER_PS_KEYS_MAX;
    vast.width = 4096;
    vast.init = MUSTER_PS_NORMAL;
    assert_int_equal(muster_ps_table_add(ps, &vast, &error, &number),
                     MUSTER_ERR_NO_MEMORY);
    muster_ps_distribution_opts odd = MUSTER_PS_DISTRIBUTION_OPTS_INIT;
    odd.first = KEYS;
    assert_int_equal(muster_ps_distribution_add(ps, &odd, &error, &number),
                     MUSTER_ERR_INVALID);
    odd.first = 1;
    odd.target = MUSTER_PS_TARGET_WEIGHTS;
    assert_int_equal(muster_ps_distribution_add(ps, &odd, &error, &number),
                     MUSTER_ERR_INVALID);
    muster_ps_worker *worker = test_worker_open(ps);
    muster_ps_table_opts good = MUSTER_PS_TABLE_OPTS_INIT;
    good.keys = 1;
    good.width = 1;
    assert_int_equal(muster_ps_table_add(ps, &good, &error, &number),
                     MUSTER_ERR_INVALID);
    assert_int_equal(number, 77);
    muster_ps_worker_free(worker);
    muster_ps_free(ps);
}

static void counters_are_filled_for_the_size_that_the_caller_knows(void **state)
{
    (void)state;
    muster_ps *ps = make_node();
    muster_ps_worker *worker = test_worker_open(ps);
    muster_ps_counters counters = MUSTER_PS_COUNTERS_INIT;
    uint32_t keys[3] = {1, 2, 1};
    float values[3 * WIDTH];
    assert_int_equal(muster_ps_pull(worker, 0, keys, 3, values), MUSTER_OK);
    muster_ps_worker_free(worker);
    assert_int_equal(muster_ps_count(ps, &counters), MUSTER_OK);
    assert_int_equal(counters.struct_size, sizeof(counters));
    assert_int_equal(counters.accesses, 3);
    assert_int_equal(counters.remote_accesses, 0);
    counters.struct_size--;
    counters.accesses = 77;
    assert_int_equal(muster_ps_count(ps, &counters), MUSTER_ERR_INVALID);
    assert_int_equal(counters.accesses, 77);
    assert_int_equal(muster_ps_count(ps, NULL), MUSTER_ERR_INVALID);
    counters.struct_size++;
    assert_int_equal(muster_ps_count(NULL, &counters), MUSTER_ERR_INVALID);
    muster_ps_free(ps);
}

static void a_worker_that_cannot_be_made_says_why(void **state)
{
    (void)state;
    muster_error error = {.text = ""};
    muster_ps_worker *workers[MUSTER_PS_WORKERS_MAX];
    muster_ps_worker *more = NULL;
    muster_ps *ps = make_node();
    assert_int_equal(muster_ps_worker_create(NULL, &error, &more),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "NULL argument"));
    for (uint32_t i = 0; i < MUSTER_PS_WORKERS_MAX; i++) {
        workers[i] = test_worker_open(ps);
    }
    assert_int_equal(muster_ps_worker_create(ps, &error, &more),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "at most 256 workers"));
    assert_null(more);
    for (uint32_t i = 0; i < MUSTER_PS_WORKERS_MAX; i++) {
        muster_ps_worker_free(workers[i]);
    }
    muster_ps_free(ps);
}

static muster_status build_all(void)
{
    muster_ps *ps = NULL;
    muster_ps_worker *worker = NULL;
    muster_error error;
    uint32_t number;
    uint64_t handle;
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    muster_ps_table_opts table = MUSTER_PS_TABLE_OPTS_INIT;
    muster_ps_distribution_opts uniform = MUSTER_PS_DISTRIBUTION_OPTS_INIT;
    table.keys = 4;
    table.width = 2;
    muster_status status = muster_ps_create(&opts, &error, &ps);
    if (status == MUSTER_OK) {
        status = muster_ps_table_add(ps, &table, &error, &number);
    }
    if (status == MUSTER_OK) {
        status = muster_ps_distribution_add(ps, &uniform, &error, &number);
    }
    if (status == MUSTER_OK) {
        status = muster_ps_worker_create(ps, NULL, &worker);
    }
    if (status == MUSTER_OK) {
        status = muster_ps_sample_prepare(worker, 0, 2, &handle);
    }
    muster_ps_worker_free(worker);
    muster_ps_free(ps);
    return status;
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    muster_status status = MUSTER_ERR_NO_MEMORY;
    for (uint64_t n = 0; status == MUSTER_ERR_NO_MEMORY && n < 50; n++) {
        muster_mem_fail_after(n);
        status = build_all();
        muster_mem_fail_after(UINT64_MAX);
        assert_true(n > 5 || status == MUSTER_ERR_NO_MEMORY);
    }
    assert_int_equal(status, MUSTER_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(
            counters_are_filled_for_the_size_that_the_caller_knows),
        cmocka_unit_test(a_worker_that_cannot_be_made_says_why),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
