/*
 * base/vec.h -- a growing array of equal elements, typed at the point of use.
 *
 *   muster_vec v = muster_vec_make(sizeof(float));
 *   float *slot = muster_vec_push(&v);       // NULL when out of memory
 *   float *all = v.data;                     // v.count elements
 *   muster_vec_fini(&v);
 *
 * Pointers into it are valid until the next push or reserve.
 *
 * Most are made empty, on the heap. muster_vec_make_lines() is for elements of
 * whole cache lines that are read in any order: they begin at a line, and large
 * pages are asked for (base/mem.h). muster_vec_make_in() begins in room that
 * lies in the caller's own struct, and leaves it when that is too small: what
 * is mostly short is read without another line of memory. Such a struct must
 * not move.
 */
#ifndef MUSTER_BASE_VEC_H
#define MUSTER_BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct muster_vec {
    void *data;
    size_t count;
    size_t capacity;
    uint32_t element_bytes;
    bool lines; // each begins at a cache line
    bool lent;  // `data` is the caller's
} muster_vec;

muster_vec muster_vec_make(size_t element_bytes);
muster_vec muster_vec_make_lines(size_t element_bytes);
/* `room` has `capacity` elements, and stands until fini. */
muster_vec muster_vec_make_in(size_t element_bytes, void *room,
                              size_t capacity);

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
