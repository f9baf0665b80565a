#include "base/vec.h"

#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

/* What the first elements take at most. */
#define FIRST_BYTES 256u

muster_vec muster_vec_make(size_t element_bytes)
{
    MUSTER_ASSERT(element_bytes > 0 && element_bytes <= UINT32_MAX);
    return (muster_vec){.element_bytes = (uint32_t)element_bytes};
}

muster_vec muster_vec_make_lines(size_t element_bytes)
{
    muster_vec vec = muster_vec_make(element_bytes);
    vec.lines = true;
    return vec;
}

muster_vec muster_vec_make_in(size_t element_bytes, void *room, size_t capacity)
{
    muster_vec vec = muster_vec_make(element_bytes);
    vec.data = room;
    vec.capacity = capacity;
    vec.lent = true;
    return vec;
}

/* Other room, with the elements in it; NULL when out of memory, and the old one
 * stands. */
static void *move_to(muster_vec *vec, size_t capacity)
{
    if (!vec->lines && !vec->lent) {
        return muster_mem_resize(vec->data, capacity, vec->element_bytes);
    }
    void *data = vec->lines ? muster_mem_lines(capacity, vec->element_bytes)
                            : muster_mem_array(capacity, vec->element_bytes);
    if (data == NULL) {
        return NULL;
    }
    if (vec->count > 0) {
        memcpy(data, vec->data, vec->count * vec->element_bytes);
    }
    if (!vec->lent) {
        muster_mem_free(vec->data);
    }
    vec->lent = false;
    return data;
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
    void *data = move_to(vec, grown);
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
    if (!vec->lent) {
        muster_mem_free(vec->data);
    }
    vec->data = NULL;
    vec->count = 0;
    vec->capacity = 0;
    vec->lent = false;
}
