/*
 * record/safetensors.h -- named tensors in a file, as other tools read them.
 *
 * The safetensors format: 8 bytes of header length (little-endian), a JSON
 * header {"__metadata__": {text: text}, "name": {"dtype", "shape",
 * "data_offsets"}}, then the tensors' bytes without gaps. Written with 64-byte
 * aligned data; files of others need only the alignment of their elements.
 *
 *   Promise      A file is hostile until it is open: header length, JSON,
 *                types, shapes, sizes, overlaps, gaps and alignment have been
 *                checked, and a tensor's pointer spans exactly its bytes.
 *   Ownership    What a muster_safetensors lends lives until it is freed.
 *   Allocation   open takes the file's size plus its index.
 */
#ifndef MUSTER_RECORD_SAFETENSORS_H
#define MUSTER_RECORD_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"
#include "record/atomic.h"

#define MUSTER_TENSOR_RANK_MAX   8u
#define MUSTER_TENSOR_NAME_MAX   1024u // bytes
#define MUSTER_TENSORS_MAX       65536u
#define MUSTER_TENSOR_HEADER_MAX 100000000u // bytes, as the format has it

/* X(dtype, name in the file, bytes) */
#define MUSTER_DTYPE_TABLE(X)     \
    X(MUSTER_DTYPE_F32, "F32", 4) \
    X(MUSTER_DTYPE_F64, "F64", 8) \
    X(MUSTER_DTYPE_U64, "U64", 8) \
    X(MUSTER_DTYPE_I64, "I64", 8) \
    X(MUSTER_DTYPE_U32, "U32", 4) \
    X(MUSTER_DTYPE_I32, "I32", 4) \
    X(MUSTER_DTYPE_U8, "U8", 1)

typedef enum muster_dtype {
#define MUSTER_DTYPE_ENUM(dtype, name, bytes) dtype,
    MUSTER_DTYPE_TABLE(MUSTER_DTYPE_ENUM)
#undef MUSTER_DTYPE_ENUM
        MUSTER_DTYPE_COUNT
} muster_dtype;

size_t muster_dtype_bytes(muster_dtype dtype);

typedef struct muster_tensor {
    const char *name; // valid UTF-8, at most MUSTER_TENSOR_NAME_MAX bytes
    muster_dtype dtype;
    uint32_t rank; // 0 is a single number
    uint64_t shape[MUSTER_TENSOR_RANK_MAX];
    const void *data; // aligned to its element when read
    size_t bytes;     // product of the shape times the element
} muster_tensor;

/* A line of the metadata. */
typedef struct muster_note {
    const char *key;
    const char *value;
} muster_note;

/* A tensor of rank 1, for short. */
muster_tensor muster_tensor_row(const char *name, muster_dtype dtype,
                                const void *data, size_t count);

/*
 * Write a file, atomically and durably (record/atomic.h). Names and keys must
 * differ.
 * MUSTER_ERR_SYSTEM names the file; MUSTER_ERR_INVALID: too many, too long, not
 * UTF-8, or a size that does not match its shape.
 */
MUSTER_CHECKED muster_status muster_safetensors_save(
    const char *path, const muster_tensor *tensors, size_t tensor_count,
    const muster_note *notes, size_t note_count, muster_error *error_out);

typedef struct muster_safetensors muster_safetensors;

/* Read a file. MUSTER_ERR_INPUT names it and what is wrong. */
MUSTER_CHECKED muster_status muster_safetensors_open(
    const char *path, muster_error *error_out, muster_safetensors **file_out);

/* The same from memory, copied; `place` names it in errors. */
MUSTER_CHECKED muster_status muster_safetensors_parse(
    const void *bytes, size_t size, const char *place, muster_error *error_out,
    muster_safetensors **file_out);

/* NULL is allowed and does nothing. */
void muster_safetensors_close(muster_safetensors *file);

size_t muster_safetensors_count(const muster_safetensors *file);
/* Tensors in the order of their bytes. */
const muster_tensor *muster_safetensors_at(const muster_safetensors *file,
                                           size_t index);
/* NULL when there is none. */
const muster_tensor *muster_safetensors_find(const muster_safetensors *file,
                                             const char *name);
const char *muster_safetensors_note(const muster_safetensors *file,
                                    const char *key);
/* How many notes there are, and the one at `index` (in no particular order).
 */
size_t muster_safetensors_note_count(const muster_safetensors *file);
muster_note muster_safetensors_note_at(const muster_safetensors *file,
                                       size_t index);

#endif // MUSTER_RECORD_SAFETENSORS_H
