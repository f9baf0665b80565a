/*
 * sim/ps_world.h -- nodes of a parameter server in virtual time.
 *
 * A world has processes and a network. Each process has a table and the real
 * protocol (ps/protocol). Every message takes a time that is drawn for it, so
 * messages overtake each other; some are delivered twice. A process can be
 * killed, stopped for a while, or started again in the place of a lost one.
 * The caller does what workers and hosts do: requests, localize requests,
 * intents, barriers. All chance comes from one seed.
 *
 *   Promise      Equal seeds and equal calls give equal histories; a hash says
 *                so. Nothing from a killed process reaches a peer after that
 *                peer has seen the end of the connection.
 *   Lifecycle    create; start each process; calls and pass() as often as
 *                wanted; free.
 *   Errors       A step of the protocol fails only when memory runs out. That
 *                ends the program: a simulation has nothing to save.
 *   Threads      One.
 */
#ifndef MUSTER_SIM_PS_WORLD_H
#define MUSTER_SIM_PS_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "ps/protocol/protocol.h"

#define MUSTER_PS_WORLD_NODES_MAX   MUSTER_PS_NODES_MAX
#define MUSTER_PS_WORLD_FLIGHTS_MAX 8192u // messages under way

typedef struct muster_ps_world muster_ps_world;

/* A message that is delivered. */
typedef struct muster_ps_delivery {
    uint16_t from;
    uint16_t to;
    bool from_current; // the sender has not died or been replaced since
    const muster_rowmsg *message;
} muster_ps_delivery;

/* What the caller is told; each may be NULL. */
typedef struct muster_ps_world_hooks {
    void *context;
    /* The host of a node, as in muster_protocol_opts. */
    bool (*prepared)(void *context, uint16_t node);
    bool (*restore)(void *context, uint16_t node, uint32_t key, float *row);
    uint64_t (*updates)(void *context, uint16_t node);
    /* Before the message is handled. */
    void (*on_delivery)(void *context, const muster_ps_delivery *delivery);
    void (*on_news)(void *context, uint16_t node,
                    const muster_membership_news *news);
    /* A request has ended. */
    void (*on_done)(void *context, uint16_t node, muster_row_request *request);
    /* The process is about to end: killed, or expelled. */
    void (*on_end)(void *context, uint16_t node);
} muster_ps_world_hooks;

typedef struct muster_ps_world_opts {
    uint64_t seed;
    muster_ps_table_opts table;
    muster_protocol_opts protocol; // of every node; the world sets node, nodes,
                                   // tables, payloads, joins and the host
    uint32_t duplicate_one_in;     // chance that a message comes twice
    int64_t tick_ns;
    muster_ps_world_hooks hooks;
} muster_ps_world_opts;

/* A process; the caller may read it. */
typedef struct muster_ps_process {
    muster_ps_world *world;
    uint16_t node;
    bool up;
    uint32_t incarnation;
    int64_t stopped_until_ns; // nothing happens in it before that
    muster_ps_table *table;
    muster_protocol *protocol;
    muster_protocol_out out;
    // Incarnations of each peer up to which its connection has ended.
    uint32_t closed[MUSTER_PS_WORLD_NODES_MAX];
} muster_ps_process;

/* A world without processes. Draws begin with the seed; set_nodes comes before
 * start. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_ps_world_create(
    const muster_ps_world_opts *opts, muster_ps_world **world_out);
void muster_ps_world_free(muster_ps_world *world);

/* The number of nodes and how they manage rows, which the caller may draw. */
void muster_ps_world_set_nodes(muster_ps_world *world, uint16_t nodes,
                               muster_ps_manage manage,
                               uint32_t message_entries);

/* Start a process; `joins`: in the place of a lost one. Its node is taken in by
 * muster_ps_world_admit(). */
void muster_ps_world_start(muster_ps_world *world, uint16_t node, bool joins);
void muster_ps_world_admit(muster_ps_world *world, uint16_t node,
                           uint32_t note);

/* SIGKILL. Some of the messages that it sent are lost, and each peer sees the
 * end of the connection at a time of its own; time passes meanwhile. */
void muster_ps_world_kill(muster_ps_world *world, uint16_t node);
/* SIGSTOP; messages for it wait. */
void muster_ps_world_stop(muster_ps_world *world, uint16_t node,
                          int64_t until_ns);

/* What workers do, as in ps/protocol/protocol.h. A request may be in on_done
 * before the call returns. */
void muster_ps_world_request(muster_ps_world *world, uint16_t node,
                             muster_row_request *request);
void muster_ps_world_localize(muster_ps_world *world, uint16_t node,
                              const muster_localize_request *request);
void muster_ps_world_intend(muster_ps_world *world, uint16_t node,
                            const muster_localize_request *request,
                            bool begins);
void muster_ps_world_barrier(muster_ps_world *world, uint16_t node,
                             muster_ps_until until);

/* Let time pass: deliver messages in the order of their arrival, and tick. */
void muster_ps_world_pass(muster_ps_world *world, int64_t for_ns);

/* No message but heartbeats is under way, no process is stopped, all protocols
 * are idle and agree that the members are the processes that are up. */
bool muster_ps_world_at_rest(const muster_ps_world *world);

int64_t muster_ps_world_now(const muster_ps_world *world);
uint16_t muster_ps_world_nodes(const muster_ps_world *world);
muster_ps_process *muster_ps_world_process(muster_ps_world *world,
                                           uint16_t node);
/* Is the process up, and not stopped? */
bool muster_ps_world_runs(const muster_ps_world *world, uint16_t node);
/* A draw from 0..bound-1, of the world's own stream. */
uint64_t muster_ps_world_below(muster_ps_world *world, uint64_t bound);
/* Of all deliveries so far. */
uint64_t muster_ps_world_hash(const muster_ps_world *world);

#endif // MUSTER_SIM_PS_WORLD_H
