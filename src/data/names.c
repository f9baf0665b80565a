/*
 * names.c -- open addressing over an arena of texts, at most half full.
 */
#include "data/names.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

#define SLOTS_MIN 1024u
#define NAMES_MAX 0x3fffffffu

void muster_names_init(muster_names *names)
{
    *names = (muster_names){.text = muster_vec_make(1),
                            .offsets = muster_vec_make(sizeof(size_t))};
}

void muster_names_fini(muster_names *names)
{
    if (names->text.element_bytes == 0) {
        return; // never made
    }
    muster_vec_fini(&names->text);
    muster_vec_fini(&names->offsets);
    muster_mem_free(names->slots);
    names->slots = NULL;
    names->slot_count = 0;
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

static uint32_t hash(const char *text, size_t length)
{
    uint64_t value = 14695981039346656037ull;
    for (size_t i = 0; i < length; i++) {
        value = (value ^ (unsigned char)text[i]) * 1099511628211ull;
    }
    return (uint32_t)(value ^ (value >> 32));
}

/* The slot of a text: its own, or the free one where it belongs. */
static uint32_t *find_slot(const muster_names *names, const char *text,
                           size_t length)
{
    uint32_t mask = names->slot_count - 1;
    uint32_t at = hash(text, length) & mask;
    while (names->slots[at] != 0) {
        const char *known = muster_names_at(names, names->slots[at] - 1);
        if (strncmp(known, text, length) == 0 && known[length] == '\0') {
            break;
        }
        at = (at + 1) & mask;
    }
    return &names->slots[at];
}

static bool grow(muster_names *names)
{
    uint32_t wanted =
        names->slot_count == 0 ? SLOTS_MIN : names->slot_count * 2;
    uint32_t *slots = muster_mem_array(wanted, sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    muster_mem_free(names->slots);
    names->slots = slots;
    names->slot_count = wanted;
    for (uint32_t i = 0; i < names->offsets.count; i++) {
        const char *text = muster_names_at(names, i);
        *find_slot(names, text, strlen(text)) = i + 1;
    }
    return true;
}

uint32_t muster_names_find(const muster_names *names, const char *text,
                           size_t length)
{
    if (names->slot_count == 0) {
        return MUSTER_NAMES_NONE;
    }
    uint32_t found = *find_slot(names, text, length);
    return found == 0 ? MUSTER_NAMES_NONE : found - 1;
}

uint32_t muster_names_add(muster_names *names, const char *text, size_t length)
{
    size_t count = names->offsets.count;
    if ((count + 1) * 2 > names->slot_count &&
        (count >= NAMES_MAX || !grow(names))) {
        return MUSTER_NAMES_NONE;
    }
    uint32_t *slot = find_slot(names, text, length);
    if (*slot != 0) {
        return *slot - 1;
    }
    size_t offset = names->text.count;
    if (!muster_vec_append(&names->text, text, length) ||
        !muster_vec_append(&names->text, "", 1)) {
        names->text.count = offset;
        return MUSTER_NAMES_NONE;
    }
    if (!muster_vec_append(&names->offsets, &offset, 1)) {
        names->text.count = offset;
        return MUSTER_NAMES_NONE;
    }
    *slot = (uint32_t)count + 1;
    return (uint32_t)count;
}
