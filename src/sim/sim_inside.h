/*
 * sim/sim_inside.h -- the state of a simulation, for its files:
 *   sim.c          clock, run, faults
 *   sim_queue.c    the events to come
 *   sim_host.c     a process: role, timers, compute thread
 *   sim_net.c      connections and messages
 *   sim_echo.c     messages that come again, much later
 *   sim_history.c  the hash of what has happened, and the trace
 */
#ifndef MUSTER_SIM_SIM_INSIDE_H
#define MUSTER_SIM_SIM_INSIDE_H

#include "base/rng.h"
#include "base/vec.h"
#include "sim/sim.h"

#define MUSTER_SIM_TIMERS   24u // highest timer id a role may use, plus one
#define MUSTER_SIM_PIECE_NS 5000000ll

typedef enum muster_sim_kind {
    MUSTER_SIM_ROLE = 1, // `event` is for the host's role
    MUSTER_SIM_JOB_END,  // the host's running job, if `ticket` is its
    MUSTER_SIM_CALL,     // muster_sim_at
} muster_sim_kind;

/* Something to come. */
typedef struct muster_sim_item {
    muster_sim_kind kind;
    int64_t at_ns;
    uint32_t host;
    uint64_t life; // of the host that this is meant for
    uint32_t from; // MESSAGE, PEER_UP, PEER_DOWN: the other end, for cuts
    muster_event event;
    muster_message message; // of a MESSAGE event
    muster_blob *payload;   // reference held
    uint64_t digest;        // of the payload
    bool echoed;            // comes again; not for the first time
    uint64_t ticket;
    muster_sim_call call;
    void *context;
    uint64_t value;
} muster_sim_item;

typedef struct muster_sim_slot { // a node of the heap
    int64_t at_ns;
    uint64_t sequence;
    uint32_t item;
} muster_sim_slot;

typedef struct muster_sim_queue {
    muster_vec heap;  // muster_sim_slot
    muster_vec items; // muster_sim_item
    muster_vec free;  // uint32_t: items not in use
    uint64_t sequence;
} muster_sim_queue;

typedef struct muster_sim_process {
    bool up;
    bool frozen;
    bool stuck;
    bool cut;
    uint64_t life;
    int64_t frozen_ns;
    int64_t touched_ns; // when a fault, or its end, last befell it
    muster_role role;
    muster_sim_link link;
    int64_t timers[MUSTER_SIM_TIMERS]; // < 0: not set
    muster_vec jobs;                   // muster_job; the first is running
    bool running;
    bool cancelled;   // the running one
    uint64_t ticket;  // of its end
    int64_t began_ns; // when it began
    int64_t ends_ns;
    uint64_t progress;
    muster_vec deferred; // muster_sim_item, while frozen
} muster_sim_process;

#define MUSTER_SIM_SLOTS 4u // replace slots, 0: none

/* What one side of a connection has still to send. */
typedef struct muster_sim_lane {
    int64_t free_ns; // when all that was sent has left
    struct {
        uint64_t ticket; // of the newest message in this slot
        int64_t begins_ns;
        uint32_t items; // in the queue under this ticket
    } slots[MUSTER_SIM_SLOTS];
} muster_sim_lane;

/* A message that was replaced before it left. */
typedef struct muster_sim_void {
    uint64_t ticket;
    uint32_t items; // of it still in the queue
} muster_sim_void;

typedef struct muster_sim_connection {
    uint32_t host[2]; // [0] made it
    muster_sim_lane lanes[2];
    bool up[2];
    bool told[2];   // PEER_UP has reached the role
    uint64_t token; // of the connect action
} muster_sim_connection;

#define MUSTER_SIM_ECHOES 16u

/* A message that was heard. */
typedef struct muster_sim_heard {
    muster_message message;
    muster_blob *payload; // reference held
} muster_sim_heard;

/* What one host has heard from another: the last of this connection, and the
 * last of those before. */
typedef struct muster_sim_echoes {
    muster_role_peer peer; // of `heard[0]`
    struct {
        muster_sim_heard list[MUSTER_SIM_ECHOES];
        uint64_t count; // so far; the list is a ring
    } heard[2];
} muster_sim_echoes;

struct muster_sim {
    muster_sim_opts opts;
    muster_rng rng;
    int64_t now_ns;
    uint64_t hash;
    uint64_t events;
    uint64_t tickets;
    bool halted;
    uint32_t hosts;
    muster_sim_process *processes;
    muster_vec
        connections;   // muster_sim_connection; peer = 2 * index + side + 1
    muster_vec held;   // muster_sim_item that a cut holds back
    muster_vec voided; // muster_sim_void
    muster_sim_echoes *echoes; // by receiver and sender; NULL without echo
    muster_blob *digested;     // the payload looked at last, and its digest
    uint64_t digest;
    muster_actions actions;
    muster_sim_queue queue;
};

/* sim_queue.c */
void muster_sim_queue_init(muster_sim_queue *queue);
void muster_sim_queue_fini(muster_sim_queue *queue);
/* A copy of the item goes into the queue, its payload reference with it. */
void muster_sim_push(muster_sim *sim, const muster_sim_item *item);
bool muster_sim_pop(muster_sim *sim, int64_t until_ns,
                    muster_sim_item *item_out);

/* sim_host.c */
void muster_sim_feed(muster_sim *sim, uint32_t host, const muster_event *event,
                     uint64_t digest);
void muster_sim_job_ended(muster_sim *sim, uint32_t host);
/* The job under way was held up for so long. */
void muster_sim_job_shift(muster_sim *sim, uint32_t host, int64_t by_ns);
void muster_sim_process_down(muster_sim *sim, uint32_t host);

/* sim_net.c */
/* How long a message travels from one host to another; drawn anew each time. */
int64_t muster_sim_delay_ns(muster_sim *sim, uint32_t from, uint32_t to);
void muster_sim_send(muster_sim *sim, uint32_t host,
                     const muster_action *action);
void muster_sim_connect(muster_sim *sim, uint32_t host,
                        const muster_action *action);
/* End host's side; the other end learns of it. */
void muster_sim_drop(muster_sim *sim, uint32_t host, muster_role_peer peer,
                     const char *reason);
void muster_sim_drop_all(muster_sim *sim, uint32_t host);
/* May this event still reach its role? Keeps the connection's books. */
bool muster_sim_pass(muster_sim *sim, muster_sim_item *item);

/* sim_echo.c */
/* A message is about to be heard: remember it, or let an old one follow it. */
void muster_sim_echo(muster_sim *sim, const muster_sim_item *item);
/* The sender has ended, and what it said with it. */
void muster_sim_echo_forget(muster_sim *sim, uint32_t from);
void muster_sim_echo_fini(muster_sim *sim);

/* sim_history.c */
void muster_sim_note(muster_sim *sim, uint32_t host, const muster_event *event,
                     uint64_t digest);
void muster_sim_note_action(muster_sim *sim, const muster_action *action);
uint64_t muster_sim_digest(muster_sim *sim, muster_blob *payload);

/* sim.c */
void muster_sim_item_fini(muster_sim_item *item);

#endif // MUSTER_SIM_SIM_INSIDE_H
