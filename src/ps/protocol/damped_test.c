/*
 * damped_test.c -- replicas in damped tables: nobody waits for them, and what
 * several nodes change at the same time is less than the sum where they go too
 * far together.
 */
#include <math.h>

#include "ps/protocol/protocol_test.h"

enum { NODES = 4, WIDTH = 8 };

static mesh *build(uint16_t nodes, uint32_t optimizer, uint32_t merge)
{
    mesh *m = muster_mem_array(1, sizeof(*m));
    assert_non_null(m);
    m->rng = muster_rng_make(1, 1);
    m->nodes = nodes;
    m->optimizer = optimizer;
    m->merge = merge;
    mesh_start(m, nodes, WIDTH,
               (muster_protocol_opts){.manage = MUSTER_PS_AUTO});
    for (uint16_t i = 1; i < nodes; i++) {
        static const uint32_t key = 0; // node 0 owns it
        localize(
            m, i,
            &(muster_localize_request){.keys = &key, .count = 1, .copy = true});
        come_to_rest(m);
        assert_int_equal(state_at(m, i, 0), MUSTER_ROW_REPLICA);
    }
    return m;
}

/* Apply an operation to the row of node `at`. */
static void use(mesh *m, uint16_t at, muster_row_op op, float *values)
{
    assert_true(muster_ps_table_try(m->tables[at], op, 0, values));
}

static void workers_never_wait_for_a_damped_replica(void **state)
{
    (void)state;
    mesh *m = build(2, MUSTER_PS_NONE, MUSTER_PS_MERGE_DAMPED);
    float change[WIDTH] = {1};
    uint32_t asks = 0;
    for (int i = 0; i < 10000; i++) {
        asks += muster_word_asks(atomic_load(&m->tables[1]->words[0]));
        use(m, 1, MUSTER_ROWOP_PUSH, change);
    }
    assert_int_equal(asks, 1);
    come_to_rest(m);
    use(m, 0, MUSTER_ROWOP_PULL, change);
    assert_true(change[0] == 10000);
    mesh_free(m);
}

/* Every node sets its row to 1; how far is the owner's from it in the end? */
static float miss_of(uint32_t merge)
{
    mesh *m = build(NODES, MUSTER_PS_NONE, merge);
    float row[WIDTH];
    for (int round = 0; round < 40; round++) {
        for (uint16_t i = 0; i < m->nodes; i++) {
            use(m, i, MUSTER_ROWOP_PULL, row);
            for (int k = 0; k < WIDTH; k++) {
                row[k] = 1 - row[k];
            }
            use(m, i, MUSTER_ROWOP_PUSH, row);
        }
        come_to_rest(m);
        tick_all(m, 20000000); // replicas that did not change get the row
        come_to_rest(m);
    }
    use(m, 0, MUSTER_ROWOP_PULL, row);
    mesh_free(m);
    return fabsf(row[0] - 1);
}

static void nodes_that_go_all_the_way_end_at_the_goal(void **state)
{
    (void)state;
    assert_true(miss_of(MUSTER_PS_MERGE_DAMPED) < 0.01f);
    bool near = miss_of(MUSTER_PS_MERGE_SUM) < 1000;
    assert_false(near); // or no number at all
}

static void deltas_of_nodes_that_agree_count_whole(void **state)
{
    (void)state;
    enum { ROUNDS = 30 };
    mesh *m = build(NODES, MUSTER_PS_NONE, MUSTER_PS_MERGE_DAMPED);
    float row[WIDTH];
    for (int round = 0; round < ROUNDS; round++) {
        for (uint16_t i = 0; i < m->nodes; i++) {
            for (int k = 0; k < WIDTH; k++) {
                row[k] = (float)k;
            }
            use(m, i, MUSTER_ROWOP_PUSH, row);
        }
        come_to_rest(m);
    }
    use(m, 0, MUSTER_ROWOP_PULL, row);
    for (int k = 0; k < WIDTH; k++) {
        assert_true(row[k] == (float)(ROUNDS * NODES * k));
    }
    mesh_free(m);
}

static void steps_of_adagrad_shrink_with_the_squares_of_all_nodes(void **state)
{
    (void)state;
    mesh *m = build(2, MUSTER_PS_ADAGRAD, MUSTER_PS_MERGE_DAMPED);
    float rate = 0.01f; // the default
    for (uint16_t i = 0; i < 2; i++) {
        float gradient[WIDTH];
        for (int k = 0; k < WIDTH; k++) {
            gradient[k] = 2;
        }
        use(m, i, MUSTER_ROWOP_GRADIENT, gradient);
    }
    come_to_rest(m);
    for (uint16_t i = 0; i < 2; i++) {
        tick_all(m, 20000000);
        come_to_rest(m);
        const float *row = muster_ps_table_begin(m->tables[i], 0);
        assert_non_null(row);
        for (int k = 0; k < WIDTH; k++) {
            assert_true(fabsf(row[k] + rate * (1 + sqrtf(0.5f))) < 1e-6f);
            assert_true(row[WIDTH + k] == 8);
        }
        muster_latch_release(&m->tables[i]->words[0], false);
    }
    // The holder has the row and its base, and both go.
    uint32_t holder =
        muster_word_state_of(m->tables[0]->words[0]) == MUSTER_ROW_REPLICA ? 0
                                                                           : 1;
    uint32_t slots = m->tables[holder]->slab.in_use;
    for (int i = 0; i < 4; i++) { // unused replicas are dropped after 3 s
        tick_all(m, 1600000000);
        come_to_rest(m);
    }
    assert_int_equal(m->tables[holder]->slab.in_use, slots - 2);
    mesh_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_never_wait_for_a_damped_replica),
        cmocka_unit_test(nodes_that_go_all_the_way_end_at_the_goal),
        cmocka_unit_test(deltas_of_nodes_that_agree_count_whole),
        cmocka_unit_test(steps_of_adagrad_shrink_with_the_squares_of_all_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
