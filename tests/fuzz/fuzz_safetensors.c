/*
 * fuzz_safetensors.c -- hostile safetensors files. Every byte of every tensor
 * that is handed out must be readable.
 */
#include <stdint.h>
#include <string.h>

#include <xxhash.h>

#include "base/assert.h"
#include "record/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    muster_safetensors *file = NULL;
    if (muster_safetensors_parse(data, size, "f", NULL, &file) != MUSTER_OK) {
        return 0;
    }
    volatile uint64_t sum = 0;
    for (size_t i = 0; i < muster_safetensors_count(file); i++) {
        const muster_tensor *tensor = muster_safetensors_at(file, i);
        sum += XXH3_64bits(tensor->data, tensor->bytes);
        MUSTER_ASSERT(muster_safetensors_find(file, tensor->name) == tensor);
    }
    for (size_t i = 0; i < muster_safetensors_note_count(file); i++) {
        muster_note note = muster_safetensors_note_at(file, i);
        MUSTER_ASSERT(
            strcmp(muster_safetensors_note(file, note.key), note.value) == 0);
    }
    muster_safetensors_close(file);
    return 0;
}
