/*
 * sparse_checkpoint_test.c -- what node 0 gathers for a checkpoint between
 * epochs has all updates, although its replicas are read and the work before
 * ended with a barrier that waits for none.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "ps/node/node_test.h"
#include "run/sparse_checkpoint.h"

enum { NODES = 3, KEYS = 60, WIDTH = 2, EPOCHS = 20 };

static void check_gathered(test_node *n, int epoch)
{
    float *rows[1];
    TEST_NODE_CHECK(n, muster_ps_gather(n->worker, 1, rows) == MUSTER_OK);
    for (uint32_t i = 0; i < KEYS * WIDTH; i++) {
        TEST_NODE_CHECK(n, (int)rows[0][i] == NODES * epoch);
    }
    muster_mem_free(rows[0]);
}

/* Epochs as in sparse_train.c; node 0 has the run folder. */
static void train(test_node *n)
{
    const float ones[WIDTH] = {1, 1};
    uint32_t keys[KEYS];
    for (uint32_t key = 0; key < KEYS; key++) {
        keys[key] = key;
    }
    TEST_NODE_CHECK(n, muster_ps_fetch(n->worker, 0, keys, KEYS) == MUSTER_OK);
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        for (uint32_t key = 0; key < KEYS; key++) {
            TEST_NODE_CHECK(n, muster_ps_push(n->worker, 0, &key, 1, ones) ==
                                   MUSTER_OK);
        }
        TEST_NODE_CHECK(n,
                        muster_ps_meet(n->worker, MUSTER_PS_MET) == MUSTER_OK);
        muster_ps_until until =
            n->node == 0 ? MUSTER_PS_SEEN : MUSTER_PS_STORED;
        TEST_NODE_CHECK(n, muster_ps_meet(n->worker, until) == MUSTER_OK);
        if (n->node == 0) {
            check_gathered(n, epoch);
        }
        TEST_NODE_CHECK(n,
                        muster_ps_meet(n->worker, MUSTER_PS_SEEN) == MUSTER_OK);
    }
}

static void a_checkpoint_has_all_updates_of_its_epochs(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = NODES,
                      .manage = MUSTER_PS_REPLICATE,
                      .keys = KEYS,
                      .width = WIDTH,
                      .life = train};
    assert_int_equal(test_mesh_run(&mesh), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_has_all_updates_of_its_epochs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
