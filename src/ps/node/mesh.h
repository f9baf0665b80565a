/*
 * ps/node/mesh.h -- a node among the other nodes of a parameter server.
 *
 * One thread at a time, the driver, works on the sockets and the protocol
 * (ps/protocol): the network thread of the node, or a worker that waits for a
 * call of its own. A worker leaves calls in an inbox and localize requests in a
 * queue of its own. Its thread is woken when its call has ended. No thread runs
 * when there is nothing to do.
 *
 *   Lifecycle    create (connects to all nodes); any number of calls; free
 *                (after the workers).
 *   Threads      create and free: the caller's. The rest: any.
 */
#ifndef MUSTER_PS_NODE_MESH_H
#define MUSTER_PS_NODE_MESH_H

#include "muster/ps.h"
#include "ps/protocol/protocol.h"

typedef struct muster_mesh muster_mesh;
typedef struct muster_ps_call muster_ps_call;

/* Connect to all other nodes and wait for them. Errors as muster_ps_connect()
 * says. */
MUSTER_CHECKED muster_status muster_mesh_create(muster_ps *ps,
                                                muster_error *error_out,
                                                muster_mesh **mesh_out);
void muster_mesh_free(muster_mesh *mesh);

/* Take a worker's call; call->finished is posted when it has ended. */
void muster_mesh_submit_call(muster_mesh *mesh, muster_ps_call *call);

/* Wait for a call that was submitted; the calling thread drives the mesh
 * meanwhile if no other thread does. Its worker holds no row in place. */
void muster_mesh_wait_call(muster_mesh *mesh, muster_ps_call *call);

/* Submit and wait. Wakes no other thread if the calling one can drive. */
void muster_mesh_run_call(muster_mesh *mesh, muster_ps_call *call);

/* All workers of the node wait at a barrier. ps->barrier.passed counts up and
 * its condition is signalled when the barrier is passed, or never can be. */
void muster_mesh_enter_barrier(muster_mesh *mesh, muster_ps_until until);

/* Has the mesh failed, so that every call ends with MUSTER_ERR_PEER_LOST? Set
 * before the barrier's condition is signalled. */
bool muster_mesh_has_failed(const muster_mesh *mesh);
/* Why it failed, in one line; "" while it has not. Lent until free. */
const char *muster_mesh_failure(const muster_mesh *mesh);

/* The driver reads a worker's queue from now on, or no more; then its intents
 * end. */
MUSTER_CHECKED muster_status muster_mesh_add_worker(muster_mesh *mesh,
                                                    muster_ps_worker *worker);
void muster_mesh_remove_worker(muster_mesh *mesh, muster_ps_worker *worker);

/* A queue has new requests: wake the driver if it sleeps. */
void muster_mesh_wake(muster_mesh *mesh);

/* What protocol and connections have counted, as of the driver's last round;
 * and the processor time of the network thread by now. */
typedef struct muster_mesh_counters {
    muster_protocol_counters protocol;
    uint64_t sent_bytes;
    uint64_t network_ns;
} muster_mesh_counters;
muster_mesh_counters muster_mesh_count(muster_mesh *mesh);

#endif // MUSTER_PS_NODE_MESH_H
