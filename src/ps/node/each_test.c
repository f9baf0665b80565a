/*
 * each_test.c -- read and update: callbacks on one node, and that reading rows
 * in a mesh writes nothing: one pull for a row of another node, no push; a
 * replica stays clean and keeps its budget.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ps/node/inside.h"

#include "ps/node/node_test.h"

enum { KEYS = 100, WIDTH = 4 };

static muster_ps *make_node(void)
{
    return test_alone_open(&(test_mesh){
        .keys = KEYS, .width = WIDTH, .optimizer = MUSTER_PS_ADAGRAD});
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
    muster_ps *ps = make_node();
    muster_ps_worker *worker = test_worker_open(ps);
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
    muster_ps *ps = make_node();
    muster_ps_worker *worker = test_worker_open(ps);
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

/* ---- in a mesh ----------------------------------------------------------- */

enum { MESH_KEYS = 8, READS = 200 };

/* A reader that counts rows whose first weight is not `expected`. */
typedef struct looker {
    float expected;
    size_t rows;
    int wrong;
} looker;

static void look(void *context, size_t i, const float *row, uint32_t floats)
{
    looker *l = context;
    (void)i;
    l->wrong += row[0] != l->expected || floats != WIDTH;
    l->rows++;
}

/* Requests that the node's protocol has sent to other nodes. */
static uint64_t requests_sent(const test_node *n)
{
    return muster_mesh_count(n->ps->mesh).protocol.remote_ops;
}

/* Node 1 reads rows of node 0, again and again. */
static void read_remote_rows(test_node *n)
{
    const float ones[WIDTH] = {1, 1, 1, 1};
    const uint32_t keys[2] = {0, 2}; // at home on node 0
    looker l = {.expected = 1};
    for (int i = 0; i < 2 && n->node == 0; i++) {
        TEST_NODE_CHECK(n, muster_ps_push(n->worker, 0, &keys[i], 1, ones) ==
                               MUSTER_OK);
    }
    TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
    if (n->node == 0) {
        return;
    }
    for (int i = 0; i < READS; i++) {
        TEST_NODE_CHECK(n, muster_ps_read(n->worker, 0, keys, 2, look, &l) ==
                               MUSTER_OK);
    }
    TEST_NODE_CHECK(n, l.rows == 2 * READS && l.wrong == 0);
    TEST_NODE_CHECK(n, muster_worker_open_rows(n->worker) == 0);
    TEST_NODE_CHECK(n, n->worker->counts.remote_accesses == 2 * READS);
}

static void reading_a_row_of_another_node_costs_one_pull(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = 2,
                      .manage = MUSTER_PS_CLASSIC,
                      .keys = MESH_KEYS,
                      .width = WIDTH,
                      .life = read_remote_rows};
    assert_int_equal(test_mesh_run(&mesh), 0);
    assert_int_equal(mesh.all[1].counted.remote_accesses, 2 * READS);
    assert_int_equal(mesh.all[1].counted.accesses, 2 * READS);
}

/* Node 1 has replicas of node 0's rows and reads them; nothing marks them as
 * written, so that no budget is spent and no delta is sent. */
static void read_replicas(test_node *n)
{
    const uint32_t keys[2] = {0, 2};
    looker l = {.expected = 0};
    if (n->node == 0) {
        return;
    }
    TEST_NODE_CHECK(n, muster_ps_fetch(n->worker, 0, keys, 2) == MUSTER_OK);
    muster_word *word = &n->ps->tables[0]->words[0];
    uint64_t before = atomic_load(word);
    TEST_NODE_CHECK(n, muster_word_state_of(before) == MUSTER_ROW_REPLICA);
    for (int i = 0; i < READS; i++) {
        TEST_NODE_CHECK(n, muster_ps_read(n->worker, 0, keys, 2, look, &l) ==
                               MUSTER_OK);
        uint64_t now = atomic_load(word);
        TEST_NODE_CHECK(n, (now & MUSTER_WORD_DIRTY) == 0);
        TEST_NODE_CHECK(n,
                        muster_word_budget(now) == muster_word_budget(before));
    }
    TEST_NODE_CHECK(n, l.rows == 2 * READS && l.wrong == 0);
    // One write spends one of the budget: the count above is the right one.
    const float one[WIDTH] = {1};
    TEST_NODE_CHECK(n, muster_ps_push(n->worker, 0, keys, 1, one) == MUSTER_OK);
}

static void reading_a_replica_writes_nothing(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = 2,
                      .manage = MUSTER_PS_REPLICATE,
                      .keys = MESH_KEYS,
                      .width = WIDTH,
                      .staleness_ms = 100000,
                      .life = read_replicas};
    assert_int_equal(test_mesh_run(&mesh), 0);
}

/* A reader that opens a row of its own node after the row that it reads. */
static void open_another(void *context, size_t i, const float *row,
                         uint32_t floats)
{
    test_node *n = context;
    float *own;
    (void)i;
    (void)floats;
    TEST_NODE_CHECK(n, row[0] == 0);
    TEST_NODE_CHECK(n, muster_ps_begin(n->worker, 0, 5, &own) == MUSTER_OK);
    own[0] += 1;
    TEST_NODE_CHECK(n, muster_ps_end(n->worker, 0, 5) == MUSTER_OK);
}

/* Rows of both nodes; a row in place stays open through the reads after it. */
static void read_with_rows_open(test_node *n)
{
    const uint32_t keys[2] = {2, 3};
    uint64_t sent = requests_sent(n);
    float *row;
    if (n->node == 0) {
        return;
    }
    TEST_NODE_CHECK(n, muster_ps_read(n->worker, 0, keys, 2, open_another, n) ==
                           MUSTER_OK);
    TEST_NODE_CHECK(n, muster_ps_begin(n->worker, 0, 1, &row) == MUSTER_OK);
    TEST_NODE_CHECK(n, muster_ps_read(n->worker, 0, keys, 2, open_another, n) ==
                           MUSTER_ERR_AGAIN);
    TEST_NODE_CHECK(n, muster_ps_read(n->worker, 0, keys + 1, 1, open_another,
                                      n) == MUSTER_OK);
    TEST_NODE_CHECK(n, muster_ps_end(n->worker, 0, 1) == MUSTER_OK);
    TEST_NODE_CHECK(n, n->worker->counts.remote_accesses == 1);
    TEST_NODE_CHECK(n, requests_sent(n) - sent <= 1);
    float seen[WIDTH];
    const uint32_t own = 5;
    TEST_NODE_CHECK(n,
                    muster_ps_pull(n->worker, 0, &own, 1, seen) == MUSTER_OK);
    TEST_NODE_CHECK(n, seen[0] == 3);
}

static void a_reader_may_open_rows_of_its_own(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = 2,
                      .manage = MUSTER_PS_CLASSIC,
                      .keys = MESH_KEYS,
                      .width = WIDTH,
                      .life = read_with_rows_open};
    assert_int_equal(test_mesh_run(&mesh), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callbacks_see_the_rows_and_their_state),
        cmocka_unit_test(callbacks_are_not_called_for_what_is_wrong),
        cmocka_unit_test(reading_a_row_of_another_node_costs_one_pull),
        cmocka_unit_test(reading_a_replica_writes_nothing),
        cmocka_unit_test(a_reader_may_open_rows_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
