/*
 * api_test.c -- muster/ps.h on one node: what it promises, what it refuses, and
 * threads at work on the same rows.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "muster/ps.h"
#include "muster/ps_sample.h"
#include "ps/store/bias.h"

#include "ps/node/alone_test.h"

enum { KEYS = 100, WIDTH = 4 };

static muster_ps *make_node(uint32_t optimizer, uint32_t tables)
{
    const test_tables all = {
        .count = tables, .keys = KEYS, .width = WIDTH, .optimizer = optimizer};
    return test_alone_open(&all);
}

static void batches_are_pulled_as_they_were_pushed(void **state)
{
    (void)state;
    muster_ps *ps = make_node(MUSTER_PS_SGD, 1);
    muster_ps_worker *worker = test_alone_worker(ps);
    uint32_t keys[12];
    float values[12 * WIDTH];
    for (int i = 0; i < 12; i++) {
        keys[i] = (uint32_t)(i * 7 % KEYS);
        for (int j = 0; j < WIDTH; j++) {
            values[i * WIDTH + j] = (float)(i * 10 + j);
        }
    }
    float seen[12 * WIDTH];
    assert_int_equal(muster_ps_set(worker, 0, keys, 12, values), MUSTER_OK);
    assert_int_equal(muster_ps_push(worker, 0, keys, 12, values), MUSTER_OK);
    assert_int_equal(muster_ps_pull(worker, 0, keys, 12, seen), MUSTER_OK);
    for (int i = 0; i < 12 * WIDTH; i++) {
        assert_true(seen[i] == 2 * values[i]);
    }
    assert_int_equal(muster_ps_set_rate(ps, 0, 0.5f), MUSTER_OK);
    assert_int_equal(muster_ps_push_gradient(worker, 0, keys, 12, values),
                     MUSTER_OK);
    assert_int_equal(muster_ps_pull(worker, 0, keys, 12, seen), MUSTER_OK);
    for (int i = 0; i < 12 * WIDTH; i++) {
        assert_true(seen[i] == 1.5f * values[i]);
    }
    muster_ps_worker_free(worker);
    muster_ps_free(ps);
}

static void wrong_keys_and_tables_change_nothing(void **state)
{
    (void)state;
    muster_ps *ps = make_node(MUSTER_PS_NONE, 1);
    muster_ps_worker *worker = test_alone_worker(ps);
    uint32_t keys[2] = {0, KEYS};
    float values[2 * WIDTH] = {1, 1, 1, 1};
    float *row = NULL;
    assert_int_equal(muster_ps_push(worker, 0, keys, 2, values),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_push(worker, 1, keys, 1, values),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_push_gradient(worker, 0, keys, 1, values),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_pull(worker, 0, NULL, 1, values),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_begin(worker, 0, KEYS, &row),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_begin(worker, 9, 0, &row), MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_end(worker, 0, 0), MUSTER_ERR_INVALID);
    assert_null(row);
    muster_ps_prefetch(worker, 9, 9999);
    assert_int_equal(muster_ps_pull(worker, 0, keys, 1, values), MUSTER_OK);
    for (int i = 0; i < WIDTH; i++) {
        assert_true(values[i] == 0);
    }
    muster_ps_worker_free(worker);
    muster_ps_free(ps);
}

static void rows_are_opened_in_order_only(void **state)
{
    (void)state;
    muster_ps *ps = make_node(MUSTER_PS_NONE, 2);
    muster_ps_worker *worker = test_alone_worker(ps);
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
    worker = test_alone_worker(ps);
    assert_int_equal(muster_ps_begin(worker, 1, 1, &row), MUSTER_OK);
    muster_ps_worker_free(worker);
    muster_ps_free(ps);
}

/* What callbacks were told. */
typedef struct told {
    size_t calls;
    size_t last;
    float firsts[4];
} told;

static void double_row(void *context, size_t i, float *row, uint32_t floats)
{
    told *t = context;
    assert_int_equal(floats, 2 * WIDTH);
    assert_int_equal(i, t->calls++);
    row[0] = 2 * row[0] + 1;
}

static void copy_first(void *context, size_t i, const float *row,
                       uint32_t floats)
{
    told *t = context;
    assert_int_equal(floats, 2 * WIDTH);
    t->firsts[i] = row[0];
    t->last = i;
}

static void callbacks_see_the_rows_and_their_state(void **state)
{
    (void)state;
    muster_ps *ps = make_node(MUSTER_PS_ADAGRAD, 1);
    muster_ps_worker *worker = test_alone_worker(ps);
    const uint32_t keys[4] = {3, 0, 3, 2};
    told t = {0};
    assert_int_equal(muster_ps_row_floats(ps, 0), 2 * WIDTH);
    assert_int_equal(muster_ps_row_floats(ps, 1), 0);
    assert_int_equal(muster_ps_update(worker, 0, keys, 4, double_row, &t),
                     MUSTER_OK);
    assert_int_equal(t.calls, 4);
    assert_int_equal(muster_ps_read(worker, 0, keys, 4, copy_first, &t),
                     MUSTER_OK);
    assert_int_equal(t.last, 3);
    assert_true(t.firsts[0] == 3 && t.firsts[1] == 1 && t.firsts[2] == 3 &&
                t.firsts[3] == 1);
    assert_int_equal(muster_ps_update(worker, 0, NULL, 0, double_row, &t),
                     MUSTER_OK);
    muster_ps_worker_free(worker);
    muster_ps_free(ps);
}

static void callbacks_are_not_called_for_what_is_wrong(void **state)
{
    (void)state;
    muster_ps *ps = make_node(MUSTER_PS_ADAGRAD, 1);
    muster_ps_worker *worker = test_alone_worker(ps);
    const uint32_t keys[2] = {3, 2};
    const uint32_t beyond[2] = {3, KEYS};
    told t = {0};
    float *row;
    assert_int_equal(muster_ps_update(worker, 0, keys, 2, NULL, NULL),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_read(worker, 0, keys, 2, NULL, NULL),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_update(worker, 1, keys, 2, double_row, &t),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_update(worker, 0, NULL, 2, double_row, &t),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_update(worker, 0, beyond, 2, double_row, &t),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_update(NULL, 0, keys, 2, double_row, &t),
                     MUSTER_ERR_INVALID);
    assert_int_equal(t.calls, 0);
    // With a row open, those that come after it may be worked on.
    assert_int_equal(muster_ps_begin(worker, 0, 2, &row), MUSTER_OK);
    assert_int_equal(muster_ps_update(worker, 0, keys, 2, double_row, &t),
                     MUSTER_ERR_INVALID);
    assert_int_equal(t.calls, 1);
    assert_int_equal(muster_ps_end(worker, 0, 2), MUSTER_OK);
    muster_ps_worker_free(worker);
    muster_ps_free(ps);
}

static void options_are_checked(void **state)
{
    (void)state;
    muster_ps *ps = make_node(MUSTER_PS_NONE, 1);
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
    bad[8].in_turns = 2;
    for (int i = 0; i < 9; i++) {
        assert_int_equal(muster_ps_table_add(ps, &bad[i], &error, &number),
                         MUSTER_ERR_INVALID);
    }
    assert_int_equal(muster_ps_count(NULL).accesses, 0);
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
    muster_ps_worker *worker = test_alone_worker(ps);
    muster_ps_table_opts good = MUSTER_PS_TABLE_OPTS_INIT;
    good.keys = 1;
    good.width = 1;
    assert_int_equal(muster_ps_table_add(ps, &good, &error, &number),
                     MUSTER_ERR_INVALID);
    assert_int_equal(number, 77);
    muster_ps_worker_free(worker);
    muster_ps_free(ps);
}

static void samples_come_with_their_rows(void **state)
{
    (void)state;
    muster_ps *ps = make_node(MUSTER_PS_NONE, 1);
    muster_error error;
    uint32_t distribution = 9;
    muster_ps_distribution_opts opts = MUSTER_PS_DISTRIBUTION_OPTS_INIT;
    opts.first = 10;
    opts.count = 5;
    assert_int_equal(
        muster_ps_distribution_add(ps, &opts, &error, &distribution),
        MUSTER_OK);
    muster_ps_worker *worker = test_alone_worker(ps);
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
    muster_ps *ps = make_node(MUSTER_PS_NONE, 1);
    muster_ps_distribution_opts opts = MUSTER_PS_DISTRIBUTION_OPTS_INIT;
    muster_error error;
    uint32_t number;
    uint64_t handle;
    uint32_t keys[4][COUNT];
    assert_int_equal(muster_ps_distribution_add(ps, &opts, &error, &number),
                     MUSTER_OK);
    muster_ps_worker *workers[2] = {test_alone_worker(ps),
                                    test_alone_worker(ps)};
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
    muster_ps *ps = make_node(MUSTER_PS_NONE, 1);
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

enum { THREADS = 4, ROUNDS = 3000 };

static void *push_and_update(void *argument)
{
    muster_ps_worker *worker = test_alone_worker(argument);
    uint32_t keys[3] = {1, 2, 1};
    float ones[3 * WIDTH];
    for (int i = 0; i < 3 * WIDTH; i++) {
        ones[i] = 1;
    }
    for (int i = 0; i < ROUNDS; i++) {
        float *low = NULL;
        float *high = NULL;
        assert_int_equal(muster_ps_push(worker, 0, keys, 3, ones), MUSTER_OK);
        assert_int_equal(muster_ps_begin(worker, 0, 1, &low), MUSTER_OK);
        assert_int_equal(muster_ps_begin(worker, 1, 0, &high), MUSTER_OK);
        low[0] += 1;
        high[0] += 1;
        assert_int_equal(muster_ps_end(worker, 0, 1), MUSTER_OK);
        assert_int_equal(muster_ps_end(worker, 1, 0), MUSTER_OK);
    }
    muster_ps_worker_free(worker);
    return NULL;
}

static void every_push_of_every_thread_counts_once(void **state)
{
    (void)state;
    muster_ps *ps = make_node(MUSTER_PS_NONE, 2);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, push_and_update, ps),
                         0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    muster_ps_worker *worker = test_alone_worker(ps);
    uint32_t keys[2] = {1, 2};
    float seen[2 * WIDTH];
    assert_int_equal(muster_ps_pull(worker, 0, keys, 2, seen), MUSTER_OK);
    assert_true(seen[0] == 3 * THREADS * ROUNDS);
    assert_true(seen[1] == 2 * THREADS * ROUNDS);
    assert_true(seen[WIDTH] == THREADS * ROUNDS);
    keys[0] = 0;
    assert_int_equal(muster_ps_pull(worker, 1, keys, 1, seen), MUSTER_OK);
    assert_true(seen[0] == THREADS * ROUNDS);
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
        muster_ps *ps = make_node(MUSTER_PS_NONE, 1);
        lone l = {.worker = test_alone_worker(ps)};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, work_alone, &l), 0);
        while (!l.begun) { // ends: the thread's first round is short
        }
        muster_ps_worker *second = test_alone_worker(ps);
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
    muster_ps *ps = make_node(MUSTER_PS_NONE, 1);
    muster_ps_worker *worker = test_alone_worker(ps);
    muster_ps_worker *second = NULL;
    float *row = NULL;
    assert_int_equal(muster_ps_begin(worker, 0, 1, &row), MUSTER_OK);
    assert_int_equal(muster_ps_worker_create(ps, &second), MUSTER_ERR_AGAIN);
    assert_null(second);
    row[0] = 5;
    assert_int_equal(muster_ps_end(worker, 0, 1), MUSTER_OK);
    assert_int_equal(muster_ps_worker_create(ps, &second), MUSTER_OK);
    assert_int_equal(muster_ps_begin(worker, 0, 1, &row), MUSTER_OK);
    assert_true(row[0] == 5);
    assert_int_equal(muster_ps_end(worker, 0, 1), MUSTER_OK);
    muster_ps_worker_free(second);
    muster_ps_worker_free(worker);
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
        status = muster_ps_worker_create(ps, &worker);
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
        cmocka_unit_test(batches_are_pulled_as_they_were_pushed),
        cmocka_unit_test(wrong_keys_and_tables_change_nothing),
        cmocka_unit_test(rows_are_opened_in_order_only),
        cmocka_unit_test(callbacks_see_the_rows_and_their_state),
        cmocka_unit_test(callbacks_are_not_called_for_what_is_wrong),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(samples_come_with_their_rows),
        cmocka_unit_test(samples_of_a_position_are_the_same_for_all),
        cmocka_unit_test(refused_distributions_are_told_apart),
        cmocka_unit_test(every_push_of_every_thread_counts_once),
        cmocka_unit_test(nothing_is_lost_when_a_second_worker_comes),
        cmocka_unit_test(a_second_worker_does_not_come_while_a_row_is_open),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
