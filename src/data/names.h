/*
 * data/names.h -- texts numbered in the order they are first seen.
 *
 *   Ownership    The table owns its texts; those returned are lent until the
 *                next add or fini.
 *   Allocation   add only; a text costs its length and 32 to 56 bytes.
 */
#ifndef MUSTER_DATA_NAMES_H
#define MUSTER_DATA_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/vec.h"

#define MUSTER_NAMES_NONE MUSTER_MAP_NONE

typedef struct muster_names {
    muster_vec text;    // char: all texts, each with its terminating zero
    muster_vec offsets; // size_t: where text i begins
    muster_map numbers; // a text's key (see names.c) to its number
} muster_names;

void muster_names_init(muster_names *names);
/* A zeroed table is fine. */
void muster_names_fini(muster_names *names);

uint32_t muster_names_count(const muster_names *names);

/* The number of the first `length` bytes of `text`, new or known;
 * MUSTER_NAMES_NONE when out of memory. */
uint32_t muster_names_add(muster_names *names, const char *text, size_t length);

/* MUSTER_NAMES_NONE when it is not known. */
uint32_t muster_names_find(const muster_names *names, const char *text,
                           size_t length);

/* NULL when there is no such number. */
const char *muster_names_at(const muster_names *names, uint32_t number);

#endif // MUSTER_DATA_NAMES_H
