/*
 * psnode_intent_test.c -- intents through the protocol: one node's brings the
 * row, several nodes' bring copies, the end gives copies back; and in every
 * order of messages no push is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "role/psnode.h"

enum { NODES_MAX = 3, KEYS = 8, FLIGHT_MAX = 4096, INTENTS_MAX = 6 };
enum { SEEDS = 1500, STEPS = 300 };

typedef struct world {
    uint16_t nodes;
    muster_rng rng;
    int64_t now_ns;
    muster_pstable *tables[NODES_MAX];
    muster_psnode *node[NODES_MAX];
    muster_psnode_out out[NODES_MAX];
    muster_psnode_send flight[FLIGHT_MAX];
    size_t flying;
    uint32_t intended[NODES_MAX][INTENTS_MAX]; // keys
    uint32_t intents[NODES_MAX];
    uint32_t pushes[KEYS];
    muster_keyset replicated; // key 0
} world;

static uint64_t below(world *w, uint64_t bound)
{
    return muster_rng_below(&w->rng, bound);
}

static muster_blob *make_payload(void *context, size_t bytes)
{
    (void)context;
    return muster_blob_create(bytes);
}

static world *build(uint64_t seed, uint16_t nodes, muster_psmanage manage)
{
    world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    w->rng = muster_rng_make(seed, 11);
    w->nodes = nodes;
    w->replicated = muster_keyset_make();
    assert_int_equal(
        muster_keyset_add(&w->replicated, (muster_keyrange){0, 0, 0}),
        MUSTER_OK);
    muster_keyset_seal(&w->replicated);
    for (uint16_t i = 0; i < nodes; i++) {
        muster_ps_table_opts shape = MUSTER_PS_TABLE_OPTS_INIT;
        shape.keys = KEYS;
        shape.width = 1;
        muster_pstable_share share = {.node = i, .nodes = nodes, .seed = 1};
        assert_int_equal(muster_pstable_create(&shape, &share, &w->tables[i]),
                         MUSTER_OK);
        muster_psnode_opts opts = {.node = i,
                                   .nodes = nodes,
                                   .tables = &w->tables[i],
                                   .table_count = 1,
                                   .manage = manage,
                                   .replicated = &w->replicated,
                                   .sync_ns = 20000000,
                                   .make = make_payload};
        assert_int_equal(muster_psnode_create(&opts, &w->node[i]), MUSTER_OK);
        w->out[i] = muster_psnode_out_make();
    }
    return w;
}

static void destroy(world *w)
{
    for (size_t i = 0; i < w->flying; i++) {
        muster_blob_unref(w->flight[i].message.payload);
    }
    for (uint16_t i = 0; i < w->nodes; i++) {
        muster_psnode_free(w->node[i]);
        muster_psnode_out_fini(&w->out[i]);
        muster_pstable_free(w->tables[i]);
    }
    muster_keyset_fini(&w->replicated);
    free(w);
}

static void collect(world *w, uint16_t from)
{
    muster_psnode_out *out = &w->out[from];
    const muster_psnode_send *sends = out->sends.data;
    for (size_t i = 0; i < out->sends.count; i++) {
        assert_true(w->flying < FLIGHT_MAX);
        w->flight[w->flying++] = sends[i];
    }
    muster_vec_clear(&out->sends);
}

static void deliver(world *w)
{
    size_t at = below(w, w->flying);
    muster_psnode_send send = w->flight[at];
    w->flight[at] = w->flight[--w->flying];
    assert_int_equal(muster_psnode_message(w->node[send.to], w->now_ns,
                                           &send.message, &w->out[send.to]),
                     MUSTER_OK);
    muster_blob_unref(send.message.payload);
    collect(w, send.to);
}

static void tick_all(world *w, int64_t ns)
{
    w->now_ns += ns;
    for (uint16_t i = 0; i < w->nodes; i++) {
        assert_int_equal(muster_psnode_tick(w->node[i], w->now_ns, &w->out[i]),
                         MUSTER_OK);
        collect(w, i);
    }
}

static bool at_rest(const world *w)
{
    bool idle = w->flying == 0;
    for (uint16_t i = 0; i < w->nodes; i++) {
        idle = idle && muster_psnode_idle(w->node[i]);
    }
    return idle;
}

static void settle(world *w)
{
    for (int round = 0; !at_rest(w); round++) {
        assert_true(round < 10000);
        if (w->flying > 0) {
            deliver(w);
        } else {
            tick_all(w, 25000000);
        }
    }
}

static void intend(world *w, uint16_t at, uint32_t key, bool begins)
{
    muster_pswish wish = {.keys = &key, .count = 1};
    assert_int_equal(muster_psnode_intend(w->node[at], w->now_ns, &wish, begins,
                                          &w->out[at]),
                     MUSTER_OK);
    collect(w, at);
}

static muster_word_state state_at(const world *w, uint16_t at, uint32_t key)
{
    return muster_word_state_of(atomic_load(&w->tables[at]->words[key]));
}

static void one_nodes_intent_moves_the_row(void **state)
{
    (void)state;
    world *w = build(1, 2, MUSTER_PSMANAGE_AUTO);
    intend(w, 1, 0, true); // key 0 lives at node 0
    settle(w);
    assert_int_equal(state_at(w, 1, 0), MUSTER_ROW_OWNED);
    assert_int_equal(state_at(w, 0, 0), MUSTER_ROW_ABSENT);
    intend(w, 1, 0, false);
    settle(w);
    // What has moved stays until somebody else wants it.
    assert_int_equal(state_at(w, 1, 0), MUSTER_ROW_OWNED);
    intend(w, 0, 0, true);
    settle(w);
    assert_int_equal(state_at(w, 0, 0), MUSTER_ROW_OWNED);
    destroy(w);
}

static void
intents_of_several_nodes_make_copies_that_end_with_them(void **state)
{
    (void)state;
    world *w = build(2, 3, MUSTER_PSMANAGE_AUTO);
    intend(w, 0, 0, true); // the owner's own intent counts
    settle(w);
    intend(w, 1, 0, true);
    intend(w, 1, 0, true);
    intend(w, 2, 0, true);
    settle(w);
    assert_int_equal(state_at(w, 0, 0), MUSTER_ROW_OWNED);
    assert_int_equal(state_at(w, 1, 0), MUSTER_ROW_REPLICA);
    assert_int_equal(state_at(w, 2, 0), MUSTER_ROW_REPLICA);
    // What a copy has gained is sent before the copy goes.
    float one = 1;
    assert_true(muster_pstable_try(w->tables[1], MUSTER_ROW_PUSH, 0, &one));
    intend(w, 1, 0, false);
    tick_all(w, 25000000);
    settle(w);
    assert_int_equal(state_at(w, 1, 0), MUSTER_ROW_REPLICA); // one intent left
    assert_true(muster_pstable_try(w->tables[1], MUSTER_ROW_PUSH, 0, &one));
    intend(w, 1, 0, false);
    intend(w, 2, 0, false);
    for (int i = 0; i < 3; i++) {
        tick_all(w, 25000000);
        settle(w);
    }
    assert_int_equal(state_at(w, 1, 0), MUSTER_ROW_ABSENT);
    assert_int_equal(state_at(w, 2, 0), MUSTER_ROW_ABSENT);
    float seen = 0;
    assert_true(muster_pstable_try(w->tables[0], MUSTER_ROW_PULL, 0, &seen));
    assert_true(seen == 2);
    // Only the owner intends to use it, and then nobody does: it moves.
    intend(w, 2, 0, true);
    settle(w);
    assert_int_equal(state_at(w, 2, 0), MUSTER_ROW_REPLICA);
    intend(w, 2, 0, false);
    intend(w, 0, 0, false);
    for (int i = 0; i < 3; i++) {
        tick_all(w, 25000000);
        settle(w);
    }
    intend(w, 2, 0, true);
    settle(w);
    assert_int_equal(state_at(w, 2, 0), MUSTER_ROW_OWNED);
    destroy(w);
}

static void the_way_of_management_wins(void **state)
{
    (void)state;
    static const muster_word_state expected[] = {
        [MUSTER_PSMANAGE_AUTO] = MUSTER_ROW_OWNED,
        [MUSTER_PSMANAGE_RELOCATE] = MUSTER_ROW_OWNED,
        [MUSTER_PSMANAGE_REPLICATE] = MUSTER_ROW_REPLICA,
        [MUSTER_PSMANAGE_CLASSIC] = MUSTER_ROW_ABSENT,
        [MUSTER_PSMANAGE_STATIC] = MUSTER_ROW_REPLICA};
    for (uint32_t manage = 0; manage <= MUSTER_PSMANAGE_STATIC; manage++) {
        world *w = build(3, 2, (muster_psmanage)manage);
        intend(w, 1, 0, true);
        intend(w, 1, 2, true);
        settle(w);
        assert_int_equal(state_at(w, 1, 0), expected[manage]);
        // Of the set only key 0 is to be copied.
        assert_int_equal(state_at(w, 1, 2), manage == MUSTER_PSMANAGE_STATIC
                                                ? MUSTER_ROW_OWNED
                                                : expected[manage]);
        destroy(w);
    }
}

/* Push in place where the row is here; elsewhere nobody pushes. */
static void push_here(world *w, uint16_t at)
{
    uint32_t key = (uint32_t)below(w, KEYS);
    float one = 1;
    w->pushes[key] +=
        muster_pstable_try(w->tables[at], MUSTER_ROW_PUSH, key, &one);
}

static void change_intents(world *w, uint16_t at)
{
    if (w->intents[at] < INTENTS_MAX && below(w, 2) == 0) {
        uint32_t key = (uint32_t)below(w, KEYS);
        w->intended[at][w->intents[at]++] = key;
        intend(w, at, key, true);
    } else if (w->intents[at] > 0) {
        uint32_t *last = &w->intended[at][--w->intents[at]];
        uint32_t *any = &w->intended[at][below(w, w->intents[at] + 1)];
        uint32_t key = *any;
        *any = *last;
        intend(w, at, key, false);
    }
}

static void wish_some(world *w, uint16_t at)
{
    uint32_t key = (uint32_t)below(w, KEYS);
    muster_pswish wish = {.keys = &key, .count = 1, .copy = below(w, 2) == 0};
    assert_int_equal(
        muster_psnode_localize(w->node[at], w->now_ns, &wish, &w->out[at]),
        MUSTER_OK);
    collect(w, at);
}

static void live(world *w)
{
    for (int step = 0; step < STEPS; step++) {
        uint16_t at = (uint16_t)below(w, w->nodes);
        switch (below(w, 8)) {
        case 0:
        case 1:
            change_intents(w, at);
            break;
        case 2:
            wish_some(w, at);
            break;
        case 3:
            push_here(w, at);
            break;
        case 4:
            tick_all(w, (int64_t)below(w, 10000000));
            break;
        default:
            if (w->flying > 0) {
                deliver(w);
            }
            break;
        }
    }
}

static void check_rows(world *w, bool intents_over)
{
    for (uint32_t key = 0; key < KEYS; key++) {
        int owners = 0;
        for (uint16_t i = 0; i < w->nodes; i++) {
            float seen = 0;
            if (state_at(w, i, key) != MUSTER_ROW_OWNED) {
                continue;
            }
            owners++;
            assert_int_equal(
                muster_psnode_owner(w->node[key % w->nodes], 0, key), i);
            assert_true(
                muster_pstable_try(w->tables[i], MUSTER_ROW_PULL, key, &seen));
            assert_true(seen == (float)w->pushes[key]);
        }
        assert_int_equal(owners, 1);
    }
    for (uint16_t i = 0; i < w->nodes; i++) {
        assert_int_equal(muster_psnode_count(w->node[i]).violations, 0);
        assert_true(!intents_over ||
                    muster_psnode_count(w->node[i]).copies == 0);
        // What is intended is here.
        for (uint32_t k = 0; k < w->intents[i]; k++) {
            assert_true(muster_pstable_here(w->tables[i], w->intended[i][k]));
        }
    }
}

static void rows_are_here_while_intended_in_every_history(void **state)
{
    (void)state;
    const uint64_t many = 2 * (uint64_t)SEEDS;
    uint64_t moved = 0;
    uint64_t copied = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint16_t nodes = (uint16_t)(2 + seed % 2);
        world *w = build(seed, nodes, MUSTER_PSMANAGE_AUTO);
        live(w);
        settle(w);
        check_rows(w, false);
        for (uint16_t i = 0; i < nodes; i++) {
            while (w->intents[i] > 0) {
                change_intents(w, i);
            }
            moved += muster_psnode_count(w->node[i]).relocations;
            copied += muster_psnode_count(w->node[i]).replicas;
        }
        for (int i = 0; i < 4; i++) { // copies for wishes take 3 s
            settle(w);
            tick_all(w, 1600000000);
        }
        settle(w);
        check_rows(w, true);
        destroy(w);
    }
    assert_true(moved > many && copied > many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_nodes_intent_moves_the_row),
        cmocka_unit_test(
            intents_of_several_nodes_make_copies_that_end_with_them),
        cmocka_unit_test(the_way_of_management_wins),
        cmocka_unit_test(rows_are_here_while_intended_in_every_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
