/*
 * run/measured_cluster.h -- the cluster file of a run: what it measured.
 *
 * A worker's computing time of load 1 is its time over its load; the smallest
 * times (5 % quantile) give the shift, the mean above them the mean. What an
 * answer takes beyond computing is two ways over its link: half of the smallest
 * gives the latency. A worker that never answered is taken to need the time of
 * the whole run.
 */
#ifndef MUSTER_RUN_MEASURED_CLUSTER_H
#define MUSTER_RUN_MEASURED_CLUSTER_H

#include "muster/code.h"
#include "record/summary.h"

/* The text of a cluster file, for muster_mem_free(); NULL when out of memory.
 * first_shard: of each part, and the number of shards after the last; NULL:
 * parts are equal. */
char *muster_measured_cluster(const muster_summary *summary,
                              const muster_code *code,
                              const uint32_t *first_shard);

#endif // MUSTER_RUN_MEASURED_CLUSTER_H
