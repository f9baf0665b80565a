/*
 * record/checksum.h -- a checksum over the tensors and notes of a file.
 *
 * It adds up the hashes (XXH3, 64 bits) of all pieces, so that it does not
 * depend on the order in which the file lists them; each hash covers name,
 * type, shape and bytes of a tensor, or key and value of a note. The note
 * `checksum` holds it, and is not counted.
 */
#ifndef MUSTER_RECORD_CHECKSUM_H
#define MUSTER_RECORD_CHECKSUM_H

#include <stdbool.h>

#include "record/safetensors.h"

#define MUSTER_CHECKSUM_NOTE "checksum"
#define MUSTER_CHECKSUM_TEXT 17u // 16 hexadecimal digits and the end

/* Of what is to be written. */
void muster_checksum_of(const muster_tensor *tensors, size_t tensor_count,
                        const muster_note *notes, size_t note_count,
                        char text_out[MUSTER_CHECKSUM_TEXT]);

/* muster_safetensors_save() with the checksum as one more note. */
MUSTER_CHECKED muster_status muster_checksum_save(
    const char *path, const muster_tensor *tensors, size_t tensor_count,
    const muster_note *notes, size_t note_count, muster_error *error_out);

/* Is the file's note its checksum? False also where there is no note. */
bool muster_checksum_matches(const muster_safetensors *file);

/* MUSTER_ERR_INPUT: the file has a checksum, and it is another. Files of
 * before have none. */
MUSTER_CHECKED muster_status muster_checksum_check(
    const muster_safetensors *file, const char *path, muster_error *error_out);

#endif // MUSTER_RECORD_CHECKSUM_H
