/*
 * cluster/file_delay.h -- the delays of a cluster file, as a delay model draws
 * them: a function of (seed, worker, step) and the worker's load.
 */
#ifndef MUSTER_CLUSTER_FILE_DELAY_H
#define MUSTER_CLUSTER_FILE_DELAY_H

#include <stdint.h>

#include "cluster/file.h"

/* Seconds from the model's departure to the answer's arrival: computing `load`,
 * and all tries of its link both ways, and of its edge's. What bandwidth makes
 * of a message's length is not in it. */
double muster_cluster_delay_s(const muster_cluster *cluster, uint64_t seed,
                              uint32_t worker, uint64_t step, double load);

#endif // MUSTER_CLUSTER_FILE_DELAY_H
