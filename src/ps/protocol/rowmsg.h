/*
 * ps/protocol/rowmsg.h -- the messages between the nodes of a parameter server.
 *
 * A message has a fixed header. Messages about rows also have a payload of
 * three arrays, with `count` entries each:
 *
 *     keys[count]  tags[count]  values[count x floats]      (4 bytes each)
 *
 * The number of floats of an entry follows from kind, operation and table:
 * none, the weights, or the whole row with its optimiser state. The kind
 * decides what a tag means, and each meaning has an accessor:
 *
 *     position  OP, REPLY, RETURN: index of the entry in its request
 *     moves     HAND_OVER, TRANSFER, REPLICATE, OWNED, ADOPT: how often the
 *               row has changed its owner
 *     replica   SYNC, SYNCED: index of the replica in its holder's list
 *     age       REPLICATED: milliseconds since the owner's row last came
 *     begins    INTENT: 1 when the intent begins, 0 when it ends
 *
 * Three fields of the header have a meaning for each kind as well:
 *
 *     kind            request           mask               value
 *     OP, REPLY,      id of the         -                  -
 *       RETURN        request
 *     BARRIER         its number        number of report   updates made
 *     RELEASE         its number        members            -
 *     HEARTBEAT       stalled, in ms    number of report   updates made
 *     SUSPECT         -                 -                  muster_loss_cause
 *     PHASE           resumed epoch,    members            cause of the loss,
 *                     phase, round                         or the join note
 *     COUNT           as in PHASE       messages sent      and received
 *     STATS           updates given up, rows from          updates made
 *                     rows made anew    replicas, restored
 *     HELLO           -                 -                  the mesh's business
 *
 *   Promise      read() accepts exactly what write() makes. check() refuses a
 *                payload whose size or keys do not fit the table.
 *   Trust        A received payload may lie in pages that its sender can still
 *                write. take_index() therefore copies keys and tags before
 *                check() reads them, and all accessors then read the copy.
 *                Values are plain numbers and are read where they lie.
 *   Determinism  Little-endian on every machine.
 *   Not here     Sockets; the effect of a message (protocol.h).
 *
 * Header byte by byte: docs/design/ps.md.
 */
#ifndef MUSTER_PS_PROTOCOL_ROWMSG_H
#define MUSTER_PS_PROTOCOL_ROWMSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/vec.h"
#include "muster/status.h"
#include "ps/store/rowop.h"

#define MUSTER_ROWMSG_BYTES   60u
#define MUSTER_ROWMSG_MAGIC   0x5250534du // "MSPR"
#define MUSTER_ROWMSG_NODES   1024u
#define MUSTER_ROWMSG_ENTRIES 1048576u

/* Values travel: append, never renumber. */
typedef enum muster_rowmsg_kind {
    MUSTER_ROWMSG_OP = 1,        // apply `op` to the rows, reply to `origin`
    MUSTER_ROWMSG_REPLY = 2,     // applied; values of pulls
    MUSTER_ROWMSG_LOCALIZE = 3,  // to the home: send me these rows; with op
                                 // PULL_ROW a replica will do, with PULL
                                 // workers used them without asking
    MUSTER_ROWMSG_HAND_OVER = 4, // to the owner: transfer the rows to `origin`
    MUSTER_ROWMSG_TRANSFER = 5,  // the rows; the receiver owns them
    MUSTER_ROWMSG_REPLICATE = 6, // to the owner: send `origin` replicas
    MUSTER_ROWMSG_REPLICA = 7,   // the rows; the sender still owns them
    MUSTER_ROWMSG_SYNC = 8,      // deltas of my replicas; op NONE: no deltas
    MUSTER_ROWMSG_SYNCED = 9,    // the owner's rows with the deltas applied
    MUSTER_ROWMSG_BARRIER = 10,  // to the lead: my workers reached the barrier
    MUSTER_ROWMSG_RELEASE = 11,  // from the lead: all members reached it
    MUSTER_ROWMSG_HELLO = 12,    // first on a connection: `from` is the sender,
                                 // `origin` whom it takes the receiver for
    MUSTER_ROWMSG_LEAVE = 13,    // the sender leaves; its work is complete
    MUSTER_ROWMSG_QUIT = 14,     // the sender leaves before its work is done
    MUSTER_ROWMSG_HEARTBEAT = 15,  // the sender lives
    MUSTER_ROWMSG_SUSPECT = 16,    // to the lead: `origin` is silent or gone
    MUSTER_ROWMSG_PHASE = 17,      // from the lead: do this phase of the change
                                   // of membership to `epoch`
    MUSTER_ROWMSG_COUNT = 18,      // to the lead: phase done; my counts
    MUSTER_ROWMSG_RESUME = 19,     // from the lead: the change is over
    MUSTER_ROWMSG_EXPEL = 20,      // from the lead: you are no longer a member
    MUSTER_ROWMSG_STATS = 21,      // to the lead: what the loss cost here
    MUSTER_ROWMSG_OWNED = 22,      // to a new home: I own these rows
    MUSTER_ROWMSG_ABSENT = 23,     // to the home: I wait in vain for these rows
    MUSTER_ROWMSG_REPLICATED = 24, // to the home: I have replicas of these rows
    MUSTER_ROWMSG_ADOPT = 25,      // from the home: your replicas are the rows
    MUSTER_ROWMSG_RETURN = 26,     // to `origin`: not applied, request again
    MUSTER_ROWMSG_INTENT = 27,     // to the home: an intent begins or ends
} muster_rowmsg_kind;
#define MUSTER_ROWMSG_KIND_LAST MUSTER_ROWMSG_INTENT

typedef struct muster_rowmsg {
    muster_rowmsg_kind kind;
    muster_row_op op;
    uint16_t table;
    uint16_t from;   // the sender
    uint16_t origin; // the node that requested; or see the kinds
    uint32_t count;
    uint64_t link;        // number of this message on its connection
    uint64_t request;     // see the table above
    uint32_t epoch;       // of the membership
    uint64_t mask;        // see the table above
    uint64_t value;       // see the table above
    muster_blob *payload; // NULL when count is 0
    uint32_t *index;      // a copy of keys and tags; NULL: in the payload
} muster_rowmsg;

/* The sizes of a table that its messages need. */
typedef struct muster_rowshape {
    uint32_t keys;
    uint32_t width;
    uint32_t floats;
} muster_rowshape;

/* Number of floats of an entry. */
uint32_t muster_rowmsg_floats(muster_rowmsg_kind kind, muster_row_op op,
                              const muster_rowshape *shape);

size_t muster_rowmsg_payload_bytes(uint32_t count, uint32_t floats);

static inline uint32_t *muster_rowmsg_keys(const muster_rowmsg *message)
{
    return message->index != NULL ? message->index : message->payload->data;
}

/* The tags whatever they mean, for code that only passes them on. */
static inline uint32_t *muster_rowmsg_tags(const muster_rowmsg *message)
{
    return muster_rowmsg_keys(message) + message->count;
}

/* The tag of entry i by its meaning; see above which kinds have which. */
static inline uint32_t muster_rowmsg_position(const muster_rowmsg *message,
                                              uint32_t i)
{
    return muster_rowmsg_tags(message)[i];
}

static inline uint32_t muster_rowmsg_moves(const muster_rowmsg *message,
                                           uint32_t i)
{
    return muster_rowmsg_tags(message)[i];
}

static inline uint32_t muster_rowmsg_replica(const muster_rowmsg *message,
                                             uint32_t i)
{
    return muster_rowmsg_tags(message)[i];
}

static inline uint32_t muster_rowmsg_age_ms(const muster_rowmsg *message,
                                            uint32_t i)
{
    return muster_rowmsg_tags(message)[i];
}

static inline uint32_t muster_rowmsg_begins(const muster_rowmsg *message,
                                            uint32_t i)
{
    return muster_rowmsg_tags(message)[i];
}

static inline float *muster_rowmsg_values(const muster_rowmsg *message)
{
    uint32_t *words = message->payload->data;
    return (float *)(void *)(words + (size_t)2 * message->count);
}

/* Write the header, MUSTER_ROWMSG_BYTES bytes. */
void muster_rowmsg_write(const muster_rowmsg *message, uint8_t *bytes);

/* Read the header; the caller sets the payload. MUSTER_ERR_PROTOCOL. */
MUSTER_CHECKED muster_status muster_rowmsg_read(const uint8_t *bytes,
                                                size_t size,
                                                muster_rowmsg *message_out);

/* Does the kind have entries? The others have no payload. */
bool muster_rowmsg_has_rows(muster_rowmsg_kind kind);

/* Copy keys and tags into `room` (emptied; uint32_t), which must outlive the
 * message. False: the payload is too short for them, or out of memory. */
bool muster_rowmsg_take_index(muster_rowmsg *message, muster_vec *room);

/* Does the payload fit the header and the tables? Before any accessor. */
bool muster_rowmsg_check(const muster_rowmsg *message,
                         const muster_rowshape *shapes, uint32_t tables);

#endif // MUSTER_PS_PROTOCOL_ROWMSG_H
