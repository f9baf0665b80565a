/*
 * ps/protocol/rowmsg.h -- what the nodes of a parameter server say to each
 * other.
 *
 * A fixed header and a payload of arrays, `count` entries each:
 *
 *     keys[count]  extra[count]  values[count x floats]     (4 bytes each)
 *
 * `extra` is the entry's position in its request, the number of moves of a
 * relocation, or where the sender of a SYNC finds its copy again. How many
 * floats an entry has follows from kind, operation and table: none, the
 * weights, or the whole row with its optimiser's state.
 *
 *   Promise      read() accepts exactly what write() makes. check() refuses a
 *                payload whose size or keys do not fit the table.
 *   Trust        A received payload may lie in pages of the sender, who may
 *                write to them at any time: take_index() copies keys and extra
 *                before check() looks at them, and all accessors then read
 *                the copy. Values are only numbers and are read where they lie.
 *   Determinism  Little-endian on every machine.
 *   Not here     Sockets; what the messages do (role/psnode).
 *
 * Byte by byte: docs/design/ps.md.
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
    MUSTER_ROWMSG_OP = 1,        // do this to these rows, answer `origin`
    MUSTER_ROWMSG_REPLY = 2,     // done; values of pulls
    MUSTER_ROWMSG_LOCALIZE = 3,  // to the home: I want these rows; op PULL_ROW:
                                 // a copy is what I want
    MUSTER_ROWMSG_HAND_OVER = 4, // to the owner: give them to `origin`
    MUSTER_ROWMSG_TRANSFER = 5,  // here they are, you own them
    MUSTER_ROWMSG_REPLICATE = 6, // to the owner: give `origin` a copy
    MUSTER_ROWMSG_REPLICA = 7,   // here is a copy, I own them
    MUSTER_ROWMSG_SYNC = 8,      // what my copies have delta; op 0: nothing
    MUSTER_ROWMSG_SYNCED = 9,    // the owner's rows after that
    MUSTER_ROWMSG_BARRIER = 10,  // to the lead: all my workers are here;
                                 // value and mask as BEAT
    MUSTER_ROWMSG_RELEASE = 11,  // from the lead: so are everybody's
    MUSTER_ROWMSG_HELLO = 12,    // first on a connection: who I am, and whom I
                                 // take you for (`origin`)
    MUSTER_ROWMSG_LEAVE = 13,    // I am going; nothing of mine is missing
    MUSTER_ROWMSG_QUIT = 14,     // I am going in the middle of the work
    MUSTER_ROWMSG_BEAT = 15,     // I live; `value`: updates done here, as told
                                 // for the mask-th time
    MUSTER_ROWMSG_SUSPECT = 16,  // to the lead: `origin` is silent or gone
    MUSTER_ROWMSG_ASK = 17,      // from the lead: the members are `mask` from
                                 // `epoch` on; do phase (uint32_t)request >>
                                 // 24; request >> 32 is the last epoch resumed
    MUSTER_ROWMSG_COUNT = 18,    // to the lead: done; mask rows' messages sent
                                 // to members so far, value received
    MUSTER_ROWMSG_RESUME = 19,   // from the lead: go on
    MUSTER_ROWMSG_EXPEL = 20,    // you were given up: end
    MUSTER_ROWMSG_STATS = 21,    // to the lead: what the loss cost here, in
                                 // halves: rows copied and restored (mask),
                                 // updates unanswered and rows anew (request);
                                 // value: updates done here
    MUSTER_ROWMSG_OWNED = 22,    // to a new home: I own these; extra: moves
    MUSTER_ROWMSG_ABSENT = 23,   // to the home: they will never reach me
    MUSTER_ROWMSG_COPIED = 24,   // to the home: I have copies; extra: age in ms
    MUSTER_ROWMSG_ADOPT = 25,    // from the home: your copies are the rows now
    MUSTER_ROWMSG_RETURN = 26,   // to who asked: not done, ask again
    MUSTER_ROWMSG_INTENT = 27,   // to the home: I intend to use these; extra 1:
                                 // from now on, 0: no longer
} muster_rowmsg_kind;
#define MUSTER_ROWMSG_KIND_LAST MUSTER_ROWMSG_INTENT

typedef struct muster_rowmsg {
    muster_rowmsg_kind kind;
    muster_row_op op;
    uint16_t table;
    uint16_t from;   // who sent it
    uint16_t origin; // who asked; or see the kinds
    uint32_t count;
    uint64_t link;        // number of this message from `from` to its receiver
    uint64_t request;     // of `origin`; BARRIER, RELEASE: its number
    uint32_t epoch;       // of the membership
    uint64_t mask;        // of nodes: members
    uint64_t value;       // see the kinds
    muster_blob *payload; // NULL when count is 0
    uint32_t *index;      // a copy of keys and extra; NULL: in the payload
} muster_rowmsg;

/* A table as its messages see it. */
typedef struct muster_rowshape {
    uint32_t keys;
    uint32_t width;
    uint32_t floats;
} muster_rowshape;

/* Floats of an entry of such a message. */
uint32_t muster_rowmsg_floats(muster_rowmsg_kind kind, muster_row_op op,
                              const muster_rowshape *shape);

size_t muster_rowmsg_payload_bytes(uint32_t count, uint32_t floats);

static inline uint32_t *muster_rowmsg_keys(const muster_rowmsg *message)
{
    return message->index != NULL ? message->index : message->payload->data;
}

static inline uint32_t *muster_rowmsg_extra(const muster_rowmsg *message)
{
    return muster_rowmsg_keys(message) + message->count;
}

static inline float *muster_rowmsg_values(const muster_rowmsg *message)
{
    uint32_t *words = message->payload->data;
    return (float *)(void *)(words + (size_t)2 * message->count);
}

/* The header into MUSTER_ROWMSG_BYTES bytes. */
void muster_rowmsg_write(const muster_rowmsg *message, uint8_t *bytes);

/* The header back; the payload is set apart. MUSTER_ERR_PROTOCOL. */
MUSTER_CHECKED muster_status muster_rowmsg_read(const uint8_t *bytes,
                                                size_t size,
                                                muster_rowmsg *message_out);

/* Does the kind have entries? The others have no payload. */
bool muster_rowmsg_has_rows(muster_rowmsg_kind kind);

/* Copy keys and extra into `room` (emptied; uint32_t), which must outlive the
 * message. False: the payload is too short for them, or out of memory. */
bool muster_rowmsg_take_index(muster_rowmsg *message, muster_vec *room);

/* Does the payload fit the header and the tables? Before any accessor. */
bool muster_rowmsg_check(const muster_rowmsg *message,
                         const muster_rowshape *shapes, uint32_t tables);

#endif // MUSTER_PS_PROTOCOL_ROWMSG_H
