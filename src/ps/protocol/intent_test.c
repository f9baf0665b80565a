/*
 * intent_test.c -- intents through the protocol: the intent of one node brings
 * the row, intents of several nodes bring replicas, and their end drops the
 * replicas; in every order of messages no push is lost. Rows that nodes use in
 * turns are never replicated: at rest such a row is at a node that requested
 * it.
 */
#include "ps/protocol/protocol_test.h"

enum { KEYS = 8, INTENTS_MAX = 6, SEEDS = 1500, STEPS = 300 };

typedef struct world {
    mesh mesh;
    uint32_t intended[NODES_MAX][INTENTS_MAX]; // keys
    uint32_t intents[NODES_MAX];
    uint32_t pushes[KEYS];
    muster_keyset replicated; // key 0
} world;

static world *build(uint64_t seed, uint16_t nodes, muster_ps_manage manage)
{
    world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    w->mesh.rng = muster_rng_make(seed, 11);
    w->mesh.nodes = nodes;
    w->replicated = muster_keyset_make();
    assert_int_equal(
        muster_keyset_add(&w->replicated, (muster_keyrange){0, 0, 0}),
        MUSTER_OK);
    muster_keyset_seal(&w->replicated);
    mesh_start(
        &w->mesh, KEYS, 1,
        (muster_protocol_opts){.manage = manage, .replicated = &w->replicated});
    return w;
}

static void destroy(world *w)
{
    mesh_end(&w->mesh);
    muster_keyset_fini(&w->replicated);
    free(w);
}

static void one_nodes_intent_moves_the_row(void **state)
{
    (void)state;
    world *w = build(1, 2, MUSTER_PS_AUTO);
    mesh *m = &w->mesh;
    intend(m, 1, 0, true); // node 0 owns key 0
    come_to_rest(m);
    assert_int_equal(state_at(m, 1, 0), MUSTER_ROW_OWNED);
    assert_int_equal(state_at(m, 0, 0), MUSTER_ROW_ABSENT);
    intend(m, 1, 0, false);
    come_to_rest(m);
    // A row that has moved stays until another node requests it.
    assert_int_equal(state_at(m, 1, 0), MUSTER_ROW_OWNED);
    intend(m, 0, 0, true);
    come_to_rest(m);
    assert_int_equal(state_at(m, 0, 0), MUSTER_ROW_OWNED);
    destroy(w);
}

static void
intents_of_several_nodes_make_replicas_that_end_with_them(void **state)
{
    (void)state;
    world *w = build(2, 3, MUSTER_PS_AUTO);
    mesh *m = &w->mesh;
    intend(m, 0, 0, true); // the owner's own intent counts
    come_to_rest(m);
    intend(m, 1, 0, true);
    intend(m, 1, 0, true);
    intend(m, 2, 0, true);
    come_to_rest(m);
    assert_int_equal(state_at(m, 0, 0), MUSTER_ROW_OWNED);
    assert_int_equal(state_at(m, 1, 0), MUSTER_ROW_REPLICA);
    assert_int_equal(state_at(m, 2, 0), MUSTER_ROW_REPLICA);
    // The delta of a replica is sent before the replica is dropped.
    float one = 1;
    assert_true(muster_ps_table_try(m->tables[1], MUSTER_ROWOP_PUSH, 0, &one));
    intend(m, 1, 0, false);
    tick_all(m, 25000000);
    come_to_rest(m);
    assert_int_equal(state_at(m, 1, 0), MUSTER_ROW_REPLICA); // one intent left
    assert_true(muster_ps_table_try(m->tables[1], MUSTER_ROWOP_PUSH, 0, &one));
    intend(m, 1, 0, false);
    intend(m, 2, 0, false);
    for (int i = 0; i < 3; i++) {
        tick_all(m, 25000000);
        come_to_rest(m);
    }
    assert_int_equal(state_at(m, 1, 0), MUSTER_ROW_ABSENT);
    assert_int_equal(state_at(m, 2, 0), MUSTER_ROW_ABSENT);
    float seen = 0;
    assert_true(muster_ps_table_try(m->tables[0], MUSTER_ROWOP_PULL, 0, &seen));
    assert_true(seen == 2);
    // Only the owner intends to use the row, then no node does: it moves.
    intend(m, 2, 0, true);
    come_to_rest(m);
    assert_int_equal(state_at(m, 2, 0), MUSTER_ROW_REPLICA);
    intend(m, 2, 0, false);
    intend(m, 0, 0, false);
    for (int i = 0; i < 3; i++) {
        tick_all(m, 25000000);
        come_to_rest(m);
    }
    intend(m, 2, 0, true);
    come_to_rest(m);
    assert_int_equal(state_at(m, 2, 0), MUSTER_ROW_OWNED);
    destroy(w);
}

static void the_way_of_management_wins(void **state)
{
    (void)state;
    static const muster_word_state expected[] = {
        [MUSTER_PS_AUTO] = MUSTER_ROW_OWNED,
        [MUSTER_PS_RELOCATE] = MUSTER_ROW_OWNED,
        [MUSTER_PS_REPLICATE] = MUSTER_ROW_REPLICA,
        [MUSTER_PS_CLASSIC] = MUSTER_ROW_ABSENT,
        [MUSTER_PS_STATIC] = MUSTER_ROW_REPLICA};
    for (uint32_t manage = 0; manage <= MUSTER_PS_STATIC; manage++) {
        world *w = build(3, 2, (muster_ps_manage)manage);
        mesh *m = &w->mesh;
        intend(m, 1, 0, true);
        intend(m, 1, 2, true);
        come_to_rest(m);
        assert_int_equal(state_at(m, 1, 0), expected[manage]);
        // In this set only key 0 is replicated.
        assert_int_equal(state_at(m, 1, 2), manage == MUSTER_PS_STATIC
                                                ? MUSTER_ROW_OWNED
                                                : expected[manage]);
        destroy(w);
    }
}

/* Push in place if the row is here; else do nothing. */
static void push_here(world *w, uint16_t at)
{
    mesh *m = &w->mesh;
    uint32_t key = (uint32_t)below(m, KEYS);
    float one = 1;
    w->pushes[key] +=
        muster_ps_table_try(m->tables[at], MUSTER_ROWOP_PUSH, key, &one);
}

static void change_intents(world *w, uint16_t at)
{
    mesh *m = &w->mesh;
    if (w->intents[at] < INTENTS_MAX && below(m, 2) == 0) {
        uint32_t key = (uint32_t)below(m, KEYS);
        w->intended[at][w->intents[at]++] = key;
        intend(m, at, key, true);
    } else if (w->intents[at] > 0) {
        uint32_t *last = &w->intended[at][--w->intents[at]];
        uint32_t *any = &w->intended[at][below(m, w->intents[at] + 1)];
        uint32_t key = *any;
        *any = *last;
        intend(m, at, key, false);
    }
}

static void localize_some(mesh *m, uint16_t at)
{
    uint32_t key = (uint32_t)below(m, KEYS);
    muster_localize_request request = {
        .keys = &key, .count = 1, .copy = below(m, 2) == 0};
    localize(m, at, &request);
}

static void live(world *w)
{
    mesh *m = &w->mesh;
    for (int step = 0; step < STEPS; step++) {
        uint16_t at = (uint16_t)below(m, m->nodes);
        switch (below(m, 8)) {
        case 0:
        case 1:
            change_intents(w, at);
            break;
        case 2:
            localize_some(m, at);
            break;
        case 3:
            push_here(w, at);
            break;
        case 4:
            tick_all(m, (int64_t)below(m, 10000000));
            break;
        default:
            deliver(m, false);
            break;
        }
    }
}

static void check_rows(world *w, bool intents_over)
{
    mesh *m = &w->mesh;
    for (uint32_t key = 0; key < KEYS; key++) {
        int owners = 0;
        for (uint16_t i = 0; i < m->nodes; i++) {
            float seen = 0;
            if (state_at(m, i, key) != MUSTER_ROW_OWNED) {
                continue;
            }
            owners++;
            assert_int_equal(
                muster_protocol_owner(m->node[key % m->nodes], 0, key), i);
            assert_true(muster_ps_table_try(m->tables[i], MUSTER_ROWOP_PULL,
                                            key, &seen));
            assert_true(seen == (float)w->pushes[key]);
        }
        assert_int_equal(owners, 1);
    }
    for (uint16_t i = 0; i < m->nodes; i++) {
        assert_int_equal(muster_protocol_count(m->node[i]).violations, 0);
        assert_true(!intents_over ||
                    muster_protocol_count(m->node[i]).copies == 0);
        // A row that is intended is here, unless nodes use it in turns.
        for (uint32_t k = 0; k < w->intents[i] && !m->tables[i]->in_turns;
             k++) {
            assert_true(muster_ps_table_here(m->tables[i], w->intended[i][k]));
        }
    }
}

static void rows_are_here_while_intended_in_every_history(void **state)
{
    (void)state;
    const uint64_t many = 2 * (uint64_t)SEEDS;
    uint64_t moved = 0;
    uint64_t copied = 0;
    uint64_t first;
    uint64_t last = seeds_to_run(SEEDS, &first);
    for (uint64_t seed = first; seed < last; seed++) {
        replay_begin("test_ps_protocol_intent", seed);
        uint16_t nodes = (uint16_t)(2 + seed % 2);
        world *w = build(seed, nodes, MUSTER_PS_AUTO);
        mesh *m = &w->mesh;
        live(w);
        come_to_rest(m);
        check_rows(w, false);
        for (uint16_t i = 0; i < nodes; i++) {
            while (w->intents[i] > 0) {
                change_intents(w, i);
            }
            moved += muster_protocol_count(m->node[i]).relocations;
            copied += muster_protocol_count(m->node[i]).replicas;
        }
        for (int i = 0; i < 4; i++) { // unwanted replicas are dropped after 3 s
            come_to_rest(m);
            tick_all(m, 1600000000);
        }
        come_to_rest(m);
        check_rows(w, true);
        destroy(w);
        replay_end();
    }
    assert_true(last - first < SEEDS || (moved > many && copied > many));
}

/* Two nodes that intend to use the same row do not take it from each other for
 * ever, and each node that requests it gets it. */
static void rows_used_in_turns_are_not_replicated_in_any_history(void **state)
{
    (void)state;
    uint64_t moved = 0;
    uint64_t first;
    uint64_t last = seeds_to_run(SEEDS / 3, &first);
    for (uint64_t seed = first; seed < last; seed++) {
        replay_begin("test_ps_protocol_intent", seed);
        world *w = build(seed, (uint16_t)(2 + seed % 2), MUSTER_PS_AUTO);
        mesh *m = &w->mesh;
        for (uint16_t i = 0; i < m->nodes; i++) {
            m->tables[i]->in_turns = true;
        }
        live(w);
        come_to_rest(m);
        check_rows(w, false);
        for (uint16_t i = 0; i < m->nodes; i++) {
            assert_int_equal(muster_protocol_count(m->node[i]).replicas, 0);
            moved += muster_protocol_count(m->node[i]).relocations;
        }
        uint32_t key = 0;
        for (uint16_t at = 0; at < m->nodes; at++) {
            intend(m, at, key, true);
            come_to_rest(m);
            // A second intent requests nothing: the first has done so.
            bool once = muster_map_find(&m->node[at]->intents.local,
                                        muster_rowref_make(0, key)) == 1;
            assert_true(!once || muster_ps_table_here(m->tables[at], key));
        }
        check_rows(w, false);
        destroy(w);
        replay_end();
    }
    assert_true(last - first < SEEDS / 3 || moved > SEEDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_nodes_intent_moves_the_row),
        cmocka_unit_test(
            intents_of_several_nodes_make_replicas_that_end_with_them),
        cmocka_unit_test(the_way_of_management_wins),
        cmocka_unit_test_teardown(rows_are_here_while_intended_in_every_history,
                                  tell_replay),
        cmocka_unit_test_teardown(
            rows_used_in_turns_are_not_replicated_in_any_history, tell_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
