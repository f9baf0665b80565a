/*
 * sim/sim_inside.h -- the state of a simulation, for its files:
 *   sim.c          clock, run, faults
 *   sim_queue.c    the events to come
 *   sim_host.c     a process: role, timers, compute thread
 *   sim_net.c      connections
 *   sim_nic.c      messages, and the NICs that they pass
 *   sim_parcel.c   the memory of messages on their way
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
#define MUSTER_SIM_PIECES   8   // of a short job: it is cut by layers, too
#define MUSTER_SIM_LINE     64u // bytes that the processor fetches at once

typedef enum __attribute__((packed)) muster_sim_kind {
    MUSTER_SIM_ROLE = 1, // `event` is for the host's role
    MUSTER_SIM_JOB_END,  // the host's running job, if `ticket` is its
    MUSTER_SIM_NIC,      // a message has passed the host's NIC, perhaps
    MUSTER_SIM_CALL,     // muster_sim_at
} muster_sim_kind;

/* A message on its way. Items that wait for it share it. */
typedef struct muster_sim_parcel {
    _Alignas(MUSTER_SIM_LINE) uint32_t references;
    uint8_t copies; // that arrive: two when it is duplicated
    uint8_t ways;   // of the two NICs, those that it has still to pass
    uint16_t slot;  // replace slot
    uint32_t from;  // host
    uint32_t to;
    uint32_t life;         // of the receiver when it was sent
    uint32_t from_life;    // likewise of the sender
    uint64_t token;        // of SENT, or 0
    muster_role_peer peer; // the receiver's
    size_t bytes;
    muster_blob *payload;           // reference held
    muster_blob *coming;            // likewise: what BEGUN shows, or NULL
    uint64_t digest;                // of the payload
    struct muster_sim_parcel *next; // in its lane
    muster_message message;         // last: few kinds use all of it
} muster_sim_parcel;

/* Something to come: a line of memory. */
typedef struct muster_sim_item {
    int64_t at_ns;
    muster_role_peer peer; // of a ROLE item
    uint32_t host;
    uint32_t from; // MESSAGE, PEER_UP, PEER_DOWN: the other end, for cuts
    uint32_t life; // of the host that this is meant for
    muster_sim_kind kind;
    uint8_t event;             // of a ROLE item: a muster_event_kind
    muster_sim_parcel *parcel; // MESSAGE; reference held, or NULL
    union {
        uint64_t ticket; // JOB_END: of the job
        struct {
            bool incoming;
            uint64_t token;
        } up;
        struct {
            muster_status status;
            const char *reason;
            uint64_t token;
        } down;
        bool echoed;  // MESSAGE: comes again; not for the first time
        uint32_t way; // NIC
        struct {
            uint32_t id;
            int64_t set_ns; // tells this setting from an earlier one
        } timer;
        struct {
            uint64_t token;
            muster_status status;
        } sent;
        struct {
            muster_sim_call call;
            void *context;
            uint64_t value;
        } call;
    } as;
} muster_sim_item;

/* An item in the queue, and its time. */
typedef struct muster_sim_entry {
    int64_t at_ns;
    muster_sim_item *item;
} muster_sim_entry;

#define MUSTER_SIM_CHUNK_ENTRIES 15u

/* Some entries of a bucket, one after another in memory. */
typedef struct muster_sim_chunk {
    uint32_t next; // chunk of the same bucket; of free ones, the next free one
    uint32_t count;
    muster_sim_entry entries[MUSTER_SIM_CHUNK_ENTRIES];
} muster_sim_chunk;

#define MUSTER_SIM_DIGIT_BITS 6u  // of a time, one digit
#define MUSTER_SIM_DIGITS     11u // that a time has
#define MUSTER_SIM_BUCKETS    64u // a digit

/* Items whose times agree with the queue's down to one digit; in order of
 * scheduling. */
typedef struct muster_sim_bucket {
    uint32_t first; // chunks; valid while its bit of `used` is set
    uint32_t last;
    uint32_t count; // entries
} muster_sim_bucket;

typedef struct muster_sim_queue {
    int64_t base_ns;                  // no item in a bucket is earlier
    int64_t run_end_ns;               // no item in a bucket is as early
    muster_vec run;                   // muster_sim_entry, in order
    size_t run_next;                  // the first of them that is not taken
    uint32_t levels;                  // a bit for each digit with items
    uint32_t chunk;                   // the first free one
    muster_vec chunks;                // muster_sim_chunk
    muster_vec slabs;                 // muster_sim_item *: what they are cut of
    muster_vec free;                  // muster_sim_item *: not in use
    uint64_t used[MUSTER_SIM_DIGITS]; // a bit for each bucket with items
    muster_sim_bucket buckets[MUSTER_SIM_DIGITS][MUSTER_SIM_BUCKETS];
} muster_sim_queue;

/* A message that passes a NIC. */
typedef struct muster_sim_flow {
    double end; // it has passed when `served` is this
    uint64_t order;
    muster_sim_parcel *parcel;
} muster_sim_flow;

/* One way of a machine's NIC, which its flows share in equal parts. */
typedef struct muster_sim_way {
    double served;    // bytes of every flow that has been here all the time
    int64_t at_ns;    // when that was so
    int64_t due_ns;   // of the next NIC item; INT64_MAX: there is none
    int64_t told_ns;  // IN: when roles last heard of what is coming
    muster_vec flows; // muster_sim_flow: a heap by (end, order)
} muster_sim_way;

enum { MUSTER_SIM_OUT, MUSTER_SIM_IN };

typedef struct muster_sim_process {
    // What every event reads comes first, in few lines of memory.
    _Alignas(MUSTER_SIM_LINE) bool up;
    bool frozen;
    bool stuck;
    bool cut;
    bool running;
    bool cancelled; // the running job
    uint32_t life;
    muster_role role;
    uint64_t progress;
    muster_role_peer newest; // its newest connection, or 0
    int64_t began_ns;        // when the running job began
    uint64_t ticket;         // of its end
    int64_t sleep_ns;        // when it begins to sleep; ends_ns: it does not
    int64_t ends_ns;
    struct { // the running job
        uint64_t id;
        uint64_t step;
        muster_job_kind kind;
        uint32_t shard;
        uint32_t stage;
    } job;
    uint32_t waiting;            // as many as `jobs` has
    const muster_sim_link *link; // the simulation's, or `own_link`
    muster_sim_link own_link;
    muster_vec jobs;                   // muster_job: those that wait
    int64_t timers[MUSTER_SIM_TIMERS]; // < 0: not set
    muster_sim_way ways[2];            // OUT, IN
    int64_t frozen_ns;
    int64_t touched_ns;  // when a fault, or its end, last befell it
    muster_vec deferred; // muster_sim_item, while frozen
} muster_sim_process;

#define MUSTER_SIM_SLOTS 4u // replace slots, 0: none

/* The long messages of one side of a connection leave one after another. */
typedef struct muster_sim_lane {
    muster_sim_parcel *first; // it is leaving; the others wait
    muster_sim_parcel *last;
} muster_sim_lane;

typedef struct muster_sim_connection {
    uint32_t host[2]; // [0] made it
    bool up[2];
    bool told[2]; // PEER_UP has reached the role
    muster_sim_lane lanes[2];
    uint64_t token;     // of the connect action
    uint32_t before[2]; // peers of the same host, or 0
} muster_sim_connection;

/* A message with a token was handed over while its sender's event is taken. */
typedef struct muster_sim_sent {
    muster_role_peer peer;
    uint64_t token;
} muster_sim_sent;

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
    uint64_t flows; // that have entered a NIC so far
    bool halted;
    uint32_t hosts;
    uint32_t cuts; // hosts that are cut off
    muster_sim_process *processes;
    muster_vec
        connections;  // muster_sim_connection; peer = 2 * index + side + 1
    muster_vec held;  // muster_sim_item that a cut holds back
    muster_vec slabs; // muster_sim_parcel *: what parcels are cut from
    muster_vec free_parcels;   // muster_sim_parcel *
    muster_vec sent;           // muster_sim_sent: SENT events that are due now
    muster_sim_echoes *echoes; // by receiver and sender; NULL without echo
    muster_blob *digested;     // the payload looked at last, and its digest
    uint64_t digest;
    muster_actions actions;
    muster_sim_queue queue;
};

/* sim_queue.c */
void muster_sim_queue_init(muster_sim_queue *queue);
void muster_sim_queue_fini(muster_sim *sim);
/* A copy of the item goes into the queue, its reference with it. */
void muster_sim_push(muster_sim *sim, const muster_sim_item *item);
bool muster_sim_pop(muster_sim *sim, int64_t until_ns,
                    muster_sim_item *item_out);

/* sim_host.c */
/* How near an item is when muster_sim_prefetch() is told of it: what is further
 * asks for what tells the nearer where to look. */
#define MUSTER_SIM_STAGES 4u
void muster_sim_prefetch(const muster_sim *sim, const muster_sim_item *item,
                         unsigned stage);
/* The event is stamped with time and progress. */
void muster_sim_feed(muster_sim *sim, uint32_t host, muster_event *event,
                     uint64_t digest);
void muster_sim_job_ended(muster_sim *sim, uint32_t host);
/* The job under way was held up for so long. */
void muster_sim_job_shift(muster_sim *sim, uint32_t host, int64_t by_ns);
void muster_sim_process_down(muster_sim *sim, uint32_t host);

/* sim_parcel.c */
/* With one reference; takes over the payload's. */
muster_sim_parcel *muster_sim_parcel_make(muster_sim *sim,
                                          const muster_message *message,
                                          muster_blob *payload);
void muster_sim_parcel_unref(muster_sim *sim, muster_sim_parcel *parcel);
/* It has arrived: its payload, in the blob that BEGUN showed if there was one;
 * lent. */
muster_blob *muster_sim_parcel_whole(muster_sim_parcel *parcel);
void muster_sim_parcels_fini(muster_sim *sim);

/* sim_net.c */
/* How long a message travels from one host to another; drawn anew each time. */
int64_t muster_sim_delay_ns(muster_sim *sim, uint32_t from, uint32_t to);
muster_sim_connection *muster_sim_connection_of(const muster_sim *sim,
                                                muster_role_peer peer,
                                                unsigned *side_out);
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

/* sim_nic.c */
/* Send over a connection whose side is up. */
void muster_sim_nic_send(muster_sim *sim, muster_sim_connection *connection,
                         unsigned side, const muster_action *action);
/* A NIC item is due. */
void muster_sim_nic_due(muster_sim *sim, const muster_sim_item *item);

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
void muster_sim_item_fini(muster_sim *sim, muster_sim_item *item);

#endif // MUSTER_SIM_SIM_INSIDE_H
