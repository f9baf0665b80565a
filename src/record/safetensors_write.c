/*
 * safetensors_write.c -- header by jansson, padded with spaces so that the data
 * begins at a multiple of 64 bytes; then the tensors one after another.
 *
 * The format allows no gaps, so wide elements are written first: that keeps
 * every tensor aligned without padding.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "record/safetensors.h"

#define DATA_ALIGNMENT 64u

static const char *const dtype_names[] = {
#define DTYPE_NAME(dtype, name, bytes) name,
    MUSTER_DTYPE_TABLE(DTYPE_NAME)
#undef DTYPE_NAME
};

size_t muster_dtype_bytes(muster_dtype dtype)
{
    static const size_t sizes[] = {
#define DTYPE_BYTES(dtype, name, bytes) bytes,
        MUSTER_DTYPE_TABLE(DTYPE_BYTES)
#undef DTYPE_BYTES
    };
    return dtype < MUSTER_DTYPE_COUNT ? sizes[dtype] : 0;
}

muster_tensor muster_tensor_row(const char *name, muster_dtype dtype,
                                const void *data, size_t count)
{
    return (muster_tensor){.name = name,
                           .dtype = dtype,
                           .rank = 1,
                           .shape = {count},
                           .data = data,
                           .bytes = count * muster_dtype_bytes(dtype)};
}

static muster_status check_tensor(const muster_tensor *tensor, uint64_t offset,
                                  muster_error *error_out)
{
    size_t element = muster_dtype_bytes(tensor->dtype);
    uint64_t bytes = element;
    bool fits = element > 0 && strcmp(tensor->name, "__metadata__") != 0 &&
                tensor->rank <= MUSTER_TENSOR_RANK_MAX &&
                strlen(tensor->name) <= MUSTER_TENSOR_NAME_MAX;
    for (uint32_t i = 0; fits && i < tensor->rank; i++) {
        fits = !__builtin_mul_overflow(bytes, tensor->shape[i], &bytes);
    }
    if (!fits || bytes != tensor->bytes || bytes > INT64_MAX - offset) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "tensor %.60s: a bad name, or size and shape "
                                "disagree",
                                tensor->name);
    }
    return MUSTER_OK;
}

static json_t *describe(const muster_tensor *tensor, uint64_t offset)
{
    json_int_t end = (json_int_t)offset + (json_int_t)tensor->bytes;
    json_t *shape = json_array();
    for (uint32_t i = 0; shape != NULL && i < tensor->rank; i++) {
        if (json_array_append_new(
                shape, json_integer((json_int_t)tensor->shape[i])) != 0) {
            json_decref(shape);
            shape = NULL;
        }
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype",
                     dtype_names[tensor->dtype], "shape", shape, "data_offsets",
                     (json_int_t)offset, end);
}

static json_t *describe_notes(const muster_note *notes, size_t count)
{
    json_t *object = json_object();
    for (size_t i = 0; i < count; i++) {
        if (json_object_get(object, notes[i].key) != NULL ||
            json_object_set_new(object, notes[i].key,
                                json_string(notes[i].value)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* The element sizes, widest first: the order of the tensors in the file. */
static const size_t widths[] = {8, 4, 1};
#define WIDTH_COUNT (sizeof(widths) / sizeof(widths[0]))

static muster_status add_tensor(json_t *header, const muster_tensor *tensor,
                                uint64_t *offset, muster_error *error_out)
{
    muster_status status = check_tensor(tensor, *offset, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    if (json_object_get(header, tensor->name) != NULL ||
        json_object_set_new(header, tensor->name, describe(tensor, *offset)) !=
            0) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "tensor %.60s: its name is used twice, or is "
                                "not UTF-8",
                                tensor->name);
    }
    *offset += tensor->bytes;
    return MUSTER_OK;
}

static muster_status add_tensors(json_t *header, const muster_tensor *tensors,
                                 size_t count, muster_error *error_out)
{
    uint64_t offset = 0;
    muster_status status = MUSTER_OK;
    for (size_t w = 0; w < WIDTH_COUNT; w++) {
        for (size_t i = 0; status == MUSTER_OK && i < count; i++) {
            if (muster_dtype_bytes(tensors[i].dtype) == widths[w]) {
                status = add_tensor(header, &tensors[i], &offset, error_out);
            }
        }
    }
    return status;
}

static muster_status write_tensors(muster_atomic *file,
                                   const muster_tensor *tensors, size_t count,
                                   muster_error *error_out)
{
    muster_status status = MUSTER_OK;
    for (size_t w = 0; w < WIDTH_COUNT; w++) {
        for (size_t i = 0; status == MUSTER_OK && i < count; i++) {
            if (muster_dtype_bytes(tensors[i].dtype) == widths[w]) {
                status = muster_atomic_write(file, tensors[i].data,
                                             tensors[i].bytes, error_out);
            }
        }
    }
    return status;
}

/* The JSON header as text for free(), or NULL with the error set. */
static char *make_header(const muster_tensor *tensors, size_t tensor_count,
                         const muster_note *notes, size_t note_count,
                         muster_error *error_out)
{
    json_t *header = json_object();
    char *text = NULL;
    muster_status status = MUSTER_OK;
    if (tensor_count > MUSTER_TENSORS_MAX) {
        status = MUSTER_ERR_INVALID;
    } else if (note_count > 0 &&
               json_object_set_new(header, "__metadata__",
                                   describe_notes(notes, note_count)) != 0) {
        status = MUSTER_ERR_INVALID;
    }
    if (status != MUSTER_OK) {
        muster_error_set(error_out, status,
                         "too many tensors, or notes that are not distinct "
                         "UTF-8");
    } else {
        status = add_tensors(header, tensors, tensor_count, error_out);
    }
    if (status == MUSTER_OK) {
        text = json_dumps(header, JSON_COMPACT);
        if (text == NULL) {
            muster_error_set(error_out, MUSTER_ERR_NO_MEMORY, "out of memory");
        }
    }
    json_decref(header);
    return text;
}

static muster_status write_header(muster_atomic *file, const char *text,
                                  muster_error *error_out)
{
    size_t length = strlen(text);
    size_t padding = DATA_ALIGNMENT - (8 + length) % DATA_ALIGNMENT;
    uint64_t total = length + padding;
    unsigned char prefix[8];
    char spaces[DATA_ALIGNMENT];
    memset(spaces, ' ', sizeof(spaces));
    for (size_t i = 0; i < sizeof(prefix); i++) {
        prefix[i] = (unsigned char)(total >> (8 * i));
    }
    muster_status status =
        muster_atomic_write(file, prefix, sizeof(prefix), error_out);
    if (status == MUSTER_OK) {
        status = muster_atomic_write(file, text, length, error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_atomic_write(file, spaces, padding, error_out);
    }
    return status;
}

muster_status
muster_safetensors_save(const char *path, const muster_tensor *tensors,
                        size_t tensor_count, const muster_note *notes,
                        size_t note_count, muster_error *error_out)
{
    muster_error problem = {0};
    char *header =
        make_header(tensors, tensor_count, notes, note_count, &problem);
    if (header == NULL) {
        return muster_error_set(error_out, problem.status, "%.200s: %.250s",
                                path, problem.text);
    }
    muster_atomic file;
    muster_status status = muster_atomic_begin(&file, path, error_out);
    if (status == MUSTER_OK) {
        status = write_header(&file, header, error_out);
    }
    if (status == MUSTER_OK) {
        status = write_tensors(&file, tensors, tensor_count, error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_atomic_commit(&file, error_out);
    }
    free(header); // heap: jansson
    return status;
}
