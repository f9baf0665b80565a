/*
 * mesh_test.c -- several nodes over real sockets, in one process: every push
 * counts once however rows are managed, barriers show everybody's work, a lost
 * node ends calls instead of hanging them.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "ps/node/inside.h"
#include "ps/node/node_test.h"

enum { WORKERS = 2, KEYS = 37, WIDTH = 3, ROUNDS = 400 };

/* Nodes with the two tables of these tests. */
static test_mesh make_mesh(uint32_t nodes, uint32_t manage)
{
    return (test_mesh){.nodes = nodes,
                       .manage = manage,
                       .keys = KEYS,
                       .width = WIDTH,
                       .second = true};
}

static void move_row(float *row)
{
    row[0] += 1;
    row[WIDTH] += 2; // the optimiser's state travels too
}

static void move_each(void *context, size_t i, float *row, uint32_t floats)
{
    (void)context;
    (void)i;
    (void)floats;
    move_row(row);
}

static muster_status one_round(muster_ps_worker *worker, uint32_t *draw)
{
    uint32_t keys[4];
    float ones[4 * WIDTH];
    for (int i = 0; i < 4; i++) {
        keys[i] = test_draw(draw) % KEYS;
    }
    for (int i = 0; i < 4 * WIDTH; i++) {
        ones[i] = 1;
    }
    muster_status status = MUSTER_OK;
    if (*draw % 3 == 0) {
        status = muster_ps_localize(worker, 0, keys, 4);
        status = status == MUSTER_ERR_AGAIN ? MUSTER_OK : status;
    }
    if (status == MUSTER_OK) {
        status = muster_ps_push(worker, 0, keys, 4, ones);
    }
    float *row;
    if (status == MUSTER_OK) {
        status = muster_ps_begin(worker, 1, keys[0], &row);
    }
    if (status == MUSTER_OK) {
        move_row(row);
        status = muster_ps_end(worker, 1, keys[0]);
    }
    if (status == MUSTER_OK) {
        status = muster_ps_update(worker, 1, keys + 1, 2, move_each, NULL);
    }
    return status;
}

static muster_status sum_table(muster_ps_worker *worker, double *sums)
{
    for (uint32_t key = 0; key < KEYS; key++) {
        float seen[WIDTH];
        float *row;
        muster_status status = muster_ps_pull(worker, 0, &key, 1, seen);
        if (status == MUSTER_OK) {
            sums[0] += (double)seen[WIDTH - 1];
            status = muster_ps_begin(worker, 1, key, &row);
        }
        if (status != MUSTER_OK) {
            return status;
        }
        sums[1] += (double)row[0];
        sums[2] += (double)row[WIDTH];
        status = muster_ps_end(worker, 1, key);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

typedef struct worker_thread {
    uint32_t draw;
    muster_ps_worker *worker;
    muster_status status;
    double sums[3];
} worker_thread;

static void *work(void *argument)
{
    worker_thread *s = argument;
    for (int i = 0; i < ROUNDS && s->status == MUSTER_OK; i++) {
        s->status = one_round(s->worker, &s->draw);
    }
    if (s->status == MUSTER_OK) {
        s->status = muster_ps_barrier(s->worker);
    }
    if (s->status == MUSTER_OK) {
        s->status = sum_table(s->worker, s->sums);
    }
    return NULL;
}

/* The node's worker and others beside it. */
static void work_together(test_node *n)
{
    worker_thread threads_of[WORKERS] = {{.worker = n->worker}};
    pthread_t threads[WORKERS];
    for (uint32_t i = 1; i < WORKERS; i++) {
        TEST_NODE_CHECK(
            n, muster_ps_worker_create(n->ps, NULL, &threads_of[i].worker) ==
                   MUSTER_OK);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        threads_of[i].draw = 7 * i + 1000 * n->node + 1;
        if (pthread_create(&threads[i], NULL, work, &threads_of[i]) != 0) {
            abort();
        }
    }
    double expected = (double)n->of->nodes * WORKERS * ROUNDS;
    for (uint32_t i = 0; i < WORKERS; i++) {
        (void)pthread_join(threads[i], NULL);
        TEST_NODE_CHECK(n, threads_of[i].status == MUSTER_OK);
        TEST_NODE_CHECK(n, threads_of[i].sums[0] == 4 * expected);
        TEST_NODE_CHECK(n, threads_of[i].sums[1] == 3 * expected);
        TEST_NODE_CHECK(n, threads_of[i].sums[2] == 6 * expected);
    }
    for (uint32_t i = 1; i < WORKERS; i++) {
        muster_ps_worker_free(threads_of[i].worker);
    }
}

static void every_push_counts_once_however_rows_are_managed(void **state)
{
    (void)state;
    for (uint32_t manage = 0; manage <= MUSTER_PS_CLASSIC; manage++) {
        test_mesh mesh = make_mesh(2 + manage % 2, manage);
        mesh.life = work_together;
        assert_int_equal(test_mesh_run(&mesh), 0);
        uint64_t moved = 0;
        uint64_t copied = 0;
        for (uint32_t i = 0; i < mesh.nodes; i++) {
            muster_ps_counters c = mesh.all[i].counted;
            moved += c.relocations;
            copied += c.replications;
            assert_true(c.accesses > ROUNDS);
        }
        bool moves = manage == MUSTER_PS_AUTO || manage == MUSTER_PS_RELOCATE;
        bool copies = manage == MUSTER_PS_AUTO || manage == MUSTER_PS_REPLICATE;
        assert_int_equal(moved > 0, moves);
        assert_int_equal(copied > 0, copies);
    }
}

static void a_lost_node_ends_calls_instead_of_hanging_them(void **state)
{
    (void)state;
    test_mesh mesh = make_mesh(2, MUSTER_PS_CLASSIC);
    test_mesh_open(&mesh);
    muster_ps_worker *worker = mesh.all[0].worker;
    uint32_t there = 1;
    float seen[WIDTH];
    assert_int_equal(muster_ps_pull(worker, 0, &there, 1, seen), MUSTER_OK);
    // A node that goes in peace is no loss, but its rows are gone with it.
    test_node_close(&mesh.all[1]);
    muster_status status = MUSTER_OK;
    for (int i = 0; i < 1000 && status == MUSTER_OK; i++) {
        status = muster_ps_pull(worker, 0, &there, 1, seen);
    }
    assert_int_equal(status, MUSTER_ERR_PEER_LOST);
    uint32_t here = 0;
    assert_int_equal(muster_ps_pull(worker, 0, &here, 1, seen), MUSTER_OK);
    test_node_close(&mesh.all[0]);
    assert_int_equal(test_mesh_clear(&mesh), 0);
}

static void *just_meet(void *argument)
{
    worker_thread *s = argument;
    s->status = muster_ps_barrier(s->worker);
    return NULL;
}

/* One worker is sent off from the barrier and goes; the other comes later. */
static void a_barrier_after_a_loss_does_not_wait(void **state)
{
    (void)state;
    test_mesh mesh = make_mesh(2, MUSTER_PS_CLASSIC);
    test_mesh_open(&mesh);
    worker_thread early = {.worker = NULL};
    pthread_t thread;
    assert_int_equal(
        muster_ps_worker_create(mesh.all[0].ps, NULL, &early.worker),
        MUSTER_OK);
    assert_int_equal(pthread_create(&thread, NULL, just_meet, &early), 0);
    (void)usleep(50000); // it waits, or it comes too late: both must end
    test_node_close(&mesh.all[1]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(early.status, MUSTER_ERR_PEER_LOST);
    muster_ps_worker_free(early.worker);
    assert_int_equal(muster_ps_barrier(mesh.all[0].worker),
                     MUSTER_ERR_PEER_LOST);
    test_node_close(&mesh.all[0]);
    assert_int_equal(test_mesh_clear(&mesh), 0);
}

static void push_all_and_meet(test_node *n)
{
    for (uint32_t key = 0; key < KEYS; key++) {
        const float one[WIDTH] = {1, 1, 1};
        TEST_NODE_CHECK(n, muster_ps_push(n->worker, 0, &key, 1, one) ==
                               MUSTER_OK);
    }
    TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
}

/* Lost rows of even keys are known. */
static bool remember(void *context, uint32_t table, uint32_t key, float *row)
{
    (void)context;
    for (uint32_t i = 0; i < WIDTH && key % 2 == 0; i++) {
        row[i] = 100 + (float)table;
    }
    return key % 2 == 0;
}

/* Rows stay at home here, so those of node 2 are known to go with it. */
static void check_loss(bool remembers)
{
    test_mesh mesh = make_mesh(3, MUSTER_PS_CLASSIC);
    mesh.survive = true;
    mesh.restore = remembers ? remember : NULL;
    test_mesh_open(&mesh);
    assert_int_equal(test_mesh_do(&mesh, 3, push_all_and_meet), 0);
    assert_int_equal(muster_ps_barrier_members(mesh.all[0].ps), 7);
    muster_ps_abandon(mesh.all[2].ps);
    test_node_close(&mesh.all[2]);
    assert_int_equal(test_mesh_do(&mesh, 2, push_all_and_meet), 0);
    assert_int_equal(muster_ps_barrier_members(mesh.all[0].ps), 3);
    assert_int_equal(muster_ps_lost_nodes(mesh.all[1].ps), 4);
    for (uint32_t key = 0; key < KEYS; key++) {
        float seen[WIDTH];
        assert_int_equal(muster_ps_pull(mesh.all[1].worker, 0, &key, 1, seen),
                         MUSTER_OK);
        float before = remembers && key % 2 == 0 ? 100 : 0;
        assert_true(seen[0] == (key % 3 == 2 ? before + 2 : 5));
    }
    test_mesh_close(&mesh, 2);
}

static void calls_wait_through_the_loss_of_a_node(void **state)
{
    (void)state;
    check_loss(false);
    check_loss(true);
}

/* More rows than a localize queue holds; none ever comes. */
static void localize_all(test_node *n)
{
    enum { FAR = 100000 };
    uint32_t *keys = calloc(FAR, sizeof(*keys));
    if (keys == NULL) {
        abort();
    }
    for (uint32_t i = 0; i < FAR; i++) {
        keys[i] = 2 * i + 1 - n->node;
    }
    TEST_NODE_CHECK(n,
                    muster_ps_localize(n->worker, 0, keys, FAR) == MUSTER_OK);
    TEST_NODE_CHECK(n, muster_ps_fetch(n->worker, 0, keys, FAR) == MUSTER_OK);
    TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
    TEST_NODE_CHECK(n, test_count(n->ps).relocations == 0);
    TEST_NODE_CHECK(n, test_count(n->ps).remote_accesses == 0);
    free(keys);
}

static void localize_costs_nothing_where_rows_stay_at_home(void **state)
{
    (void)state;
    test_mesh mesh = make_mesh(2, MUSTER_PS_CLASSIC);
    mesh.keys = 200000;
    test_mesh_open(&mesh);
    assert_int_equal(test_mesh_do(&mesh, 2, localize_all), 0);
    test_mesh_close(&mesh, 2);
}

/* Node 1 asks for a row of node 0, first when it needs it, then ahead. */
static void replicate_one(test_node *n)
{
    const uint32_t far = 0;
    float seen[WIDTH];
    if (n->node == 1) {
        const _Atomic uint64_t *word = &n->ps->tables[0]->words[far];
        TEST_NODE_CHECK(n, muster_ps_late_rows(n->worker) == 0);
        TEST_NODE_CHECK(n, muster_ps_pull(n->worker, 0, &far, 1, seen) ==
                               MUSTER_OK);
        TEST_NODE_CHECK(n, muster_ps_late_rows(n->worker) == 1);
        TEST_NODE_CHECK(n, muster_ps_replicate(n->worker, 0, &far, 1) ==
                               MUSTER_OK);
        int64_t end = muster_clock_ns() + 60 * MUSTER_NS_PER_S;
        while (muster_word_state_of(atomic_load(word)) != MUSTER_ROW_REPLICA &&
               muster_clock_ns() < end) {
            (void)sched_yield();
        }
        TEST_NODE_CHECK(n, muster_ps_pull(n->worker, 0, &far, 1, seen) ==
                               MUSTER_OK);
        TEST_NODE_CHECK(n, muster_ps_late_rows(n->worker) == 1);
    }
    TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
    TEST_NODE_CHECK(n, test_count(n->ps).relocations == 0);
}

static void a_replica_that_was_asked_for_is_not_late(void **state)
{
    (void)state;
    test_mesh mesh = make_mesh(2, MUSTER_PS_AUTO);
    assert_int_equal(muster_ps_late_rows(NULL), 0);
    test_mesh_open(&mesh);
    assert_int_equal(test_mesh_do(&mesh, 2, replicate_one), 0);
    test_mesh_close(&mesh, 2);
}

static void the_place_of_a_node_that_lives_cannot_be_taken(void **state)
{
    (void)state;
    test_mesh mesh = make_mesh(2, MUSTER_PS_AUTO);
    mesh.survive = true;
    test_mesh_open(&mesh);
    test_node another = {.of = &mesh, .node = 1, .joins = true};
    assert_int_equal(test_node_open(&another), MUSTER_ERR_SYSTEM);
    test_node_close(&another);
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/node-1", mesh.folder);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(test_mesh_do(&mesh, 2, push_all_and_meet), 0);
    test_mesh_close(&mesh, 2);
}

/* Ports of one address, or one port of several addresses. */
static int meet_over_tcp(unsigned port, bool list)
{
    test_mesh mesh = make_mesh(3, MUSTER_PS_AUTO);
    mesh.patience_ms = 5000;
    mesh.life = work_together;
    (void)snprintf(mesh.folder, sizeof(mesh.folder), "tcp:127.0.0.1:%u", port);
    if (list) {
        (void)snprintf(mesh.folder, sizeof(mesh.folder),
                       "tcp:127.0.0.1:%u,127.0.0.2:%u,127.0.0.3:%u", port, port,
                       port);
    }
    assert_int_equal(test_mesh_place(&mesh), 0);
    return test_mesh_do(&mesh, 3, test_node_live);
}

static void nodes_meet_over_tcp_as_well(void **state)
{
    (void)state;
    for (unsigned form = 0; form < 2; form++) {
        // A range of ports that nobody uses is found by trying.
        int faults = 1;
        unsigned port = 21000 + 100 * form + (unsigned)getpid() % 20000;
        for (unsigned tries = 0; tries < 6 && faults > 0; tries++) {
            faults = meet_over_tcp(port + 7 * tries, form == 1);
        }
        assert_int_equal(faults, 0);
    }
}

static void a_node_that_does_not_come_is_named(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = 2};
    assert_int_equal(test_mesh_place(&mesh), 0);
    muster_error error = {.text = ""};
    muster_ps *ps = NULL;
    uint32_t number;
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    muster_ps_table_opts table = MUSTER_PS_TABLE_OPTS_INIT;
    table.keys = 2;
    table.width = 1;
    opts.nodes = 2;
    opts.mesh = mesh.folder;
    opts.patience_ms = 50;
    assert_int_equal(muster_ps_create(&opts, &error, &ps), MUSTER_OK);
    assert_int_equal(muster_ps_connect(ps, &error), MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_table_add(ps, &table, &error, &number),
                     MUSTER_OK);
    muster_ps_worker *worker = NULL;
    assert_int_equal(muster_ps_worker_create(ps, NULL, &worker),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_ps_connect(ps, &error), MUSTER_ERR_TIMED_OUT);
    assert_non_null(strstr(error.text, "0 of 1"));
    assert_non_null(strstr(error.text, "node-1, is missing"));
    muster_ps_free(ps);
    assert_int_equal(test_mesh_clear(&mesh), 0);
}

static void come_and_go(test_node *n)
{
    (void)test_node_open(n);
    test_node_close(n);
}

/* Node 2 of 3 never comes; node 1 would wait for it for long, the lead not. */
static void a_node_does_not_wait_on_without_its_lead(void **state)
{
    (void)state;
    test_mesh hasty = make_mesh(3, MUSTER_PS_AUTO);
    hasty.patience_ms = 2000;
    assert_int_equal(test_mesh_place(&hasty), 0);
    test_mesh patient = hasty;
    patient.patience_ms = 60000;
    hasty.all[1].of = &patient;
    assert_int_equal(test_mesh_do(&hasty, 2, come_and_go), 0);
    assert_int_equal(hasty.all[0].status, MUSTER_ERR_TIMED_OUT);
    assert_int_equal(hasty.all[1].status, MUSTER_ERR_PEER_LOST);
    assert_int_equal(test_mesh_clear(&hasty), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_push_counts_once_however_rows_are_managed),
        cmocka_unit_test(a_lost_node_ends_calls_instead_of_hanging_them),
        cmocka_unit_test(a_barrier_after_a_loss_does_not_wait),
        cmocka_unit_test(calls_wait_through_the_loss_of_a_node),
        cmocka_unit_test(localize_costs_nothing_where_rows_stay_at_home),
        cmocka_unit_test(a_replica_that_was_asked_for_is_not_late),
        cmocka_unit_test(the_place_of_a_node_that_lives_cannot_be_taken),
        cmocka_unit_test(nodes_meet_over_tcp_as_well),
        cmocka_unit_test(a_node_that_does_not_come_is_named),
        cmocka_unit_test(a_node_does_not_wait_on_without_its_lead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
