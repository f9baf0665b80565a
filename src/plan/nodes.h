/*
 * plan/nodes.h -- which machines a plan may leave out.
 *
 * A machine that is much slower than the others costs more than it brings: a
 * code must tolerate it, which every other worker pays for with load. Sets
 * worth a look keep the fastest workers by their mean time at load 1 (links
 * included), cut where the next one is clearly slower. With edges, each cut of
 * workers is tried with several sets of edges: all sets in a small cluster, the
 * fastest ones in a large one. Large clusters get few cuts, at the widest gaps.
 */
#ifndef MUSTER_PLAN_NODES_H
#define MUSTER_PLAN_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "cluster/file.h"

typedef struct muster_node_sets {
    uint32_t workers;
    uint32_t count;
    bool *keep; // count x workers
} muster_node_sets;

/* Sets that leave somebody out; none may be worth it. `bytes` is the length of
 * a whole gradient. False: out of memory. */
bool muster_node_sets_init(muster_node_sets *sets,
                           const muster_cluster *cluster, double bytes);
void muster_node_sets_fini(muster_node_sets *sets);

#endif // MUSTER_PLAN_NODES_H
