/*
 * base/vec.h -- a growing array of equal elements, typed at the point of use.
 *
 *   muster_vec v = muster_vec_make(sizeof(float));
 *   float *slot = muster_vec_push(&v);       // NULL when out of memory
 *   float *all = v.data;                     // v.count elements
 *   muster_vec_fini(&v);
 *
 * Pointers into it are valid until the next push or reserve.
 */
#ifndef MUSTER_BASE_VEC_H
#define MUSTER_BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>

typedef struct muster_vec {
    void *data;
    size_t count;
    size_t capacity;
    size_t element_bytes;
} muster_vec;

muster_vec muster_vec_make(size_t element_bytes);

/* Room for `capacity` elements in all; false when out of memory. */
bool muster_vec_reserve(muster_vec *vec, size_t capacity);

/* One more element, zeroed; NULL when out of memory. */
void *muster_vec_push(muster_vec *vec);

/* Append `count` elements copied from `elements`. */
bool muster_vec_append(muster_vec *vec, const void *elements, size_t count);

/* Forget the elements, keep the memory. */
void muster_vec_clear(muster_vec *vec);

/* A zeroed one, never made, is fine. */
void muster_vec_fini(muster_vec *vec);

#endif // MUSTER_BASE_VEC_H
