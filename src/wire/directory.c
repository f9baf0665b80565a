/*
 * directory.c -- the codec of wire/directory.h.
 */
#include "wire/directory.h"

#include <string.h>

#include "base/error.h"
#include "wire/bytes.h"

#define HEAD_BYTES  12u
#define ENTRY_BYTES 10u

size_t muster_directory_bytes(const muster_directory *directory)
{
    const muster_directory_entry *entries = directory->entries.data;
    size_t bytes = HEAD_BYTES + ENTRY_BYTES * directory->entries.count;
    for (size_t i = 0; i < directory->entries.count; i++) {
        bytes += strlen(entries[i].address);
    }
    return bytes;
}

void muster_directory_write(const muster_directory *directory, void *bytes)
{
    const muster_directory_entry *entries = directory->entries.data;
    uint8_t *at = bytes;
    muster_bytes_put(at, directory->epoch, 8);
    muster_bytes_put(at + 8, directory->entries.count, 4);
    at += HEAD_BYTES;
    for (size_t i = 0; i < directory->entries.count; i++) {
        size_t length = strlen(entries[i].address);
        muster_bytes_put(at, entries[i].id, 4);
        muster_bytes_put(at + 4, entries[i].incarnation, 4);
        muster_bytes_put(at + 8, length, 2);
        memcpy(at + ENTRY_BYTES, entries[i].address, length);
        at += ENTRY_BYTES + length;
    }
}

static bool read_entry(muster_cursor *cursor, muster_directory_entry *entry)
{
    entry->id = (uint32_t)muster_cursor_take(cursor, 4);
    entry->incarnation = (uint32_t)muster_cursor_take(cursor, 4);
    size_t length = (size_t)muster_cursor_take(cursor, 2);
    if (cursor->bad || length >= sizeof(entry->address) ||
        length > (size_t)(cursor->end - cursor->at) ||
        memchr(cursor->at, 0, length) != NULL) {
        return false;
    }
    memcpy(entry->address, cursor->at, length);
    cursor->at += length;
    return true;
}

static muster_status read_entries(muster_cursor *cursor, uint32_t count,
                                  muster_directory *directory)
{
    for (uint32_t i = 0; i < count; i++) {
        muster_directory_entry *entry = muster_vec_push(&directory->entries);
        if (entry == NULL) {
            return MUSTER_ERR_NO_MEMORY;
        }
        if (!read_entry(cursor, entry) ||
            (i > 0 && entry->id <= (entry - 1)->id)) {
            return MUSTER_ERR_PROTOCOL;
        }
    }
    return cursor->at == cursor->end ? MUSTER_OK : MUSTER_ERR_PROTOCOL;
}

muster_status muster_directory_read(const void *bytes, size_t size,
                                    muster_error *error_out,
                                    muster_directory *directory_out)
{
    muster_cursor cursor = {bytes, (const uint8_t *)bytes + size, false};
    muster_directory directory = {
        .epoch = muster_cursor_take(&cursor, 8),
        .entries = muster_vec_make(sizeof(muster_directory_entry))};
    uint32_t count = (uint32_t)muster_cursor_take(&cursor, 4);
    muster_status status = cursor.bad
                               ? MUSTER_ERR_PROTOCOL
                               : read_entries(&cursor, count, &directory);
    if (status != MUSTER_OK) {
        muster_directory_fini(&directory);
        return muster_error_set(error_out, status,
                                "%zu bytes that are not a directory", size);
    }
    *directory_out = directory;
    return MUSTER_OK;
}

void muster_directory_fini(muster_directory *directory)
{
    muster_vec_fini(&directory->entries);
}
