/*
 * file.c -- clusters in memory, and their text.
 */
#include "cluster/file.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/vec.h"

#define MBIT (1e6 / 8)

muster_cluster *muster_cluster_create(uint32_t workers)
{
    muster_cluster *cluster = muster_mem_array(1, sizeof(*cluster));
    if (cluster == NULL) {
        return NULL;
    }
    cluster->worker_count = workers;
    cluster->workers = muster_mem_array(workers, sizeof(muster_cluster_worker));
    if (cluster->workers == NULL) {
        muster_cluster_free(cluster);
        return NULL;
    }
    for (uint32_t i = 0; i < workers; i++) {
        cluster->workers[i].speed = 1;
    }
    return cluster;
}

void muster_cluster_free(muster_cluster *cluster)
{
    if (cluster == NULL) {
        return;
    }
    muster_mem_free(cluster->workers);
    muster_mem_free(cluster->edges);
    muster_mem_free(cluster);
}

void muster_cluster_speeds(const muster_cluster *cluster, double *speeds_out)
{
    bool timed = true;
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        const muster_cluster_worker *worker = &cluster->workers[i];
        timed = timed && worker->shift_s + worker->mean_s > 0;
    }
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        const muster_cluster_worker *worker = &cluster->workers[i];
        double time = timed ? worker->shift_s + worker->mean_s : 1;
        speeds_out[i] = worker->speed / time;
    }
}

static uint32_t count_kept(const bool *keep, uint32_t first, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = first; i < first + count; i++) {
        kept += keep[i];
    }
    return kept;
}

static void keep_edges(const muster_cluster *cluster, const bool *keep,
                       muster_cluster *into)
{
    uint32_t first = 0;
    for (uint32_t e = 0; e < cluster->edge_count; e++) {
        muster_cluster_edge edge = cluster->edges[e];
        edge.workers = count_kept(keep, edge.first, edge.workers);
        edge.first = first;
        first += edge.workers;
        if (edge.workers > 0) {
            into->edges[into->edge_count++] = edge;
        }
    }
}

muster_cluster *muster_cluster_subset(const muster_cluster *cluster,
                                      const bool *keep)
{
    uint32_t all = cluster->worker_count;
    uint32_t kept = count_kept(keep, 0, all);
    muster_cluster *subset = kept > 0 ? muster_cluster_create(kept) : NULL;
    if (subset == NULL) {
        return NULL;
    }
    subset->bytes_per_s = cluster->bytes_per_s;
    subset->processors = cluster->processors;
    for (uint32_t i = 0, to = 0; i < all; i++) {
        if (keep[i]) {
            muster_cluster_worker *worker = &subset->workers[to++];
            *worker = cluster->workers[i];
            worker->shift_s *= (double)all / kept;
            worker->mean_s *= (double)all / kept;
        }
    }
    if (cluster->edge_count > 0) {
        subset->edges =
            muster_mem_array(cluster->edge_count, sizeof(muster_cluster_edge));
        if (subset->edges == NULL) {
            muster_cluster_free(subset);
            return NULL;
        }
        keep_edges(cluster, keep, subset);
    }
    return subset;
}

/* ---- text ---------------------------------------------------------------- */

typedef struct writer {
    muster_vec text; // char
    bool failed;
} writer;

static void add(writer *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add(writer *w, const char *format, ...)
{
    char piece[160];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(piece, sizeof(piece), format, arguments);
    va_end(arguments);
    w->failed = w->failed || length < 0 || (size_t)length >= sizeof(piece) ||
                !muster_vec_append(&w->text, piece, (size_t)length);
}

static void add_link(writer *w, const muster_cluster_link *link)
{
    add(w, "link: {latency: %.6gms", link->latency_s * 1e3);
    if (link->bytes_per_s > 0) {
        add(w, ", bandwidth: %.6g", link->bytes_per_s / MBIT);
    }
    if (link->loss > 0) {
        add(w, ", loss: %.6g", link->loss);
    }
    add(w, "}");
}

static bool same_worker(const muster_cluster_worker *a,
                        const muster_cluster_worker *b)
{
    return a->speed == b->speed && a->shift_s == b->shift_s &&
           a->mean_s == b->mean_s && a->link.latency_s == b->link.latency_s &&
           a->link.bytes_per_s == b->link.bytes_per_s &&
           a->link.loss == b->link.loss;
}

static void add_workers(writer *w, const muster_cluster_worker *workers,
                        uint32_t count, const char *indent)
{
    for (uint32_t i = 0; i < count;) {
        const muster_cluster_worker *worker = &workers[i];
        uint32_t equal = 1;
        while (i + equal < count && same_worker(worker, &workers[i + equal])) {
            equal++;
        }
        add(w, "%s- {", indent);
        if (equal > 1) {
            add(w, "count: %u, ", equal);
        }
        add(w, "speed: %.6g, compute: {shift: %.6gms, mean: %.6gms}, ",
            worker->speed, worker->shift_s * 1e3, worker->mean_s * 1e3);
        add_link(w, &worker->link);
        add(w, "}\n");
        i += equal;
    }
}

char *muster_cluster_text(const muster_cluster *cluster)
{
    writer w = {muster_vec_make(1), false};
    add(&w, "version: %u\n", MUSTER_CLUSTER_VERSION);
    if (cluster->processors > 0) {
        add(&w, "processors: %u\n", cluster->processors);
    }
    if (cluster->bytes_per_s > 0) {
        add(&w, "coordinator: {bandwidth: %.6g}\n",
            cluster->bytes_per_s / MBIT);
    }
    add(&w, "%s:\n", cluster->edge_count > 0 ? "edges" : "workers");
    for (uint32_t e = 0; e < cluster->edge_count; e++) {
        const muster_cluster_edge *edge = &cluster->edges[e];
        add(&w, "  - ");
        add_link(&w, &edge->link);
        if (edge->bytes_per_s > 0) {
            add(&w, "\n    bandwidth: %.6g", edge->bytes_per_s / MBIT);
        }
        add(&w, "\n    workers:\n");
        add_workers(&w, cluster->workers + edge->first, edge->workers,
                    "      ");
    }
    if (cluster->edge_count == 0) {
        add_workers(&w, cluster->workers, cluster->worker_count, "  ");
    }
    w.failed = w.failed || muster_vec_push(&w.text) == NULL; // the zero
    if (w.failed) {
        muster_vec_fini(&w.text);
        return NULL;
    }
    return w.text.data;
}
