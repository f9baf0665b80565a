#include "base/vec.h"

#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

/* What the first elements take at most. */
#define FIRST_BYTES 256u

muster_vec muster_vec_make(size_t element_bytes)
{
    MUSTER_ASSERT(element_bytes > 0);
    return (muster_vec){.element_bytes = element_bytes};
}

bool muster_vec_reserve(muster_vec *vec, size_t capacity)
{
    if (capacity <= vec->capacity) {
        return true;
    }
    size_t grown = vec->capacity;
    if (grown == 0) { // eight, or of large elements fewer: most lists are short
        grown = vec->element_bytes < FIRST_BYTES / 8
                    ? 8
                    : FIRST_BYTES / vec->element_bytes;
        grown = grown > 0 ? grown : 1;
    }
    while (grown < capacity) {
        if (grown > SIZE_MAX / 2) {
            return false;
        }
        grown *= 2;
    }
    void *data = muster_mem_resize(vec->data, grown, vec->element_bytes);
    if (data == NULL) {
        return false;
    }
    vec->data = data;
    vec->capacity = grown;
    return true;
}

bool muster_vec_append(muster_vec *vec, const void *elements, size_t count)
{
    if (count > SIZE_MAX - vec->count ||
        !muster_vec_reserve(vec, vec->count + count)) {
        return false;
    }
    if (count > 0) {
        memcpy((char *)vec->data + vec->count * vec->element_bytes, elements,
               count * vec->element_bytes);
    }
    vec->count += count;
    return true;
}

void *muster_vec_push(muster_vec *vec)
{
    if (!muster_vec_reserve(vec, vec->count + 1)) {
        return NULL;
    }
    void *slot = (char *)vec->data + vec->count * vec->element_bytes;
    memset(slot, 0, vec->element_bytes);
    vec->count++;
    return slot;
}

void muster_vec_clear(muster_vec *vec)
{
    vec->count = 0;
}

void muster_vec_fini(muster_vec *vec)
{
    muster_mem_free(vec->data);
    vec->data = NULL;
    vec->count = 0;
    vec->capacity = 0;
}
