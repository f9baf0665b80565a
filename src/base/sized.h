/*
 * base/sized.h -- public structs that grow: `struct_size` says which version
 * the caller was built with.
 *
 * Every such struct begins with a uint32_t struct_size and only ever gains
 * fields at its end. A caller built with an older header passes a smaller
 * struct, one built with a newer header a larger one.
 *
 *   Promise      An older caller's struct is never read or written behind its
 *                end. Fields that this library does not know are refused where
 *                the caller set them (read) and zeroed (fill).
 *   Threads      Pure functions over the caller's memory.
 */
#ifndef MUSTER_BASE_SIZED_H
#define MUSTER_BASE_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The caller's options into `own`, which holds the defaults and its own
 * struct_size. False when the caller's struct is smaller than `size_min`, the
 * first version's size, or sets a field that is unknown here. */
static inline bool muster_sized_read(const void *theirs, size_t size_min,
                                     void *own)
{
    uint32_t size;
    uint32_t own_size;
    memcpy(&size, theirs, sizeof(size));
    memcpy(&own_size, own, sizeof(own_size));
    if (size < size_min) {
        return false;
    }
    for (size_t i = own_size; i < size; i++) {
        if (((const unsigned char *)theirs)[i] != 0) {
            return false;
        }
    }
    memcpy((char *)own + sizeof(size), (const char *)theirs + sizeof(size),
           (size < own_size ? size : own_size) - sizeof(size));
    return true;
}

/* Does the caller's struct have at least the first version's fields? */
static inline bool muster_sized_is_legal(const void *theirs, size_t size_min)
{
    uint32_t size;
    memcpy(&size, theirs, sizeof(size));
    return size >= size_min;
}

/* `own`, of own_size bytes, into the caller's struct, which is legal. */
static inline void muster_sized_fill(void *theirs, const void *own,
                                     size_t own_size)
{
    uint32_t size;
    memcpy(&size, theirs, sizeof(size));
    size_t known = size < own_size ? size : own_size;
    memcpy((char *)theirs + sizeof(size), (const char *)own + sizeof(size),
           known - sizeof(size));
    memset((char *)theirs + known, 0, size - known);
}

#endif // MUSTER_BASE_SIZED_H
