/*
 * checksum.c -- see checksum.h.
 */
#include "record/checksum.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"

static uint64_t hash_tensor(const muster_tensor *tensor)
{
    uint64_t about[2 + MUSTER_TENSOR_RANK_MAX] = {tensor->dtype, tensor->rank};
    MUSTER_ASSERT(tensor->rank <= MUSTER_TENSOR_RANK_MAX);
    memcpy(about + 2, tensor->shape, tensor->rank * sizeof(about[0]));
    uint64_t hash = XXH3_64bits_withSeed(tensor->name, strlen(tensor->name), 1);
    hash = XXH3_64bits_withSeed(about, sizeof(about), hash);
    return XXH3_64bits_withSeed(tensor->data, tensor->bytes, hash);
}

static uint64_t hash_note(muster_note note)
{
    uint64_t hash = XXH3_64bits_withSeed(note.key, strlen(note.key), 2);
    return XXH3_64bits_withSeed(note.value, strlen(note.value), hash);
}

static void write_sum(uint64_t sum, char text_out[MUSTER_CHECKSUM_TEXT])
{
    (void)snprintf(text_out, MUSTER_CHECKSUM_TEXT, "%016" PRIx64, sum);
}

void muster_checksum_of(const muster_tensor *tensors, size_t tensor_count,
                        const muster_note *notes, size_t note_count,
                        char text_out[MUSTER_CHECKSUM_TEXT])
{
    uint64_t sum = 0;
    for (size_t i = 0; i < tensor_count; i++) {
        sum += hash_tensor(&tensors[i]);
    }
    for (size_t i = 0; i < note_count; i++) {
        sum += hash_note(notes[i]);
    }
    write_sum(sum, text_out);
}

muster_status muster_checksum_save(const char *path,
                                   const muster_tensor *tensors,
                                   size_t tensor_count,
                                   const muster_note *notes, size_t note_count,
                                   muster_error *error_out)
{
    char text[MUSTER_CHECKSUM_TEXT];
    muster_note *all = muster_mem_array(note_count + 1, sizeof(*all));
    if (all == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "%.300s: out of memory", path);
    }
    muster_checksum_of(tensors, tensor_count, notes, note_count, text);
    memcpy(all, notes, note_count * sizeof(*all));
    all[note_count] = (muster_note){MUSTER_CHECKSUM_NOTE, text};
    muster_status status = muster_safetensors_save(
        path, tensors, tensor_count, all, note_count + 1, error_out);
    muster_mem_free(all);
    return status;
}

bool muster_checksum_matches(const muster_safetensors *file)
{
    char text[MUSTER_CHECKSUM_TEXT];
    uint64_t sum = 0;
    const char *stored = muster_safetensors_note(file, MUSTER_CHECKSUM_NOTE);
    for (size_t i = 0; i < muster_safetensors_count(file); i++) {
        sum += hash_tensor(muster_safetensors_at(file, i));
    }
    for (size_t i = 0; i < muster_safetensors_note_count(file); i++) {
        muster_note note = muster_safetensors_note_at(file, i);
        bool is_own = strcmp(note.key, MUSTER_CHECKSUM_NOTE) == 0;
        sum += is_own ? 0 : hash_note(note);
    }
    write_sum(sum, text);
    return stored != NULL && strcmp(stored, text) == 0;
}

muster_status muster_checksum_check(const muster_safetensors *file,
                                    const char *path, muster_error *error_out)
{
    bool is_good =
        muster_safetensors_note(file, MUSTER_CHECKSUM_NOTE) == NULL ||
        muster_checksum_matches(file);
    return is_good
               ? MUSTER_OK
               : muster_error_set(error_out, MUSTER_ERR_INPUT,
                                  "%.300s: the checksum does not match", path);
}
