/*
 * mf_tour_test.c -- a part of mf enters a piece of the columns when the part
 * ahead has left it, on this node or another, and goes on when that one does
 * not move.
 *
 * The test plays the part ahead: it says that it has left one piece more, and
 * waits until the other part has come as far as it may.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "task/mf.h"
#include "task/server_test.h"

enum { PARTS = 2, PIECES = PARTS * MUSTER_MF_CUTS };

static const muster_task_opts options = {
    .model = "mf:rank=4,valid=0",
    .data = "zipf:rows=200,cols=160,cells=8000,exponent=0.3",
    .l2 = -1,
    .epochs = 1,
    .parts_max = PARTS,
    .seed = 1};

/* Pieces that part 0 has left behind in the first epoch. */
static uint32_t left_behind(const muster_mf *m)
{
    return (uint32_t)atomic_load(&m->turns[0].done);
}

/* The part ahead has left `done` pieces: wait until part 0 stops, and return
 * how many it has left then at most. */
static uint32_t follow(const muster_mf *m, uint32_t done)
{
    uint32_t may = done + MUSTER_MF_CUTS < PIECES ? done + MUSTER_MF_CUTS
                                                  : (uint32_t)PIECES;
    while (left_behind(m) < may) {
        (void)sched_yield();
    }
    return left_behind(m) - may;
}

static void threads_of_a_node_keep_their_distance(void **state)
{
    (void)state;
    team t = team_open(&options, PARTS);
    muster_mf *m = t.task;
    m->turn_wait_ns = INT64_MAX;
    atomic_store(&m->turns[1].done, 1ull << 32);
    thread_share behind = {.of = &t, .part = 0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_share, &behind), 0);
    for (uint32_t done = 0; done <= PIECES; done++) {
        atomic_store(&m->turns[1].done, 1ull << 32 | done);
        assert_int_equal(follow(m, done), 0);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(behind.status, MUSTER_OK);
    team_close(&t);
}

static void a_part_that_does_not_move_is_not_waited_for(void **state)
{
    (void)state;
    team t = team_open(&options, PARTS);
    muster_mf *m = t.task;
    m->turn_wait_ns = 1;
    thread_share behind = {.of = &t, .part = 0};
    (void)run_share(&behind);
    assert_int_equal(behind.status, MUSTER_OK);
    assert_int_equal(left_behind(m), PIECES);
    team_close(&t);
}

static muster_status add_all_tables(test_node *n)
{
    void *const *tasks = n->of->argument;
    const muster_task_ops *ops = muster_task_find(options.model);
    muster_status status = ops->tables(tasks[n->node], n->ps, &n->error);
    return status == MUSTER_OK
               ? ops->working_tables(tasks[n->node], n->ps, &n->error)
               : status;
}

/* Node 0 works on part 0; node 1 says that part 1 goes on. */
static void work_or_lead(test_node *n)
{
    muster_mf *const *tasks = n->of->argument;
    if (n->node == 0) {
        muster_task_share share = {.part = 0, .parts = PARTS};
        muster_task_sums sums = {{0}};
        TEST_NODE_CHECK(n, muster_mf_work(tasks[0], n->worker, &share, &sums) ==
                               MUSTER_OK);
    }
    for (uint32_t done = 0; n->node == 1 && done <= PIECES; done++) {
        const uint32_t key = 1; // the second node's first worker
        const float turn[MUSTER_MF_TURN_FLOATS] = {1, (float)done};
        TEST_NODE_CHECK(n, muster_ps_set(n->worker, tasks[1]->turn_table, &key,
                                         1, turn) == MUSTER_OK);
        TEST_NODE_CHECK(n, follow(tasks[0], done) == 0);
    }
    TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
}

static void nodes_keep_their_distance(void **state)
{
    (void)state;
    const muster_task_ops *ops = muster_task_find(options.model);
    void *tasks[PARTS];
    muster_error error = {.text = ""};
    for (uint32_t i = 0; i < PARTS; i++) {
        assert_int_equal(ops->create(&options, &error, &tasks[i]), MUSTER_OK);
        ((muster_mf *)tasks[i])->turn_wait_ns = INT64_MAX;
    }
    test_mesh mesh = {.nodes = PARTS,
                      .add_tables = add_all_tables,
                      .life = work_or_lead,
                      .argument = tasks};
    assert_int_equal(test_mesh_run(&mesh), 0);
    for (uint32_t i = 0; i < PARTS; i++) {
        ops->free(tasks[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_of_a_node_keep_their_distance),
        cmocka_unit_test(a_part_that_does_not_move_is_not_waited_for),
        cmocka_unit_test(nodes_keep_their_distance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
