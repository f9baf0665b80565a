/*
 * file_delay.c -- see file_delay.h.
 */
#include "cluster/file_delay.h"

#include <math.h>

#include "base/rng.h"

enum { COMPUTE = 0, DOWN = 1, UP = 2, EDGE_DOWN = 3, EDGE_UP = 4, DRAWS = 5 };

/* Streams of workers, then of edges. */
static double uniform(uint64_t seed, uint64_t stream, uint64_t step)
{
    return (double)(muster_rng_at(seed, stream, step) >> 11) * 0x1p-53;
}

static double link_s(const muster_cluster_link *link, double bytes, double draw)
{
    double tries = 1;
    if (link->loss > 0) {
        tries += floor(log(1 - draw) / log(link->loss));
    }
    double wire = link->bytes_per_s > 0 ? bytes / link->bytes_per_s : 0;
    return tries * (link->latency_s + wire);
}

/* The edge that `worker` is under; NULL: none. */
static const muster_cluster_edge *edge_of(const muster_cluster *cluster,
                                          uint32_t worker)
{
    uint32_t low = 0;
    uint32_t high = cluster->edge_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (cluster->edges[middle].first + cluster->edges[middle].workers <=
            worker) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < cluster->edge_count ? &cluster->edges[low] : NULL;
}

double muster_cluster_delay_s(const muster_cluster *cluster, uint64_t seed,
                              uint32_t worker, uint64_t step,
                              const muster_cluster_work *work)
{
    uint32_t index = worker % cluster->worker_count;
    const muster_cluster_worker *machine = &cluster->workers[index];
    const muster_cluster_edge *edge = edge_of(cluster, index);
    const muster_cluster_link *link = &machine->link;
    uint64_t stream = (uint64_t)index * DRAWS;
    double draw = -log1p(-uniform(seed, stream + COMPUTE, step));
    double seconds =
        work->load * (machine->shift_s + machine->mean_s * draw) /
            machine->speed +
        link_s(link, work->bytes, uniform(seed, stream + UP, step));
    if (!work->follows) {
        seconds +=
            link_s(link, work->model_bytes, uniform(seed, stream + DOWN, step));
    }
    if (edge == NULL || work->own_links) {
        return seconds;
    }
    // One copy of the model comes down to all workers of the edge; their
    // answers share its link.
    if (!work->follows) {
        uint64_t shared = (uint64_t)edge->first * DRAWS;
        seconds += link_s(&edge->link, work->model_bytes,
                          uniform(seed, shared + EDGE_DOWN, step));
    }
    return seconds + link_s(&edge->link, work->bytes * edge->workers,
                            uniform(seed, stream + EDGE_UP, step));
}

double muster_cluster_edge_delay_s(const muster_cluster *cluster, uint64_t seed,
                                   uint32_t edge, uint64_t step,
                                   const muster_cluster_work *work)
{
    if (cluster->edge_count == 0) {
        return 0;
    }
    const muster_cluster_edge *machine =
        &cluster->edges[edge % cluster->edge_count];
    uint64_t stream = (uint64_t)machine->first * DRAWS;
    return link_s(&machine->link, work->model_bytes,
                  uniform(seed, stream + EDGE_DOWN, step)) +
           link_s(&machine->link, work->bytes,
                  uniform(seed, stream + EDGE_UP, step));
}
