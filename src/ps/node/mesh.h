/*
 * ps/node/mesh.h -- a parameter server's node among the others.
 *
 * One thread at a time drives the sockets and the protocol (role/psnode): the
 * network thread of the node, or a worker while it waits for a call of its own.
 * Workers leave requests in a queue and queue in rings of their own, and are
 * woken when their request has ended. Nobody runs when there is nothing to do.
 *
 *   Lifecycle    create (connects to all); any number of submits; free (after
 *                the workers).
 *   Threads      create and free: the caller's. The rest: any.
 */
#ifndef MUSTER_PS_NODE_MESH_H
#define MUSTER_PS_NODE_MESH_H

#include "muster/ps.h"
#include "ps/protocol/protocol.h"

typedef struct muster_mesh muster_mesh;
typedef struct muster_ps_call muster_ps_call;

/* Wait until all nodes have met. Errors as muster_ps_connect(). */
MUSTER_CHECKED muster_status muster_mesh_create(muster_ps *ps,
                                                muster_error *error_out,
                                                muster_mesh **mesh_out);
void muster_mesh_free(muster_mesh *mesh);

/* Take a worker's call; call->finished is posted when it has ended. */
void muster_mesh_submit_call(muster_mesh *mesh, muster_ps_call *call);

/* Wait for a call that was submitted, and drive the mesh meanwhile when nobody
 * else does. The worker holds no row in place. */
void muster_mesh_wait_call(muster_mesh *mesh, muster_ps_call *call);

/* Submit and wait: nobody is woken by a worker that can lead. */
void muster_mesh_run_call(muster_mesh *mesh, muster_ps_call *call);

/* All workers of the node stand at a barrier; ps->barrier_passed counts up and
 * its condition is signalled when it is passed, or can never be. */
void muster_mesh_enter_barrier(muster_mesh *mesh);

/* Can no barrier be passed any more? Before its condition is signalled. */
bool muster_mesh_has_failed(const muster_mesh *mesh);

/* A worker's queue are read from now on, or no more; then its intents end. */
MUSTER_CHECKED muster_status muster_mesh_add_worker(muster_mesh *mesh,
                                                    muster_ps_worker *worker);
void muster_mesh_remove_worker(muster_mesh *mesh, muster_ps_worker *worker);

/* There are new queue. */
void muster_mesh_wake(muster_mesh *mesh);

/* What the protocol has counted; a moment old. */
muster_protocol_counters muster_mesh_count(muster_mesh *mesh);

#endif // MUSTER_PS_NODE_MESH_H
