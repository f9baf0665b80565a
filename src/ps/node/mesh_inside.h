/*
 * ps/node/mesh_inside.h -- a mesh as ps/node/mesh.c (workers and protocol),
 * turn.c (who drives it) and peers.c (connections) share it.
 */
#ifndef MUSTER_PS_NODE_MESH_INSIDE_H
#define MUSTER_PS_NODE_MESH_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "net/net.h"
#include "ps/node/inside.h"
#include "ps/node/mesh.h"

struct muster_mesh {
    muster_ps *ps;
    muster_net *net;
    muster_protocol *node;
    muster_protocol_out out;
    pthread_t thread;
    bool started;
    bool wished; // for the rows of MUSTER_PS_STATIC
    uint16_t self, nodes;
    muster_peer peers[MUSTER_PS_NODES_MAX]; // 0: not connected
    int64_t retry_ns[MUSTER_PS_NODES_MAX];
    muster_peer trying[MUSTER_PS_NODES_MAX];
    bool left[MUSTER_PS_NODES_MAX]; // it said that it goes
    uint64_t told;                  // nodes whose address is no good
    uint64_t greeted;               // joining: nodes that know us
    uint64_t wanted;                // joining: the members
    muster_vec unsent;              // muster_protocol_send: a queue was full
    uint32_t waiting[MUSTER_PS_NODES_MAX]; // of these, to each node
    uint64_t clogged;                      // nodes for which too many wait
    _Atomic uint64_t come; // nodes that were met, whether or not they went
    _Atomic bool stop;
    _Atomic bool asleep;      // whoever leaves something must wake
    _Atomic bool quits;       // ends in the middle of the work
    _Atomic uint64_t met;     // at the last barrier
    _Atomic uint64_t members; // now
    _Atomic uint64_t ready;   // the lead: nodes that wait to be taken in
    _Atomic uint64_t admit;   // the lead: note << 32 | node + 1, or 0
    _Atomic uint32_t entered; // joining: 1 when taken in
    _Atomic bool changing;    // the members are not agreed on
    _Atomic bool over;        // `lost` is set
    // Under the lock: what workers leave for the thread.
    pthread_mutex_t lock;
    muster_vec requests; // muster_ps_call *
    muster_vec workers;  // muster_ps_worker *: whose queue are read
    muster_vec orphans;  // muster_intents *: of workers that are gone
    bool barrier_asked;
    // Under a lock of its own: one may count with rows open, for which who
    // drives the mesh may wait with the other lock held.
    pthread_mutex_t count_lock;
    muster_protocol_counters counters;
    _Atomic uint64_t driven;      // times that a worker drove the mesh
    _Atomic int64_t sleep_max_ns; // the longest sleep; tests have longer ones
    // Who holds this lock drives the mesh; what follows, and all above that is
    // neither atomic nor under the other lock, is theirs (turn.c).
    pthread_mutex_t turn;
    int64_t sleeps_until_ns; // the thread, unless it waits for the lock
    uint64_t driven_before;  // `driven` when the thread went to sleep last
    muster_vec taken;        // muster_ps_call *
    muster_vec open;         // muster_ps_call *: requests under way
    muster_ps_call *ended;   // to be told
    int64_t round_ns; // when clocks are looked at next; INT64_MAX: need not be
    bool at_barrier;  // all workers of this node wait there
    uint32_t short_sleeps; // in a row; and lingering in failed_spins, in a row
    uint32_t failed_spins;
    int64_t rest_ns; // when tables are let rest next
    uint64_t released;
    uint16_t lost; // node + 1, or 0
};

extern const muster_net_callbacks muster_mesh_callbacks;

/* Nodes that this one never met. */
uint64_t muster_mesh_peers_missing(const muster_mesh *mesh);
/* Send, or keep for later; the reference to the payload is taken over. */
void muster_mesh_peers_send(muster_mesh *mesh,
                            const muster_protocol_send *send);
/* Try again what was kept; a node for which too much is kept is lost. */
void muster_mesh_peers_send_unsent(muster_mesh *mesh);
/* What is kept for a node will not be sent; `but_expel`: only that it was given
 * up. */
void muster_mesh_peers_drop_unsent(muster_mesh *mesh, uint16_t node,
                                   bool but_expel);
/* Connect to those that are to be connected to. */
void muster_mesh_peers_connect(muster_mesh *mesh);
/* Tell all others that this node goes; true when all have said the same. */
void muster_mesh_peers_send_leave(muster_mesh *mesh);
bool muster_mesh_peers_all_left(const muster_mesh *mesh);
/* The lead: nodes that wait to be taken in hear who the members are. */
void muster_mesh_peers_send_members(muster_mesh *mesh);

/* turn.c: the thread's body, with the mesh as its argument. */
void *muster_mesh_thread_run(void *argument);
/* Drive the mesh until the call has ended, if nobody else drives it; the call's
 * semaphore is posted, or will be at once. */
bool muster_mesh_drive(muster_mesh *mesh, muster_ps_call *call);
/* Has this node met all others that are alive? */
bool muster_mesh_all_met(const muster_mesh *mesh);

/* mesh.c: a call has ended, and is on the list of those to be told; a barrier
 * is passed, or can never be. */
void muster_mesh_end_call(muster_mesh *mesh, muster_ps_call *call,
                          muster_status status);
void muster_mesh_pass_barrier(muster_mesh *mesh, muster_status status);
/* A step of the node was made: do what it asks. */
void muster_mesh_apply_step(muster_mesh *mesh, muster_status status);
/* Nothing that needs another node can be promised any more. `reason` NULL:
 * nobody needs to be told. */
void muster_mesh_fail(muster_mesh *mesh, uint16_t node, const char *reason);

#endif // MUSTER_PS_NODE_MESH_INSIDE_H
