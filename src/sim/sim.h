/*
 * sim/sim.h -- the real roles over a virtual clock and a virtual network.
 *
 * A simulation hosts any number of roles, each in a process that can be
 * killed, stopped, continued, stuck and started again, joined by links with
 * latency, jitter (so messages overtake each other) and bandwidth. It passes
 * message structs; nothing is encoded. Computing is done by a vtable: exactly
 * (job/executor) or as durations only.
 *
 *   Promise      One seed, one history: events are taken in the order of
 *                (time, sequence), all chance comes from the seed, and the
 *                hash of the history says whether two were the same.
 *                Otherwise the rules of net.h hold, and no kinder ones: no
 *                order, messages in flight may be lost with the connection,
 *                nothing after PEER_DOWN. With `duplicate` > 0 even the
 *                promise "at most once" is broken, and with `echo` > 0 what
 *                was heard comes again much later, also over the next
 *                connection of the same sender, to prove that roles do not
 *                lean on it.
 *                (Greetings do not: they are what makes a connection.)
 *   Faults       kill, stop, .. may be called between events: from at(), or
 *                when run() is not running, but not from on_report.
 *   Ownership    Roles started belong to the simulation.
 *   Threads      None; a simulation belongs to one thread.
 *
 * The address of host h is "sim:h".
 */
#ifndef MUSTER_SIM_SIM_H
#define MUSTER_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/status.h"
#include "role/role.h"

typedef struct muster_sim muster_sim;

/* How jobs are carried out. One job at a time per host. */
typedef struct muster_sim_compute {
    void *context;
    /* Take over the job's references; say how long it takes, in ns. */
    int64_t (*begin)(void *context, uint32_t host, muster_job *job);
    /* The job begun is over. Fills everything but id, kind, step and shard;
     * `cancelled` ones are ended with MUSTER_ERR_CANCELLED. */
    void (*end)(void *context, uint32_t host, bool cancelled,
                muster_job_result *result_out);
    /* The host starts with nothing in memory. */
    void (*reset)(void *context, uint32_t host);
    /* How long the job begun sleeps when it has computed: a cancelled sleep
     * ends at once, cancelled computing with the piece under way. NULL: no
     * job sleeps. */
    int64_t (*sleeps)(void *context, uint32_t host);
    /* A hint: something happens to the host soon, and it may begin a job. May
     * be NULL. */
    void (*prefetch)(void *context, uint32_t host, bool begins);
} muster_sim_compute;

/* A host's NIC, which all its connections share in equal parts, each way. A
 * message passes the sender's and the receiver's, and pays both ends' latency
 * and jitter. */
typedef struct muster_sim_link {
    int64_t latency_ns;
    int64_t jitter_ns;  // uniform in 0..jitter
    double bytes_per_s; // each way; 0: no limit
} muster_sim_link;

typedef struct muster_sim_opts {
    uint64_t seed;
    muster_sim_compute compute;
    muster_sim_link link; // of every host, until set otherwise
    double duplicate;     // chance that a message arrives twice
    double echo;          // chance that one heard before follows a message
    size_t begun_bytes;   // so long payloads arrive bit by bit: BEGUN comes
                          // first, at a time by chance; 0: none does. What has
                          // begun and is not whole has spoiled bytes
    void *context;        // of the callbacks; each may be NULL
    void (*on_report)(void *context, uint32_t host,
                      const muster_report *report);
    void (*on_stop)(void *context, uint32_t host, muster_status status,
                    const char *reason);
    /* Before each action is carried out, with the event it answers. */
    void (*on_action)(void *context, uint32_t host, const muster_event *event,
                      const muster_action *action);
    /* The payload of a message that is to come again, `earlier`: one of an
     * earlier connection. May return another blob, so that its use shows; the
     * reference given is taken over, the one returned handed over. */
    muster_blob *(*on_echo)(void *context, const muster_message *message,
                            bool earlier, muster_blob *payload);
    void (*on_trace)(void *context, const char *line); // every event, in words
} muster_sim_opts;

MUSTER_CHECKED muster_status muster_sim_create(const muster_sim_opts *opts,
                                               uint32_t hosts,
                                               muster_sim **sim_out);
void muster_sim_free(muster_sim *sim);

/* Start a role on a host that is down. Takes the role over. */
void muster_sim_start(muster_sim *sim, uint32_t host, muster_role role);
bool muster_sim_is_up(const muster_sim *sim, uint32_t host);
/* Since when no fault, or the end of one, has befallen the host; < 0: it is
 * down, stopped, stuck or cut off. */
int64_t muster_sim_well_since(const muster_sim *sim, uint32_t host);
/* The role on a host that is up; lent. */
muster_role muster_sim_role(const muster_sim *sim, uint32_t host);

/* SIGKILL: the role is freed, its peers see PEER_DOWN. */
void muster_sim_kill(muster_sim *sim, uint32_t host);
/* SIGSTOP and SIGCONT: what happens in between waits. */
void muster_sim_stop(muster_sim *sim, uint32_t host);
void muster_sim_cont(muster_sim *sim, uint32_t host);
/* The compute thread hangs: the job under way never ends, progress stands. */
void muster_sim_stick(muster_sim *sim, uint32_t host);
/* A STOP event: Ctrl-C. */
void muster_sim_interrupt(muster_sim *sim, uint32_t host);
/* Break every connection between two hosts; both live on. */
void muster_sim_break(muster_sim *sim, uint32_t a, uint32_t b);
/* Nothing passes between `host` and the rest until it is mended; what was sent
 * meanwhile arrives then, as with TCP. */
void muster_sim_cut(muster_sim *sim, uint32_t host, bool cut);
void muster_sim_set_link(muster_sim *sim, uint32_t host, muster_sim_link link);

/* Call back at a time, before other events of that time scheduled later. */
typedef void (*muster_sim_call)(muster_sim *sim, void *context, uint64_t value);
void muster_sim_at(muster_sim *sim, int64_t at_ns, muster_sim_call call,
                   void *context, uint64_t value);

/* Take events until none is left, time passes until_ns, or halt is called.
 * True when it was halted. */
bool muster_sim_run(muster_sim *sim, int64_t until_ns);
void muster_sim_halt(muster_sim *sim);

int64_t muster_sim_now(const muster_sim *sim);
uint64_t muster_sim_hash(const muster_sim *sim); // of the history so far
uint64_t muster_sim_events(const muster_sim *sim);

#endif // MUSTER_SIM_SIM_H
