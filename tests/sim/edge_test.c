/*
 * edge_test.c -- edges between the coordinator and its workers: named
 * histories. Random faults: edge_seeds_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scene.h"

static toy_opts under_edges(const char *code, const char *topology,
                            uint32_t workers, uint64_t steps)
{
    toy_opts opts = plain(code, workers, steps);
    opts.topology = topology;
    return opts;
}

static void steps_are_right_and_one_message_comes_per_edge(void **state)
{
    (void)state;
    static const struct {
        const char *code, *topology;
        uint32_t workers, edges;
    } casts[] = {
        {"hier:se=1,sw=1", "4x4", 16, 4},
        {"hier:se=0,sw=0", "4x4", 16, 4},
        {"hier:se=1,sw=0", "3x5", 15, 3},
        {"hier:se=0,sw=2", "3,4,5", 12, 3},
        {"hier:se=1,sw=2", "3,4,5,6", 18, 4},
        {"hier:se=1,sw=1,me=2", "4x4", 16, 4},
        {"hier:se=1,sw=1,mw=2", "4x4", 16, 4},
        {"hier:se=0,sw=1,me=2,mw=2", "4x4", 16, 4},
    };
    for (size_t i = 0; i < sizeof(casts) / sizeof(casts[0]); i++) {
        toy t;
        toy_opts opts =
            under_edges(casts[i].code, casts[i].topology, casts[i].workers, 40);
        toy_init(&t, &opts);
        run_to_end(&t);
        assert_right(&t);
        assert_int_equal(t.inexact, 0);
        assert_int_equal(t.lost, 0);
        assert_true(t.messages_up <= 40 * casts[i].edges);
        // The model goes once to each edge in a step.
        uint64_t model = TOY_DIM * sizeof(float);
        assert_in_range(t.bytes_down, 40 * (casts[i].edges - 1) * model,
                        40 * casts[i].edges * (model + 64));
        toy_fini(&t);
    }
}

/* Each worker's shards pass its edge once, and no edge asks for more. */
static void shards_pass_through_the_edges(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = under_edges("hier:se=1,sw=1", "4x4", 16, 10);
    toy_init(&t, &opts);
    run_to_end(&t);
    assert_right(&t);
    const muster_code_info *info = muster_code_numbers(t.code);
    assert_true(t.bytes_moved > 0 && t.shards_made <= 16 * info->load);
    toy_fini(&t);
}

static void slow_workers_and_a_stopped_edge_are_not_waited_for(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = under_edges("hier:se=1,sw=1", "4x4", 16, 100);
    toy_init(&t, &opts);
    for (uint32_t edge = 1; edge < 4; edge++) {
        t.slow_ms[toy_worker_host(&t, 4 * edge + 2)] = 200;
    }
    muster_sim_run(t.sim, SECONDS(1) / 2);
    muster_sim_stop(t.sim, toy_edge_host(0));
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.steps_without, 0);
    assert_true(muster_sim_now(t.sim) < SECONDS(5)); // 100 steps of some 20 ms
    toy_fini(&t);
}

static void start_edge(muster_sim *sim, void *context, uint64_t edge)
{
    (void)sim;
    toy_start_edge(context, toy_edge_host((uint32_t)edge), (uint32_t)edge);
}

static void an_edge_that_dies_comes_back_with_its_workers(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = under_edges("hier:se=0,sw=1", "4x4", 16, 200);
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1));
    uint64_t moved = t.bytes_moved;
    muster_sim_kill(t.sim, toy_edge_host(2));
    muster_sim_at(t.sim, SECONDS(4), start_edge, &t, 2);
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.lost, 1);
    assert_int_equal(t.ready, 5);
    assert_int_equal(t.bytes_moved, moved); // workers kept their shards
    toy_fini(&t);
}

/* The edge itself is well, but cannot do without its workers. */
static void an_edge_with_too_few_workers_counts_as_lost(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = under_edges("hier:se=0,sw=1", "4x4", 16, 1000);
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1));
    muster_sim_kill(t.sim, toy_worker_host(&t, 4));
    muster_sim_run(t.sim, SECONDS(2));
    assert_int_equal(t.lost, 0);
    muster_sim_kill(t.sim, toy_worker_host(&t, 5));
    muster_sim_run(t.sim, SECONDS(8));
    assert_int_equal(t.lost, 1);
    uint64_t ends = t.ends;
    toy_start_worker(&t, toy_worker_host(&t, 5), 5);
    muster_sim_run(t.sim, SECONDS(14));
    assert_true(t.ends > ends + 50);
    assert_true(!t.over || t.status == MUSTER_OK);
    toy_fini(&t);
}

static void without_enough_edges_the_run_ends_with_quorum(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = under_edges("hier:se=1,sw=1", "4x4", 16, 1000);
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1));
    for (uint32_t edge = 1; edge < 4; edge++) {
        muster_sim_kill(t.sim, toy_edge_host(edge));
    }
    run_to_end(&t);
    assert_int_equal(t.status, MUSTER_ERR_QUORUM);
    assert_true(t.wrong < 1e-3 && t.snapshots > 0);
    assert_non_null(strstr(t.reason, "edges"));
    muster_sim_run(t.sim, muster_sim_now(t.sim) + SECONDS(60));
    for (uint32_t host = 1; host <= 20; host++) {
        assert_false(muster_sim_is_up(t.sim, host));
    }
    toy_fini(&t);
}

/* Its workers would otherwise have seen later steps than it asks for. */
static void a_resumed_coordinator_takes_the_edges_back(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = under_edges("hier:se=1,sw=1", "4x4", 16, 150);
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1));
    uint64_t moved = t.bytes_moved;
    muster_sim_kill(t.sim, 0);
    start_coordinator_at(&t, SECONDS(3));
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.bytes_moved, moved);
    toy_fini(&t);
}

/* Each worker is sent what it lacks, and no more. */
static void plans_change_under_edges_and_only_missing_shards_move(void **state)
{
    (void)state;
    static const char *const codes[] = {"hier:se=1,sw=1", "hier:se=0,sw=2",
                                        "hier:se=1,sw=0", NULL};
    toy t;
    toy_opts opts = under_edges("hier", "4x4", 16, 120);
    opts.plan_codes = codes;
    opts.shards = 64;
    toy_init(&t, &opts);
    t.slow_ms[toy_worker_host(&t, 5)] = 30;
    muster_sim_run(t.sim, SECONDS(1));
    t.slow_ms[toy_worker_host(&t, 5)] = 0;
    t.slow_ms[toy_worker_host(&t, 9)] = 30;
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.inexact, 0);
    assert_int_equal(t.lost, 0);
    assert_true(t.plan > 2);
    // What a worker holds of one plan it is not sent for the next.
    uint64_t held = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const muster_code_info *info = muster_code_numbers(t.plan_codes[i]);
        held += (uint64_t)info->load * 64 / info->parts;
    }
    assert_true(t.loaded > 16 * 4 && t.loaded < 16 * held * (t.plan + 2) / 3);
    assert_true(t.forgotten > 0);
    toy_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_right_and_one_message_comes_per_edge),
        cmocka_unit_test(shards_pass_through_the_edges),
        cmocka_unit_test(slow_workers_and_a_stopped_edge_are_not_waited_for),
        cmocka_unit_test(an_edge_that_dies_comes_back_with_its_workers),
        cmocka_unit_test(an_edge_with_too_few_workers_counts_as_lost),
        cmocka_unit_test(without_enough_edges_the_run_ends_with_quorum),
        cmocka_unit_test(a_resumed_coordinator_takes_the_edges_back),
        cmocka_unit_test(plans_change_under_edges_and_only_missing_shards_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
