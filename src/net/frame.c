/*
 * frame.c -- frame headers to bytes and back.
 */
#include "net/frame.h"

#include "base/error.h"
#include "net/net.h"
#include "wire/bytes.h"

#define FRAME_MAGIC 0x4654534du // "MSTF"
#define FLAGS_ALL                                                           \
    (MUSTER_FRAME_PAYLOAD | MUSTER_FRAME_SHARED | MUSTER_FRAME_DESCRIPTOR | \
     MUSTER_FRAME_ACK_NOW)

void muster_frame_write(const muster_frame *frame, uint8_t *bytes)
{
    muster_bytes_put(bytes, FRAME_MAGIC, 4);
    muster_bytes_put(bytes + 4, (uint64_t)frame->kind, 1);
    muster_bytes_put(bytes + 5, frame->flags, 1);
    muster_bytes_put(bytes + 6, frame->slot, 2);
    muster_bytes_put(bytes + 8, frame->header_bytes, 4);
    muster_bytes_put(bytes + 12, 0, 4);
    muster_bytes_put(bytes + 16, frame->payload_bytes, 8);
    muster_bytes_put(bytes + 24, frame->sequence, 8);
    muster_bytes_put(bytes + 32, frame->ack, 8);
}

/* Why the fields contradict each other or this connection, NULL if not. */
static const char *contradiction(const muster_frame *frame, bool shared)
{
    unsigned flags = frame->flags;
    bool has_payload = (flags & MUSTER_FRAME_PAYLOAD) != 0;
    bool has_slot = (flags & MUSTER_FRAME_SHARED) != 0;
    if ((flags & ~FLAGS_ALL) != 0) {
        return "unknown flags";
    }
    if (!has_payload && (frame->payload_bytes != 0 || has_slot)) {
        return "a payload that is not announced";
    }
    if (!has_slot &&
        (frame->slot != 0 || (flags & MUSTER_FRAME_DESCRIPTOR) != 0)) {
        return "a buffer slot without a shared payload";
    }
    if (frame->slot >= MUSTER_FRAME_SLOTS) {
        return "a buffer slot out of range";
    }
    if (has_slot && !shared) {
        return "shared memory over a connection that cannot carry it";
    }
    if (frame->kind != MUSTER_FRAME_MESSAGE &&
        (flags != 0 || frame->header_bytes % 8 != 0)) {
        return "a malformed list";
    }
    return NULL;
}

muster_status muster_frame_read(const uint8_t *bytes,
                                const muster_frame_limits *limits,
                                muster_error *error_out,
                                muster_frame *frame_out)
{
    uint64_t kind = muster_bytes_get(bytes + 4, 1);
    muster_frame frame = {
        .kind = (muster_frame_kind)kind,
        .flags = (uint8_t)muster_bytes_get(bytes + 5, 1),
        .slot = (uint16_t)muster_bytes_get(bytes + 6, 2),
        .header_bytes = (uint32_t)muster_bytes_get(bytes + 8, 4),
        .payload_bytes = muster_bytes_get(bytes + 16, 8),
        .sequence = muster_bytes_get(bytes + 24, 8),
        .ack = muster_bytes_get(bytes + 32, 8),
    };
    if (muster_bytes_get(bytes, 4) != FRAME_MAGIC ||
        kind < MUSTER_FRAME_MESSAGE || kind > MUSTER_FRAME_LAST ||
        muster_bytes_get(bytes + 12, 4) != 0) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "bytes that are not a frame");
    }
    if (frame.header_bytes > MUSTER_NET_HEADER_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "a header of %u bytes; at most %u are taken",
                                frame.header_bytes, MUSTER_NET_HEADER_MAX);
    }
    if (frame.payload_bytes > limits->payload_bytes_max) {
        return muster_error_set(
            error_out, MUSTER_ERR_PROTOCOL,
            "a payload of %llu bytes; at most %llu are taken",
            (unsigned long long)frame.payload_bytes,
            (unsigned long long)limits->payload_bytes_max);
    }
    const char *why = contradiction(&frame, limits->shared);
    if (why != NULL) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "a frame with %s", why);
    }
    *frame_out = frame;
    return MUSTER_OK;
}
