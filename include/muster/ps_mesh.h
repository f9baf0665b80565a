/*
 * muster/ps_mesh.h -- several nodes of a parameter server: how they meet, how
 * rows come to the node that uses them, what happens when a node is lost.
 *
 * Each process makes one node with the same tables and its own number; then
 *
 *     muster_ps_connect(ps, &error);           // all nodes have met
 *     muster_ps_worker_create(ps, &worker);
 *     muster_ps_localize(worker, table, keys, count);
 *     ..                                       // rows are on their way here
 *     muster_ps_barrier(worker);               // all have done their work
 *
 *   Promise      As muster/ps.h, wherever rows lie and however they move.
 *                Copies are at most about staleness_ms old. What a barrier ends
 *                is seen by all.
 *   Lifecycle    connect after the tables and distributions, before workers.
 *   Threads      connect, count, lost: any. The rest: the worker's.
 *   Failure      See muster_ps_lost_nodes().
 */
#ifndef MUSTER_PS_MESH_H
#define MUSTER_PS_MESH_H

#include <stddef.h>
#include <stdint.h>

#include "muster/export.h"
#include "muster/ps.h"
#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Meet the other nodes: with nodes > 1, after the tables and distributions (the
 * same on every node) and before the workers. Waits for all of them.
 * MUSTER_ERR_INVALID    one node only, or called twice
 * MUSTER_ERR_INPUT      STATIC: a row to be copied is in no table
 * MUSTER_ERR_TIMED_OUT  a node did not come; the error names it
 * MUSTER_ERR_SYSTEM     sockets or threads were refused
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_connect(muster_ps *ps, muster_error *error_out);

/*
 * Nodes that are lost, one bit each, as known here now. Without `survive` every
 * call that needs another node then ends with MUSTER_ERR_PEER_LOST. With it
 * calls wait until the others have agreed on who is left and each row has an
 * owner again: it comes back from its freshest copy, from restore(), or as it
 * was at first. Barriers go on among those that are left. Who does the lost
 * node's work is the caller's affair. The loss of node 0, which leads, still
 * ends all calls, and so does being given up oneself.
 */
MUSTER_API uint64_t muster_ps_lost_nodes(const muster_ps *ps);

/* Where rows were found, over all workers of this node, up to each one's last
 * barrier or end. */
typedef struct muster_ps_counters {
    uint64_t accesses;    // rows asked for
    uint64_t remote;      // of these, not here: went to another node
    uint64_t copied;      // of these, found in a copy of another node's row
    uint64_t relocations; // rows that moved here
    uint64_t replicas;    // copies that came here
    uint64_t syncs;       // times that a copy was synchronised
    uint64_t copies;      // held now
} muster_ps_counters;
MUSTER_API muster_ps_counters muster_ps_count(muster_ps *ps); // NULL: zeros

/* Nodes of the mesh: with one, wishes are not worth making. */
MUSTER_API uint32_t muster_ps_nodes(const muster_ps_worker *worker);

/*
 * Wish that rows come here: they are on their way when the call returns, and
 * meanwhile operations on them wait for their arrival. A hint: a row may be
 * taken elsewhere before it is used, and every call works without it, only
 * slower. MUSTER_ERR_AGAIN: too many wishes at once; some were not taken.
 * Nothing happens on a single node, or where rows neither move nor are copied.
 * fetch is the same, and waits for what comes; no row may be open.
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_localize(muster_ps_worker *worker, uint32_t table,
                   const uint32_t *keys, size_t count);
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_fetch(muster_ps_worker *worker, uint32_t table, const uint32_t *keys,
                size_t count);

/*
 * Wait until every worker of every node has called it; what any of them did
 * before is seen by all after. MUSTER_ERR_INVALID: rows are open.
 * MUSTER_ERR_PEER_LOST: a node is gone, and the others will not come.
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_barrier(muster_ps_worker *worker);

#ifdef __cplusplus
}
#endif
#endif // MUSTER_PS_MESH_H
