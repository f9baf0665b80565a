/*
 * meet_test.c -- muster_ps_meet() of nodes that write to replicas: what owners
 * and holders have when each kind of barrier is passed.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ps/node/node_test.h"

enum { NODES = 3, KEYS = 60, WIDTH = 2, ROUNDS = 20 };

/* Do all rows with key % NODES == `home` (-1: all) have so many ones? */
static bool all_have(test_node *n, int home, int ones)
{
    bool all = true;
    for (uint32_t key = 0; key < KEYS; key++) {
        float row[WIDTH] = {0};
        if (home >= 0 && (int)(key % NODES) != home) {
            continue;
        }
        TEST_NODE_CHECK(n, muster_ps_pull(n->worker, 0, &key, 1, row) ==
                               MUSTER_OK);
        all = all && (int)row[0] == ones && (int)row[1] == ones;
    }
    return all;
}

static void push_all(test_node *n)
{
    const float ones[WIDTH] = {1, 1};
    for (uint32_t key = 0; key < KEYS; key++) {
        TEST_NODE_CHECK(n, muster_ps_push(n->worker, 0, &key, 1, ones) ==
                               MUSTER_OK);
    }
}

/* Rows stay at their homes; every node has replicas of the others'. */
static void work_and_meet(test_node *n)
{
    uint32_t keys[KEYS];
    for (uint32_t key = 0; key < KEYS; key++) {
        keys[key] = key;
    }
    TEST_NODE_CHECK(n, muster_ps_fetch(n->worker, 0, keys, KEYS) == MUSTER_OK);
    for (int round = 1; round <= ROUNDS; round++) {
        push_all(n);
        TEST_NODE_CHECK(n, muster_ps_meet(n->worker, MUSTER_PS_STORED) ==
                               MUSTER_OK);
        TEST_NODE_CHECK(n,
                        all_have(n, (int)n->node, 2 * NODES * round - NODES));
        TEST_NODE_CHECK(n,
                        muster_ps_meet(n->worker, MUSTER_PS_MET) == MUSTER_OK);
        push_all(n);
        TEST_NODE_CHECK(n,
                        muster_ps_meet(n->worker, MUSTER_PS_SEEN) == MUSTER_OK);
        TEST_NODE_CHECK(n, all_have(n, -1, 2 * NODES * round));
        TEST_NODE_CHECK(n,
                        muster_ps_meet(n->worker, MUSTER_PS_MET) == MUSTER_OK);
    }
}

static void owners_have_what_is_stored_and_all_what_is_seen(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = NODES,
                      .manage = MUSTER_PS_REPLICATE,
                      .keys = KEYS,
                      .width = WIDTH,
                      .life = work_and_meet};
    assert_int_equal(test_mesh_run(&mesh), 0);
    for (uint32_t i = 0; i < mesh.nodes; i++) {
        assert_true(mesh.all[i].counted.replications >= KEYS - KEYS / NODES);
    }
}

static void another_kind_of_barrier_is_refused(void **state)
{
    (void)state;
    muster_ps *ps = test_alone_open(&(test_mesh){0});
    muster_ps_worker *worker = test_worker_open(ps);
    assert_int_equal(muster_ps_meet(worker, MUSTER_PS_MET), MUSTER_OK);
    assert_int_equal(muster_ps_meet(worker, (muster_ps_until)3),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_meet(NULL, MUSTER_PS_MET), MUSTER_ERR_INVALID);
    muster_ps_worker_free(worker);
    muster_ps_free(ps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owners_have_what_is_stored_and_all_what_is_seen),
        cmocka_unit_test(another_kind_of_barrier_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
