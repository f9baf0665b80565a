/*
 * static_manage_test.c -- MUSTER_PS_STATIC: rows named in a file are
 * replicated on every node, the others move; every push counts.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "ps/node/node_test.h"

enum { KEYS = 64, WIDTH = 2, HOT = 8, ROUNDS = 300 };

static void use_rows(test_node *n)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    // This node owns half of the hot rows; the others come as replicas.
    for (int i = 0; i < 20000 &&
                    test_count(n->ps).replicas_held < HOT - HOT / n->of->nodes;
         i++) {
        (void)nanosleep(&nap, NULL);
    }
    TEST_NODE_CHECK(n, test_count(n->ps).replicas_held == HOT / 2);
    TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
    uint64_t before = test_count(n->ps).remote_accesses;
    float ones[WIDTH] = {1, 1};
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t hot = i % HOT;
        uint32_t cold = HOT + (i * 7 + n->node * 5) % (KEYS - HOT);
        TEST_NODE_CHECK(n, muster_ps_push(n->worker, 0, &hot, 1, ones) ==
                               MUSTER_OK);
        TEST_NODE_CHECK(n, muster_ps_localize(n->worker, 0, &cold, 1) ==
                               MUSTER_OK);
        TEST_NODE_CHECK(n, muster_ps_push(n->worker, 0, &cold, 1, ones) ==
                               MUSTER_OK);
    }
    TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
    // At most the cold half was ever elsewhere.
    TEST_NODE_CHECK(n, test_count(n->ps).remote_accesses - before <= ROUNDS);
    double sum = test_node_sum(n);
    TEST_NODE_CHECK(n, sum == (double)n->of->nodes * 2 * ROUNDS * WIDTH);
}

static void rows_of_the_file_are_replicated_and_the_others_move(void **state)
{
    (void)state;
    char path[] = "/tmp/muster-static-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    static const char text[] = "0 0-5\n0 6\n0 7\n";
    assert_int_equal(write(file, text, sizeof(text) - 1), sizeof(text) - 1);
    (void)close(file);
    test_mesh mesh = {.nodes = 2,
                      .manage = MUSTER_PS_STATIC,
                      .replicated = path,
                      .keys = KEYS,
                      .width = WIDTH,
                      .life = use_rows};
    assert_int_equal(test_mesh_run(&mesh), 0);
    for (uint32_t i = 0; i < mesh.nodes; i++) {
        assert_int_equal(mesh.all[i].counted.replications, HOT / 2);
        assert_true(mesh.all[i].counted.relocations > 0);
    }
    // A row that no table has is refused when the tables are known.
    mesh.keys = 7;
    test_node n = {.of = &mesh};
    assert_int_equal(test_node_open(&n), MUSTER_ERR_INPUT);
    assert_non_null(strstr(n.error.text, "table 0 has no key 7"));
    test_node_close(&n);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_the_file_are_replicated_and_the_others_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
