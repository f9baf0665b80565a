/*
 * muster/ps_mesh.h -- several nodes of a parameter server: how they connect,
 * how rows come to the node that uses them, what happens when a node is lost.
 *
 * Each process makes one node with the same tables and its own number; then
 *
 *     muster_ps_connect(ps, &error);           // all nodes are connected
 *     muster_ps_worker_create(ps, &error, &worker);
 *     muster_ps_localize(worker, table, keys, count);
 *     ..                                       // rows are on their way here
 *     muster_ps_barrier(worker);               // all have done their work
 *
 * A row has one owner at a time. A node uses a row of another node by asking
 * the owner, by relocating the row (it becomes the owner) or by a replica,
 * which is read and written in place and synchronised with the owner.
 *
 *   Promise      As muster/ps.h, wherever rows are and however they move.
 *                Replicas are at most about staleness_ms old. What a worker did
 *                before a barrier is seen by all after it.
 *   Lifecycle    connect after the tables and distributions, before workers.
 *   Threads      connect, count, lost_nodes: any. The rest: the worker's.
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
 * Connect to the other nodes: with nodes > 1, after the tables and
 * distributions (the same on every node) and before the workers. Waits for all
 * nodes.
 * MUSTER_ERR_INVALID    one node only, no table, or called twice
 * MUSTER_ERR_INPUT      STATIC: a row to be replicated is in no table
 * MUSTER_ERR_TIMED_OUT  a node did not connect; the error names it
 * MUSTER_ERR_PEER_LOST  a node ended before all were connected
 * MUSTER_ERR_SYSTEM     sockets or threads were refused
 * MUSTER_ERR_NO_MEMORY
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_connect(muster_ps *ps, muster_error *error_out);

/*
 * Nodes that are lost, one bit each, as this node knows now; 0 for NULL.
 * Without `survive` every call that needs another node then ends with
 * MUSTER_ERR_PEER_LOST. With it such calls wait until the remaining nodes have
 * agreed on the members and each row has an owner again: it comes back from its
 * freshest replica, from restore(), or as it was at first. Barriers go on among
 * the remaining nodes. The lost node's work is the caller's affair. When node
 * 0, the lead, is lost, or the others have expelled this node, every call that
 * needs another node still ends with MUSTER_ERR_PEER_LOST.
 */
MUSTER_API uint64_t muster_ps_lost_nodes(const muster_ps *ps);

/* Where rows were found, over all workers of this node, up to each one's last
 * barrier or end. Start from MUSTER_PS_COUNTERS_INIT. */
typedef struct muster_ps_counters {
    uint32_t struct_size;
    uint32_t reserved;         // 0
    uint64_t accesses;         // rows asked for
    uint64_t remote_accesses;  // of these, sent to another node
    uint64_t replica_accesses; // of these, found in a replica
    uint64_t relocations;      // rows that moved to this node
    uint64_t replications;     // replicas that came to this node
    uint64_t syncs;            // times that a replica was synchronised
    uint64_t replicas_held;    // now
    // Remote accesses, by reason; the others are rows that were absent:
    uint64_t arriving_accesses; // the row was on its way here
    uint64_t spent_accesses;    // the replica had to be synchronised first
    // What workers waited for, summed over them:
    uint64_t remote_wait_ns;  // rows of other nodes
    uint64_t barrier_wait_ns; // barriers
    uint64_t latch_wait_ns;   // rows that another thread held
    uint64_t sync_bytes;      // of rows, sent and received by syncs
    uint64_t sent_bytes;      // all messages to other nodes
    uint64_t network_ns;      // processor time of the network thread
} muster_ps_counters;

#define MUSTER_PS_COUNTERS_INIT                                               \
    {                                                                         \
        (uint32_t)sizeof(muster_ps_counters), 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u, \
            0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u                                    \
    }

/* Fill *counters_out. MUSTER_ERR_INVALID: NULL, or struct_size is unknown. */
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_count(muster_ps *ps, muster_ps_counters *counters_out);

/* Nodes of the mesh; 0 for NULL. With 1, localize does nothing. */
MUSTER_API uint32_t muster_ps_nodes(const muster_ps_worker *worker);

/*
 * Ask for rows to be brought to this node: they are on their way when the call
 * returns, and operations on them wait until they arrive. A hint: a row may be
 * taken by another node before it is used, and every call works without it,
 * only slower. Nothing happens on a single node, or with CLASSIC. fetch is the
 * same, and waits until the rows have arrived.
 * MUSTER_ERR_INVALID    a wrong table, key or NULL; fetch: a row is open
 * MUSTER_ERR_AGAIN      localize: the queue is full; some rows were not asked
 *                       for
 * MUSTER_ERR_NO_MEMORY, MUSTER_ERR_PEER_LOST  fetch: as muster_ps_pull()
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_localize(muster_ps_worker *worker, uint32_t table,
                   const uint32_t *keys, size_t count);
/* The same for rows that other nodes use as well: AUTO brings replicas and lets
 * the rows stay where they are. */
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_replicate(muster_ps_worker *worker, uint32_t table,
                    const uint32_t *keys, size_t count);
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_fetch(muster_ps_worker *worker, uint32_t table, const uint32_t *keys,
                size_t count);

/* How many rows this worker asked for and had to wait for so far, because they
 * were not here yet: who asks for rows ahead of their use and sees this number
 * grow should ask for them earlier. 0 for NULL. */
MUSTER_API uint64_t muster_ps_late_rows(const muster_ps_worker *worker);

/* muster_ps_prefetch() of `key`, and of the word of a row that will be begun
 * after it. In a mesh a row is found by its word: give each key as `later`
 * first, and as `key` some rows after. */
MUSTER_API void muster_ps_prefetch_ahead(const muster_ps_worker *worker,
                                         uint32_t table, uint32_t key,
                                         uint32_t later);

/*
 * Wait until every worker of every node has called it; what any of them did
 * before is seen by all after.
 * MUSTER_ERR_INVALID    NULL, or a row is open
 * MUSTER_ERR_PEER_LOST  a node is lost and will not call it
 * MUSTER_ERR_CANCELLED  this node ends before its time
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_ps_barrier(muster_ps_worker *worker);

/* What was done before a barrier is, when it is passed, */
typedef enum muster_ps_until {
    MUSTER_PS_SEEN = 0,   // seen by all, as by muster_ps_barrier()
    MUSTER_PS_STORED = 1, // applied by the owners; replicas may be older
    MUSTER_PS_MET = 2, // on its way: calls that have returned OK are applied,
                       // writes to replicas are synchronised as ever
} muster_ps_until;

/*
 * muster_ps_barrier() that waits for less: every worker of every node calls it
 * with the same `until`; but where some say STORED and some SEEN, the nodes of
 * the latter see everything. Between two pieces of work MET costs the least.
 * Errors as muster_ps_barrier(); MUSTER_ERR_INVALID also for another `until`.
 */
MUSTER_API MUSTER_CHECKED muster_status muster_ps_meet(muster_ps_worker *worker,
                                                       muster_ps_until until);

#ifdef __cplusplus
}
#endif
#endif // MUSTER_PS_MESH_H
