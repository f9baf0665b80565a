/*
 * rowmsg.c -- see rowmsg.h. Payload arrays are in the byte order of the
 * machine. The machines that Muster runs on are little-endian; the magic number
 * of the header, read as bytes, makes sure of that.
 */
#include "ps/protocol/rowmsg.h"

#include "wire/bytes.h"

uint32_t muster_rowmsg_floats(muster_rowmsg_kind kind, muster_row_op op,
                              const muster_rowshape *shape)
{
    switch (kind) {
    case MUSTER_ROWMSG_OP:
        return op == MUSTER_ROWOP_PUSH_ROW ? shape->floats
               : op == MUSTER_ROWOP_PULL || op == MUSTER_ROWOP_PULL_ROW
                   ? 0
                   : shape->width;
    case MUSTER_ROWMSG_REPLY:
        return op == MUSTER_ROWOP_PULL       ? shape->width
               : op == MUSTER_ROWOP_PULL_ROW ? shape->floats
                                             : 0;
    case MUSTER_ROWMSG_TRANSFER:
    case MUSTER_ROWMSG_REPLICA:
    case MUSTER_ROWMSG_SYNCED:
        return shape->floats;
    case MUSTER_ROWMSG_SYNC:
        return op == MUSTER_ROWOP_NONE ? 0 : shape->floats;
    case MUSTER_ROWMSG_LOCALIZE:
    case MUSTER_ROWMSG_HAND_OVER:
    case MUSTER_ROWMSG_REPLICATE:
    case MUSTER_ROWMSG_BARRIER:
    case MUSTER_ROWMSG_RELEASE:
    case MUSTER_ROWMSG_HELLO:
    case MUSTER_ROWMSG_LEAVE:
    case MUSTER_ROWMSG_QUIT:
    case MUSTER_ROWMSG_HEARTBEAT:
    case MUSTER_ROWMSG_SUSPECT:
    case MUSTER_ROWMSG_PHASE:
    case MUSTER_ROWMSG_COUNT:
    case MUSTER_ROWMSG_RESUME:
    case MUSTER_ROWMSG_EXPEL:
    case MUSTER_ROWMSG_STATS:
    case MUSTER_ROWMSG_OWNED:
    case MUSTER_ROWMSG_ABSENT:
    case MUSTER_ROWMSG_REPLICATED:
    case MUSTER_ROWMSG_ADOPT:
    case MUSTER_ROWMSG_RETURN:
    case MUSTER_ROWMSG_INTENT:
        break;
    }
    return 0;
}

bool muster_rowmsg_has_rows(muster_rowmsg_kind kind)
{
    return kind < MUSTER_ROWMSG_BARRIER || kind >= MUSTER_ROWMSG_OWNED;
}

size_t muster_rowmsg_payload_bytes(uint32_t count, uint32_t floats)
{
    return (size_t)count * (2 * sizeof(uint32_t) + floats * sizeof(float));
}

void muster_rowmsg_write(const muster_rowmsg *message, uint8_t *bytes)
{
    muster_bytes_put(bytes, MUSTER_ROWMSG_MAGIC, 4);
    muster_bytes_put(bytes + 4, (uint64_t)message->kind, 2);
    muster_bytes_put(bytes + 6, (uint64_t)message->op, 2);
    muster_bytes_put(bytes + 8, message->table, 2);
    muster_bytes_put(bytes + 10, message->from, 2);
    muster_bytes_put(bytes + 12, message->origin, 2);
    muster_bytes_put(bytes + 14, 0, 2);
    muster_bytes_put(bytes + 16, message->count, 4);
    muster_bytes_put(bytes + 20, 0, 4);
    muster_bytes_put(bytes + 24, message->link, 8);
    muster_bytes_put(bytes + 32, message->request, 8);
    muster_bytes_put(bytes + 40, message->epoch, 4);
    muster_bytes_put(bytes + 44, message->mask, 8);
    muster_bytes_put(bytes + 52, message->value, 8);
}

muster_status muster_rowmsg_read(const uint8_t *bytes, size_t size,
                                 muster_rowmsg *message_out)
{
    if (size != MUSTER_ROWMSG_BYTES ||
        (uint32_t)muster_bytes_get(bytes, 4) != MUSTER_ROWMSG_MAGIC ||
        (uint16_t)muster_bytes_get(bytes + 14, 2) != 0 ||
        (uint32_t)muster_bytes_get(bytes + 20, 4) != 0) {
        return MUSTER_ERR_PROTOCOL;
    }
    uint16_t kind = (uint16_t)muster_bytes_get(bytes + 4, 2);
    uint16_t op = (uint16_t)muster_bytes_get(bytes + 6, 2);
    muster_rowmsg read = {.kind = (muster_rowmsg_kind)kind,
                          .op = (muster_row_op)op,
                          .table = (uint16_t)muster_bytes_get(bytes + 8, 2),
                          .from = (uint16_t)muster_bytes_get(bytes + 10, 2),
                          .origin = (uint16_t)muster_bytes_get(bytes + 12, 2),
                          .count = (uint32_t)muster_bytes_get(bytes + 16, 4),
                          .link = (uint64_t)muster_bytes_get(bytes + 24, 8),
                          .request = (uint64_t)muster_bytes_get(bytes + 32, 8),
                          .epoch = (uint32_t)muster_bytes_get(bytes + 40, 4),
                          .mask = (uint64_t)muster_bytes_get(bytes + 44, 8),
                          .value = (uint64_t)muster_bytes_get(bytes + 52, 8)};
    if (kind < MUSTER_ROWMSG_OP || kind > MUSTER_ROWMSG_KIND_LAST ||
        op > MUSTER_ROWOP_LAST || read.from >= MUSTER_ROWMSG_NODES ||
        read.origin >= MUSTER_ROWMSG_NODES ||
        read.count > MUSTER_ROWMSG_ENTRIES) {
        return MUSTER_ERR_PROTOCOL;
    }
    *message_out = read;
    return MUSTER_OK;
}

bool muster_rowmsg_take_index(muster_rowmsg *message, muster_vec *room)
{
    size_t words = (size_t)2 * message->count;
    muster_vec_clear(room);
    message->index = NULL;
    if (message->count == 0) {
        return true;
    }
    if (message->payload == NULL ||
        message->payload->bytes < words * sizeof(uint32_t) ||
        !muster_vec_append(room, message->payload->data, words)) {
        return false;
    }
    message->index = room->data;
    return true;
}

bool muster_rowmsg_check(const muster_rowmsg *message,
                         const muster_rowshape *shapes, uint32_t tables)
{
    bool control = !muster_rowmsg_has_rows(message->kind);
    if (control || message->count == 0) {
        return control && message->count == 0 && message->payload == NULL;
    }
    if (message->table >= tables || message->payload == NULL ||
        ((message->kind == MUSTER_ROWMSG_OP ||
          message->kind == MUSTER_ROWMSG_REPLY ||
          message->kind == MUSTER_ROWMSG_RETURN) &&
         message->op == MUSTER_ROWOP_NONE)) {
        return false;
    }
    const muster_rowshape *shape = &shapes[message->table];
    uint32_t floats = muster_rowmsg_floats(message->kind, message->op, shape);
    if (message->payload->bytes !=
        muster_rowmsg_payload_bytes(message->count, floats)) {
        return false;
    }
    const uint32_t *keys = muster_rowmsg_keys(message);
    for (uint32_t i = 0; i < message->count; i++) {
        if (keys[i] >= shape->keys) {
            return false;
        }
    }
    return true;
}
