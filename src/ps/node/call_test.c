/*
 * call_test.c -- calls that are started and waited for later: each counts once,
 * handles are checked, buffers come back, barriers show what was under way; and
 * workers that end and are followed by others.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "muster/ps_sample.h"

#include "ps/node/node_test.h"

enum { KEYS = 64, WIDTH = 4, ROUNDS = 200, FLIGHTS = 8, BATCH = 6 };

typedef struct flight {
    uint64_t handle;
    uint32_t keys[BATCH];
    float values[BATCH * WIDTH];
} flight;

static void start_push(test_node *n, flight *f, uint32_t *state)
{
    for (int i = 0; i < BATCH; i++) {
        f->keys[i] = test_draw(state) % KEYS;
    }
    for (int i = 0; i < BATCH * WIDTH; i++) {
        f->values[i] = 1;
    }
    TEST_NODE_CHECK(n,
                    muster_ps_push_start(n->worker, 0, f->keys, BATCH,
                                         f->values, &f->handle) == MUSTER_OK);
}

/* Several pushes under way at any time, ended in any order. */
static void push_and_sum(test_node *n)
{
    flight flights[FLIGHTS] = {{0}};
    uint32_t state = n->node + 1;
    for (int round = 0; round < ROUNDS; round++) {
        flight *f = &flights[test_draw(&state) % FLIGHTS];
        TEST_NODE_CHECK(n, muster_ps_wait(n->worker, f->handle) == MUSTER_OK);
        if (round % 3 == 0) {
            muster_status asked =
                muster_ps_localize(n->worker, 0, flights[0].keys, BATCH);
            TEST_NODE_CHECK(n, asked == MUSTER_OK);
        }
        start_push(n, f, &state);
    }
    for (int i = 0; i < FLIGHTS; i++) {
        TEST_NODE_CHECK(n, muster_ps_wait(n->worker, flights[i].handle) ==
                               MUSTER_OK);
    }
    TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
    uint32_t keys[KEYS];
    float seen[KEYS * WIDTH];
    uint64_t handle = 0;
    for (uint32_t k = 0; k < KEYS; k++) {
        keys[k] = k;
    }
    TEST_NODE_CHECK(n, muster_ps_pull_start(n->worker, 0, keys, KEYS, seen,
                                            &handle) == MUSTER_OK);
    TEST_NODE_CHECK(n, muster_ps_wait(n->worker, handle) == MUSTER_OK);
    double sum = 0;
    for (int i = 0; i < KEYS * WIDTH; i++) {
        sum += (double)seen[i];
    }
    TEST_NODE_CHECK(n, sum == (double)n->of->nodes * ROUNDS * BATCH * WIDTH);
}

static void every_started_push_counts_once(void **state)
{
    (void)state;
    for (uint32_t manage = 0; manage <= MUSTER_PS_CLASSIC; manage++) {
        test_mesh mesh = {.nodes = 2 + manage % 2,
                          .manage = manage,
                          .keys = KEYS,
                          .width = WIDTH,
                          .life = push_and_sum};
        assert_int_equal(test_mesh_run(&mesh), 0);
    }
}

static void leave_under_way(test_node *n)
{
    uint32_t keys[2] = {0, 1};
    float ones[2 * WIDTH] = {1, 1, 1, 1, 1, 1, 1, 1};
    uint64_t handle = 0;
    float seen[2 * WIDTH];
    TEST_NODE_CHECK(n, muster_ps_push_start(n->worker, 0, keys, 2, ones,
                                            &handle) == MUSTER_OK);
    TEST_NODE_CHECK(n, handle != MUSTER_PS_DONE); // one of the two is far
    TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
    TEST_NODE_CHECK(n,
                    muster_ps_pull(n->worker, 0, keys, 2, seen) == MUSTER_OK);
    TEST_NODE_CHECK(n, seen[0] == 2 && seen[WIDTH] == 2);
    // The handle is never waited for: the worker's end does it.
    bool done = 0;
    TEST_NODE_CHECK(n, muster_ps_test(n->worker, handle, &done) == MUSTER_OK);
    TEST_NODE_CHECK(n, done == 1);
}

static void a_barrier_shows_calls_that_nobody_waited_for(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = 2,
                      .manage = MUSTER_PS_CLASSIC,
                      .keys = KEYS,
                      .width = WIDTH,
                      .life = leave_under_way};
    assert_int_equal(test_mesh_run(&mesh), 0);
}

/* More handles than there are, and each of them once. */
static void exhaust(test_node *n)
{
    uint64_t handles[MUSTER_PS_CALLS_MAX];
    float seen[MUSTER_PS_CALLS_MAX][WIDTH];
    uint32_t far = 1 - n->node; // homes alternate between two nodes
    uint32_t near = n->node;
    uint64_t more = 77;
    float other[WIDTH] = {5, 5, 5, 5};
    for (uint32_t i = 0; i < MUSTER_PS_CALLS_MAX; i++) {
        TEST_NODE_CHECK(n, muster_ps_pull_start(n->worker, 0, &far, 1, seen[i],
                                                &handles[i]) == MUSTER_OK);
        for (uint32_t j = 0; j < i; j++) {
            TEST_NODE_CHECK(n, handles[i] != handles[j]);
        }
    }
    TEST_NODE_CHECK(n, muster_ps_set_start(n->worker, 0, &far, 1, other,
                                           &more) == MUSTER_ERR_AGAIN);
    TEST_NODE_CHECK(n, more == 77);
    // A synchronous call has room of its own.
    TEST_NODE_CHECK(n,
                    muster_ps_pull(n->worker, 0, &far, 1, other) == MUSTER_OK);
    for (uint32_t i = 0; i < MUSTER_PS_CALLS_MAX; i++) {
        TEST_NODE_CHECK(n, muster_ps_wait(n->worker, handles[i]) == MUSTER_OK);
        TEST_NODE_CHECK(n, muster_ps_wait(n->worker, handles[i]) ==
                               MUSTER_ERR_INVALID);
    }
    // What is here is done at once.
    TEST_NODE_CHECK(n, muster_ps_pull_start(n->worker, 0, &near, 1, other,
                                            &more) == MUSTER_OK);
    TEST_NODE_CHECK(n, more == MUSTER_PS_DONE);
}

static void handles_are_bounded_and_used_once(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = 2,
                      .manage = MUSTER_PS_CLASSIC,
                      .keys = KEYS,
                      .width = WIDTH,
                      .life = exhaust};
    assert_int_equal(test_mesh_run(&mesh), 0);
}

/* Set, gradient and pull of the same far row, each after the other's end. */
static void one_after_another(test_node *n)
{
    uint32_t far = 1 - n->node + 2 * 7;
    float values[WIDTH] = {1, 2, 3, 4};
    float gradient[WIDTH] = {1, 1, 1, 1};
    float seen[WIDTH] = {0};
    uint64_t handle;
    TEST_NODE_CHECK(n, muster_ps_set_start(n->worker, 0, &far, 1, values,
                                           &handle) == MUSTER_OK);
    TEST_NODE_CHECK(n, muster_ps_wait(n->worker, handle) == MUSTER_OK);
    TEST_NODE_CHECK(n, muster_ps_push_gradient_start(n->worker, 0, &far, 1,
                                                     gradient,
                                                     &handle) == MUSTER_OK);
    TEST_NODE_CHECK(n, muster_ps_wait(n->worker, handle) == MUSTER_OK);
    TEST_NODE_CHECK(n, muster_ps_pull_start(n->worker, 0, &far, 1, seen,
                                            &handle) == MUSTER_OK);
    bool done = 0;
    while (!done) { // ends: the other node is alive
        if (muster_ps_test(n->worker, handle, &done) != MUSTER_OK) {
            n->faults++;
            break;
        }
    }
    TEST_NODE_CHECK(n, muster_ps_wait(n->worker, handle) == MUSTER_OK);
    for (int i = 0; i < WIDTH; i++) {
        float want = values[i] - 0.01f * gradient[i];
        TEST_NODE_CHECK(n, seen[i] == want);
    }
}

static void every_operation_can_be_started(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = 2,
                      .manage = MUSTER_PS_CLASSIC,
                      .keys = KEYS,
                      .width = WIDTH,
                      .optimizer = MUSTER_PS_SGD,
                      .life = one_after_another};
    assert_int_equal(test_mesh_run(&mesh), 0);
}

/* Another worker in place of the node's. */
static void replace_worker(test_node *n)
{
    muster_ps_worker_free(n->worker);
    n->worker = NULL;
    TEST_NODE_CHECK(n, muster_ps_worker_create(n->ps, NULL, &n->worker) ==
                           MUSTER_OK);
}

static void sample_late(test_node *n)
{
    uint32_t(*drawn)[KEYS] = n->of->argument;
    muster_ps_distribution_opts opts = MUSTER_PS_DISTRIBUTION_OPTS_INIT;
    muster_error error;
    uint32_t number;
    uint64_t handle;
    muster_ps_worker_free(n->worker);
    n->worker = NULL;
    TEST_NODE_CHECK(n, muster_ps_distribution_add(n->ps, &opts, &error,
                                                  &number) == MUSTER_OK);
    // As many on node 0 as can be there at once, before the one that samples.
    for (uint32_t i = 0; i < (n->node == 0 ? MUSTER_PS_WORKERS_MAX + 1u : 1u);
         i++) {
        replace_worker(n);
    }
    TEST_NODE_CHECK(n, muster_ps_sample_prepare(n->worker, 0, KEYS, &handle) ==
                           MUSTER_OK);
    TEST_NODE_CHECK(n,
                    muster_ps_sample_pull(n->worker, handle, KEYS,
                                          drawn[n->node], NULL) == MUSTER_OK);
}

static void samples_of_late_workers_are_no_other_nodes(void **state)
{
    (void)state;
    uint32_t drawn[2][KEYS] = {{0}};
    test_mesh mesh = {.nodes = 2,
                      .keys = KEYS,
                      .width = WIDTH,
                      .argument = drawn,
                      .life = sample_late};
    assert_int_equal(test_mesh_run(&mesh), 0);
    assert_memory_not_equal(drawn[0], drawn[1], sizeof(drawn[0]));
}

static void leave_rows_open(test_node *n)
{
    float *row;
    float seen[WIDTH] = {0};
    uint32_t key = 1 - n->node; // at home on the other node
    TEST_NODE_CHECK(n, muster_ps_begin(n->worker, 0, key, &row) == MUSTER_OK);
    row[0] += 5;
    // Behind the copy, a row of this node: its latch must be free again.
    key = n->node + 2;
    TEST_NODE_CHECK(n, muster_ps_begin(n->worker, 0, key, &row) == MUSTER_OK);
    row[0] += 7;
    replace_worker(n);
    TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
    for (key = 0; key < 4; key++) {
        TEST_NODE_CHECK(n, muster_ps_pull(n->worker, 0, &key, 1, seen) ==
                               MUSTER_OK);
        TEST_NODE_CHECK(n, seen[0] == (key < 2 ? 5.0f : 7.0f));
    }
}

static void rows_left_open_keep_what_changed(void **state)
{
    (void)state;
    test_mesh mesh = {
        .nodes = 2, .keys = KEYS, .width = WIDTH, .life = leave_rows_open};
    assert_int_equal(test_mesh_run(&mesh), 0);
}

static void wrong_handles_and_arguments_are_refused(void **state)
{
    (void)state;
    const test_mesh tables = {.tables = 1, .keys = KEYS, .width = WIDTH};
    muster_ps *ps = test_alone_open(&tables);
    muster_ps_worker *worker = test_worker_open(ps);
    uint32_t key = 0;
    uint32_t beyond = KEYS;
    uint64_t handle = 9;
    float values[WIDTH] = {1};
    bool done = 9;
    assert_int_equal(
        muster_ps_pull_start(worker, 0, &beyond, 1, values, &handle),
        MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_pull_start(worker, 0, &key, 1, values, NULL),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_push_start(worker, 0, &key, 1, NULL, &handle),
                     MUSTER_ERR_INVALID);
    assert_int_equal(
        muster_ps_push_gradient_start(worker, 0, &key, 1, values, &handle),
        MUSTER_ERR_INVALID);
    assert_int_equal(handle, 9);
    assert_int_equal(muster_ps_push_start(worker, 0, &key, 1, values, &handle),
                     MUSTER_OK);
    assert_int_equal(handle, MUSTER_PS_DONE);
    assert_int_equal(muster_ps_wait(worker, handle), MUSTER_OK);
    assert_int_equal(muster_ps_test(worker, handle, &done), MUSTER_OK);
    assert_int_equal(done, 1);
    for (uint64_t wrong = 1; wrong < 40; wrong++) {
        assert_int_equal(muster_ps_wait(worker, wrong), MUSTER_ERR_INVALID);
        assert_int_equal(muster_ps_wait(worker, wrong << 32 | wrong),
                         MUSTER_ERR_INVALID);
        assert_int_equal(muster_ps_test(worker, wrong, &done),
                         MUSTER_ERR_INVALID);
    }
    assert_int_equal(muster_ps_wait(NULL, 0), MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_test(worker, 0, NULL), MUSTER_ERR_INVALID);
    muster_ps_worker_free(worker);
    muster_ps_free(ps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_started_push_counts_once),
        cmocka_unit_test(a_barrier_shows_calls_that_nobody_waited_for),
        cmocka_unit_test(handles_are_bounded_and_used_once),
        cmocka_unit_test(every_operation_can_be_started),
        cmocka_unit_test(samples_of_late_workers_are_no_other_nodes),
        cmocka_unit_test(rows_left_open_keep_what_changed),
        cmocka_unit_test(wrong_handles_and_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
