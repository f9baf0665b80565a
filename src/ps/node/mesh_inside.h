/*
 * ps/node/mesh_inside.h -- a mesh as its files share it: mesh.c (calls of
 * workers, results of the protocol), drive.c (the driver), peers.c
 * (connections), mesh_open.c (beginning and end).
 *
 * Which thread may touch a field is said by the struct that the field is in:
 *
 *   driver     the thread that holds drive_lock (drive.c)
 *   inbox      any thread that holds inbox_lock
 *   counters   any thread that holds count_lock
 *   shared     any thread: atomics
 *   the rest   fixed before the network thread starts; any thread may read
 *
 * Locks are taken in this order: drive_lock, inbox_lock, then count_lock or the
 * node's barrier.lock. A thread that does not drive holds one at most.
 */
#ifndef MUSTER_PS_NODE_MESH_INSIDE_H
#define MUSTER_PS_NODE_MESH_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "net/net.h"
#include "ps/node/inside.h"
#include "ps/node/mesh.h"

/* Connections to the other nodes, by node number: the driver's (peers.c). */
typedef struct muster_mesh_links {
    muster_peer peers[MUSTER_PS_NODES_MAX];      // 0: not connected
    muster_peer connecting[MUSTER_PS_NODES_MAX]; // 0: no attempt under way
    int64_t retry_ns[MUSTER_PS_NODES_MAX];       // no attempt before this time
    bool left[MUSTER_PS_NODES_MAX];              // the node has said LEAVE
    uint64_t warned;         // nodes whose address was logged as bad
    int64_t refused_ns;      // when a connection was last logged as refused
    uint64_t greeted;        // joining: nodes that have answered
    uint64_t members_wanted; // joining: the members, as the lead said
    muster_vec unsent; // muster_protocol_send: the connection's queue was full
    uint32_t unsent_count[MUSTER_PS_NODES_MAX]; // of these, to each node
    uint64_t overfull;                          // nodes with too many of these
} muster_mesh_links;

/* What only the driver may touch. */
typedef struct muster_mesh_driver {
    muster_protocol *protocol;
    muster_protocol_out out;
    muster_mesh_links links;
    muster_vec taken;            // muster_ps_call *: out of the inbox
    muster_vec under_way;        // muster_ps_call *
    muster_ps_call *ended_calls; // to be posted (invariant 4 of drive.c)
    uint64_t barriers_passed;
    bool at_barrier;       // all workers of this node wait there
    bool static_localized; // the rows of MUSTER_PS_STATIC were asked for
    uint16_t failed_node;  // node + 1 that ended the mesh, or 0
    int64_t clocks_due_ns; // the next look at workers' clocks; INT64_MAX: none
    int64_t bias_due_ns;   // the next look for tables to return to the worker
    int64_t mean_sleep_ns; // how long the network thread slept of late
    // How the driver sleeps:
    bool announced;        // `asleep` was set, and the inbox not yet looked at
    bool settled;          // what arrives wakes the network thread
    uint32_t short_sleeps; // in a row
    uint32_t failed_spins; // in a row
    int64_t thread_sleeps_until_ns; // unless it waits for drive_lock
    uint64_t drives_seen; // shared.drives when the network thread last slept
} muster_mesh_driver;

/* What workers leave for the driver. Under inbox_lock. */
typedef struct muster_mesh_inbox {
    muster_vec requests;         // muster_ps_call *
    muster_vec workers;          // muster_ps_worker *: their queues are read
    muster_vec orphaned_intents; // muster_intents *: of workers that ended
    bool barrier_entered;        // by all workers of this node
    muster_ps_until until;       // of that barrier
} muster_mesh_inbox;

/* What every thread may read and write at any time. */
typedef struct muster_mesh_atomics {
    _Atomic bool stop;    // the network thread is to end
    _Atomic bool quits;   // the node ends in the middle of the work
    _Atomic bool asleep;  // a thread that leaves something must wake the driver
    _Atomic bool failed;  // every call ends: driver.failed_node is set
    _Atomic bool refused; // by a node that it connected to: key or version
    _Atomic bool members_changing; // the members are not agreed on
    _Atomic bool entered;          // joining: this node was admitted
    _Atomic uint64_t connected; // nodes that ever were, one bit each, as below
    _Atomic uint64_t members;
    _Atomic uint64_t barrier_members; // of the last barrier
    _Atomic uint64_t join_ready;      // lead: nodes that wait to be admitted
    _Atomic uint64_t admit;           // lead: note << 32 | node + 1, or 0
    _Atomic uint64_t drives;          // times that a worker drove the mesh
    _Atomic int64_t sleep_max_ns;     // tests have longer ones
} muster_mesh_atomics;

struct muster_mesh {
    // Fixed before the network thread starts: any thread may read.
    muster_ps *ps;
    uint16_t self, nodes;
    muster_net *net; // only the driver calls it; any thread muster_net_wake()
    // Only the thread that creates and frees the mesh.
    pthread_t thread;
    bool thread_started;
    // Only while drive_lock is held.
    pthread_mutex_t drive_lock;
    muster_mesh_driver driver;
    // Only while inbox_lock is held.
    pthread_mutex_t inbox_lock;
    muster_mesh_inbox inbox;
    // Only while count_lock is held. Apart from inbox_lock: a worker may count
    // with rows open, and the driver may wait for these with inbox_lock held.
    pthread_mutex_t count_lock;
    muster_mesh_counters counters; // network_ns is read when asked for
    // Any thread.
    muster_mesh_atomics shared;
    // Why the mesh failed. The driver writes it before it sets shared.failed;
    // fixed from then on: any thread that has seen shared.failed may read.
    char failure[MUSTER_ERROR_TEXT_MAX];
    // Which node refused this one, and why: the same with shared.refused.
    char refusal[MUSTER_ERROR_TEXT_MAX];
};

extern const muster_net_callbacks muster_mesh_callbacks;

/* peers.c. All but the first: only the driver. */
/* Nodes that never were connected. */
uint64_t muster_mesh_peers_missing(const muster_mesh *mesh);
/* Send, or keep for later; takes over the reference to the payload. */
void muster_mesh_peers_send(muster_mesh *mesh,
                            const muster_protocol_send *send);
/* Try again what was kept. A node with too many messages kept is lost. */
void muster_mesh_peers_send_unsent(muster_mesh *mesh);
/* Drop what is kept for a node; `but_expel`: all but an EXPEL. */
void muster_mesh_peers_drop_unsent(muster_mesh *mesh, uint16_t node,
                                   bool but_expel);
/* Try to connect to the nodes that this one has to connect to. */
void muster_mesh_peers_connect(muster_mesh *mesh);
/* Tell all other nodes that this one ends; have all members said the same? */
void muster_mesh_peers_send_leave(muster_mesh *mesh);
bool muster_mesh_peers_all_left(const muster_mesh *mesh);
/* Lead: tell nodes that wait to be admitted who the members are. */
void muster_mesh_peers_send_members(muster_mesh *mesh);

/* drive.c. The network thread's body, with the mesh as its argument. */
void *muster_mesh_thread_run(void *argument);
/* Drive the mesh until the call has ended, unless another thread drives it. The
 * call's semaphore is posted by the time that true is returned. */
bool muster_mesh_drive(muster_mesh *mesh, muster_ps_call *call);
/* Were all nodes connected at some time? Before, silence means nothing. */
bool muster_mesh_all_met(const muster_mesh *mesh);

/* mesh.c. Only the driver. */
/* Put a call that has ended on the list of calls to be posted. */
void muster_mesh_end_call(muster_mesh *mesh, muster_ps_call *call,
                          muster_status status);
/* Let this node's workers pass the barrier, or end it with an error. */
void muster_mesh_pass_barrier(muster_mesh *mesh, muster_status status);
/* Do what a step of the protocol asks; a failed step ends the mesh. */
void muster_mesh_apply_step(muster_mesh *mesh, muster_status status);
/* End every call and barrier with MUSTER_ERR_PEER_LOST from now on. `reason`
 * NULL: the node left in peace, and nothing is logged. */
void muster_mesh_fail(muster_mesh *mesh, uint16_t node, const char *reason);

#endif // MUSTER_PS_NODE_MESH_INSIDE_H
