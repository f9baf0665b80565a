/*
 * plan/clusters_test.h -- random clusters: slow workers, links that lose
 * messages, narrow NICs; every second one has edges.
 */
#ifndef MUSTER_PLAN_CLUSTERS_TEST_H
#define MUSTER_PLAN_CLUSTERS_TEST_H

#include "base/mem.h"
#include "base/rng.h"
#include "cluster/file.h"

static void draw_link(muster_rng *rng, muster_cluster_link *link)
{
    link->latency_s = 0.001 + 0.02 * muster_rng_uniform(rng);
    link->loss = 0.3 * muster_rng_uniform(rng);
    link->bytes_per_s =
        muster_rng_uniform(rng) < 0.5 ? 0 : 1e6 + 1e8 * muster_rng_uniform(rng);
    if (muster_rng_uniform(rng) < 0.15) {
        link->latency_s *= 10;
    }
}

static double draw_nic(muster_rng *rng)
{
    return muster_rng_uniform(rng) < 0.5 ? 0
                                         : 4e6 + 4e7 * muster_rng_uniform(rng);
}

/* The first `small` ones have up to 8 workers, the others up to `limit`. */
static muster_cluster *draw_cluster(uint64_t seed, uint64_t small,
                                    uint32_t limit)
{
    muster_rng rng = muster_rng_make(seed, 1);
    uint32_t max = seed < small ? 8 : limit;
    uint32_t n = 4 + (uint32_t)muster_rng_below(&rng, max - 3);
    muster_cluster *cluster = muster_cluster_create(n);
    for (uint32_t i = 0; i < n; i++) {
        muster_cluster_worker *worker = &cluster->workers[i];
        worker->speed = muster_rng_uniform(&rng) < 0.2 ? 0.1 : 1;
        worker->shift_s = 0.01;
        worker->mean_s = 0.02 * muster_rng_uniform(&rng);
        draw_link(&rng, &worker->link);
    }
    cluster->bytes_per_s = draw_nic(&rng);
    if (seed % 2 == 0) {
        return cluster;
    }
    uint32_t edges = 2 + (uint32_t)muster_rng_below(&rng, 3);
    cluster->edges = muster_mem_array(edges, sizeof(muster_cluster_edge));
    cluster->edge_count = edges;
    for (uint32_t e = 0, first = 0; e < edges; e++) {
        uint32_t next = (e + 1) * n / edges;
        cluster->edges[e].first = first;
        cluster->edges[e].workers = next - first;
        cluster->edges[e].bytes_per_s = draw_nic(&rng);
        draw_link(&rng, &cluster->edges[e].link);
        first = next;
    }
    return cluster;
}

#endif // MUSTER_PLAN_CLUSTERS_TEST_H
