/*
 * net/little.h -- little-endian numbers in byte arrays.
 *
 * `bytes` has room for `width` (1..8) bytes; alignment does not matter.
 */
#ifndef MUSTER_NET_LITTLE_H
#define MUSTER_NET_LITTLE_H

#include <stdint.h>

static inline void muster_little_put(uint8_t *bytes, unsigned width,
                                     uint64_t value)
{
    for (unsigned i = 0; i < width; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
}

static inline uint64_t muster_little_get(const uint8_t *bytes, unsigned width)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

#endif // MUSTER_NET_LITTLE_H
