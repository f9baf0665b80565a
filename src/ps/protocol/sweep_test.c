/*
 * sweep_test.c -- how many replicas are synchronised at once, and how often.
 */
#include "ps/protocol/protocol_test.h"

enum { CHANGED = 0, CLEAN = 2, OWNER = 0, HOLDER = 1 };

static mesh *build(uint32_t keys)
{
    mesh *m = mesh_make(2, keys, false);
    for (uint32_t key = OWNER; key < keys; key += 2) {
        localize(
            m, HOLDER,
            &(muster_localize_request){.keys = &key, .count = 1, .copy = true});
        if (key % 1000 == 0) {
            come_to_rest(m);
        }
    }
    come_to_rest(m);
    return m;
}

static uint64_t syncs_of(const mesh *m)
{
    return muster_protocol_count(m->node[HOLDER]).syncs;
}

/* The holder's next tick, so much later than it is due. */
static void tick(mesh *m, int64_t late_ns)
{
    tick_all(m, muster_protocol_due_ns(m->node[HOLDER]) - m->now_ns + late_ns);
    while (m->flying > 0) {
        deliver(m, false);
    }
}

static void change(mesh *m, uint16_t at, uint32_t key)
{
    float one = 1;
    assert_true(
        muster_ps_table_try(m->tables[at], MUSTER_ROWOP_PUSH, key, &one));
}

/* A step that synchronised all of many replicas would keep messages waiting. */
static void many_replicas_are_synchronised_in_slices(void **state)
{
    (void)state;
    enum { MANY = 12000, SLICE = 2048 };
    mesh *m = build(MANY);
    uint64_t before = syncs_of(m);
    uint64_t max = 0;
    uint64_t all = before;
    for (int ticks = 0; all < before + MANY; ticks++) {
        uint64_t last = all;
        assert_true(ticks < 1000);
        tick(m, 15000000);
        all = syncs_of(m);
        max = all - last > max ? all - last : max;
    }
    assert_int_equal(max, SLICE);
    mesh_free(m);
}

/* Of two replicas one is changed before every turn. The other comes in every
 * fourth, and then has what the owner changed. */
static void
a_replica_that_is_not_changed_comes_in_every_fourth_turn(void **state)
{
    (void)state;
    enum { TURNS = 40 };
    mesh *m = build(4);
    float seen = 0;
    change(m, OWNER, CLEAN);
    uint64_t before = syncs_of(m);
    for (int turn = 0; turn < TURNS;) {
        uint32_t next = m->node[HOLDER]->replicas.sweep.next;
        if (next == 0) {
            change(m, HOLDER, CHANGED);
            turn++;
        }
        tick(m, 0);
    }
    uint64_t clean = syncs_of(m) - before - TURNS;
    assert_true(clean >= TURNS / 5 && clean <= TURNS / 3);
    assert_true(muster_ps_table_try(m->tables[HOLDER], MUSTER_ROWOP_PULL, CLEAN,
                                    &seen));
    assert_true(seen == 1);
    mesh_free(m);
}

/* The longest time between synchronisations of the last replica, which is not
 * changed, over many ticks. The first one is, in every so many turns, by
 * chance. */
static int64_t longest_ns(uint32_t keys, int64_t sync_ns, uint32_t turns_each)
{
    enum { TICKS = 300, FIRST = 30 };
    mesh *m = build(keys);
    muster_protocol *node = m->node[HOLDER];
    const muster_replica *all = node->replicas.all.data;
    const muster_replica *last = all + node->replicas.all.count - 1;
    int64_t longest = 0;
    node->opts.sync_ns = sync_ns;
    for (int i = 0; i < TICKS; i++) {
        int64_t before = last->received_ns;
        if (node->replicas.sweep.next == 0 && below(m, turns_each) == 0) {
            change(m, HOLDER, muster_rowref_key(all->ref));
        }
        tick(m, 0);
        int64_t apart = last->received_ns - before;
        longest = i > FIRST && apart > longest ? apart : longest;
    }
    mesh_free(m);
    return longest;
}

/* A turn of few replicas takes one tick of 1 ms. */
static void a_turn_is_left_out_only_when_the_next_comes_in_time(void **state)
{
    (void)state;
    for (int64_t us = 1050; us < 8000; us += 50) {
        assert_in_range(longest_ns(4, us * 1000, 1), 1, us * 1000);
    }
}

/* After a turn without a change the next one takes twice as long. */
static void no_replica_waits_for_too_long_in_a_mesh_that_rests(void **state)
{
    (void)state;
    enum { TICK_US = 1000 };
    for (int64_t us = 4000; us < 16000; us += 100) {
        for (uint32_t turns_each = 2; turns_each <= 8; turns_each++) {
            int64_t longest = longest_ns(40, us * 1000, turns_each);
            assert_in_range(longest, 1, (us + TICK_US) * 1000);
        }
    }
}

/* Turn by turn while the driver's thread wakes so late; the pace then. */
static uint32_t pace_after(mesh *m, int64_t wake_late_ns, int64_t tick_late_ns)
{
    for (int i = 0; i < 200; i++) {
        muster_protocol_note_wake(m->node[HOLDER], wake_late_ns);
        change(m, HOLDER, CHANGED);
        tick(m, tick_late_ns);
    }
    return m->node[HOLDER]->replicas.sweep.pace;
}

/* A thread that wakes late has no processor for itself. A tick that comes late
 * after other work costs nobody anything, unless it is very late. */
static void replicas_wait_where_processors_are_few(void **state)
{
    (void)state;
    mesh *m = build(4);
    assert_int_equal(pace_after(m, 0, 0), 1);
    assert_int_equal(pace_after(m, 1000000, 0), 8);
    assert_int_equal(pace_after(m, 50000, 700000), 1);
    assert_int_equal(pace_after(m, 50000, 3000000), 8);
    mesh_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_replicas_are_synchronised_in_slices),
        cmocka_unit_test(
            a_replica_that_is_not_changed_comes_in_every_fourth_turn),
        cmocka_unit_test(a_turn_is_left_out_only_when_the_next_comes_in_time),
        cmocka_unit_test(no_replica_waits_for_too_long_in_a_mesh_that_rests),
        cmocka_unit_test(replicas_wait_where_processors_are_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
