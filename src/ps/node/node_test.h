/*
 * ps/node/node_test.h -- nodes of a parameter server for tests: one node alone,
 * or several nodes of one mesh in one process, over sockets; each with tables
 * and workers.
 *
 * One node alone, used from the main thread (a failure fails the test):
 *
 *     muster_ps *ps = test_alone_open(&(test_mesh){.keys = 100, .width = 4});
 *     muster_ps_worker *worker = test_worker_open(ps);
 *
 * Several nodes: each has a thread, in which it opens, runs mesh.life with a
 * worker, and closes. Failures are counted, since cmocka's checks belong to the
 * main thread:
 *
 *     test_mesh mesh = {.nodes = 2, .keys = 100, .width = 4, .life = work};
 *     assert_int_equal(test_mesh_run(&mesh), 0);
 *
 * Nodes that outlive their threads, or close one by one: test_mesh_open(), then
 * test_mesh_do() for each thing that all nodes do, then test_mesh_close().
 */
#ifndef MUSTER_PS_NODE_NODE_TEST_H
#define MUSTER_PS_NODE_NODE_TEST_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "muster/ps.h"
#include "ps/node/loss.h"

enum { TEST_NODES_MAX = 4, TEST_WIDTH_MAX = 8 };

typedef struct test_node {
    const struct test_mesh *of;
    uint32_t node;
    bool joins; // in the place of a lost one
    pthread_t thread;
    void (*does)(struct test_node *); // in the thread
    muster_ps *ps;
    muster_ps_worker *worker;
    muster_status status; // of opening it
    muster_error error;   // likewise
    int faults;
    muster_ps_counters counted; // when it was closed
} test_node;

typedef struct test_mesh {
    uint32_t nodes; // 0 or 1: a node alone
    uint32_t manage;
    uint32_t tables; // all alike; 0: one
    uint32_t keys;   // 0: no table
    uint32_t width;
    uint32_t optimizer;
    bool in_turns; // nodes use rows one after the other
    uint32_t merge;
    bool second; // another table, with MUSTER_PS_ADAGRAD
    muster_status (*add_tables)(test_node *); // in place of the above
    uint32_t staleness_ms;                    // 0: 10
    uint32_t patience_ms;                     // 0: the default
    uint32_t heartbeat_ms;                    // 0: the default
    bool survive;                             // losses of nodes
    bool (*restore)(void *context, uint32_t table, uint32_t key, float *row);
    const char *replicated; // the file of MUSTER_PS_STATIC
    void (*life)(test_node *);
    void *argument;
    char folder[80]; // or another address; "": one is made
    test_node all[TEST_NODES_MAX];
} test_mesh;

/* Counts a fault and says where. */
static inline void test_node_check(test_node *at, int holds, int line,
                                   const char *condition)
{
    if (!holds) {
        fprintf(stderr, "line %d: node %u: %s (%s)\n", line, (unsigned)at->node,
                condition, muster_ps_error_text(at->worker));
        at->faults++;
    }
}
#define TEST_NODE_CHECK(at, condition) \
    test_node_check((at), (condition), __LINE__, #condition)

static inline uint32_t test_draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static inline muster_ps_counters test_count(muster_ps *ps)
{
    muster_ps_counters counters = MUSTER_PS_COUNTERS_INIT;
    if (muster_ps_count(ps, &counters) != MUSTER_OK) {
        abort();
    }
    return counters;
}

/* ---- a node -------------------------------------------------------------- */

static inline muster_status test_node_add_tables(test_node *n)
{
    const test_mesh *of = n->of;
    muster_ps_table_opts table = MUSTER_PS_TABLE_OPTS_INIT;
    muster_status status = MUSTER_OK;
    uint32_t number;
    uint32_t tables = of->keys == 0 ? 0 : of->tables == 0 ? 1 : of->tables;
    if (of->add_tables != NULL) {
        return of->add_tables(n);
    }
    table.keys = of->keys;
    table.width = of->width;
    table.optimizer = of->optimizer;
    table.in_turns = of->in_turns;
    table.merge = of->merge;
    for (uint32_t i = 0; i < tables && status == MUSTER_OK; i++) {
        status = muster_ps_table_add(n->ps, &table, &n->error, &number);
    }
    if (status == MUSTER_OK && of->second) {
        table.optimizer = MUSTER_PS_ADAGRAD;
        status = muster_ps_table_add(n->ps, &table, &n->error, &number);
    }
    return status;
}

/* A node with its tables. What fails is in n->status and n->error as well. */
static inline muster_status test_node_create(test_node *n)
{
    const test_mesh *of = n->of;
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    opts.nodes = of->nodes > 0 ? of->nodes : 1;
    opts.node = n->node;
    opts.mesh = of->folder;
    opts.manage = of->manage;
    opts.replicated = of->replicated;
    opts.staleness_ms = of->staleness_ms > 0 ? of->staleness_ms : 10;
    opts.patience_ms = of->patience_ms > 0 ? of->patience_ms : opts.patience_ms;
    opts.survive = of->survive;
    opts.heartbeat_ms =
        of->heartbeat_ms > 0 ? of->heartbeat_ms : opts.heartbeat_ms;
    opts.restore = of->restore;
    n->status = muster_ps_create(&opts, &n->error, &n->ps);
    if (n->status == MUSTER_OK) {
        if (n->joins) {
            const muster_loss_hooks loss = {.joins = true};
            muster_ps_set_loss_hooks(n->ps, &loss);
        }
        n->status = test_node_add_tables(n);
    }
    return n->status;
}

/* The same, connected to the other nodes, with a worker. */
static inline muster_status test_node_open(test_node *n)
{
    n->status = test_node_create(n);
    if (n->status == MUSTER_OK && n->of->nodes > 1) {
        n->status = muster_ps_connect(n->ps, &n->error);
    }
    if (n->status == MUSTER_OK) {
        n->status = muster_ps_worker_create(n->ps, &n->error, &n->worker);
    }
    return n->status;
}

/* The same where a failure is a fault. */
static inline void test_node_meet(test_node *n)
{
    if (test_node_open(n) != MUSTER_OK) {
        fprintf(stderr, "node %u: %s\n", (unsigned)n->node, n->error.text);
        n->faults++;
    }
}

/* Nodes wait for each other to leave: where several close in peace, each does
 * in a thread of its own. */
static inline void test_node_close(test_node *n)
{
    muster_ps_worker_free(n->worker);
    if (n->ps != NULL) {
        n->counted = test_count(n->ps);
    }
    muster_ps_free(n->ps);
}

/* The sum of all values of the first table. */
static inline double test_node_sum(test_node *n)
{
    double sum = 0;
    for (uint32_t key = 0; key < n->of->keys; key++) {
        float seen[TEST_WIDTH_MAX] = {0};
        TEST_NODE_CHECK(n, muster_ps_pull(n->worker, 0, &key, 1, seen) ==
                               MUSTER_OK);
        for (uint32_t i = 0; i < n->of->width; i++) {
            sum += (double)seen[i];
        }
    }
    return sum;
}

/* ---- a node alone -------------------------------------------------------- */

static inline muster_ps *test_alone_open(const test_mesh *shape)
{
    test_node n = {.of = shape};
    assert_int_equal(test_node_create(&n), MUSTER_OK);
    return n.ps;
}

static inline muster_ps_worker *test_worker_open(muster_ps *ps)
{
    muster_ps_worker *worker = NULL;
    muster_error error;
    assert_int_equal(muster_ps_worker_create(ps, &error, &worker), MUSTER_OK);
    return worker;
}

/* ---- several nodes ------------------------------------------------------- */

static inline void *test_node_do(void *argument)
{
    test_node *n = argument;
    n->does(n);
    return NULL;
}

/* The first `count` nodes do something, each in its thread; returns the faults
 * they counted so far. */
static inline int test_mesh_do(test_mesh *mesh, uint32_t count,
                               void (*what)(test_node *))
{
    int faults = 0;
    for (uint32_t i = 0; i < count; i++) {
        mesh->all[i].does = what;
        if (pthread_create(&mesh->all[i].thread, NULL, test_node_do,
                           &mesh->all[i]) != 0) {
            abort();
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        (void)pthread_join(mesh->all[i].thread, NULL);
        faults += mesh->all[i].faults;
    }
    return faults;
}

/* Nodes that are not open yet, and a folder for their sockets unless they have
 * an address. */
static inline int test_mesh_place(test_mesh *mesh)
{
    for (uint32_t i = 0; i < mesh->nodes; i++) {
        mesh->all[i] = (test_node){.of = mesh, .node = i};
    }
    if (mesh->folder[0] != '\0') {
        return 0;
    }
    (void)snprintf(mesh->folder, sizeof(mesh->folder),
                   "/tmp/muster-nodes-XXXXXX");
    return mkdtemp(mesh->folder) == NULL ? -1 : 0;
}

/* Remove the folder. -1: the nodes left something behind. */
static inline int test_mesh_clear(const test_mesh *mesh)
{
    for (uint32_t i = 0; i < mesh->nodes; i++) {
        char path[128];
        (void)snprintf(path, sizeof(path), "%s/node-%u", mesh->folder, i);
        (void)unlink(path);
    }
    return rmdir(mesh->folder);
}

/* From the main thread: open all nodes; close the first `count`. */
static inline void test_mesh_open(test_mesh *mesh)
{
    assert_int_equal(test_mesh_place(mesh), 0);
    assert_int_equal(test_mesh_do(mesh, mesh->nodes, test_node_meet), 0);
}

static inline void test_mesh_close(test_mesh *mesh, uint32_t count)
{
    assert_int_equal(test_mesh_do(mesh, count, test_node_close), 0);
    assert_int_equal(test_mesh_clear(mesh), 0);
}

static inline void test_node_live(test_node *n)
{
    test_node_meet(n);
    if (n->faults == 0) {
        n->of->life(n);
        // No node leaves while others still look.
        TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
    }
    test_node_close(n);
}

/* Run all nodes to their end; returns the faults they counted. */
static inline int test_mesh_run(test_mesh *mesh)
{
    if (test_mesh_place(mesh) != 0) {
        return 1;
    }
    int faults = test_mesh_do(mesh, mesh->nodes, test_node_live);
    return faults + (test_mesh_clear(mesh) != 0);
}

#endif // MUSTER_PS_NODE_NODE_TEST_H
