/*
 * cluster/file_delay.h -- the delays of a cluster file, as a delay model draws
 * them: a function of (seed, worker, step) and the worker's load.
 */
#ifndef MUSTER_CLUSTER_FILE_DELAY_H
#define MUSTER_CLUSTER_FILE_DELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/file.h"

/* What travels and is computed in a step. */
typedef struct muster_cluster_work {
    double load;        // 1: what an uncoded worker has
    double model_bytes; // on the way down; 0: no time but the latency
    double bytes;       // of the answer, on the way up
    bool follows;       // the model is there from an earlier stage of the step
    bool own_links;     // leave out the edge's link: the edge is a process
} muster_cluster_work;

/* Seconds from the model's departure to the answer's arrival: computing, and
 * all tries of the worker's link both ways, and of its edge's. What a shared
 * NIC makes of it is not in it. */
double muster_cluster_delay_s(const muster_cluster *cluster, uint64_t seed,
                              uint32_t worker, uint64_t step,
                              const muster_cluster_work *work);

/* Likewise all tries of an edge's link both ways. */
double muster_cluster_edge_delay_s(const muster_cluster *cluster, uint64_t seed,
                                   uint32_t edge, uint64_t step,
                                   const muster_cluster_work *work);

#endif // MUSTER_CLUSTER_FILE_DELAY_H
