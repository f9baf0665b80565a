/*
 * replica_divergence_test.c -- several nodes that descend on the same few rows
 * through replicas end where one node would, though each could go far alone.
 *
 * The rows are to become (1, 1, ..): every step moves a row by a share of what
 * is missing. Two hundred steps on an old replica go all the way. When three
 * nodes do that at once and their deltas add up, the row becomes three times
 * its goal, then minus three times, and so on without a bound.
 */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ps/node/node_test.h"

enum { KEYS = 6, WIDTH = 8, EPOCHS = 40, STEPS = 200 };

static int descend(test_node *n, uint32_t key)
{
    float *row = NULL;
    if (muster_ps_begin(n->worker, 0, key, &row) != MUSTER_OK) {
        return 0;
    }
    for (int i = 0; i < WIDTH; i++) {
        row[i] += 0.05f * (1 - row[i]);
    }
    return muster_ps_end(n->worker, 0, key) == MUSTER_OK;
}

static void train(test_node *n)
{
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (uint32_t key = 0; key < KEYS; key++) {
            muster_status asked = muster_ps_localize(n->worker, 0, &key, 1);
            TEST_NODE_CHECK(n, asked == MUSTER_OK);
            for (int step = 0; step < STEPS; step++) {
                TEST_NODE_CHECK(n, descend(n, key));
            }
        }
        TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
    }
    for (uint32_t key = 0; key < KEYS; key++) {
        float seen[WIDTH];
        TEST_NODE_CHECK(n, muster_ps_pull(n->worker, 0, &key, 1, seen) ==
                               MUSTER_OK);
        for (int i = 0; i < WIDTH; i++) {
            TEST_NODE_CHECK(n, fabsf(seen[i] - 1) < 0.1f);
        }
    }
}

static void descend_by(uint32_t manage, uint32_t merge)
{
    test_mesh mesh = {.nodes = 3,
                      .manage = manage,
                      .merge = merge,
                      .keys = KEYS,
                      .width = WIDTH,
                      .staleness_ms = 2000,
                      .life = train};
    assert_int_equal(test_mesh_run(&mesh), 0);
    for (uint32_t k = 0; k < mesh.nodes; k++) {
        assert_true(manage == MUSTER_PS_AUTO ||
                    mesh.all[k].counted.replications > 0);
    }
}

static void replicas_do_not_diverge(void **state)
{
    (void)state;
    descend_by(MUSTER_PS_AUTO, MUSTER_PS_MERGE_SUM);
    descend_by(MUSTER_PS_REPLICATE, MUSTER_PS_MERGE_SUM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_do_not_diverge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
