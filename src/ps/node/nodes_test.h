/*
 * ps/node/nodes_test.h -- several nodes of one mesh in one process, for tests:
 * each is a thread with a node, its tables and one worker, and lives the life
 * it is given. Failures are counted, since cmocka's checks belong to the main
 * thread.
 *
 * A test whose nodes outlive their threads, or go one by one, makes a place for
 * the mesh, lets all nodes do one thing after the other, closes them and clears
 * the place.
 */
#ifndef MUSTER_PS_NODE_NODES_TEST_H
#define MUSTER_PS_NODE_NODES_TEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    muster_ps_counters counted;
} test_node;

typedef struct test_mesh {
    uint32_t nodes;
    uint32_t manage;
    uint32_t keys;
    uint32_t width;
    uint32_t optimizer;
    bool in_turns; // nodes use rows one after the other
    bool second;   // table, like the first but with MUSTER_PS_ADAGRAD
    uint32_t staleness_ms;
    uint32_t patience_ms;  // 0: the default
    uint32_t heartbeat_ms; // 0: the default
    bool survive;          // losses of nodes
    bool (*restore)(void *context, uint32_t table, uint32_t key, float *row);
    const char *replicated; // the file of MUSTER_PS_STATIC
    void (*life)(test_node *);
    void *argument;
    char folder[80];
    test_node all[TEST_NODES_MAX];
} test_mesh;

/* Counts a fault and says where. */
static inline void test_node_check(test_node *at, int holds, int line,
                                   const char *condition)
{
    if (!holds) {
        fprintf(stderr, "line %d: node %u: %s\n", line, (unsigned)at->node,
                condition);
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

static inline muster_status test_node_add_tables(test_node *n)
{
    const test_mesh *of = n->of;
    muster_ps_table_opts table = MUSTER_PS_TABLE_OPTS_INIT;
    uint32_t number;
    table.keys = of->keys;
    table.width = of->width;
    table.optimizer = of->optimizer;
    table.in_turns = of->in_turns;
    muster_status status =
        muster_ps_table_add(n->ps, &table, &n->error, &number);
    if (status == MUSTER_OK && of->second) {
        table.optimizer = MUSTER_PS_ADAGRAD;
        status = muster_ps_table_add(n->ps, &table, &n->error, &number);
    }
    return status;
}

/* Meet the other nodes. What fails is in n->status and n->error as well. */
static inline muster_status test_node_open(test_node *n)
{
    const test_mesh *of = n->of;
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    opts.nodes = of->nodes;
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
    if (n->status == MUSTER_OK) {
        n->status = muster_ps_connect(n->ps, &n->error);
    }
    if (n->status == MUSTER_OK) {
        n->status = muster_ps_worker_create(n->ps, &n->worker);
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

/* Nodes take leave of each other: where several go in peace, each does in a
 * thread of its own. */
static inline void test_node_close(test_node *n)
{
    muster_ps_worker_free(n->worker);
    if (n->ps != NULL) {
        n->counted = muster_ps_count(n->ps);
    }
    muster_ps_free(n->ps);
}

static inline void test_node_live(test_node *n)
{
    test_node_meet(n);
    if (n->faults == 0) {
        n->of->life(n);
        // Nobody leaves while others still look.
        TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
    }
    test_node_close(n);
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

/* A folder where the nodes meet, unless they have one, and nodes that are not
 * open yet. */
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

/* -1: the nodes left something behind. */
static inline int test_mesh_clear(const test_mesh *mesh)
{
    for (uint32_t i = 0; i < mesh->nodes; i++) {
        char path[128];
        (void)snprintf(path, sizeof(path), "%s/node-%u", mesh->folder, i);
        (void)unlink(path);
    }
    return rmdir(mesh->folder);
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

#endif // MUSTER_PS_NODE_NODES_TEST_H
