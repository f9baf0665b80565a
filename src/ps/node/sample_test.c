/*
 * sample_test.c -- samples on one node: with their rows, by position, and what
 * is refused.
 */
#define _GNU_SOURCE
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

static void samples_come_with_their_rows(void **state)
{
    (void)state;
    muster_ps *ps = make_node();
    muster_error error;
    uint32_t distribution = 9;
    muster_ps_distribution_opts opts = MUSTER_PS_DISTRIBUTION_OPTS_INIT;
    opts.first = 10;
    opts.count = 5;
    assert_int_equal(
        muster_ps_distribution_add(ps, &opts, &error, &distribution),
        MUSTER_OK);
    muster_ps_worker *worker = test_worker_open(ps);
    for (uint32_t key = 0; key < KEYS; key++) {
        float value[WIDTH] = {(float)key};
        assert_int_equal(muster_ps_set(worker, 0, &key, 1, value), MUSTER_OK);
    }
    uint64_t handle = 0;
    uint32_t keys[8];
    float values[8 * WIDTH];
    assert_int_equal(muster_ps_sample_prepare(worker, distribution, 8, &handle),
                     MUSTER_OK);
    assert_int_equal(muster_ps_sample_pull(worker, handle, 5, keys, values),
                     MUSTER_OK);
    for (size_t i = 0; i < 5; i++) {
        assert_in_range(keys[i], 10, 14);
        assert_true(values[i * WIDTH] == (float)keys[i]);
    }
    assert_int_equal(muster_ps_sample_pull(worker, handle, 4, keys, NULL),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_sample_finish(worker, handle), MUSTER_OK);
    assert_int_equal(muster_ps_sample_finish(worker, handle),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_sample_pull(worker, 0, 1, keys, NULL),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_sample_prepare(worker, 3, 1, &handle),
                     MUSTER_ERR_INVALID);
    muster_ps_worker_free(worker);
    muster_ps_free(ps);
}

/* Two workers draw the same at a position, and something else elsewhere. */
static void samples_of_a_position_are_the_same_for_all(void **state)
{
    (void)state;
    enum { COUNT = 32 };
    static const uint64_t places[4] = {7, 7, 8, 7};
    muster_ps *ps = make_node();
    muster_ps_distribution_opts opts = MUSTER_PS_DISTRIBUTION_OPTS_INIT;
    muster_error error;
    uint32_t number;
    uint64_t handle;
    uint32_t keys[4][COUNT];
    assert_int_equal(muster_ps_distribution_add(ps, &opts, &error, &number),
                     MUSTER_OK);
    muster_ps_worker *workers[2] = {test_worker_open(ps), test_worker_open(ps)};
    for (size_t i = 0; i < 4; i++) {
        muster_ps_worker *worker = workers[i % 2];
        assert_int_equal(muster_ps_sample_seek(worker, number, places[i]),
                         MUSTER_OK);
        assert_int_equal(
            muster_ps_sample_prepare(worker, number, COUNT, &handle),
            MUSTER_OK);
        assert_int_equal(
            muster_ps_sample_pull(worker, handle, COUNT, keys[i], NULL),
            MUSTER_OK);
    }
    assert_memory_equal(keys[0], keys[1], sizeof(keys[0]));
    assert_memory_equal(keys[0], keys[3], sizeof(keys[0]));
    assert_memory_not_equal(keys[0], keys[2], sizeof(keys[0]));
    assert_int_equal(muster_ps_sample_seek(workers[0], number + 1, 0),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_sample_seek(NULL, number, 0),
                     MUSTER_ERR_INVALID);
    muster_ps_worker_free(workers[0]);
    muster_ps_worker_free(workers[1]);
    muster_ps_free(ps);
}

static void refused_distributions_are_told_apart(void **state)
{
    (void)state;
    muster_ps *ps = make_node();
    muster_ps_distribution_opts opts = MUSTER_PS_DISTRIBUTION_OPTS_INIT;
    double weights[2] = {1, -1};
    muster_error error = {.text = ""};
    uint32_t number;
    opts.count = 2;
    opts.weights = weights;
    opts.target = MUSTER_PS_TARGET_LOG_UNIFORM + 1;
    assert_int_equal(muster_ps_distribution_add(ps, &opts, &error, &number),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "no such target"));
    opts.target = MUSTER_PS_TARGET_WEIGHTS;
    assert_int_equal(muster_ps_distribution_add(ps, &opts, &error, &number),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "weights must be finite"));
    weights[1] = 1;
    muster_mem_fail_after(0);
    muster_status status =
        muster_ps_distribution_add(ps, &opts, &error, &number);
    muster_mem_fail_after(UINT64_MAX);
    assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
    assert_non_null(strstr(error.text, "no memory"));
    muster_ps_free(ps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_come_with_their_rows),
        cmocka_unit_test(samples_of_a_position_are_the_same_for_all),
        cmocka_unit_test(refused_distributions_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
