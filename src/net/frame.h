/*
 * net/frame.h -- the fixed header before every message on a connection.
 *
 * Forty little-endian bytes: magic, kind, flags, slot, header length, payload
 * length, sequence, acknowledgement. Then the message header, then the payload
 * if it travels inside the stream. A shared payload does not: its frame names a
 * slot of the connection's buffer table instead, and the frame that fills the
 * slot brings the descriptor along.
 *
 *   MESSAGE      what muster_net_send() took
 *   RELEASE      its header is a list of 64-bit sequences: the receiver has let
 *                go of the shared payloads of those frames
 *   FORGET       its header is a list of 64-bit slots that will not be named
 *                again before they are filled anew
 *   ADDRESS      with a fabric: the sender's number of this connection, a
 *                token, its worker's number and the length of its worker
 *                address, 64 bits each, then the address, filled up with zeros
 *   LAST         with a fabric: how many messages the sender has sent on it;
 *                the socket's end follows
 *
 *   Promise      read() accepts exactly what write() makes of valid fields,
 *                and refuses lengths over the limits before anyone allocates.
 *   Threads      Pure functions.
 */
#ifndef MUSTER_NET_FRAME_H
#define MUSTER_NET_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

#define MUSTER_FRAME_BYTES 40u
#define MUSTER_FRAME_SLOTS 64u // buffers that a peer keeps mapped

/* Values travel: append, never renumber. */
typedef enum muster_frame_kind {
    MUSTER_FRAME_MESSAGE = 1,
    MUSTER_FRAME_RELEASE = 2,
    MUSTER_FRAME_FORGET = 3,
    MUSTER_FRAME_ADDRESS = 4,
    MUSTER_FRAME_LAST = 5,
} muster_frame_kind;

#define MUSTER_FRAME_PAYLOAD    1u // there is one, perhaps of 0 bytes
#define MUSTER_FRAME_SHARED     2u // it lies in the buffer of `slot`
#define MUSTER_FRAME_DESCRIPTOR 4u // which this frame's descriptor fills
#define MUSTER_FRAME_ACK_NOW    8u // the sender waits for an acknowledgement

typedef struct muster_frame {
    muster_frame_kind kind;
    uint8_t flags;
    uint16_t slot;         // < MUSTER_FRAME_SLOTS; 0 unless SHARED
    uint32_t header_bytes; // of the message header that follows
    uint64_t payload_bytes;
    uint64_t sequence; // 1, 2, 3, ... per connection and direction
    uint64_t ack;      // the last sequence received the other way
} muster_frame;

typedef struct muster_frame_limits {
    uint64_t payload_bytes_max;
    bool shared; // shared payloads can come on this connection
} muster_frame_limits;

/* `bytes` has room for MUSTER_FRAME_BYTES. */
void muster_frame_write(const muster_frame *frame, uint8_t *bytes);

/* Read MUSTER_FRAME_BYTES. MUSTER_ERR_PROTOCOL with the reason in error_out
 * when they are no frame or announce more than the limits. */
MUSTER_CHECKED muster_status
muster_frame_read(const uint8_t *bytes, const muster_frame_limits *limits,
                  muster_error *error_out, muster_frame *frame_out);

#endif // MUSTER_NET_FRAME_H
