/*
 * wire/bytes.h -- little-endian numbers at any address, and a bounded cursor.
 *
 * A cursor never passes its end: a read beyond it yields 0 and marks the
 * cursor bad, so that a parser may read a whole record and check once.
 */
#ifndef MUSTER_WIRE_BYTES_H
#define MUSTER_WIRE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void muster_bytes_put(uint8_t *at, uint64_t value, size_t width)
{
    for (size_t i = 0; i < width; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static inline uint64_t muster_bytes_get(const uint8_t *at, size_t width)
{
    uint64_t value = 0;
    for (size_t i = 0; i < width; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

static inline void muster_bytes_put_double(uint8_t *at, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    muster_bytes_put(at, bits, sizeof(bits));
}

static inline double muster_bytes_get_double(const uint8_t *at)
{
    uint64_t bits = muster_bytes_get(at, sizeof(bits));
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

typedef struct muster_cursor {
    const uint8_t *at;
    const uint8_t *end;
    bool bad; // something was asked for that is not there
} muster_cursor;

static inline uint64_t muster_cursor_take(muster_cursor *cursor, size_t width)
{
    if ((size_t)(cursor->end - cursor->at) < width) {
        cursor->bad = true;
        cursor->at = cursor->end;
        return 0;
    }
    uint64_t value = muster_bytes_get(cursor->at, width);
    cursor->at += width;
    return value;
}

#endif // MUSTER_WIRE_BYTES_H
