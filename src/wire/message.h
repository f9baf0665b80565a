/*
 * wire/message.h -- every message as a struct, to bytes and back.
 *
 * A message is a fixed-size struct; whatever is long (a model, a gradient, a
 * shard, the terms of a plan, a directory) is its payload, a blob beside it.
 * The bytes are little-endian: magic, kind, then the fields in the table's
 * order (docs/format.md). One table of fields per kind drives writing and
 * reading.
 *
 *   Promise      read() accepts exactly what write() makes, for every kind,
 *                and refuses everything else without reading past `size`:
 *                short, long, unknown kind, text that is too long or has a
 *                zero inside, number out of its range.
 *   Determinism  The bytes of a message are the same on every machine.
 *   Not here     Sockets; payload formats (data/shard, wire/terms).
 *
 * Every message carries (run, incarnation, plan, step), so that a late one, or
 * one of an earlier life, is known for what it is.
 */
#ifndef MUSTER_WIRE_MESSAGE_H
#define MUSTER_WIRE_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

#define MUSTER_MESSAGE_BYTES_MAX 1024u
#define MUSTER_ID_ANY            UINT32_MAX
#define MUSTER_STAGES_MAX        64u // of a worker: bits of MISSING

/* In `plan` of MODEL, beside the plan's number: the answer is wanted even when
 * a newer model has come. */
#define MUSTER_PLAN_CHECK 0x80000000u
/* Likewise: compute your own share alone until you are told what is missing. */
#define MUSTER_PLAN_OWN 0x40000000u
/* The plan's number without them. */
#define MUSTER_PLAN_NUMBER 0x3fffffffu

/* Values travel: append, never renumber. */
typedef enum muster_message_kind {
    MUSTER_MSG_HELLO = 1,     // I am here; first on every connection we make
    MUSTER_MSG_WELCOME = 2,   // you are number id; payload: job description
    MUSTER_MSG_REFUSE = 3,    // you, or to go on as your worker; and why
    MUSTER_MSG_HEARTBEAT = 4, // both ways
    MUSTER_MSG_DIRECTORY = 5, // payload: who is where
    MUSTER_MSG_PLAN = 6,      // payload: the terms of your message
    MUSTER_MSG_SHARD = 7,     // payload: a shard of the data
    MUSTER_MSG_HAVE = 8,      // plan `plan` adopted, or shard `shard` loaded
    MUSTER_MSG_MODEL = 9,     // payload: theta for step `step`
    MUSTER_MSG_GRADIENT = 10, // payload: the coded message for step `step`
    MUSTER_MSG_STOP = 11,     // the run is over, and why
    MUSTER_MSG_LEAVE = 12,    // I am going, do not wait for me
    MUSTER_MSG_FORGET = 13,   // plan `plan` is in force, drop shard `shard`
    MUSTER_MSG_WANT = 14,     // an edge asks for shard `shard` for a worker
    MUSTER_MSG_PEERS = 15,    // payload: who takes part in step `step`
    MUSTER_MSG_ANSWERS = 16,  // payload: what an edge's workers did
    MUSTER_MSG_SCHEDULE = 17, // a PLAN in stages: payload as PLAN's, with the
                              // message blocks of all stages
    MUSTER_MSG_STAGE = 18,    // a GRADIENT of one stage of step `step`
    MUSTER_MSG_MISSING = 19,  // which of your stages step `step` still lacks
} muster_message_kind;

/* What a process is to the one it says HELLO to. Values travel. */
typedef enum muster_member_role {
    MUSTER_MEMBER_WORKER = 1,
    MUSTER_MEMBER_EDGE = 2,
    MUSTER_MEMBER_NODE = 3, // of a mesh: gets the directory, connects to all
} muster_member_role;

typedef struct muster_message {
    muster_message_kind kind;
    uint64_t run;         // drawn by the coordinator; 0 before WELCOME
    uint32_t incarnation; // of the worker that this connection belongs to
    uint32_t plan;
    uint64_t step;
    union {
        struct {
            uint32_t id;       // the number wished for, or MUSTER_ID_ANY
            uint32_t role;     // a muster_member_role
            uint32_t pid;      // for people
            char host[64];     // for people
            char address[128]; // where I listen, or ""
        } hello;
        struct {
            uint32_t id;
            uint32_t size; // workers wanted in all
            uint32_t heartbeat_ms;
        } welcome;
        struct {
            int32_t status;
            char text[200];
        } refuse;
        struct {
            uint64_t progress; // pieces of work done by the compute thread
            uint32_t busy;     // 1: a job is running
        } heartbeat;
        struct {
            uint32_t shard; // MUSTER_ID_ANY: the plan itself
        } have;
        struct {
            uint32_t shard; // SHARD, FORGET, WANT; `step` numbers the first
                            // two, see worker.h
        } shard;
        struct {
            uint64_t compute_ns;
            uint32_t stage;   // STAGE alone, as `dropped`: stages computed, or
            uint32_t dropped; // begun, for nothing since the last STAGE
        } gradient;
        struct {
            uint32_t stages;
            uint32_t own;   // so many, the first, are sent when they are done
            uint32_t begun; // so many are begun before a MISSING names them
        } schedule;
        struct {
            uint32_t number; // a higher one of the same step replaces a lower
            uint64_t stages; // bit t: stage t is missing
        } missing;
        struct {
            int32_t status;
            char text[200];
        } stop;
    } as;
} muster_message;

/* Copy what the kind of `from` uses: of most, not the room for text. */
void muster_message_copy(muster_message *to, const muster_message *from);

/* How many bytes write() makes of it. */
size_t muster_message_bytes(const muster_message *message);

/* Write into `bytes` (room for MUSTER_MESSAGE_BYTES_MAX); returns the length.
 * The message must be one that read() would accept. */
size_t muster_message_write(const muster_message *message, uint8_t *bytes);

/* MUSTER_ERR_PROTOCOL and a reason when the bytes are not a message. */
MUSTER_CHECKED muster_status muster_message_read(const uint8_t *bytes,
                                                 size_t size,
                                                 muster_error *error_out,
                                                 muster_message *message_out);

/* "MODEL", for logs. */
const char *muster_message_name(muster_message_kind kind);

#endif // MUSTER_WIRE_MESSAGE_H
