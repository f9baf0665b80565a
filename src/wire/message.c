/*
 * message.c -- the codec of wire/message.h.
 *
 * One row per field: where it lies in the struct, how it travels, and what
 * values are legal. Writing walks the rows; reading walks the same rows, so
 * the two cannot disagree. Invariants:
 *   1. Every byte of a message belongs to exactly one row (or to magic, kind).
 *   2. Whatever read() accepts, write() turns into the same bytes again: text
 *      has one spelling (length, bytes without zeros), numbers have a width.
 */
#define _POSIX_C_SOURCE 200809L
#include "wire/message.h"

#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "wire/bytes.h"

#define MAGIC       0x3154534du // "MST1", first bytes of every message
#define FIELDS_MAX  5u
#define SIZE_MAX_ID 65536u
#define DAY_MS      86400000u

typedef enum field_type { U32, U64, I32, TEXT } field_type;

typedef struct field {
    const char *name;
    size_t offset;
    field_type type;
    size_t room;      // TEXT: bytes of the array, with its terminating zero
    int64_t low;      // numbers below 2^63: the legal range
    uint64_t highest; // compared unsigned for U32, U64
} field;

#define AT(member)          offsetof(muster_message, member)
#define ANY_U32(member)     #member, AT(member), U32, 0, 0, UINT32_MAX
#define ANY_U64(member)     #member, AT(member), U64, 0, 0, UINT64_MAX
#define RANGE(member, l, h) #member, AT(member), U32, 0, (l), (h)
#define STATUS(member, h)   #member, AT(member), I32, 0, -1000, (h)
#define CHARS(member) \
#member, AT(member), TEXT, sizeof(((muster_message *)0)->member), 0, 0

/* Carried by every message, before the fields of its kind. */
static const field common_fields[] = {
    {ANY_U64(run)},
    {ANY_U32(incarnation)},
    {ANY_U32(plan)},
    {ANY_U64(step)},
};
#define COMMON_COUNT (sizeof(common_fields) / sizeof(common_fields[0]))

typedef struct layout {
    const char *name;
    size_t count;
    field fields[FIELDS_MAX];
} layout;

static const layout layouts[] = {
    [MUSTER_MSG_HELLO] = {"HELLO",
                          5,
                          {{ANY_U32(as.hello.id)},
                           {RANGE(as.hello.role, MUSTER_MEMBER_WORKER,
                                  MUSTER_MEMBER_NODE)},
                           {ANY_U32(as.hello.pid)},
                           {CHARS(as.hello.host)},
                           {CHARS(as.hello.address)}}},
    [MUSTER_MSG_WELCOME] = {"WELCOME",
                            3,
                            {{RANGE(as.welcome.id, 0, SIZE_MAX_ID - 1)},
                             {RANGE(as.welcome.size, 1, SIZE_MAX_ID)},
                             {RANGE(as.welcome.heartbeat_ms, 1, DAY_MS)}}},
    [MUSTER_MSG_REFUSE] =
        {"REFUSE", 2, {{STATUS(as.refuse.status, 0)}, {CHARS(as.refuse.text)}}},
    [MUSTER_MSG_HEARTBEAT] = {"HEARTBEAT",
                              2,
                              {{ANY_U64(as.heartbeat.progress)},
                               {RANGE(as.heartbeat.busy, 0, 1)}}},
    [MUSTER_MSG_DIRECTORY] = {"DIRECTORY", 0, {{0}}},
    [MUSTER_MSG_PLAN] = {"PLAN", 0, {{0}}},
    [MUSTER_MSG_SHARD] = {"SHARD",
                          1,
                          {{RANGE(as.shard.shard, 0, UINT32_MAX - 1)}}},
    [MUSTER_MSG_HAVE] = {"HAVE", 1, {{ANY_U32(as.have.shard)}}},
    [MUSTER_MSG_MODEL] = {"MODEL", 0, {{0}}},
    [MUSTER_MSG_GRADIENT] = {"GRADIENT",
                             1,
                             {{ANY_U64(as.gradient.compute_ns)}}},
    [MUSTER_MSG_STOP] = {"STOP",
                         2,
                         {{STATUS(as.stop.status, 0)}, {CHARS(as.stop.text)}}},
    [MUSTER_MSG_LEAVE] = {"LEAVE", 0, {{0}}},
    [MUSTER_MSG_FORGET] = {"FORGET",
                           1,
                           {{RANGE(as.shard.shard, 0, UINT32_MAX - 1)}}},
    [MUSTER_MSG_WANT] = {"WANT",
                         1,
                         {{RANGE(as.shard.shard, 0, UINT32_MAX - 1)}}},
    [MUSTER_MSG_PEERS] = {"PEERS", 0, {{0}}},
    [MUSTER_MSG_ANSWERS] = {"ANSWERS", 0, {{0}}},
    [MUSTER_MSG_SCHEDULE] = {"SCHEDULE",
                             3,
                             {{RANGE(as.schedule.stages, 1, MUSTER_STAGES_MAX)},
                              {RANGE(as.schedule.own, 1, MUSTER_STAGES_MAX)},
                              {RANGE(as.schedule.begun, 1,
                                     MUSTER_STAGES_MAX)}}},
    [MUSTER_MSG_STAGE] = {"STAGE",
                          3,
                          {{ANY_U64(as.gradient.compute_ns)},
                           {RANGE(as.gradient.stage, 0, MUSTER_STAGES_MAX - 1)},
                           {ANY_U32(as.gradient.dropped)}}},
    [MUSTER_MSG_MISSING] = {"MISSING",
                            2,
                            {{ANY_U32(as.missing.number)},
                             {ANY_U64(as.missing.stages)}}},
};
#define KIND_END (sizeof(layouts) / sizeof(layouts[0]))

static const layout *layout_of(uint64_t kind)
{
    return kind > 0 && kind < KIND_END ? &layouts[kind] : NULL;
}

static size_t width_of(field_type type)
{
    return type == U64 ? 8 : type == TEXT ? 2 : 4;
}

static size_t write_field(const field *row, const muster_message *message,
                          uint8_t *at)
{
    const uint8_t *from = (const uint8_t *)message + row->offset;
    if (row->type == TEXT) {
        size_t length = strnlen((const char *)from, row->room);
        MUSTER_ASSERT(length < row->room);
        muster_bytes_put(at, length, 2);
        memcpy(at + 2, from, length);
        return 2 + length;
    }
    // Numbers are copied by their own width, so this is right on any machine.
    uint64_t value = 0;
    if (row->type == U64) {
        memcpy(&value, from, sizeof(value));
    } else {
        uint32_t word;
        memcpy(&word, from, sizeof(word));
        value = word;
    }
    muster_bytes_put(at, value, width_of(row->type));
    return width_of(row->type);
}

size_t muster_message_write(const muster_message *message, uint8_t *bytes)
{
    const layout *shape = layout_of((uint64_t)message->kind);
    MUSTER_ASSERT(shape != NULL);
    muster_bytes_put(bytes, MAGIC, 4);
    muster_bytes_put(bytes + 4, (uint64_t)message->kind, 4);
    size_t size = 8;
    for (size_t i = 0; i < COMMON_COUNT; i++) {
        size += write_field(&common_fields[i], message, bytes + size);
    }
    for (size_t i = 0; i < shape->count; i++) {
        size += write_field(&shape->fields[i], message, bytes + size);
    }
    MUSTER_ASSERT(size <= MUSTER_MESSAGE_BYTES_MAX);
    return size;
}

void muster_message_copy(muster_message *to, const muster_message *from)
{
    bool has_text = from->kind == MUSTER_MSG_HELLO ||
                    from->kind == MUSTER_MSG_REFUSE ||
                    from->kind == MUSTER_MSG_STOP;
    size_t numbers = offsetof(muster_message, as) + sizeof(from->as.heartbeat);
    memcpy(to, from, has_text ? sizeof(*to) : numbers);
}

size_t muster_message_bytes(const muster_message *message)
{
    const layout *shape = layout_of((uint64_t)message->kind);
    MUSTER_ASSERT(shape != NULL);
    size_t size = 8;
    for (size_t i = 0; i < COMMON_COUNT; i++) {
        size += width_of(common_fields[i].type);
    }
    for (size_t i = 0; i < shape->count; i++) {
        const field *row = &shape->fields[i];
        size += width_of(row->type);
        if (row->type == TEXT) {
            const char *text = (const char *)message + row->offset;
            size += strnlen(text, row->room);
        }
    }
    return size;
}

static bool read_text(const field *row, muster_cursor *cursor, uint8_t *to)
{
    size_t length = (size_t)muster_cursor_take(cursor, 2);
    if (cursor->bad || length >= row->room ||
        length > (size_t)(cursor->end - cursor->at) ||
        memchr(cursor->at, 0, length) != NULL) {
        return false;
    }
    memcpy(to, cursor->at, length);
    cursor->at += length;
    return true;
}

/* False: not a value of this field. The message was zeroed before. */
static bool read_field(const field *row, muster_cursor *cursor,
                       muster_message *message)
{
    uint8_t *to = (uint8_t *)message + row->offset;
    if (row->type == TEXT) {
        return read_text(row, cursor, to);
    }
    uint64_t value = muster_cursor_take(cursor, width_of(row->type));
    if (row->type == U64) {
        memcpy(to, &value, sizeof(value));
        return !cursor->bad;
    }
    uint32_t word = (uint32_t)value;
    memcpy(to, &word, sizeof(word));
    if (row->type == I32) {
        int64_t number = (int32_t)word;
        return !cursor->bad && number >= row->low &&
               number <= (int64_t)row->highest;
    }
    return !cursor->bad && value >= (uint64_t)row->low && value <= row->highest;
}

static muster_status read_fields(const field *rows, size_t count,
                                 muster_cursor *cursor, muster_error *error,
                                 muster_message *message)
{
    for (size_t i = 0; i < count; i++) {
        if (!read_field(&rows[i], cursor, message)) {
            return muster_error_set(
                error, MUSTER_ERR_PROTOCOL,
                "%s message: field %s is missing or out of range",
                muster_message_name(message->kind), rows[i].name);
        }
    }
    return MUSTER_OK;
}

muster_status muster_message_read(const uint8_t *bytes, size_t size,
                                  muster_error *error_out,
                                  muster_message *message_out)
{
    muster_cursor cursor = {bytes, bytes + size, false};
    uint64_t magic = muster_cursor_take(&cursor, 4);
    uint64_t kind = muster_cursor_take(&cursor, 4);
    const layout *shape = layout_of(kind);
    if (cursor.bad || magic != MAGIC || shape == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "%zu bytes that are not a message", size);
    }
    muster_message message;
    memset(&message, 0, sizeof(message));
    message.kind = (muster_message_kind)kind;
    muster_status status =
        read_fields(common_fields, COMMON_COUNT, &cursor, error_out, &message);
    if (status == MUSTER_OK) {
        status = read_fields(shape->fields, shape->count, &cursor, error_out,
                             &message);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    if (cursor.at != cursor.end) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "%s message: %zu bytes too many", shape->name,
                                (size_t)(cursor.end - cursor.at));
    }
    *message_out = message;
    return MUSTER_OK;
}

const char *muster_message_name(muster_message_kind kind)
{
    const layout *shape = layout_of((uint64_t)kind);
    return shape != NULL ? shape->name : "unknown";
}
