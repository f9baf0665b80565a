/*
 * measured_cluster.c -- see measured_cluster.h.
 */
#include "run/measured_cluster.h"

#include <math.h>

#include "base/mem.h"
#include "cluster/file.h"
#include "code/hier.h"
#include "code/numbers.h"

#define SMALLEST   0.05 // quantile
#define TIME_MAX_S 3600.0

/* Shards of some parts; parts where they are not cut. */
static uint32_t shards_of(const uint32_t *first_shard, const uint32_t *parts,
                          uint32_t count)
{
    uint32_t shards = first_shard == NULL ? count : 0;
    for (uint32_t i = 0; first_shard != NULL && i < count; i++) {
        const uint32_t *first = &first_shard[parts[i]];
        shards += first[1] - first[0];
    }
    return shards;
}

double muster_measured_load(const muster_code *code,
                            const uint32_t *first_shard, uint32_t worker)
{
    const muster_code_info *info = muster_code_numbers(code);
    uint32_t shards = 0;
    for (uint32_t t = 0; t < info->own_stages; t++) {
        const uint32_t *parts = NULL;
        uint32_t count = 0;
        uint32_t answer = worker * info->stages + t;
        if (muster_code_answer_parts(code, answer, &parts, &count) < 0) {
            return 0;
        }
        shards += shards_of(first_shard, parts, count);
    }
    uint32_t all = first_shard == NULL ? info->parts : first_shard[info->parts];
    return (double)shards / all * info->workers;
}

/* False: it never answered, or holds nothing. */
static bool measure(const muster_measured *of, uint32_t w,
                    muster_cluster_worker *worker)
{
    double load =
        of->per_load ? 1 : muster_measured_load(of->code, of->first_shard, w);
    double low = muster_summary_compute_ms(of->workers, w, SMALLEST) * 1e-3;
    double mean = muster_summary_compute_mean_ms(of->workers, w) * 1e-3;
    double away = muster_summary_send_ms(of->workers, w, SMALLEST) * 1e-3;
    if (load <= 0 || !isfinite(low) || !isfinite(mean)) {
        return false;
    }
    worker->shift_s = low / load;
    worker->mean_s = fmax(0, mean - low) / load;
    worker->link.latency_s = isfinite(away) ? fmax(0, away / 2) : 0;
    return true;
}

static void measure_all(muster_cluster *cluster, const muster_measured *of)
{
    double run_s = fmin(muster_summary_step_s(of->workers), TIME_MAX_S);
    for (uint32_t w = 0; w < cluster->worker_count; w++) {
        if (!measure(of, w, &cluster->workers[w])) {
            cluster->workers[w].shift_s = run_s;
        }
    }
}

/* What an edge says of a step that it gathered, and when that came. */
static void measure_edge(const muster_measured *of, uint32_t e,
                         muster_cluster_edge *edge)
{
    double away = muster_summary_send_ms(of->edges, e, SMALLEST) * 1e-3;
    edge->link.latency_s = isfinite(away) ? fmax(0, away / 2) : 0;
}

static bool add_edges(muster_cluster *cluster, const muster_measured *of)
{
    if (of->edges == NULL) {
        return true;
    }
    uint32_t edges = muster_hier_numbers_of(of->code).edges;
    cluster->edges = muster_mem_array(edges, sizeof(muster_cluster_edge));
    if (cluster->edges == NULL) {
        return false;
    }
    cluster->edge_count = edges;
    for (uint32_t e = 0; e < edges; e++) {
        uint32_t first = muster_hier_first(of->code, e);
        cluster->edges[e].first = first;
        cluster->edges[e].workers = muster_hier_first(of->code, e + 1) - first;
        measure_edge(of, e, &cluster->edges[e]);
    }
    return true;
}

char *muster_measured_cluster(const muster_measured *of)
{
    muster_cluster *cluster =
        muster_cluster_create(muster_code_numbers(of->code)->workers);
    char *text = NULL;
    if (cluster != NULL && add_edges(cluster, of)) {
        measure_all(cluster, of);
        cluster->processors = of->processors;
        text = muster_cluster_text(cluster);
    }
    muster_cluster_free(cluster);
    return text;
}
