/*
 * cluster/file.h -- the cluster file: machines, links and how slow they are.
 *
 *     version: 1
 *     defaults:
 *       worker: {compute: {shift: 10ms, mean: 5ms}, link: {latency: 20ms}}
 *       edge: {link: {latency: 50ms, loss: 0.1}}
 *     coordinator: {bandwidth: 1000}
 *     edges:
 *       - bandwidth: 100
 *         workers: [{count: 8}, {count: 2, speed: 0.1}]
 *       - count: 3
 *         workers: [{count: 10}]
 *
 * or `workers:` at the top for a cluster without edges. A worker computes its
 * even share of a step (load 1, as an uncoded worker has) in
 * (shift + Exp(mean)) / speed, and L times as long with load L. A link takes
 * latency + bytes / bandwidth for a try, and a try fails with probability loss.
 * A worker's link leads to its edge, or to the coordinator; an edge's link to
 * the coordinator.
 *
 *   speed      1 unless given; above 0
 *   compute    shift and mean are times; a worker has 0 of what is not given
 *   link       latency (a time), bandwidth (Mbit/s, no limit unless given),
 *              loss (0..0.999)
 *   count      so many equal ones
 *   processors at the top: so many for all workers together, whose shifts are
 *              computed there; each has its own unless given
 *   bandwidth  of the NIC of the coordinator or of an edge (Mbit/s, no limit
 *              unless given): all messages that it receives at a time share it,
 *              and so do all that it sends
 *
 *   Promise      What write writes, read reads, up to six digits.
 *   Lifecycle    read or create; look and change; free.
 *   Threads      A cluster belongs to one thread; reading it is pure.
 */
#ifndef MUSTER_CLUSTER_FILE_H
#define MUSTER_CLUSTER_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

#define MUSTER_CLUSTER_VERSION     1u
#define MUSTER_CLUSTER_WORKERS_MAX 65536u
#define MUSTER_CLUSTER_BYTES_MAX   (UINT64_C(1) << 26)

typedef struct muster_cluster_link {
    double latency_s;
    double bytes_per_s; // 0: no limit
    double loss;
} muster_cluster_link;

typedef struct muster_cluster_worker {
    double speed;
    double shift_s; // of load 1, at speed 1
    double mean_s;
    muster_cluster_link link;
} muster_cluster_worker;

typedef struct muster_cluster_edge {
    uint32_t first; // worker
    uint32_t workers;
    muster_cluster_link link;
    double bytes_per_s; // of its NIC; 0: no limit
} muster_cluster_edge;

typedef struct muster_cluster {
    uint32_t worker_count;
    muster_cluster_worker *workers; // across edges, in their order
    uint32_t edge_count;            // 0: no edges
    muster_cluster_edge *edges;
    double bytes_per_s;  // of the coordinator's NIC; 0: no limit
    uint32_t processors; // for all workers together; 0: each has its own
} muster_cluster;

/* `workers` equal ones of speed 1 that take no time, without edges. NULL when
 * out of memory. */
muster_cluster *muster_cluster_create(uint32_t workers);
void muster_cluster_free(muster_cluster *cluster);

/*
 * From a text; `file` names it in errors, "FILE:LINE: KEY: ..".
 * MUSTER_ERR_INPUT      not a cluster file
 * MUSTER_ERR_NO_MEMORY
 */
MUSTER_CHECKED muster_status muster_cluster_parse(const char *text, size_t size,
                                                  const char *file,
                                                  muster_error *error_out,
                                                  muster_cluster **cluster_out);
/* From a file; MUSTER_ERR_INPUT also when it cannot be read. */
MUSTER_CHECKED muster_status muster_cluster_read(const char *path,
                                                 muster_error *error_out,
                                                 muster_cluster **cluster_out);

/* As the text of a cluster file, for muster_mem_free(). NULL when out of
 * memory. */
char *muster_cluster_text(const muster_cluster *cluster);

/* The cluster without some workers: those that keep[worker] says stay, in their
 * order, and edges that have some left. Load 1 is then more work, so that
 * computing times grow. One worker stays at least. NULL when out of memory. */
muster_cluster *muster_cluster_subset(const muster_cluster *cluster,
                                      const bool *keep);

/* Load that a worker computes in the time unit on average: its speed over the
 * mean time of load 1; plain speed where no worker takes any time. */
void muster_cluster_speeds(const muster_cluster *cluster, double *speeds_out);

#endif // MUSTER_CLUSTER_FILE_H
