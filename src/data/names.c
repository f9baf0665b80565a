/*
 * names.c -- an arena of texts and a map from their hashes to their numbers.
 *
 * A text's key is its hash, or the first key after it that no other text has:
 * two texts with one hash are so rare that the walk costs nothing, and so
 * possible that it must be right.
 */
#include "data/names.h"

#include <stdbool.h>
#include <string.h>

#include <xxhash.h>

#define NAMES_MAX 0x3fffffffu

void muster_names_init(muster_names *names)
{
    *names = (muster_names){.text = muster_vec_make(1),
                            .offsets = muster_vec_make(sizeof(size_t))};
}

void muster_names_fini(muster_names *names)
{
    muster_vec_fini(&names->text);
    muster_vec_fini(&names->offsets);
    muster_map_fini(&names->numbers);
}

uint32_t muster_names_count(const muster_names *names)
{
    return (uint32_t)names->offsets.count;
}

const char *muster_names_at(const muster_names *names, uint32_t number)
{
    const size_t *offsets = names->offsets.data;
    const char *text = names->text.data;
    return number < names->offsets.count ? text + offsets[number] : NULL;
}

/* The key of a text: its own, or the free one that would be its own. Its
 * number, or MUSTER_NAMES_NONE, into *number_out. */
static uint64_t key_of(const muster_names *names, const char *text,
                       size_t length, uint32_t *number_out)
{
    // A map takes keys below UINT64_MAX; half of them leave room to walk.
    uint64_t key = XXH3_64bits(text, length) >> 1;
    for (;; key++) {
        *number_out = muster_map_find(&names->numbers, key);
        if (*number_out == MUSTER_MAP_NONE) {
            return key;
        }
        const char *known = muster_names_at(names, *number_out);
        if (strncmp(known, text, length) == 0 && known[length] == '\0') {
            return key;
        }
    }
}

uint32_t muster_names_find(const muster_names *names, const char *text,
                           size_t length)
{
    uint32_t number;
    (void)key_of(names, text, length, &number);
    return number;
}

static bool append(muster_names *names, const char *text, size_t length)
{
    size_t offset = names->text.count;
    return muster_vec_append(&names->text, text, length) &&
           muster_vec_append(&names->text, "", 1) &&
           muster_vec_append(&names->offsets, &offset, 1);
}

uint32_t muster_names_add(muster_names *names, const char *text, size_t length)
{
    uint32_t number;
    uint64_t key = key_of(names, text, length, &number);
    if (number != MUSTER_NAMES_NONE) {
        return number;
    }
    size_t bytes = names->text.count;
    size_t count = names->offsets.count;
    if (count < NAMES_MAX && append(names, text, length) &&
        muster_map_set(&names->numbers, key, (uint32_t)count)) {
        return (uint32_t)count;
    }
    names->text.count = bytes;
    names->offsets.count = count;
    return MUSTER_NAMES_NONE;
}
