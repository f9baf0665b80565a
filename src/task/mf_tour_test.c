/*
 * mf_tour_test.c -- a part of mf enters a piece of the columns when the part
 * ahead has left it, on this node or another, and goes on when that one does
 * not move; and it visits each of its cells once.
 *
 * The test plays the part ahead: it says that it has left one piece more, waits
 * until the other part has come as far as it may, and looks whether it stays.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "base/clock.h"
#include "task/mf.h"
#include "task/mf_tour.h"
#include "task/server_test.h"

enum { PARTS = 2, PIECES = PARTS * MUSTER_MF_CUTS };
enum { LOOKS = 1000 }; // for a part that goes on, microseconds later perhaps

static const muster_task_opts options = {
    .model = "mf:rank=4,valid=0",
    .data = "zipf:rows=200,cols=160,cells=8000,exponent=0.3",
    .l2 = -1,
    .epochs = 1,
    .parts_max = PARTS,
    .seed = 1};

/* Part 0. */
typedef struct follower {
    thread_share share;
    _Atomic bool ended;
} follower;

static void *run_follower(void *argument)
{
    follower *f = argument;
    (void)run_share(&f->share);
    atomic_store(&f->ended, true);
    return NULL;
}

/* Pieces that part 0 has left behind in the first epoch. */
static uint32_t left_behind(const muster_mf *m)
{
    return (uint32_t)atomic_load(&m->progress[0].done);
}

/* The part ahead has left `done` pieces: does part 0 come as far as it may, and
 * no further? `ended`: it does not move any more. */
static bool follows(const muster_mf *m, uint32_t done,
                    const _Atomic bool *ended)
{
    uint32_t may = done + MUSTER_MF_CUTS < PIECES ? done + MUSTER_MF_CUTS
                                                  : (uint32_t)PIECES;
    while (left_behind(m) < may && !atomic_load(ended)) {
        (void)sched_yield();
    }
    for (uint32_t i = 0; i < LOOKS && left_behind(m) == may; i++) {
        (void)sched_yield();
    }
    return left_behind(m) == may;
}

static void threads_of_a_node_keep_their_distance(void **state)
{
    (void)state;
    team t = team_open(&options, PARTS);
    muster_mf *m = t.task;
    m->wait_ns = INT64_MAX;
    atomic_store(&m->progress[1].done, 1ull << 32);
    follower behind = {.share = {.of = &t, .part = 0}};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_follower, &behind), 0);
    for (uint32_t done = 0; done <= PIECES; done++) {
        atomic_store(&m->progress[1].done, 1ull << 32 | done);
        assert_true(follows(m, done, &behind.ended));
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(behind.share.status, MUSTER_OK);
    team_close(&t);
}

static void a_part_that_does_not_move_is_not_waited_for(void **state)
{
    (void)state;
    team t = team_open(&options, PARTS);
    muster_mf *m = t.task;
    m->wait_ns = 1;
    thread_share behind = {.of = &t, .part = 0};
    (void)run_share(&behind);
    assert_int_equal(behind.status, MUSTER_OK);
    assert_int_equal(left_behind(m), PIECES);
    team_close(&t);
}

/* ---- slow parts, on a clock of the test's own ---------------------------- */

static struct {
    muster_mf *m;
    int64_t now_ns;
    uint32_t looks; // of part 0 while it waits
    bool kept;      // the distance
} slow;

/* A second passes from look to look, so a piece takes one. The part ahead
 * leaves a piece at the fifth look of the part that waits for it: after four
 * seconds. */
static int64_t slow_now_ns(void)
{
    uint32_t ahead = (uint32_t)atomic_load(&slow.m->progress[1].done);
    uint32_t may = ahead + MUSTER_MF_CUTS;
    uint32_t behind = left_behind(slow.m);
    slow.now_ns += MUSTER_NS_PER_S;
    slow.kept = slow.kept && behind <= may;
    if (behind == may && ++slow.looks % 5 == 0) {
        atomic_store(&slow.m->progress[1].done, 1ull << 32 | (ahead + 1));
    }
    return slow.now_ns;
}

static void parts_wait_longer_where_pieces_take_long(void **state)
{
    (void)state;
    team t = team_open(&options, PARTS);
    slow.m = t.task;
    slow.kept = true;
    slow.m->wait_ns = MUSTER_NS_PER_S / 10;
    slow.m->now_ns = slow_now_ns;
    atomic_store(&slow.m->progress[1].done, 1ull << 32);
    thread_share behind = {.of = &t, .part = 0};
    (void)run_share(&behind);
    assert_int_equal(behind.status, MUSTER_OK);
    assert_int_equal(left_behind(slow.m), PIECES);
    assert_true(slow.kept && slow.looks > 0);
    team_close(&t);
}

/* ---- one part after the other -------------------------------------------- */

/* A task for so many parts, and one worker for all of them. Rates and factors
 * are so small that the error of a cell is its value. */
static team open_alone(const char *data, uint32_t parts)
{
    const muster_task_opts opts = {.model =
                                       "mf:rank=4,valid=0,bias=0,scale=1e-9",
                                   .data = data,
                                   .optimizer = "sgd",
                                   .rate = 1e-30,
                                   .epochs = 1,
                                   .parts_max = parts,
                                   .seed = 1};
    team t = {.ops = muster_task_find(opts.model), .threads = 1};
    muster_error error = {.text = ""};
    assert_int_equal(t.ops->create(&opts, &error, &t.task), MUSTER_OK);
    t.ps =
        test_alone_open(&(test_mesh){.add_tables = add_tables, .argument = &t});
    t.workers[0] = test_worker_open(t.ps);
    return t;
}

/* A part that is not worked on together with the others: nobody is waited for.
 * The cells that were counted are as many as it has, and their squares add up
 * to those of its cells. */
static void check_visits(team *t, uint32_t part, uint32_t epoch)
{
    const muster_mf *m = t->task;
    _Atomic uint64_t done = 0;
    muster_task_share share = {
        .part = part, .parts = m->parts, .epoch = epoch, .done = &done};
    muster_task_sums sums = {{0}};
    double squares = 0;
    for (uint64_t i = m->parts_at[part].cell; i < m->parts_at[part + 1].cell;
         i++) {
        double value = (double)m->train.cells[i].value;
        squares += value * value;
    }
    assert_int_equal(t->ops->work(t->task, t->workers[0], &share, &sums),
                     MUSTER_OK);
    assert_int_equal(atomic_load(&done),
                     m->parts_at[part + 1].cell - m->parts_at[part].cell);
    assert_true(fabs(sums.value[MUSTER_MF_SUM_ERROR] - squares) <
                1e-9 * squares);
}

static void a_tour_visits_every_cell_once(void **state)
{
    (void)state;
    // Five columns are fewer than there are pieces.
    static const char *const data[] = {
        "zipf:rows=200,cols=160,cells=8000,exponent=0.3",
        "zipf:rows=200,cols=5,cells=600,exponent=1"};
    for (int i = 0; i < 2; i++) {
        for (uint32_t parts = 1; parts <= 5; parts++) {
            team t = open_alone(data[i], parts);
            ((muster_mf *)t.task)->wait_ns = INT64_MAX;
            for (uint32_t epoch = 0; epoch <= parts; epoch++) {
                for (uint32_t part = 0; part < parts; part++) {
                    check_visits(&t, part, epoch);
                }
            }
            team_close(&t);
        }
    }
}

/* ---- two nodes ----------------------------------------------------------- */

typedef struct node_tasks {
    void *task[PARTS];
    _Atomic bool ended; // part 0
} node_tasks;

static muster_status add_all_tables(test_node *n)
{
    const node_tasks *tasks = n->of->argument;
    const muster_task_ops *ops = muster_task_find(options.model);
    muster_status status = ops->tables(tasks->task[n->node], n->ps, &n->error);
    return status == MUSTER_OK
               ? ops->working_tables(tasks->task[n->node], n->ps, &n->error)
               : status;
}

/* Node 0 works on part 0; node 1 says that part 1 goes on. */
static void work_or_lead(test_node *n)
{
    node_tasks *tasks = n->of->argument;
    const muster_mf *lead = tasks->task[1];
    if (n->node == 0) {
        muster_task_share share = {.part = 0, .parts = PARTS, .together = true};
        muster_task_sums sums = {{0}};
        TEST_NODE_CHECK(n, muster_mf_work(tasks->task[0], n->worker, &share,
                                          &sums) == MUSTER_OK);
        atomic_store(&tasks->ended, true);
    }
    for (uint32_t done = 0; n->node == 1 && done <= PIECES; done++) {
        const uint32_t key = 1; // the second node's first worker
        const float progress[MUSTER_MF_PROGRESS_FLOATS] = {1, (float)done};
        TEST_NODE_CHECK(n, muster_ps_set(n->worker, lead->progress_table, &key,
                                         1, progress) == MUSTER_OK);
        TEST_NODE_CHECK(n, follows(tasks->task[0], done, &tasks->ended));
    }
    TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
}

static void nodes_keep_their_distance(void **state)
{
    (void)state;
    const muster_task_ops *ops = muster_task_find(options.model);
    node_tasks tasks = {.ended = false};
    muster_error error = {.text = ""};
    for (uint32_t i = 0; i < PARTS; i++) {
        assert_int_equal(ops->create(&options, &error, &tasks.task[i]),
                         MUSTER_OK);
        ((muster_mf *)tasks.task[i])->wait_ns = INT64_MAX;
    }
    test_mesh mesh = {.nodes = PARTS,
                      .add_tables = add_all_tables,
                      .life = work_or_lead,
                      .argument = &tasks};
    assert_int_equal(test_mesh_run(&mesh), 0);
    for (uint32_t i = 0; i < PARTS; i++) {
        ops->free(tasks.task[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_of_a_node_keep_their_distance),
        cmocka_unit_test(a_part_that_does_not_move_is_not_waited_for),
        cmocka_unit_test(parts_wait_longer_where_pieces_take_long),
        cmocka_unit_test(a_tour_visits_every_cell_once),
        cmocka_unit_test(nodes_keep_their_distance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
