/*
 * open_test.c -- rows of one node in place: the order in which they are opened,
 * and a second worker that comes while the only one works without latches.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "ps/store/bias.h"

#include "ps/node/node_test.h"

enum { KEYS = 100, WIDTH = 4 };

static muster_ps *make_node(uint32_t tables)
{
    const test_mesh all = {.tables = tables, .keys = KEYS, .width = WIDTH};
    return test_alone_open(&all);
}

static void rows_are_opened_in_order_only(void **state)
{
    (void)state;
    muster_ps *ps = make_node(2);
    muster_ps_worker *worker = test_worker_open(ps);
    float *row = NULL;
    assert_int_equal(muster_ps_begin(worker, 0, 5, &row), MUSTER_OK);
    assert_int_equal(muster_ps_begin(worker, 0, 5, &row), MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_begin(worker, 0, 4, &row), MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_begin(worker, 1, 0, &row), MUSTER_OK);
    assert_int_equal(muster_ps_begin(worker, 0, 6, &row), MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_begin(worker, 1, 1, &row), MUSTER_OK);
    assert_int_equal(muster_ps_begin(worker, 1, 2, &row), MUSTER_OK);
    assert_int_equal(muster_ps_begin(worker, 1, 3, &row), MUSTER_ERR_INVALID);
    // Copies would latch one row while others are held.
    uint32_t key = 9;
    float value[WIDTH];
    assert_int_equal(muster_ps_pull(worker, 0, &key, 1, value),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_end(worker, 1, 0), MUSTER_OK);
    assert_int_equal(muster_ps_end(worker, 0, 5), MUSTER_OK);
    assert_int_equal(muster_ps_begin(worker, 1, 3, &row), MUSTER_OK);
    // The rest is closed with the worker, so another can have the rows.
    muster_ps_worker_free(worker);
    worker = test_worker_open(ps);
    assert_int_equal(muster_ps_begin(worker, 1, 1, &row), MUSTER_OK);
    muster_ps_worker_free(worker);
    muster_ps_free(ps);
}

enum { LONE_ROUNDS = 20000 };

typedef struct lone {
    muster_ps_worker *worker;
    _Atomic int begun;
} lone;

static void *work_alone(void *argument)
{
    lone *l = argument;
    uint32_t key = 2;
    float ones[WIDTH] = {1, 1, 1, 1};
    for (int i = 0; i < LONE_ROUNDS; i++) {
        float *low = NULL;
        float *high = NULL;
        assert_int_equal(muster_ps_begin(l->worker, 0, 1, &low), MUSTER_OK);
        assert_int_equal(muster_ps_begin(l->worker, 0, 3, &high), MUSTER_OK);
        low[0] += 1;
        high[0] += 1;
        assert_int_equal(muster_ps_end(l->worker, 0, 1), MUSTER_OK);
        assert_int_equal(muster_ps_end(l->worker, 0, 3), MUSTER_OK);
        assert_int_equal(muster_ps_push(l->worker, 0, &key, 1, ones),
                         MUSTER_OK);
        l->begun = 1;
    }
    return NULL;
}

/* Others come while the only worker is at work without latches. */
static void nothing_is_lost_when_a_second_worker_comes(void **state)
{
    (void)state;
    for (int repeat = 0; repeat < 20; repeat++) {
        muster_ps *ps = make_node(1);
        lone l = {.worker = test_worker_open(ps)};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, work_alone, &l), 0);
        while (!l.begun) { // ends: the thread's first round is short
        }
        muster_ps_worker *second = test_worker_open(ps);
        uint32_t keys[3] = {1, 2, 3};
        float ones[3 * WIDTH];
        for (int i = 0; i < 3 * WIDTH; i++) {
            ones[i] = 1;
        }
        for (int i = 0; i < 1000; i++) {
            assert_int_equal(muster_ps_push(second, 0, keys, 3, ones),
                             MUSTER_OK);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        float seen[3 * WIDTH];
        assert_int_equal(muster_ps_pull(second, 0, keys, 3, seen), MUSTER_OK);
        for (size_t i = 0; i < 3; i++) {
            assert_true(seen[i * WIDTH] == LONE_ROUNDS + 1000);
        }
        muster_ps_worker_free(second);
        muster_ps_worker_free(l.worker);
        muster_ps_free(ps);
    }
}

static void a_second_worker_does_not_come_while_a_row_is_open(void **state)
{
    (void)state;
    if (!muster_bias_possible()) {
        skip(); // all rows are latched
    }
    muster_ps *ps = make_node(1);
    muster_ps_worker *worker = test_worker_open(ps);
    muster_ps_worker *second = NULL;
    muster_error error = {.text = ""};
    float *row = NULL;
    assert_int_equal(muster_ps_begin(worker, 0, 1, &row), MUSTER_OK);
    assert_int_equal(muster_ps_worker_create(ps, &error, &second),
                     MUSTER_ERR_AGAIN);
    assert_non_null(strstr(error.text, "kept a row open"));
    assert_null(second);
    row[0] = 5;
    assert_int_equal(muster_ps_end(worker, 0, 1), MUSTER_OK);
    assert_int_equal(muster_ps_worker_create(ps, NULL, &second), MUSTER_OK);
    assert_int_equal(muster_ps_begin(worker, 0, 1, &row), MUSTER_OK);
    assert_true(row[0] == 5);
    assert_int_equal(muster_ps_end(worker, 0, 1), MUSTER_OK);
    muster_ps_worker_free(second);
    muster_ps_worker_free(worker);
    muster_ps_free(ps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_opened_in_order_only),
        cmocka_unit_test(nothing_is_lost_when_a_second_worker_comes),
        cmocka_unit_test(a_second_worker_does_not_come_while_a_row_is_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
