/*
 * ps_world_test.c -- the simulated world of the parameter server itself: faults
 * happen as asked, and equal calls give equal histories. What the protocol does
 * in such worlds is in ps_mesh_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/ps_world.h"

enum { NODES = 3, KEYS = 12, VICTIM = 1 };
#define MS 1000000ll

typedef struct observer {
    muster_ps_world *world;
    uint64_t deliveries;
    uint64_t while_stopped;
    uint64_t ended;
    uint64_t lost;
    uint64_t resumed;
} observer;

static void on_delivery(void *context, const muster_ps_delivery *delivery)
{
    observer *o = context;
    o->deliveries++;
    o->while_stopped += !muster_ps_world_runs(o->world, delivery->to);
}

static void on_news(void *context, uint16_t node,
                    const muster_membership_news *news)
{
    observer *o = context;
    o->lost += news->kind == MUSTER_NEWS_LOST && news->node == VICTIM;
    o->resumed += node == 0 && news->kind == MUSTER_NEWS_RESUMED;
}

static void on_end(void *context, uint16_t node)
{
    observer *o = context;
    o->ended += node == VICTIM;
}

static void open_world(observer *o, uint64_t seed)
{
    muster_ps_table_opts table = MUSTER_PS_TABLE_OPTS_INIT;
    table.keys = KEYS;
    table.width = 1;
    muster_ps_world_opts opts = {.seed = seed,
                                 .table = table,
                                 .protocol = {.sync_ns = 20 * MS,
                                              .contest_ns = 5 * MS,
                                              .hot_factor = 100,
                                              .heartbeat_ns = 400 * MS},
                                 .duplicate_one_in = 4,
                                 .tick_ns = 10 * MS,
                                 .hooks = {.context = o,
                                           .on_delivery = on_delivery,
                                           .on_news = on_news,
                                           .on_end = on_end}};
    *o = (observer){.deliveries = 0};
    assert_int_equal(muster_ps_world_create(&opts, &o->world), MUSTER_OK);
    muster_ps_world_set_nodes(o->world, NODES, MUSTER_PS_RELOCATE, 0);
    for (uint16_t i = 0; i < NODES; i++) {
        muster_ps_world_start(o->world, i, false);
    }
}

static void localize_all(observer *o, uint16_t node)
{
    uint32_t keys[KEYS];
    for (uint32_t i = 0; i < KEYS; i++) {
        keys[i] = i;
    }
    muster_localize_request request = {.keys = keys, .count = KEYS};
    muster_ps_world_localize(o->world, node, &request);
}

static void come_to_rest(observer *o)
{
    for (int i = 0; !muster_ps_world_at_rest(o->world); i++) {
        assert_true(i < 1000);
        muster_ps_world_pass(o->world, 10 * MS);
    }
}

static void equal_seeds_give_equal_histories(void **state)
{
    (void)state;
    uint64_t hashes[3];
    for (int i = 0; i < 3; i++) {
        observer o;
        open_world(&o, i < 2 ? 1 : 2);
        localize_all(&o, VICTIM);
        come_to_rest(&o);
        hashes[i] = muster_ps_world_hash(o.world);
        muster_ps_world_free(o.world);
    }
    assert_true(hashes[0] == hashes[1]);
    assert_true(hashes[0] != hashes[2]);
}

static void a_stopped_node_handles_nothing_until_it_continues(void **state)
{
    (void)state;
    observer o;
    open_world(&o, 3);
    // Not long enough to count as lost.
    muster_ps_world_stop(o.world, VICTIM,
                         muster_ps_world_now(o.world) + 150 * MS);
    localize_all(&o, 0);
    assert_false(muster_ps_world_at_rest(o.world));
    muster_ps_world_pass(o.world, 140 * MS);
    assert_false(muster_ps_world_at_rest(o.world)); // it has rows to transfer
    come_to_rest(&o);
    assert_true(o.deliveries > 0);
    assert_int_equal(o.while_stopped, 0);
    assert_int_equal(o.lost, 0);
    muster_ps_world_free(o.world);
}

static void a_killed_node_is_lost_for_the_others(void **state)
{
    (void)state;
    observer o;
    open_world(&o, 4);
    localize_all(&o, VICTIM);
    muster_ps_world_kill(o.world, VICTIM);
    come_to_rest(&o);
    assert_false(muster_ps_world_process(o.world, VICTIM)->up);
    assert_int_equal(o.ended, 1);
    assert_int_equal(o.lost, NODES - 1); // each of the others is told
    assert_int_equal(o.resumed, 1);
    muster_ps_world_start(o.world, VICTIM, true);
    muster_ps_world_admit(o.world, VICTIM, 9);
    come_to_rest(&o);
    assert_int_equal(muster_protocol_note(
                         muster_ps_world_process(o.world, VICTIM)->protocol),
                     9);
    muster_ps_world_free(o.world);
}

static void messages_that_come_twice_are_found(void **state)
{
    (void)state;
    observer o;
    open_world(&o, 5);
    uint64_t duplicates = 0;
    for (uint16_t i = 0; i < NODES; i++) {
        localize_all(&o, i);
        come_to_rest(&o);
    }
    for (uint16_t i = 0; i < NODES; i++) {
        muster_protocol_counters counters = muster_protocol_count(
            muster_ps_world_process(o.world, i)->protocol);
        duplicates += counters.duplicates;
        assert_int_equal(counters.violations, 0);
    }
    assert_true(duplicates > 0);
    muster_ps_world_free(o.world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_seeds_give_equal_histories),
        cmocka_unit_test(a_stopped_node_handles_nothing_until_it_continues),
        cmocka_unit_test(a_killed_node_is_lost_for_the_others),
        cmocka_unit_test(messages_that_come_twice_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
