/*
 * bias_test.c -- rows without latches (ps/store/bias.h): that they are used so
 * where they may be, and that nothing is lost when other workers come.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "ps/node/inside.h"
#include "run/sparse_checkpoint.h"

#include "ps/node/node_test.h"

enum { KEYS = 64, WIDTH = 4, WORKERS = 3, REPEATS = 300, STEPS = 800 };
enum { TABLES = 8 };

#define PATIENCE_NS (60 * MUSTER_NS_PER_S)

static muster_ps *make_node_of(uint32_t tables)
{
    const test_mesh all = {
        .tables = tables, .keys = tables > 0 ? KEYS : 0, .width = WIDTH};
    return test_alone_open(&all);
}

static muster_ps *make_node(void)
{
    return make_node_of(1);
}

/* Add 1 to a row in place; -1: that failed. */
static int add_one(muster_ps_worker *worker, uint32_t key)
{
    float *row;
    if (muster_ps_begin(worker, 0, key, &row) != MUSTER_OK) {
        return -1;
    }
    row[0] += 1;
    return muster_ps_end(worker, 0, key) == MUSTER_OK ? 0 : -1;
}

static float value_of(muster_ps_worker *worker, uint32_t key)
{
    float seen[WIDTH] = {-1};
    assert_int_equal(muster_ps_pull(worker, 0, &key, 1, seen), MUSTER_OK);
    return seen[0];
}

static uint32_t row_bias(const muster_ps *ps)
{
    return atomic_load(&ps->tables[0]->row_bias);
}

static bool is_unlatched(const muster_ps_worker *worker)
{
    return (muster_bias_state(worker->holder) & MUSTER_BIAS_UNLATCHED) != 0;
}

static void rows_are_biased_to_the_worker_that_used_them_first(void **state)
{
    (void)state;
    muster_ps *ps = make_node();
    if (!ps->unlatched) {
        print_message("skipped: this system has no membarrier\n");
        muster_ps_free(ps);
        skip();
    }
    muster_ps_worker *first = test_worker_open(ps);
    muster_ps_worker *second = test_worker_open(ps);
    float *row;
    assert_int_equal(muster_ps_begin(first, 0, 1, &row), MUSTER_OK);
    assert_true(is_unlatched(first));
    assert_int_equal(muster_ps_end(first, 0, 1), MUSTER_OK);
    assert_int_equal(add_one(second, 2), 0);
    assert_int_equal(add_one(first, 1), 0);
    assert_true(value_of(second, 2) == 1);
    assert_int_equal(row_bias(ps), MUSTER_ROW_BIAS_ON);
    assert_int_equal(add_one(second, 1), 0); // they meet
    assert_int_equal(row_bias(ps), MUSTER_ROW_BIAS_NONE);
    assert_int_equal(muster_ps_begin(first, 0, 1, &row), MUSTER_OK);
    assert_false(is_unlatched(first));
    assert_true(row[0] == 2);
    assert_int_equal(muster_ps_end(first, 0, 1), MUSTER_OK);
    muster_ps_worker_free(first);
    muster_ps_worker_free(second);
    muster_ps_free(ps);
}

/* A row that was biased to a worker that ended can be used by others. */
static void rows_of_a_worker_that_ended_are_found(void **state)
{
    (void)state;
    muster_ps *ps = make_node();
    muster_ps_worker *first = test_worker_open(ps);
    muster_ps_worker *second = test_worker_open(ps);
    assert_int_equal(add_one(first, 1), 0);
    assert_int_equal(add_one(second, 2), 0);
    muster_ps_worker_free(second);
    assert_int_equal(add_one(first, 2), 0);
    second = test_worker_open(ps);
    assert_int_equal(add_one(second, 2), 0);
    assert_true(value_of(first, 2) == 3);
    muster_ps_worker_free(first);
    muster_ps_worker_free(second);
    muster_ps_free(ps);
}

/* A row that is biased to a worker may stay open when another one is made. */
static void a_third_worker_does_not_wait(void **state)
{
    (void)state;
    muster_ps *ps = make_node();
    muster_ps_worker *first = test_worker_open(ps);
    muster_ps_worker *second = test_worker_open(ps);
    float *row;
    assert_int_equal(muster_ps_begin(first, 0, 1, &row), MUSTER_OK);
    muster_ps_worker *third = test_worker_open(ps);
    assert_int_equal(add_one(third, 2), 0);
    assert_int_equal(muster_ps_end(first, 0, 1), MUSTER_OK);
    muster_ps_worker_free(first);
    muster_ps_worker_free(second);
    muster_ps_worker_free(third);
    // A table that was added later is biased to the only worker at first.
    muster_error error;
    uint32_t number;
    muster_ps_table_opts table = MUSTER_PS_TABLE_OPTS_INIT;
    table.keys = KEYS;
    table.width = WIDTH;
    assert_int_equal(muster_ps_table_add(ps, &table, &error, &number),
                     MUSTER_OK);
    first = test_worker_open(ps);
    assert_int_equal(muster_ps_table_revoked(ps->tables[number]),
                     !ps->unlatched);
    second = test_worker_open(ps);
    assert_true(muster_ps_table_revoked(ps->tables[number]));
    muster_ps_worker_free(first);
    muster_ps_worker_free(second);
    muster_ps_free(ps);
}

/* An epoch's counts are those of its work, however the rows were gathered. */
static void gathering_rows_is_no_access(void **state)
{
    (void)state;
    muster_ps *ps = make_node();
    muster_ps_worker *worker = test_worker_open(ps);
    float *rows[1];
    assert_int_equal(add_one(worker, 1), 0);
    assert_int_equal(muster_ps_gather(worker, 1, rows), MUSTER_OK);
    assert_true(rows[0][WIDTH] == 1);
    assert_int_equal(add_one(worker, 2), 0);
    muster_mem_free(rows[0]);
    muster_ps_worker_free(worker);
    assert_int_equal(test_count(ps).accesses, 2);
    muster_ps_free(ps);
}

/* Nor does it revoke the bias of rows to their workers. */
static void gathering_rows_keeps_the_row_bias(void **state)
{
    (void)state;
    muster_ps *ps = make_node();
    muster_ps_worker *first = test_worker_open(ps);
    muster_ps_worker *second = test_worker_open(ps);
    float *rows[1];
    float *row;
    assert_int_equal(add_one(first, 1), 0);
    assert_int_equal(add_one(second, 2), 0);
    uint32_t before = row_bias(ps);
    assert_int_equal(muster_ps_gather(first, 1, rows), MUSTER_OK);
    assert_true(rows[0][WIDTH] == 1 && rows[0][(size_t)2 * WIDTH] == 1);
    assert_int_equal(row_bias(ps), before);
    muster_mem_free(rows[0]);
    // While one is open, a row_bias does not pause.
    assert_int_equal(muster_ps_begin(second, 0, 2, &row), MUSTER_OK);
    assert_false(muster_ps_table_pause_row_bias(ps->tables[0]));
    assert_int_equal(row_bias(ps), before);
    assert_int_equal(muster_ps_end(second, 0, 2), MUSTER_OK);
    muster_ps_worker_free(first);
    muster_ps_worker_free(second);
    muster_ps_free(ps);
}

/* A system without membarrier: all rows are latched, for one worker and for
 * several, and no thread asks for a fence. */
static void rows_are_latched_where_there_is_no_fence(void **state)
{
    (void)state;
    muster_error error;
    muster_ps *ps = make_node_of(0);
    muster_ps_table_opts table = MUSTER_PS_TABLE_OPTS_INIT;
    uint32_t number;
    float *row;
    float *rows[1];
    table.keys = KEYS;
    table.width = WIDTH;
    ps->unlatched = false;
    assert_int_equal(muster_ps_table_add(ps, &table, &error, &number),
                     MUSTER_OK);
    assert_null(ps->tables[0]->holders);
    muster_ps_worker *first = test_worker_open(ps);
    assert_int_equal(muster_ps_begin(first, 0, 1, &row), MUSTER_OK);
    assert_false(is_unlatched(first));
    muster_ps_worker *second = test_worker_open(ps); // waits for nobody
    assert_int_equal(muster_ps_end(first, 0, 1), MUSTER_OK);
    assert_int_equal(add_one(first, 1), 0);
    assert_int_equal(add_one(second, 1), 0);
    muster_ps_table_use(ps->tables[0]);
    muster_ps_table_return_bias(ps->tables[0]);
    muster_ps_table_return_bias(ps->tables[0]);
    assert_true(muster_ps_table_revoked(ps->tables[0]));
    assert_int_equal(muster_ps_gather(second, 1, rows), MUSTER_OK);
    assert_true(rows[0][WIDTH] == 2);
    muster_mem_free(rows[0]);
    muster_ps_worker_free(first);
    muster_ps_worker_free(second);
    muster_ps_free(ps);
}

/* ---- workers that meet --------------------------------------------------- */

typedef struct worker_thread {
    muster_ps *ps;
    muster_ps_worker *worker;
    uint32_t number;
    uint32_t meets_at; // from which step on it uses the others' rows too
    uint32_t draws;
    _Atomic bool *stop;
    sem_t begun; // posted at step meets_at
    int faults;
} worker_thread;

static uint32_t draw(worker_thread *h, uint32_t below)
{
    return test_draw(&h->draws) % below;
}

/* Rows of one's own are those of the same remainder; tables are met in one
 * after the other. */
static uint32_t some_key(worker_thread *h, uint32_t step, uint32_t table)
{
    uint32_t own = h->number + WORKERS * draw(h, KEYS / WORKERS);
    uint32_t meets_at = h->meets_at * (table + 1) / TABLES;
    return step < meets_at ? own : draw(h, KEYS);
}

static bool begin_at(worker_thread *h, muster_rowref ref, float **row_out)
{
    return muster_ps_begin(h->worker, muster_rowref_table(ref),
                           muster_rowref_key(ref), row_out) == MUSTER_OK;
}

static bool end_at(worker_thread *h, muster_rowref ref)
{
    return muster_ps_end(h->worker, muster_rowref_table(ref),
                         muster_rowref_key(ref)) == MUSTER_OK;
}

/* Two rows at once, if they are two, closed in either order; 2 are added. */
static bool add_to_two(worker_thread *h, uint64_t one, uint64_t other)
{
    uint64_t first = one < other ? one : other;
    uint64_t second = one < other ? other : one;
    float *a;
    float *b;
    if (!begin_at(h, first, &a)) {
        return false;
    }
    a[0] += 1;
    if (first == second) {
        a[0] += 1;
        return end_at(h, first);
    }
    if (!begin_at(h, second, &b)) {
        return false;
    }
    b[0] += 1;
    bool turned = draw(h, 2) == 0;
    return end_at(h, turned ? first : second) &&
           end_at(h, turned ? second : first);
}

static void *work_and_meet(void *argument)
{
    worker_thread *h = argument;
    const float ones[2 * WIDTH] = {[0] = 1, [WIDTH] = 1};
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t table = draw(h, TABLES);
        uint32_t keys[2] = {some_key(h, step, table), some_key(h, step, table)};
        if (draw(h, 3) == 0) {
            h->faults +=
                muster_ps_push(h->worker, table, keys, 2, ones) != MUSTER_OK;
        } else {
            uint32_t another = draw(h, TABLES);
            h->faults += !add_to_two(
                h, muster_rowref_make(table, keys[0]),
                muster_rowref_make(another, some_key(h, step, another)));
        }
    }
    return NULL;
}

static double sum_of_all(muster_ps_worker *worker)
{
    double sum = 0;
    for (uint32_t table = 0; table < TABLES; table++) {
        for (uint32_t key = 0; key < KEYS; key++) {
            float seen[WIDTH];
            assert_int_equal(muster_ps_pull(worker, table, &key, 1, seen),
                             MUSTER_OK);
            sum += (double)seen[0];
        }
    }
    return sum;
}

/* Workers that begin with rows of their own and go over to the rows of all,
 * each at another moment. Every change counts once. */
static void nothing_is_lost_when_workers_meet(void **state)
{
    (void)state;
    for (uint32_t repeat = 0; repeat < REPEATS; repeat++) {
        muster_ps *ps = make_node_of(TABLES);
        worker_thread workers[WORKERS];
        pthread_t threads[WORKERS];
        for (uint32_t i = 0; i < WORKERS; i++) {
            workers[i] = (worker_thread){.ps = ps,
                                         .worker = test_worker_open(ps),
                                         .number = i,
                                         .draws = 1000 * repeat + i};
            workers[i].meets_at = draw(&workers[i], STEPS);
        }
        for (uint32_t i = 0; i < WORKERS; i++) {
            assert_int_equal(
                pthread_create(&threads[i], NULL, work_and_meet, &workers[i]),
                0);
        }
        for (uint32_t i = 0; i < WORKERS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            assert_int_equal(workers[i].faults, 0);
        }
        assert_true(sum_of_all(workers[0].worker) == 2.0 * WORKERS * STEPS);
        for (uint32_t i = 0; i < WORKERS; i++) {
            muster_ps_worker_free(workers[i].worker);
        }
        muster_ps_free(ps);
    }
}

static void *work_apart(void *argument)
{
    worker_thread *h = argument;
    const float one[WIDTH] = {1};
    for (uint32_t step = 0; !atomic_load(h->stop); step++) {
        uint32_t key = 1 + step % (KEYS / 2 - 1);
        if (step == h->meets_at) {
            (void)sem_post(&h->begun);
        }
        h->faults += step % 2 == 0 ? add_one(h->worker, key) != 0
                                   : muster_ps_push(h->worker, 0, &key, 1,
                                                    one) != MUSTER_OK;
    }
    return NULL;
}

/* A worker that is made while the only one works leaves its rows biased. */
static void a_new_worker_keeps_the_row_bias(void **state)
{
    (void)state;
    for (uint32_t repeat = 0; repeat < REPEATS; repeat++) {
        muster_ps *ps = make_node();
        _Atomic bool stop = false;
        worker_thread first = {.ps = ps,
                               .worker = test_worker_open(ps),
                               .meets_at = repeat,
                               .stop = &stop};
        pthread_t thread;
        assert_int_equal(sem_init(&first.begun, 0, 0), 0);
        assert_int_equal(pthread_create(&thread, NULL, work_apart, &first), 0);
        (void)sem_wait(&first.begun);
        muster_ps_worker *second = test_worker_open(ps);
        assert_int_equal(add_one(second, KEYS - 1), 0);
        atomic_store(&stop, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(first.faults, 0);
        assert_true(row_bias(ps) == MUSTER_ROW_BIAS_ON || !ps->unlatched);
        (void)sem_destroy(&first.begun);
        muster_ps_worker_free(first.worker);
        muster_ps_worker_free(second);
        muster_ps_free(ps);
    }
}

static void *add_one_there(void *argument)
{
    worker_thread *h = argument;
    h->faults += add_one(h->worker, 1) != 0;
    return NULL;
}

/* A worker that wants a row which another has open unlatched waits for it. */
static void a_row_that_is_open_is_waited_for(void **state)
{
    (void)state;
    muster_ps *ps = make_node();
    muster_ps_worker *first = test_worker_open(ps);
    worker_thread other = {.ps = ps, .worker = test_worker_open(ps)};
    pthread_t thread;
    float *row;
    assert_int_equal(muster_ps_begin(first, 0, 1, &row), MUSTER_OK);
    row[0] = 5;
    assert_int_equal(pthread_create(&thread, NULL, add_one_there, &other), 0);
    int64_t end = muster_clock_ns() + PATIENCE_NS;
    while (row_bias(ps) == MUSTER_ROW_BIAS_ON && muster_clock_ns() < end) {
        (void)sched_yield();
    }
    assert_int_not_equal(row_bias(ps), MUSTER_ROW_BIAS_ON);
    for (int i = 0; i < 1000; i++) {
        row[0] += 1;
        (void)sched_yield();
    }
    assert_true(row[0] == 1005);
    assert_int_equal(muster_ps_end(first, 0, 1), MUSTER_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(other.faults, 0);
    assert_true(value_of(first, 1) == 1006);
    muster_ps_worker_free(first);
    muster_ps_worker_free(other.worker);
    muster_ps_free(ps);
}

/* ---- nodes that ask ------------------------------------------------------ */

enum { RESTS = 5 };

/* Node 1 works on rows of its own; whenever its table is at rest, node 0 is
 * told to push to one of them, and does. */
typedef struct errand {
    _Atomic uint32_t asked; // of node 0
    _Atomic uint32_t done;
} errand;

/* Odd ones are node 1's; many, since a float counts to 2^24 only. */
static uint32_t own_key(uint64_t i)
{
    return (uint32_t)(2 * i + 1) % KEYS;
}

static void work_until_rested(test_node *n, errand *e)
{
    uint64_t added = 0;
    const muster_ps_table *rows = n->ps->tables[0];
    int64_t end = muster_clock_ns() + PATIENCE_NS;
    for (uint32_t rest = 1; rest <= RESTS; rest++) {
        while (muster_ps_table_revoked(rows) && muster_clock_ns() < end) {
            TEST_NODE_CHECK(n, add_one(n->worker, own_key(added++)) == 0);
        }
        TEST_NODE_CHECK(n, !muster_ps_table_revoked(rows));
        atomic_store(&e->asked, rest);
        while (atomic_load(&e->done) < rest && muster_clock_ns() < end) {
            TEST_NODE_CHECK(n, add_one(n->worker, own_key(added++)) == 0);
        }
        TEST_NODE_CHECK(n, atomic_load(&e->done) == rest);
    }
    double sum = 0;
    for (uint32_t key = 1; key < KEYS; key += 2) {
        float seen[WIDTH];
        TEST_NODE_CHECK(n, muster_ps_pull(n->worker, 0, &key, 1, seen) ==
                               MUSTER_OK);
        sum += (double)seen[0];
    }
    TEST_NODE_CHECK(n, sum == (double)(added + RESTS));
}

static void disturb(test_node *n, errand *e)
{
    const uint32_t key = 1;
    const float one[WIDTH] = {1};
    int64_t end = muster_clock_ns() + PATIENCE_NS;
    for (uint32_t rest = 1; rest <= RESTS; rest++) {
        while (atomic_load(&e->asked) < rest && muster_clock_ns() < end) {
            (void)sched_yield();
        }
        TEST_NODE_CHECK(n, muster_ps_push(n->worker, 0, &key, 1, one) ==
                               MUSTER_OK);
        atomic_store(&e->done, rest);
    }
}

static void rest_and_disturb(test_node *n)
{
    errand *e = n->of->argument;
    if (!n->ps->unlatched) {
        return; // no table is ever at rest
    }
    if (n->node == 0) {
        disturb(n, e);
    } else {
        work_until_rested(n, e);
    }
}

static void an_unused_table_is_unlatched_until_a_node_asks(void **state)
{
    (void)state;
    errand e = {0};
    test_mesh mesh = {.nodes = 2,
                      .manage = MUSTER_PS_CLASSIC,
                      .keys = KEYS,
                      .width = WIDTH,
                      .argument = &e,
                      .life = rest_and_disturb};
    assert_int_equal(test_mesh_run(&mesh), 0);
}

/* Node 1's worker keeps a row open, unlatched, while its localize
 * request makes the driver wait for that row. */
static void count_with_a_row_open(test_node *n)
{
    if (n->node == 0 || !n->ps->unlatched) {
        return;
    }
    const uint32_t far = 0;
    const muster_ps_table *rows = n->ps->tables[0];
    float *row;
    int64_t end = muster_clock_ns() + PATIENCE_NS;
    while (muster_ps_table_revoked(rows) && muster_clock_ns() < end) {
        (void)sched_yield();
    }
    TEST_NODE_CHECK(n, muster_ps_begin(n->worker, 0, 1, &row) == MUSTER_OK);
    TEST_NODE_CHECK(n, is_unlatched(n->worker));
    TEST_NODE_CHECK(n, muster_ps_localize(n->worker, 0, &far, 1) == MUSTER_OK);
    while (!muster_ps_table_revoked(rows) && muster_clock_ns() < end) {
        (void)sched_yield();
    }
    TEST_NODE_CHECK(n, muster_ps_table_revoked(rows));
    TEST_NODE_CHECK(n, test_count(n->ps).relocations == 0);
    TEST_NODE_CHECK(n, muster_ps_end(n->worker, 0, 1) == MUSTER_OK);
    TEST_NODE_CHECK(n, muster_ps_fetch(n->worker, 0, &far, 1) == MUSTER_OK);
}

static void counters_can_be_read_while_the_driver_waits_for_a_row(void **state)
{
    (void)state;
    test_mesh mesh = {.nodes = 2,
                      .manage = MUSTER_PS_RELOCATE,
                      .keys = KEYS,
                      .width = WIDTH,
                      .life = count_with_a_row_open};
    assert_int_equal(test_mesh_run(&mesh), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_biased_to_the_worker_that_used_them_first),
        cmocka_unit_test(rows_of_a_worker_that_ended_are_found),
        cmocka_unit_test(a_third_worker_does_not_wait),
        cmocka_unit_test(gathering_rows_is_no_access),
        cmocka_unit_test(gathering_rows_keeps_the_row_bias),
        cmocka_unit_test(rows_are_latched_where_there_is_no_fence),
        cmocka_unit_test(nothing_is_lost_when_workers_meet),
        cmocka_unit_test(a_new_worker_keeps_the_row_bias),
        cmocka_unit_test(a_row_that_is_open_is_waited_for),
        cmocka_unit_test(an_unused_table_is_unlatched_until_a_node_asks),
        cmocka_unit_test(counters_can_be_read_while_the_driver_waits_for_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
