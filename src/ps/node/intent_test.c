/*
 * intent_test.c -- intents of workers over real sockets: rows come before they
 * are used, replicas go when no intent is left, and every push counts.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "ps/node/node_test.h"

enum { KEYS = 512, WIDTH = 2, BATCH = 4, BATCHES = 400, AHEAD = 50 };

/* What is waited for comes, or the test fails after some seconds. */
static int comes(test_node *n, int (*condition)(muster_ps_counters))
{
    const struct timespec nap = {.tv_nsec = 1000000};
    for (int i = 0; i < 20000; i++) {
        if (condition(test_count(n->ps))) {
            return 1;
        }
        (void)nanosleep(&nap, NULL);
    }
    return 0;
}

static int has_row(muster_ps_counters c)
{
    return c.relocations == 1;
}

static int has_moved(muster_ps_counters c)
{
    return c.relocations > 0;
}

static int has_replica(muster_ps_counters c)
{
    return c.replicas_held == 1;
}

static int has_no_replica(muster_ps_counters c)
{
    return c.replicas_held == 0;
}

static int barrier(test_node *n)
{
    return muster_ps_barrier(n->worker) == MUSTER_OK;
}

/* Key 0 lies at node 0. Node 1 intends to use it alone, then node 0 as well. */
static void take_turns(test_node *n)
{
    uint32_t key = 0;
    TEST_NODE_CHECK(n, muster_ps_clock(n->worker) == 0);
    if (n->node == 1) {
        TEST_NODE_CHECK(n, muster_ps_intent(n->worker, 0, &key, 1, 0, 1) ==
                               MUSTER_OK);
        TEST_NODE_CHECK(n, comes(n, has_row));
    }
    TEST_NODE_CHECK(n, barrier(n));
    if (n->node == 0) {
        TEST_NODE_CHECK(n, muster_ps_intent(n->worker, 0, &key, 1, 0, 1) ==
                               MUSTER_OK);
        TEST_NODE_CHECK(n, comes(n, has_replica));
        muster_ps_clock_advance(n->worker);
        TEST_NODE_CHECK(n, muster_ps_clock(n->worker) == 1);
        TEST_NODE_CHECK(n, comes(n, has_no_replica));
    }
    TEST_NODE_CHECK(n, barrier(n));
    if (n->node == 1) { // gone with its worker, not by its clock
        TEST_NODE_CHECK(n, test_count(n->ps).relocations == 1);
        muster_ps_worker_free(n->worker);
        TEST_NODE_CHECK(n, muster_ps_worker_create(n->ps, NULL, &n->worker) ==
                               MUSTER_OK);
    }
    TEST_NODE_CHECK(n, barrier(n));
}

static void intents_bring_rows_and_replicas_and_give_them_back(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = 2,
                      .manage = MUSTER_PS_AUTO,
                      .keys = KEYS,
                      .width = WIDTH,
                      .life = take_turns};
    assert_int_equal(test_mesh_run(&mesh), 0);
}

/* Half of a batch is the node's own at this time, half everybody's. */
static void batch_keys(const test_node *n, uint32_t batch, uint32_t *keys)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        uint32_t own = (batch * 7 + i * 31 + n->node * KEYS / 4) % KEYS;
        keys[i] = i % 2 == 0 ? own : (batch / 16 + i) % 16;
    }
}

static void work_ahead(test_node *n)
{
    uint32_t keys[BATCH];
    float ones[BATCH * WIDTH];
    for (int i = 0; i < BATCH * WIDTH; i++) {
        ones[i] = 1;
    }
    for (uint32_t batch = 0; batch < BATCHES + AHEAD; batch++) {
        if (batch < BATCHES) {
            batch_keys(n, batch, keys);
            TEST_NODE_CHECK(n, muster_ps_intent(n->worker, 0, keys, BATCH,
                                                batch, batch + 1) == MUSTER_OK);
        }
        if (batch < AHEAD) {
            continue;
        }
        batch_keys(n, batch - AHEAD, keys);
        TEST_NODE_CHECK(n, muster_ps_push(n->worker, 0, keys, BATCH, ones) ==
                               MUSTER_OK);
        muster_ps_clock_advance(n->worker);
    }
    TEST_NODE_CHECK(n, comes(n, has_no_replica));
    TEST_NODE_CHECK(n, barrier(n));
    double sum = test_node_sum(n);
    TEST_NODE_CHECK(n, sum == (double)n->of->nodes * BATCHES * BATCH * WIDTH);
}

static void every_push_counts_while_rows_come_and_go(void **state)
{
    (void)state;
    for (uint32_t manage = 0; manage <= MUSTER_PS_CLASSIC; manage++) {
        test_mesh mesh = {.nodes = 2 + manage % 2,
                          .manage = manage,
                          .keys = KEYS,
                          .width = WIDTH,
                          .life = work_ahead};
        assert_int_equal(test_mesh_run(&mesh), 0);
        // One node may be done before the others have begun, so that nobody
        // wants what it wants; what must not happen, happens nowhere.
        uint64_t moved = 0;
        uint64_t copied = 0;
        for (uint32_t i = 0; i < mesh.nodes; i++) {
            moved += mesh.all[i].counted.relocations;
            copied += mesh.all[i].counted.replications;
        }
        bool may_move =
            manage == MUSTER_PS_AUTO || manage == MUSTER_PS_RELOCATE;
        bool may_copy =
            manage == MUSTER_PS_AUTO || manage == MUSTER_PS_REPLICATE;
        assert_true(may_move || moved == 0);
        assert_true(may_copy || copied == 0);
        assert_int_equal(moved + copied > 0, may_move || may_copy);
    }
}

/* Node 1 intends to use key 0 all the time, node 0, where it lies, in the
 * second half: each gets the row, and pushes wherever it is. */
static void use_in_turns(test_node *n)
{
    enum { HALF = 100 };
    uint32_t key = 0;
    const float ones[WIDTH] = {1, 1};
    for (uint32_t clock = 0; clock < 2 * HALF; clock++) {
        uint32_t begin = n->node == 1 ? 0 : HALF;
        if (clock == begin) {
            TEST_NODE_CHECK(n, muster_ps_intent(n->worker, 0, &key, 1, begin,
                                                2 * HALF) == MUSTER_OK);
            TEST_NODE_CHECK(n, comes(n, has_moved));
        }
        TEST_NODE_CHECK(n, muster_ps_push(n->worker, 0, &key, 1, ones) ==
                               MUSTER_OK);
        muster_ps_clock_advance(n->worker);
        if (clock == HALF - 1) {
            TEST_NODE_CHECK(n, barrier(n));
        }
    }
    TEST_NODE_CHECK(n, barrier(n));
    TEST_NODE_CHECK(n, test_node_sum(n) == 2.0 * 2 * HALF * WIDTH);
}

static void rows_used_in_turns_move_and_are_not_replicated(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = 2,
                      .manage = MUSTER_PS_AUTO,
                      .keys = KEYS,
                      .width = WIDTH,
                      .in_turns = true,
                      .life = use_in_turns};
    assert_int_equal(test_mesh_run(&mesh), 0);
    for (uint32_t i = 0; i < mesh.nodes; i++) {
        assert_int_equal(mesh.all[i].counted.relocations, 1);
        assert_int_equal(mesh.all[i].counted.replications, 0);
    }
}

static void overdo(test_node *n)
{
    uint32_t keys[32] = {0};
    muster_status status = MUSTER_OK;
    TEST_NODE_CHECK(n, muster_ps_intent(n->worker, 0, keys, 1, 5, 5) ==
                           MUSTER_ERR_INVALID);
    TEST_NODE_CHECK(n, muster_ps_intent(n->worker, 1, keys, 1, 5, 6) ==
                           MUSTER_ERR_INVALID);
    TEST_NODE_CHECK(n, muster_ps_intent(n->worker, 0, NULL, 1, 5, 6) ==
                           MUSTER_ERR_INVALID);
    for (int i = 0; i < 100000 && status == MUSTER_OK; i++) {
        status = muster_ps_intent(n->worker, 0, keys, 32, 1u << 30, 1u << 31);
    }
    TEST_NODE_CHECK(n, status == MUSTER_ERR_AGAIN);
}

static void intents_are_bounded_and_checked(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = 2, .keys = KEYS, .width = WIDTH, .life = overdo};
    assert_int_equal(test_mesh_run(&mesh), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intents_bring_rows_and_replicas_and_give_them_back),
        cmocka_unit_test(every_push_counts_while_rows_come_and_go),
        cmocka_unit_test(rows_used_in_turns_move_and_are_not_replicated),
        cmocka_unit_test(intents_are_bounded_and_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
