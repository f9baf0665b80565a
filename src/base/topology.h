/*
 * base/topology.h -- edges and the workers under each, as people write them.
 *
 *     4x10        4 edges with 10 workers each
 *     3,4,5,6     4 edges with 3, 4, 5 and 6 workers
 *     2x8,4       the two forms mixed
 *
 * Workers are numbered across the edges, in their order.
 *
 *   Lifecycle    parse; look; fini.
 *   Threads      Pure.
 */
#ifndef MUSTER_BASE_TOPOLOGY_H
#define MUSTER_BASE_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

/* More edges or workers than this are refused. */
#define MUSTER_TOPOLOGY_WORKERS_MAX 65536u

typedef struct muster_topology {
    uint32_t edges;
    uint32_t workers; // in all
    uint32_t *sizes;  // workers under each edge, at least 1
} muster_topology;

/*
 * `place` ("--topology") opens an error.
 * MUSTER_ERR_INVALID    not of this form, an edge without a worker, or too many
 * MUSTER_ERR_NO_MEMORY
 */
MUSTER_CHECKED muster_status
muster_topology_parse(const char *place, const char *text,
                      muster_error *error_out, muster_topology *topology_out);
/* A zeroed one is fine. */
void muster_topology_fini(muster_topology *topology);

/* The text of a topology, "4x10" where all edges are equal. NULL when out of
 * memory; for muster_mem_free(). */
char *muster_topology_text(const muster_topology *topology);

#endif // MUSTER_BASE_TOPOLOGY_H
