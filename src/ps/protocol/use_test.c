/*
 * use_test.c -- rows that workers pull and push without asking for them: hot
 * rows are copied to all nodes, rows that one node uses move to it.
 */
#include "ps/protocol/protocol_test.h"

enum { KEYS = 2000, HOT = 8, ACCESSES = 8000, SETTLING = 2000 };

typedef struct seen {
    uint32_t hot;
    uint32_t remote;
} seen;

/* One pull or push, in place if the row is here. True: it was. */
static bool use(mesh *m, uint16_t at, uint32_t key, muster_row_op op)
{
    asked_row row = {.key = key, .value = 1};
    if (muster_ps_table_try(m->tables[at], op, key, &row.value)) {
        return true;
    }
    ask_row(m, at, op, &row);
    come_to_rest(m);
    assert_int_equal(row.ended, 1);
    return false;
}

/* Half of the accesses go to HOT keys from `first` on. Returns what was seen of
 * these after SETTLING accesses. */
static seen access_many(mesh *m, uint32_t first)
{
    seen s = {0};
    for (uint32_t i = 0; i < ACCESSES; i++) {
        bool hot = below(m, 2) == 0;
        uint32_t key =
            hot ? first + (uint32_t)below(m, HOT) : (uint32_t)below(m, KEYS);
        muster_row_op op =
            below(m, 2) == 0 ? MUSTER_ROWOP_PULL : MUSTER_ROWOP_PUSH;
        bool here = use(m, (uint16_t)(i % 2), key, op);
        s.hot += hot && i > SETTLING;
        s.remote += hot && i > SETTLING && !here;
        if (i % 50 == 0) { // as if 50,000 a second
            tick_all(m, 1000000);
            come_to_rest(m);
        }
    }
    return s;
}

static void hot_rows_are_copied_though_nobody_asks(void **state)
{
    (void)state;
    mesh *m = mesh_make(2, KEYS, false);
    for (uint32_t first = 100; first < KEYS; first += 1000) {
        seen s = access_many(m, first); // a new hot set each time
        assert_true(s.hot > 0);
        assert_true(s.remote * 20 < s.hot);
    }
    mesh_free(m);
}

static void rows_move_to_the_node_that_alone_uses_them(void **state)
{
    (void)state;
    mesh *m = mesh_make(2, 64, false);
    for (uint32_t i = 0; i < 64 * 20; i++) {
        (void)use(m, 1, i % 64, MUSTER_ROWOP_PUSH);
    }
    for (uint32_t key = 0; key < 64; key++) {
        assert_int_equal(state_at(m, 1, key), MUSTER_ROW_OWNED);
    }
    mesh_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hot_rows_are_copied_though_nobody_asks),
        cmocka_unit_test(rows_move_to_the_node_that_alone_uses_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
