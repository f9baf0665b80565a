/*
 * run/measured_cluster.h -- the cluster file of a run: what it measured.
 *
 * A worker's computing time of load 1 is its time over its load; the smallest
 * times (5 % quantile) give the shift, the mean above them the mean. What an
 * answer takes beyond computing is two ways over its link: half of the smallest
 * gives the latency, of edges likewise. A worker that never answered is taken
 * to need the time of the whole run.
 */
#ifndef MUSTER_RUN_MEASURED_CLUSTER_H
#define MUSTER_RUN_MEASURED_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/code.h"
#include "record/summary.h"

typedef struct muster_measured {
    const muster_code *code;       // of the run; all are lent
    const muster_summary *workers; // what they did
    const muster_summary *edges;   // likewise; NULL: there are none
    const uint32_t *first_shard;   // of each part, and the number of shards
                                   // after the last; NULL: parts are equal
    bool per_load;                 // computing times of `workers` are of load 1
    uint32_t processors;           // that they share; 0: each has its own
} muster_measured;

/* The text of a cluster file, for muster_mem_free(); NULL when out of memory.
 */
char *muster_measured_cluster(const muster_measured *of);

/* The load of a worker; 1: what an uncoded worker has, of equal parts. */
double muster_measured_load(const muster_code *code,
                            const uint32_t *first_shard, uint32_t worker);

#endif // MUSTER_RUN_MEASURED_CLUSTER_H
