/*
 * nodes.c -- see nodes.h.
 */
#include "plan/nodes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* A cut is made where the next machine takes this much longer. */
#define GAP 1.02
/* Clusters of so many workers are looked at with all cuts. */
#define SMALL 16u
/* Cuts of larger ones, of workers and of edges. */
#define WORKER_CUTS 4u
#define EDGE_CUTS   2u

/* Where to cut: each cut keeps the machines up to a limit. */
typedef struct cuts {
    uint32_t count;
    double *limits;
} cuts;

static int compare(const void *one, const void *two)
{
    double a = *(const double *)one, b = *(const double *)two;
    return (a > b) - (a < b);
}

static double link_s(const muster_cluster_link *link, double bytes)
{
    double wire = link->bytes_per_s > 0 ? bytes / link->bytes_per_s : 0;
    return 2 * (link->latency_s + wire) / (1 - link->loss);
}

static double worker_s(const muster_cluster_worker *worker, double bytes)
{
    return (worker->shift_s + worker->mean_s) / worker->speed +
           link_s(&worker->link, bytes);
}

/* The gap that has `rank` wider ones before it, as a ratio. */
static double least_gap(const double *times, uint32_t count, uint32_t rank,
                        double *scratch)
{
    uint32_t gaps = 0;
    for (uint32_t i = 0; i + 1 < count; i++) {
        scratch[gaps++] = -times[i + 1] / fmax(times[i], 1e-12);
    }
    qsort(scratch, gaps, sizeof(double), compare);
    return rank < gaps ? -scratch[rank] : 0;
}

/* At most `max` cuts; `times` is sorted in place. False: out of memory. */
static bool find_cuts(double *times, uint32_t count, uint32_t max,
                      cuts *cuts_out)
{
    double *scratch = muster_mem_array(count, sizeof(double));
    cuts_out->limits = muster_mem_array(count, sizeof(double));
    cuts_out->count = 0;
    if (scratch == NULL || cuts_out->limits == NULL) {
        muster_mem_free(scratch);
        return false;
    }
    qsort(times, count, sizeof(double), compare);
    double gap = least_gap(times, count, max, scratch);
    gap = gap > GAP ? gap : GAP;
    for (uint32_t i = count - 1; i-- > 0;) {
        if (times[i + 1] > gap * times[i]) {
            cuts_out->limits[cuts_out->count++] = times[i];
        }
    }
    muster_mem_free(scratch);
    return true;
}

/* An edge's link and the median of its workers. */
static double edge_s(const muster_cluster *cluster, uint32_t e,
                     const double *times, double bytes, double *scratch)
{
    const muster_cluster_edge *edge = &cluster->edges[e];
    memcpy(scratch, times + edge->first, edge->workers * sizeof(double));
    qsort(scratch, edge->workers, sizeof(double), compare);
    return link_s(&edge->link, bytes) + scratch[edge->workers / 2];
}

/* What the machines of a cluster take. */
typedef struct machine_times {
    double *workers;
    double *edges;
    double *sorted; // scratch
} machine_times;

/* The edges that edges[e] says, with their workers up to worker_limit. */
static void add_set(muster_node_sets *sets, const muster_cluster *cluster,
                    const machine_times *times, const bool *edges,
                    double worker_limit)
{
    bool *keep = sets->keep + (size_t)sets->count * sets->workers;
    uint32_t kept = 0;
    for (uint32_t w = 0, e = 0; w < sets->workers; w++) {
        while (e + 1 < cluster->edge_count &&
               w >= cluster->edges[e + 1].first) {
            e++;
        }
        bool reached = cluster->edge_count == 0 || edges[e];
        keep[w] = reached && times->workers[w] <= worker_limit;
        kept += keep[w];
    }
    sets->count += kept > 0 && kept < sets->workers;
}

/* Which edges the number `which` of sets of edges has. */
static void choose_edges(const muster_cluster *cluster,
                         const machine_times *times, const cuts *of,
                         uint32_t which, bool *edges_out)
{
    bool all_sets = cluster->worker_count <= SMALL;
    double limit =
        !all_sets && which > 0 ? of->limits[which - 1] : (double)INFINITY;
    for (uint32_t e = 0; e < cluster->edge_count; e++) {
        edges_out[e] =
            all_sets ? (which >> e & 1u) == 0 : times->edges[e] <= limit;
    }
}

/* Every set of edges with every cut of workers. */
static bool add_sets(muster_node_sets *sets, const muster_cluster *cluster,
                     const machine_times *times, const cuts *of)
{
    bool all_sets = cluster->worker_count <= SMALL;
    uint32_t edge_sets = all_sets ? 1u << cluster->edge_count : of[0].count + 1;
    size_t pairs = (size_t)edge_sets * (of[1].count + 1);
    bool *edges = muster_mem_array(cluster->edge_count + 1, sizeof(bool));
    sets->keep = muster_mem_array(pairs, sets->workers * sizeof(bool));
    if (sets->keep == NULL || edges == NULL) {
        muster_mem_free(edges);
        return false;
    }
    for (uint32_t i = 0; i < edge_sets; i++) {
        choose_edges(cluster, times, &of[0], i, edges);
        for (uint32_t j = 0; j <= of[1].count; j++) {
            double limit = j > 0 ? of[1].limits[j - 1] : (double)INFINITY;
            add_set(sets, cluster, times, edges, limit);
        }
    }
    muster_mem_free(edges);
    return true;
}

static bool time_machines(const muster_cluster *cluster, double bytes,
                          machine_times *times)
{
    uint32_t n = cluster->worker_count;
    times->workers = muster_mem_array(n, sizeof(double));
    times->edges = muster_mem_array(cluster->edge_count + 1, sizeof(double));
    times->sorted = muster_mem_array(n + 1, sizeof(double));
    if (times->workers == NULL || times->edges == NULL ||
        times->sorted == NULL) {
        return false;
    }
    for (uint32_t w = 0; w < n; w++) {
        times->workers[w] = worker_s(&cluster->workers[w], bytes);
    }
    for (uint32_t e = 0; e < cluster->edge_count; e++) {
        times->edges[e] =
            edge_s(cluster, e, times->workers, bytes, times->sorted);
    }
    return true;
}

bool muster_node_sets_init(muster_node_sets *sets,
                           const muster_cluster *cluster, double bytes)
{
    machine_times times = {0};
    cuts of[2] = {{0}};
    uint32_t n = cluster->worker_count;
    uint32_t edges = cluster->edge_count;
    *sets = (muster_node_sets){.workers = n};
    bool done = time_machines(cluster, bytes, &times);
    if (done && edges > 0) {
        memcpy(times.sorted, times.edges, edges * sizeof(double));
        done = find_cuts(times.sorted, edges, EDGE_CUTS, &of[0]);
    }
    if (done) {
        memcpy(times.sorted, times.workers, n * sizeof(double));
        done = find_cuts(times.sorted, n, n <= SMALL ? n : WORKER_CUTS, &of[1]);
    }
    done = done && add_sets(sets, cluster, &times, of);
    muster_mem_free(of[0].limits);
    muster_mem_free(of[1].limits);
    muster_mem_free(times.workers);
    muster_mem_free(times.edges);
    muster_mem_free(times.sorted);
    return done;
}

void muster_node_sets_fini(muster_node_sets *sets)
{
    muster_mem_free(sets->keep);
    *sets = (muster_node_sets){0};
}
