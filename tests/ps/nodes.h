/*
 * nodes.h -- several nodes of one mesh in one process, for tests: each is a
 * thread with a node, its tables and one worker, and lives the life it is
 * given. Failures are counted, since cmocka's checks belong to the main thread.
 */
#ifndef MUSTER_TESTS_PS_NODES_H
#define MUSTER_TESTS_PS_NODES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "muster/ps.h"
#include "runtime/ps_loss.h"

enum { TEST_NODES_MAX = 4 };

typedef struct test_node {
    const struct test_mesh *of;
    uint32_t node;
    pthread_t thread;
    muster_ps *ps;
    muster_ps_worker *worker;
    int faults;
    muster_ps_counters counted;
} test_node;

typedef struct test_mesh {
    uint32_t nodes;
    uint32_t manage;
    uint32_t keys;
    uint32_t width;
    uint32_t optimizer;
    uint32_t staleness_ms;
    int64_t heartbeat_ns;   // 0: the default
    bool survive;           // losses of nodes
    const char *replicated; // the file of MUSTER_PS_STATIC
    void (*life)(test_node *);
    void *argument;
    char folder[32];
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

static inline muster_status test_node_open(test_node *n)
{
    const test_mesh *of = n->of;
    muster_error error = {.text = ""};
    muster_ps_opts opts = MUSTER_PS_OPTS_INIT;
    muster_ps_table_opts table = MUSTER_PS_TABLE_OPTS_INIT;
    uint32_t number;
    opts.nodes = of->nodes;
    opts.node = n->node;
    opts.mesh = of->folder;
    opts.manage = of->manage;
    opts.replicated = of->replicated;
    opts.staleness_ms = of->staleness_ms > 0 ? of->staleness_ms : 10;
    table.keys = of->keys;
    table.width = of->width;
    table.optimizer = of->optimizer;
    muster_status status = muster_ps_create(&opts, &error, &n->ps);
    if (status == MUSTER_OK) {
        const muster_psloss loss = {.survive = of->survive,
                                    .heartbeat_ns = of->heartbeat_ns};
        muster_ps_on_loss(n->ps, &loss);
        status = muster_ps_table_add(n->ps, &table, &error, &number);
    }
    if (status == MUSTER_OK) {
        status = muster_ps_connect(n->ps, &error);
    }
    if (status == MUSTER_OK) {
        status = muster_ps_worker_create(n->ps, &n->worker);
    }
    if (status != MUSTER_OK) {
        fprintf(stderr, "node %u: %s\n", (unsigned)n->node, error.text);
    }
    return status;
}

static inline void *test_node_live(void *argument)
{
    test_node *n = argument;
    if (test_node_open(n) != MUSTER_OK) {
        n->faults++;
    } else {
        n->of->life(n);
        // Nobody leaves while others still look.
        TEST_NODE_CHECK(n, muster_ps_barrier(n->worker) == MUSTER_OK);
    }
    muster_ps_worker_free(n->worker);
    if (n->ps != NULL) {
        n->counted = muster_ps_count(n->ps);
    }
    muster_ps_free(n->ps);
    return NULL;
}

/* Run all nodes to their end; returns the faults they counted. */
static inline int test_mesh_run(test_mesh *mesh)
{
    int faults = 0;
    (void)snprintf(mesh->folder, sizeof(mesh->folder),
                   "/tmp/muster-nodes-XXXXXX");
    if (mkdtemp(mesh->folder) == NULL) {
        return 1;
    }
    for (uint32_t i = 0; i < mesh->nodes; i++) {
        mesh->all[i] = (test_node){.of = mesh, .node = i};
        if (pthread_create(&mesh->all[i].thread, NULL, test_node_live,
                           &mesh->all[i]) != 0) {
            abort();
        }
    }
    for (uint32_t i = 0; i < mesh->nodes; i++) {
        char path[64];
        (void)pthread_join(mesh->all[i].thread, NULL);
        faults += mesh->all[i].faults;
        (void)snprintf(path, sizeof(path), "%s/node-%u", mesh->folder, i);
        (void)unlink(path);
    }
    (void)rmdir(mesh->folder);
    return faults;
}

#endif // MUSTER_TESTS_PS_NODES_H
