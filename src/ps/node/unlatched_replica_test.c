/*
 * unlatched_replica_test.c -- replicas that a node's only worker writes without
 * latches (ps/store/bias.h): their deltas are marked and sent like any other.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "ps/node/inside.h"

#include "ps/node/node_test.h"

enum { NODES = 2, KEYS = 16, WIDTH = 4, TIMES = 30 };

#define PATIENCE_NS (60 * MUSTER_NS_PER_S)
#define LOOKS       1000 // for latches that may be there for microseconds

/* Ones that a node has added to a row. */
typedef struct ledger {
    uint64_t added[NODES][KEYS];
} ledger;

static uint64_t word_of(const test_node *n, uint32_t key)
{
    return atomic_load(&n->ps->tables[0]->words[key]);
}

static bool is_unlatched(const test_node *n)
{
    return (muster_bias_state(n->worker->holder) & MUSTER_BIAS_UNLATCHED) != 0;
}

/* In place; true: it was a copy, and open without its latch. Copies are spent,
 * dropped and come again: a row need not be one all the time. */
static bool add_in_place(test_node *n, uint32_t key)
{
    ledger *l = n->of->argument;
    float *row;
    bool done = muster_ps_begin(n->worker, 0, key, &row) == MUSTER_OK;
    TEST_NODE_CHECK(n, done);
    if (!done) {
        return false;
    }
    bool unlatched = is_unlatched(n);
    if (unlatched) {
        // Nobody else touches the word now, so it tells what was lent.
        uint64_t word = word_of(n, key);
        TEST_NODE_CHECK(n, muster_word_state_of(word) == MUSTER_ROW_REPLICA);
        TEST_NODE_CHECK(n, (word & MUSTER_WORD_DIRTY) != 0);
    }
    row[0] += 1;
    TEST_NODE_CHECK(n, muster_ps_end(n->worker, 0, key) == MUSTER_OK);
    l->added[n->node][key]++;
    return unlatched;
}

static void add_by_push(test_node *n, uint32_t key)
{
    ledger *l = n->of->argument;
    const float one[WIDTH] = {1};
    TEST_NODE_CHECK(n, muster_ps_push(n->worker, 0, &key, 1, one) == MUSTER_OK);
    l->added[n->node][key]++;
}

/* Until no row needs its latch, since nothing is to be synchronised. */
static void wait_for_rest(test_node *n)
{
    int64_t end = muster_clock_ns() + PATIENCE_NS;
    while (muster_ps_table_revoked(n->ps->tables[0]) &&
           muster_clock_ns() < end) {
        (void)sched_yield();
    }
    TEST_NODE_CHECK(n, muster_clock_ns() < end);
}

/* Until the network thread uses the rows, if that is seen soon: it may be over
 * before this thread gets a processor. */
static void look_for_use(const test_node *n)
{
    for (uint32_t i = 0; i < LOOKS; i++) {
        if (muster_ps_table_revoked(n->ps->tables[0])) {
            return;
        }
        (void)sched_yield();
    }
}

/* Each node works on the other's rows, of which it has copies: on some in
 * place, others it only pushes to, at rest or never. */
static void work_on_replicas(test_node *n)
{
    int64_t end = muster_clock_ns() + PATIENCE_NS;
    uint32_t theirs[KEYS / 2];
    uint32_t unlatched = 0;
    for (uint32_t i = 0; i < KEYS / 2; i++) {
        theirs[i] = 2 * i + 1 - n->node;
    }
    TEST_NODE_CHECK(n, muster_ps_fetch(n->worker, 0, theirs, KEYS / 2) ==
                           MUSTER_OK);
    for (uint32_t i = 0; unlatched < TIMES && n->faults == 0; i++) {
        wait_for_rest(n);
        unlatched += add_in_place(n, theirs[i % 4]);
        add_by_push(n, theirs[4 + i % 2]);
        look_for_use(n);
        add_by_push(n, theirs[6 + i % 2]);
        TEST_NODE_CHECK(n, muster_clock_ns() < end);
    }
}

static void check_sums(test_node *n)
{
    const ledger *l = n->of->argument;
    for (uint32_t key = 0; key < KEYS; key++) {
        float seen[WIDTH];
        double sum = (double)(l->added[0][key] + l->added[1][key]);
        TEST_NODE_CHECK(n, muster_ps_pull(n->worker, 0, &key, 1, seen) ==
                               MUSTER_OK);
        TEST_NODE_CHECK(n, (double)seen[0] == sum);
    }
}

static void add_up(test_node *n)
{
    if (!n->ps->unlatched) {
        return; // no row is ever open without its latch
    }
    work_on_replicas(n);
    // All that was asked for was a copy, or was elsewhere.
    muster_worker_flush_counts(n->worker);
    muster_ps_counters counted = test_count(n->ps);
    TEST_NODE_CHECK(n, counted.replica_accesses >= TIMES);
    TEST_NODE_CHECK(n, counted.replica_accesses <= counted.accesses);
    TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
    check_sums(n);
}

static void replicas_without_latches_lose_nothing(void **state)
{
    (void)state;
    ledger l = {0};
    test_mesh mesh = {.nodes = NODES,
                      .manage = MUSTER_PS_REPLICATE,
                      .keys = KEYS,
                      .width = WIDTH,
                      .staleness_ms = 1000,
                      .argument = &l,
                      .life = add_up};
    assert_int_equal(test_mesh_run(&mesh), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_without_latches_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
