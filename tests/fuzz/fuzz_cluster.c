/*
 * fuzz_cluster.c -- hostile cluster files. What is read must be whole, and must
 * be read again from its own text.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "cluster/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_link(const muster_cluster_link *link)
{
    MUSTER_ASSERT(link->latency_s >= 0 && link->latency_s <= 3600);
    MUSTER_ASSERT(link->loss >= 0 && link->loss < 1);
    MUSTER_ASSERT(link->bytes_per_s >= 0 && isfinite(link->bytes_per_s));
}

static void check(const muster_cluster *cluster)
{
    uint32_t first = 0;
    MUSTER_ASSERT(cluster->worker_count > 0 &&
                  cluster->worker_count <= MUSTER_CLUSTER_WORKERS_MAX);
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        const muster_cluster_worker *worker = &cluster->workers[i];
        MUSTER_ASSERT(worker->speed > 0 && isfinite(worker->speed));
        MUSTER_ASSERT(worker->shift_s >= 0 && worker->mean_s >= 0);
        check_link(&worker->link);
    }
    for (uint32_t i = 0; i < cluster->edge_count; i++) {
        const muster_cluster_edge *edge = &cluster->edges[i];
        MUSTER_ASSERT(edge->first == first && edge->workers > 0);
        check_link(&edge->link);
        first += edge->workers;
    }
    MUSTER_ASSERT(cluster->edge_count == 0 || first == cluster->worker_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    muster_cluster *cluster = NULL;
    muster_error error = {.text = ""};
    if (muster_cluster_parse((const char *)data, size, "f", &error, &cluster) !=
        MUSTER_OK) {
        MUSTER_ASSERT(error.text[0] != '\0');
        return 0;
    }
    check(cluster);
    if (cluster->worker_count > 1024) {
        muster_cluster_free(cluster);
        return 0;
    }
    char *text = muster_cluster_text(cluster);
    muster_cluster *again = NULL;
    MUSTER_ASSERT(text != NULL);
    MUSTER_ASSERT(muster_cluster_parse(text, strlen(text), "f", &error,
                                       &again) == MUSTER_OK);
    MUSTER_ASSERT(again->worker_count == cluster->worker_count &&
                  again->edge_count == cluster->edge_count);
    check(again);
    muster_mem_free(text);
    muster_cluster_free(again);
    muster_cluster_free(cluster);
    return 0;
}
