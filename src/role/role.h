/*
 * role/role.h -- what every role is: a step function from events to actions.
 *
 * A role decides; it does no arithmetic on data and makes no system call. The
 * host (runtime: a real process; sim: a virtual one) feeds it one event at a
 * time and carries out the actions it lists. Time comes inside events. Payloads
 * are blobs that a role passes on, never reads. So the very same code runs in
 * production and under thousands of simulated histories.
 *
 *   Promise      step() depends on the state and the event only. The actions
 *                of one event are to be carried out in order, before the next
 *                event.
 *   Ownership    An event lends its message and blobs; the role refs what it
 *                keeps. Blobs and plans in actions carry a reference that the
 *                host takes over; muster_actions_clear() drops what is left.
 *   Sending      A host that cannot queue a message ends the connection
 *                (PEER_DOWN follows): one that lost a message is none. Only a
 *                message with a slot is left out, when it is replaced there or
 *                (SENT with MUSTER_ERR_AGAIN) finds too many before it.
 *   Computing    Jobs of one role run one after another, in the order asked.
 *   Threads      A role belongs to one thread.
 *   Allocation   The action list and the tables are reused; a steady step
 *                allocates nothing.
 *   Not here     Clocks, sockets, files, threads, gradients.
 */
#ifndef MUSTER_ROLE_ROLE_H
#define MUSTER_ROLE_ROLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/vec.h"
#include "muster/status.h"
#include "role/job.h"
#include "role/report.h"
#include "wire/message.h"

/* A connection, as the host numbers them; never reused; 0 is none. */
typedef uint64_t muster_role_peer;

typedef enum muster_event_kind {
    MUSTER_EVENT_START = 1,     // once, first
    MUSTER_EVENT_PEER_UP = 2,   // a connection stands
    MUSTER_EVENT_PEER_DOWN = 3, // it is over, or never came to be
    MUSTER_EVENT_MESSAGE = 4,
    MUSTER_EVENT_TIMER = 5,
    MUSTER_EVENT_COMPUTED = 6, // a compute action has ended
    MUSTER_EVENT_SENT = 7,     // a send with a token was handed over, or not
    MUSTER_EVENT_STOP = 8,     // the user or the system asks us to end
    MUSTER_EVENT_HEARD = 9,    // a message is on its way, but not whole yet
    MUSTER_EVENT_BEGUN = 10, // a long one has begun to arrive: MESSAGE follows
                             // with the same payload, or PEER_DOWN, or neither
                             // where the role drops the peer
} muster_event_kind;

typedef struct muster_event {
    muster_event_kind kind;
    int64_t now_ns;
    uint64_t progress;     // pieces of work the host has computed so far
    muster_role_peer peer; // PEER_UP, PEER_DOWN, MESSAGE, SENT, HEARD, BEGUN
    union {
        struct {
            bool incoming;
            uint64_t token; // of the connect action; 0 when incoming
        } up;
        struct {
            muster_status status;
            const char *reason;
            uint64_t token; // of the connect action that failed, or 0
        } down;
        struct {
            const muster_message *message;
            muster_blob *payload; // or NULL; BEGUN: of which a part is here
        } message;                // and BEGUN
        struct {
            uint32_t id;
        } timer;
        muster_job_result computed;
        struct {
            uint64_t token;
            muster_status status;
        } sent;
    } as;
} muster_event;

typedef enum muster_action_kind {
    MUSTER_ACTION_SEND = 1,
    MUSTER_ACTION_CONNECT = 2,   // to an address; PEER_UP or _DOWN follows
    MUSTER_ACTION_DROP = 3,      // end a connection; no PEER_DOWN follows
    MUSTER_ACTION_SET_TIMER = 4, // one per id; at_ns < 0 cancels
    MUSTER_ACTION_COMPUTE = 5,   // COMPUTED follows, exactly once
    MUSTER_ACTION_CANCEL = 6,    // of a compute: COMPUTED still follows
    MUSTER_ACTION_REPORT = 7,    // to people and files
    MUSTER_ACTION_STOP = 8,      // the role is done
    MUSTER_ACTION_EXPECT = 9,    // callers send no longer payloads than this
} muster_action_kind;

typedef struct muster_action {
    muster_action_kind kind;
    union {
        struct {
            muster_role_peer peer;
            muster_blob *payload;   // reference handed over; or NULL
            uint64_t token;         // != 0: SENT follows
            uint32_t replace_slot;  // as in net.h; 0: none
            muster_message message; // last: few kinds use all of it
        } send;
        struct {
            char address[128];
            uint64_t token;
        } connect;
        struct {
            muster_role_peer peer;
        } drop;
        struct {
            uint32_t id;
            int64_t at_ns;
        } timer;
        muster_job job; // COMPUTE
        struct {
            uint64_t job_id;
        } cancel;
        struct {
            uint64_t payload_bytes_max;
        } expect;
        muster_report report;
        struct {
            muster_status status;
            char reason[256];
        } stop;
    } as;
} muster_action;

/* The actions of one event, in order. */
typedef struct muster_actions {
    muster_vec list; // of muster_action
} muster_actions;

muster_actions muster_actions_make(void);
/* Drop what was not taken over (references included) and empty the list. */
void muster_actions_clear(muster_actions *actions);
void muster_actions_fini(muster_actions *actions);

typedef struct muster_role_ops {
    const char *name;
    void (*step)(void *state, const muster_event *event,
                 muster_actions *actions);
    /* Everything that a restart needs, without blobs. */
    muster_status (*save)(const void *state, muster_vec *bytes_out);
    void (*free)(void *state);
    /* A hint for hosts of many roles: an event of `peer` comes after
     * `ahead` - 1 others, of any role. May ask the processor for the memory
     * that the event will read. Called with `ahead` 2 and then 1; between them
     * the first 512 bytes of the state come. NULL: nothing to ask for. */
    void (*prefetch)(const void *state, muster_role_peer peer, unsigned ahead);
} muster_role_ops;

typedef struct muster_role {
    const muster_role_ops *ops;
    void *state;
} muster_role;

#endif // MUSTER_ROLE_ROLE_H
