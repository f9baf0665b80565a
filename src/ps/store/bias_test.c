/*
 * bias_test.c -- which rows are open unlatched, over records made by hand. What
 * records achieve is tested in bias_model_test.c.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "ps/store/bias.h"

static muster_bias_holders *make_holders(void)
{
    muster_bias_holders *holders = muster_mem_lines(1, sizeof(*holders));
    assert_non_null(holders);
    return holders;
}

/* A worker opens a row, unlatched or not. */
static void open_row(muster_bias_holder *holder, muster_rowref ref,
                     bool unlatched)
{
    uint64_t state = muster_bias_state(holder);
    uint32_t open = muster_bias_open_rows(state);
    if (unlatched) {
        muster_bias_list(holder, open, ref | MUSTER_ROWREF_UNLATCHED);
        muster_bias_enter(holder, state);
    } else {
        muster_bias_list(holder, open, ref);
        muster_bias_state_add(holder, MUSTER_BIAS_LATCHED + MUSTER_BIAS_ACCESS);
    }
}

static void references_keep_table_and_key(void **state)
{
    (void)state;
    const uint32_t tables[] = {0, 1, MUSTER_PS_TABLES_MAX - 1};
    const uint32_t keys[] = {0, 1, MUSTER_PS_KEYS_MAX - 1, UINT32_MAX};
    muster_rowref before = 0;
    for (size_t t = 0; t < 3; t++) {
        for (size_t k = 0; k < 4; k++) {
            muster_rowref ref = muster_rowref_make(tables[t], keys[k]);
            assert_int_equal(muster_rowref_table(ref), tables[t]);
            assert_int_equal(muster_rowref_key(ref), keys[k]);
            muster_rowref unlatched = ref | MUSTER_ROWREF_UNLATCHED;
            assert_true(unlatched != ref);
            assert_int_equal(muster_rowref_table(unlatched), tables[t]);
            assert_int_equal(muster_rowref_key(unlatched), keys[k]);
            assert_true((t == 0 && k == 0) || ref > before); // their order
            before = ref;
        }
    }
}

static void states_count_rows_and_accesses(void **state)
{
    (void)state;
    muster_bias_holders *holders = make_holders();
    muster_bias_holder *v = &holders->all[0];
    uint64_t empty = muster_bias_state(v);
    muster_bias_enter(v, empty);
    muster_bias_back_out(v, empty); // not let in, that was no access
    assert_int_equal(muster_bias_state(v), empty);
    open_row(v, muster_rowref_make(0, 1), true);
    open_row(v, muster_rowref_make(0, 2), false);
    open_row(v, muster_rowref_make(0, 3), true);
    uint64_t open = muster_bias_state(v);
    assert_int_equal(muster_bias_open_rows(open), 3);
    assert_int_equal(open & MUSTER_BIAS_UNLATCHED, 2);
    assert_int_equal(open & MUSTER_BIAS_NOTES, 0);
    muster_bias_leave(v, open);
    muster_bias_state_add(v, 0 - MUSTER_BIAS_LATCHED);
    muster_bias_state_add(v, MUSTER_BIAS_NOTES);
    assert_int_equal(muster_bias_open_rows(muster_bias_state(v)), 1);
    assert_int_equal(muster_bias_take_count(v), 3);
    assert_int_equal(muster_bias_state(v), MUSTER_BIAS_NOTES | 1);
    assert_int_equal(muster_bias_take_count(v), 0);
    // As many rows as there may be, and very many accesses.
    uint64_t accesses = (1ull << 47) - 1;
    muster_bias_state_add(v, accesses * MUSTER_BIAS_ACCESS +
                                 (MUSTER_PS_OPEN_MAX - 1) +
                                 MUSTER_PS_OPEN_MAX * MUSTER_BIAS_LATCHED);
    assert_int_equal(muster_bias_open_rows(muster_bias_state(v)),
                     2 * MUSTER_PS_OPEN_MAX);
    assert_true(muster_bias_take_count(v) == accesses);
    muster_mem_free(holders);
}

static void rows_open_unlatched_are_found(void **state)
{
    (void)state;
    muster_bias_holders *holders = make_holders();
    muster_bias_holder *first = &holders->all[0];
    muster_bias_holder *last = &holders->all[MUSTER_PS_WORKERS_MAX - 1];
    muster_rowref ref = muster_rowref_make(2, 7);
    assert_false(muster_bias_held_row(holders, first, ref));
    open_row(last, muster_rowref_make(1, 7), true);
    open_row(last, ref, true);
    assert_true(muster_bias_held_row(holders, first, ref));
    assert_true(muster_bias_held_row(holders, NULL, ref));
    assert_false(muster_bias_held_row(holders, last, ref)); // it is itself
    assert_false(
        muster_bias_held_row(holders, first, muster_rowref_make(2, 8)));
    assert_true(muster_bias_held_table(holders, 1));
    assert_true(muster_bias_held_table(holders, 2));
    assert_false(muster_bias_held_table(holders, 3));
    // Closed, it is still listed, but beyond those that are open.
    muster_bias_leave(last, muster_bias_state(last));
    assert_false(muster_bias_held_row(holders, first, ref));
    assert_false(muster_bias_held_table(holders, 2));
    // Rows that are latched are nobody's business, beside unlatched ones too.
    open_row(last, ref, false);
    assert_false(muster_bias_held_row(holders, first, ref));
    assert_false(muster_bias_held_table(holders, 2));
    assert_true(muster_bias_held_row(holders, first, muster_rowref_make(1, 7)));
    muster_mem_free(holders);
}

static void only_rows_open_unlatched_are_waited_for(void **state)
{
    (void)state;
    muster_bias_holders *holders = make_holders();
    muster_bias_holder *last = &holders->all[MUSTER_PS_WORKERS_MAX - 1];
    assert_true(muster_bias_wait_all(holders, 0));
    open_row(last, muster_rowref_make(0, 1), false);
    muster_bias_state_add(last, MUSTER_BIAS_NOTES);
    assert_true(muster_bias_wait_all(holders, 0));
    muster_bias_wait_table(holders, 0);
    open_row(last, muster_rowref_make(0, 2), true);
    assert_false(muster_bias_wait_all(holders, 0));
    muster_bias_leave(last, muster_bias_state(last));
    assert_true(muster_bias_wait_all(holders, 0));
    muster_mem_free(holders);
}

/* A worker that keeps a row of table 0 open, goes to rows of table 1 for a
 * while, and never stops to go to those of table 2. */
typedef struct busy {
    muster_bias_holder *holder;
    _Atomic bool stop;
    _Atomic bool leaves; // table 1
} busy;

static void *be_busy(void *argument)
{
    busy *b = argument;
    for (uint32_t i = 0; !atomic_load(&b->stop); i++) {
        if (i == 1000) {
            atomic_store(&b->leaves, true);
            muster_bias_leave(b->holder, muster_bias_state(b->holder));
        }
        open_row(b->holder, muster_rowref_make(2, i), true);
        muster_bias_leave(b->holder, muster_bias_state(b->holder));
    }
    return NULL;
}

static void rows_of_other_tables_are_not_waited_for(void **state)
{
    (void)state;
    muster_bias_holders *holders = make_holders();
    busy b = {.holder = &holders->all[3]};
    pthread_t thread;
    open_row(b.holder, muster_rowref_make(0, 1), true);
    open_row(b.holder, muster_rowref_make(1, 1), true);
    assert_int_equal(pthread_create(&thread, NULL, be_busy, &b), 0);
    muster_bias_wait_table(holders, 1);
    assert_true(atomic_load(&b.leaves));
    assert_true(muster_bias_held_table(holders, 0));
    assert_false(muster_bias_wait_all(holders, MUSTER_NS_PER_MS));
    atomic_store(&b.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    muster_mem_free(holders);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(references_keep_table_and_key),
        cmocka_unit_test(states_count_rows_and_accesses),
        cmocka_unit_test(rows_open_unlatched_are_found),
        cmocka_unit_test(only_rows_open_unlatched_are_waited_for),
        cmocka_unit_test(rows_of_other_tables_are_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
