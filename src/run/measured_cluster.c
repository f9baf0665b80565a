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

/* What a run divides among its workers. */
typedef struct division {
    const muster_code *code;
    const uint32_t *first_shard; // by part; NULL: parts are equal
} division;

/* Load 1 is what an uncoded worker has, of equal parts. */
static double load_of(const division *of, uint32_t worker)
{
    const muster_code_info *info = muster_code_numbers(of->code);
    const uint32_t *parts = NULL;
    uint32_t count = 0;
    if (muster_code_parts(of->code, worker, &parts, &count) < 0) {
        return 0;
    }
    if (of->first_shard == NULL) {
        return (double)count / info->parts * info->workers;
    }
    uint32_t shards = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t *first = &of->first_shard[parts[i]];
        shards += first[1] - first[0];
    }
    return (double)shards / of->first_shard[info->parts] * info->workers;
}

/* False: it never answered, or holds nothing. */
static bool measure(const muster_summary *summary, const division *of,
                    uint32_t w, muster_cluster_worker *worker)
{
    double load = load_of(of, w);
    double low = muster_summary_compute_ms(summary, w, SMALLEST) * 1e-3;
    double mean = muster_summary_compute_mean_ms(summary, w) * 1e-3;
    double away = muster_summary_send_ms(summary, w, SMALLEST) * 1e-3;
    if (load <= 0 || !isfinite(low) || !isfinite(mean)) {
        return false;
    }
    worker->shift_s = low / load;
    worker->mean_s = fmax(0, mean - low) / load;
    worker->link.latency_s = isfinite(away) ? away / 2 : 0;
    return true;
}

static void measure_all(muster_cluster *cluster, const muster_summary *summary,
                        const division *of)
{
    double run_s = fmin(muster_summary_step_s(summary), TIME_MAX_S);
    for (uint32_t w = 0; w < cluster->worker_count; w++) {
        if (!measure(summary, of, w, &cluster->workers[w])) {
            cluster->workers[w].shift_s = run_s;
        }
    }
}

/* Links of edges are not measured: they have no delay here. */
static bool add_edges(muster_cluster *cluster, const muster_code *code)
{
    if (!muster_code_is_hier(code)) {
        return true;
    }
    uint32_t edges = muster_hier_numbers_of(code).edges;
    cluster->edges = muster_mem_array(edges, sizeof(muster_cluster_edge));
    if (cluster->edges == NULL) {
        return false;
    }
    cluster->edge_count = edges;
    for (uint32_t e = 0; e < edges; e++) {
        uint32_t first = muster_hier_first(code, e);
        cluster->edges[e].first = first;
        cluster->edges[e].workers = muster_hier_first(code, e + 1) - first;
    }
    return true;
}

char *muster_measured_cluster(const muster_summary *summary,
                              const muster_code *code,
                              const uint32_t *first_shard)
{
    const division of = {code, first_shard};
    muster_cluster *cluster =
        muster_cluster_create(muster_code_numbers(code)->workers);
    char *text = NULL;
    if (cluster != NULL && add_edges(cluster, code)) {
        measure_all(cluster, summary, &of);
        text = muster_cluster_text(cluster);
    }
    muster_cluster_free(cluster);
    return text;
}
