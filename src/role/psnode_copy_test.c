/*
 * psnode_copy_test.c -- when copies are made, and how often they are
 * synchronised.
 */
#include "role/psnode_test.h"

enum { KEYS = 4, SYNC_MS = 20 };

static mesh *build(bool in_turns)
{
    mesh *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    m->rng = muster_rng_make(1, 1);
    m->nodes = 2;
    mesh_start(m, KEYS, 1,
               (muster_psnode_opts){.manage = MUSTER_PSMANAGE_AUTO,
                                    .contest_ns = 50000000});
    for (uint16_t i = 0; i < m->nodes; i++) {
        m->tables[i]->in_turns = in_turns;
    }
    return m;
}

static void destroy(mesh *m)
{
    mesh_end(m);
    free(m);
}

static void wish(mesh *m, uint16_t at, uint32_t key, bool copy)
{
    localize(m, at, &(muster_pswish){.keys = &key, .count = 1, .copy = copy});
    come_to_rest(m);
}

static muster_word_state state_at(const mesh *m, uint16_t at, uint32_t key)
{
    return muster_word_state_of(atomic_load(&m->tables[at]->words[key]));
}

/* Key 0 is node 0's at first; both want it at once. */
static void a_contested_row_is_copied_unless_it_is_used_in_turns(void **state)
{
    (void)state;
    for (int in_turns = 0; in_turns < 2; in_turns++) {
        mesh *m = build(in_turns != 0);
        wish(m, 1, 0, false);
        assert_int_equal(state_at(m, 1, 0), MUSTER_ROW_OWNED);
        wish(m, 0, 0, false);
        assert_int_equal(state_at(m, 0, 0),
                         in_turns ? MUSTER_ROW_OWNED : MUSTER_ROW_REPLICA);
        assert_int_equal(state_at(m, 1, 0),
                         in_turns ? MUSTER_ROW_ABSENT : MUSTER_ROW_OWNED);
        // Who would be content with a copy gets the row as well.
        wish(m, 1, 2, true);
        assert_int_equal(state_at(m, 1, 2),
                         in_turns ? MUSTER_ROW_OWNED : MUSTER_ROW_REPLICA);
        destroy(m);
    }
}

/* Until node 1 synchronises its copies; returns how long it waits then. */
static int64_t synchronise(mesh *m)
{
    uint64_t before = muster_psnode_count(m->node[1]).syncs;
    tick_all(m, muster_psnode_due_ns(m->node[1]) - m->now_ns);
    while (m->flying > 0) {
        deliver(m, false);
    }
    assert_int_equal(muster_psnode_count(m->node[1]).syncs, before + 1);
    return muster_psnode_due_ns(m->node[1]) - m->now_ns;
}

static void copies_that_do_not_change_are_synchronised_less_often(void **state)
{
    (void)state;
    mesh *m = build(false);
    float one = 1;
    wish(m, 1, 0, true);
    assert_int_equal(state_at(m, 1, 0), MUSTER_ROW_REPLICA);
    for (int round = 0; round < 2; round++) {
        assert_true(muster_pstable_try(m->tables[1], MUSTER_ROW_PUSH, 0, &one));
        int64_t least = synchronise(m);
        int64_t wait = least;
        assert_true(4 * least <= SYNC_MS * 1000000);
        for (int i = 0; i < 8; i++) {
            int64_t next = synchronise(m);
            int64_t most = SYNC_MS * 1000000;
            assert_int_equal(next, 2 * wait < most ? 2 * wait : most);
            wait = next;
        }
        assert_int_equal(wait, SYNC_MS * 1000000);
    }
    float seen = 0;
    assert_true(muster_pstable_try(m->tables[0], MUSTER_ROW_PULL, 0, &seen));
    assert_true(seen == 2);
    destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_contested_row_is_copied_unless_it_is_used_in_turns),
        cmocka_unit_test(copies_that_do_not_change_are_synchronised_less_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
