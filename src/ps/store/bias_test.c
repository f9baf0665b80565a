/*
 * bias_test.c -- who is at which row, over records made by hand. What
 * records are good for is in src/ps/store/bargain_test.c.
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

static muster_visitors *make_visitors(void)
{
    muster_visitors *visitors = muster_mem_lines(1, sizeof(*visitors));
    assert_non_null(visitors);
    return visitors;
}

/* A worker opens a row, bare or not. */
static void open_row(muster_visitor *visitor, uint64_t place, bool bare)
{
    uint64_t state = muster_visitor_state(visitor);
    uint32_t open = muster_visitor_open(state);
    if (bare) {
        muster_visitor_list(visitor, open, place | MUSTER_PLACE_BARE);
        muster_visitor_go(visitor, state);
    } else {
        muster_visitor_list(visitor, open, place);
        muster_visitor_add(visitor, MUSTER_VISITOR_HELD + MUSTER_VISITOR_VISIT);
    }
}

static void places_keep_what_they_are_made_of(void **state)
{
    (void)state;
    const uint32_t tables[] = {0, 1, MUSTER_PS_TABLES_MAX - 1};
    const uint32_t keys[] = {0, 1, MUSTER_PS_KEYS_MAX - 1, UINT32_MAX};
    uint64_t before = 0;
    for (size_t t = 0; t < 3; t++) {
        for (size_t k = 0; k < 4; k++) {
            uint64_t place = muster_place(tables[t], keys[k]);
            assert_int_equal(muster_place_table(place), tables[t]);
            assert_int_equal(muster_place_key(place), keys[k]);
            uint64_t bare = place | MUSTER_PLACE_BARE;
            assert_true(bare != place);
            assert_int_equal(muster_place_table(bare), tables[t]);
            assert_int_equal(muster_place_key(bare), keys[k]);
            assert_true((t == 0 && k == 0) || place > before); // their order
            before = place;
        }
    }
}

static void states_count_rows_and_visits(void **state)
{
    (void)state;
    muster_visitors *visitors = make_visitors();
    muster_visitor *v = &visitors->all[0];
    uint64_t empty = muster_visitor_state(v);
    muster_visitor_go(v, empty);
    muster_visitor_turn_back(v, empty); // not let in, that was no visit
    assert_int_equal(muster_visitor_state(v), empty);
    open_row(v, muster_place(0, 1), true);
    open_row(v, muster_place(0, 2), false);
    open_row(v, muster_place(0, 3), true);
    uint64_t open = muster_visitor_state(v);
    assert_int_equal(muster_visitor_open(open), 3);
    assert_int_equal(open & MUSTER_VISITOR_BARE, 2);
    assert_int_equal(open & MUSTER_VISITOR_NOTES, 0);
    muster_visitor_leave(v, open);
    muster_visitor_add(v, 0 - MUSTER_VISITOR_HELD);
    muster_visitor_add(v, MUSTER_VISITOR_NOTES);
    assert_int_equal(muster_visitor_open(muster_visitor_state(v)), 1);
    assert_int_equal(muster_visitor_count(v), 3);
    assert_int_equal(muster_visitor_state(v), MUSTER_VISITOR_NOTES | 1);
    assert_int_equal(muster_visitor_count(v), 0);
    // As many rows as there may be, and very many visits.
    uint64_t visits = (1ull << 47) - 1;
    muster_visitor_add(v, visits * MUSTER_VISITOR_VISIT +
                              (MUSTER_PS_OPEN_MAX - 1) +
                              MUSTER_PS_OPEN_MAX * MUSTER_VISITOR_HELD);
    assert_int_equal(muster_visitor_open(muster_visitor_state(v)),
                     2 * MUSTER_PS_OPEN_MAX);
    assert_true(muster_visitor_count(v) == visits);
    muster_mem_free(visitors);
}

static void others_are_found_where_they_are_bare(void **state)
{
    (void)state;
    muster_visitors *visitors = make_visitors();
    muster_visitor *first = &visitors->all[0];
    muster_visitor *last = &visitors->all[MUSTER_PS_WORKERS_MAX - 1];
    uint64_t place = muster_place(2, 7);
    assert_false(muster_visitors_at(visitors, first, place));
    open_row(last, muster_place(1, 7), true);
    open_row(last, place, true);
    assert_true(muster_visitors_at(visitors, first, place));
    assert_true(muster_visitors_at(visitors, NULL, place));
    assert_false(muster_visitors_at(visitors, last, place)); // it is itself
    assert_false(muster_visitors_at(visitors, first, muster_place(2, 8)));
    assert_true(muster_visitors_at_table(visitors, 1));
    assert_true(muster_visitors_at_table(visitors, 2));
    assert_false(muster_visitors_at_table(visitors, 3));
    // Closed, it is still listed, but beyond those that are open.
    muster_visitor_leave(last, muster_visitor_state(last));
    assert_false(muster_visitors_at(visitors, first, place));
    assert_false(muster_visitors_at_table(visitors, 2));
    // Rows that are latched are nobody's business, beside bare ones too.
    open_row(last, place, false);
    assert_false(muster_visitors_at(visitors, first, place));
    assert_false(muster_visitors_at_table(visitors, 2));
    assert_true(muster_visitors_at(visitors, first, muster_place(1, 7)));
    muster_mem_free(visitors);
}

static void only_bare_rows_are_waited_for(void **state)
{
    (void)state;
    muster_visitors *visitors = make_visitors();
    muster_visitor *last = &visitors->all[MUSTER_PS_WORKERS_MAX - 1];
    assert_true(muster_visitors_leave(visitors, 0));
    open_row(last, muster_place(0, 1), false);
    muster_visitor_add(last, MUSTER_VISITOR_NOTES);
    assert_true(muster_visitors_leave(visitors, 0));
    muster_visitors_leave_table(visitors, 0);
    open_row(last, muster_place(0, 2), true);
    assert_false(muster_visitors_leave(visitors, 0));
    muster_visitor_leave(last, muster_visitor_state(last));
    assert_true(muster_visitors_leave(visitors, 0));
    muster_mem_free(visitors);
}

/* A worker that keeps a row of table 0 open, goes to rows of table 1 for a
 * while, and never stops to go to those of table 2. */
typedef struct busy {
    muster_visitor *visitor;
    _Atomic bool stop;
    _Atomic bool leaves; // table 1
} busy;

static void *be_busy(void *argument)
{
    busy *b = argument;
    for (uint32_t i = 0; !atomic_load(&b->stop); i++) {
        if (i == 1000) {
            atomic_store(&b->leaves, true);
            muster_visitor_leave(b->visitor, muster_visitor_state(b->visitor));
        }
        open_row(b->visitor, muster_place(2, i), true);
        muster_visitor_leave(b->visitor, muster_visitor_state(b->visitor));
    }
    return NULL;
}

static void rows_of_other_tables_are_not_waited_for(void **state)
{
    (void)state;
    muster_visitors *visitors = make_visitors();
    busy b = {.visitor = &visitors->all[3]};
    pthread_t thread;
    open_row(b.visitor, muster_place(0, 1), true);
    open_row(b.visitor, muster_place(1, 1), true);
    assert_int_equal(pthread_create(&thread, NULL, be_busy, &b), 0);
    muster_visitors_leave_table(visitors, 1);
    assert_true(atomic_load(&b.leaves));
    assert_true(muster_visitors_at_table(visitors, 0));
    assert_false(muster_visitors_leave(visitors, MUSTER_NS_PER_MS));
    atomic_store(&b.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    muster_mem_free(visitors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_keep_what_they_are_made_of),
        cmocka_unit_test(states_count_rows_and_visits),
        cmocka_unit_test(others_are_found_where_they_are_bare),
        cmocka_unit_test(only_bare_rows_are_waited_for),
        cmocka_unit_test(rows_of_other_tables_are_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
