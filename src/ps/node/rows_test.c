/*
 * rows_test.c -- pull, push and set on one node: what comes back, what is
 * refused and with which text, threads at work on the same rows, single rows of
 * every width (they take a path of their own, a cache line at a time).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ps/node/node_test.h"

enum { KEYS = 100, WIDTH = 4 };

static muster_ps *make_node(uint32_t optimizer, uint32_t tables)
{
    const test_mesh all = {
        .tables = tables, .keys = KEYS, .width = WIDTH, .optimizer = optimizer};
    return test_alone_open(&all);
}

static void batches_are_pulled_as_they_were_pushed(void **state)
{
    (void)state;
    muster_ps *ps = make_node(MUSTER_PS_SGD, 1);
    muster_ps_worker *worker = test_worker_open(ps);
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
    muster_ps_worker *worker = test_worker_open(ps);
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
    muster_ps_prefetch_ahead(worker, 0, 0, KEYS);
    muster_ps_prefetch_ahead(worker, 0, KEYS, 0);
    muster_ps_prefetch_ahead(NULL, 0, 0, 0);
    assert_int_equal(muster_ps_pull(worker, 0, keys, 1, values), MUSTER_OK);
    for (int i = 0; i < WIDTH; i++) {
        assert_true(values[i] == 0);
    }
    muster_ps_worker_free(worker);
    muster_ps_free(ps);
}

/* What a worker's call must say when it fails. */
#define ASSERT_SAYS(worker, call, status, text)                              \
    do {                                                                     \
        assert_int_equal((call), (status));                                  \
        if (strstr(muster_ps_error_text(worker), (text)) == NULL) {          \
            fail_msg("'%s' lacks '%s'", muster_ps_error_text(worker), text); \
        }                                                                    \
    } while (0)

static void a_refused_call_says_what_is_wrong(void **state)
{
    (void)state;
    muster_ps *ps = make_node(MUSTER_PS_NONE, 2);
    muster_ps_worker *worker = test_worker_open(ps);
    uint32_t key = KEYS;
    float value[WIDTH] = {0};
    float *row;
    assert_string_equal(muster_ps_error_text(worker), "");
    ASSERT_SAYS(worker, muster_ps_pull(worker, 2, &key, 1, value),
                MUSTER_ERR_INVALID, "no table 2: 2 were added");
    ASSERT_SAYS(worker, muster_ps_push(worker, 1, &key, 1, value),
                MUSTER_ERR_INVALID, "key 100 of table 1: its keys are 0..99");
    key = 3;
    ASSERT_SAYS(worker, muster_ps_set(worker, 1, &key, 1, NULL),
                MUSTER_ERR_INVALID, "NULL");
    ASSERT_SAYS(worker, muster_ps_push_gradient(worker, 1, &key, 1, value),
                MUSTER_ERR_INVALID, "table 1, which has no optimiser");
    ASSERT_SAYS(worker, muster_ps_begin(worker, 0, KEYS, &row),
                MUSTER_ERR_INVALID, "key 100 of table 0");
    ASSERT_SAYS(worker, muster_ps_begin(worker, 0, 1, NULL), MUSTER_ERR_INVALID,
                "row_out is NULL");
    ASSERT_SAYS(worker, muster_ps_end(worker, 0, 7), MUSTER_ERR_INVALID,
                "end of table 0, key 7: this worker has not begun it");
    assert_int_equal(muster_ps_begin(worker, 0, 5, &row), MUSTER_OK);
    ASSERT_SAYS(worker, muster_ps_begin(worker, 0, 4, &row), MUSTER_ERR_INVALID,
                "begin of table 0, key 4: rows are opened in the order");
    ASSERT_SAYS(worker, muster_ps_pull(worker, 1, &key, 1, value),
                MUSTER_ERR_INVALID, "a row is open");
    ASSERT_SAYS(worker, muster_ps_barrier(worker), MUSTER_ERR_INVALID,
                "barrier while a row is open");
    assert_int_equal(muster_ps_end(worker, 0, 5), MUSTER_OK);
    // A call that works leaves the text alone.
    assert_int_equal(muster_ps_pull(worker, 1, &key, 1, value), MUSTER_OK);
    assert_non_null(strstr(muster_ps_error_text(worker), "barrier"));
    assert_non_null(strstr(muster_ps_error_text(NULL), "NULL"));
    muster_ps_worker_free(worker);
    muster_ps_free(ps);
}

enum { THREADS = 4, ROUNDS = 3000 };

static void *push_and_update(void *argument)
{
    muster_ps_worker *worker = test_worker_open(argument);
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
    muster_ps_worker *worker = test_worker_open(ps);
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

enum { WIDE_KEYS = 3, WIDEST = 70, GUARD = 4 };

static const uint32_t wide_keys[WIDE_KEYS] = {0, 1, 2};

/* Key 1 is pulled and pushed; `all` has the rows as they were set. */
static void double_one(muster_ps_worker *worker, uint32_t width,
                       const float *all)
{
    float seen[WIDEST + GUARD];
    for (uint32_t i = 0; i < WIDEST + GUARD; i++) {
        seen[i] = -1;
    }
    assert_int_equal(muster_ps_pull(worker, 0, &wide_keys[1], 1, seen),
                     MUSTER_OK);
    for (uint32_t i = 0; i < WIDEST + GUARD; i++) {
        assert_true(seen[i] == (i < width ? all[width + i] : -1));
    }
    assert_int_equal(muster_ps_push(worker, 0, &wide_keys[1], 1, seen),
                     MUSTER_OK);
}

static void single_rows_of_every_width_are_whole(void **state)
{
    (void)state;
    for (uint32_t width = 1; width <= WIDEST; width++) {
        const test_mesh one = {.keys = WIDE_KEYS, .width = width};
        muster_ps *ps = test_alone_open(&one);
        muster_ps_worker *worker = test_worker_open(ps);
        float all[WIDE_KEYS * WIDEST];
        for (uint32_t i = 0; i < WIDE_KEYS * width; i++) {
            all[i] = (float)i + 1;
        }
        assert_int_equal(muster_ps_set(worker, 0, wide_keys, WIDE_KEYS, all),
                         MUSTER_OK);
        double_one(worker, width, all);
        assert_int_equal(muster_ps_pull(worker, 0, wide_keys, WIDE_KEYS, all),
                         MUSTER_OK);
        for (uint32_t i = 0; i < WIDE_KEYS * width; i++) {
            bool doubled = i >= width && i < 2 * width;
            assert_true(all[i] == (float)(i + 1) * (doubled ? 2 : 1));
        }
        muster_ps_worker_free(worker);
        muster_ps_free(ps);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_pulled_as_they_were_pushed),
        cmocka_unit_test(wrong_keys_and_tables_change_nothing),
        cmocka_unit_test(a_refused_call_says_what_is_wrong),
        cmocka_unit_test(every_push_of_every_thread_counts_once),
        cmocka_unit_test(single_rows_of_every_width_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
