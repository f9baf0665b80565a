/*
 * safetensors_read.c -- from untrusted bytes to checked tensors.
 *
 * The header is parsed into an index first, against the number of data bytes
 * that really are there; only then are tensors handed out. Invariant of an open
 * file: sorted by offset, each tensor begins where the one before ended, the
 * first at 0, the last ends at the end of the data.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/mem.h"
#include "record/safetensors.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tensors are stored little-endian and used in place");

typedef struct file_index {
    muster_tensor tensor; // data is NULL until the bytes are there
    uint64_t offset;
} file_index;

struct muster_safetensors {
    json_t *header; // owns the names and notes
    muster_tensor *tensors;
    size_t count;
    void *data;
};

typedef struct index_builder {
    const char *place;
    muster_error *error_out;
    file_index *items;
    size_t count;
    uint64_t data_bytes;
} index_builder;

static muster_status bad(const index_builder *builder, const char *name,
                         const char *what)
{
    return muster_error_set(builder->error_out, MUSTER_ERR_INPUT,
                            "%.300s: tensor '%.60s': %s", builder->place, name,
                            what);
}

static bool read_dtype(const json_t *value, muster_dtype *dtype_out)
{
    static const char *const names[] = {
#define DTYPE_NAME(dtype, name, bytes) name,
        MUSTER_DTYPE_TABLE(DTYPE_NAME)
#undef DTYPE_NAME
    };
    const char *text = json_string_value(value);
    for (muster_dtype i = 0; text != NULL && i < MUSTER_DTYPE_COUNT; i++) {
        if (strcmp(text, names[i]) == 0) {
            *dtype_out = i;
            return true;
        }
    }
    return false;
}

static bool read_natural(const json_t *value, uint64_t *number_out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *number_out = (uint64_t)json_integer_value(value);
    return true;
}

static bool read_shape(const json_t *shape, muster_tensor *tensor)
{
    if (!json_is_array(shape) ||
        json_array_size(shape) > MUSTER_TENSOR_RANK_MAX) {
        return false;
    }
    uint64_t bytes = muster_dtype_bytes(tensor->dtype);
    tensor->rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (!read_natural(json_array_get(shape, i), &tensor->shape[i]) ||
            __builtin_mul_overflow(bytes, tensor->shape[i], &bytes)) {
            return false;
        }
    }
    tensor->bytes = bytes;
    return true;
}

static muster_status read_tensor(index_builder *builder, const char *name,
                                 const json_t *value)
{
    file_index item = {.tensor = {.name = name}};
    const json_t *offsets = json_object_get(value, "data_offsets");
    uint64_t end = 0;
    if (strlen(name) > MUSTER_TENSOR_NAME_MAX) {
        return bad(builder, name, "the name is too long");
    }
    if (!read_dtype(json_object_get(value, "dtype"), &item.tensor.dtype)) {
        return bad(builder, name, "a dtype that is not supported");
    }
    if (!read_shape(json_object_get(value, "shape"), &item.tensor)) {
        return bad(builder, name, "a shape that cannot be");
    }
    if (json_array_size(offsets) != 2 ||
        !read_natural(json_array_get(offsets, 0), &item.offset) ||
        !read_natural(json_array_get(offsets, 1), &end) || end < item.offset ||
        end > builder->data_bytes) {
        return bad(builder, name, "offsets outside the file");
    }
    if (end - item.offset != item.tensor.bytes) {
        return bad(builder, name, "offsets and shape disagree");
    }
    if (item.offset % muster_dtype_bytes(item.tensor.dtype) != 0) {
        return bad(builder, name, "misaligned");
    }
    builder->items[builder->count++] = item;
    return MUSTER_OK;
}

static muster_status check_notes(const index_builder *builder, json_t *metadata)
{
    const char *key;
    json_t *value;
    bool good = json_is_object(metadata);
    json_object_foreach(metadata, key, value)
    {
        good = good && json_is_string(value);
    }
    return good ? MUSTER_OK
                : muster_error_set(builder->error_out, MUSTER_ERR_INPUT,
                                   "%.300s: metadata that is not text",
                                   builder->place);
}

static int compare_offsets(const void *left, const void *right)
{
    const file_index *a = left;
    const file_index *b = right;
    if (a->offset != b->offset) {
        return a->offset < b->offset ? -1 : 1;
    }
    // An empty tensor comes before the one that begins at the same byte.
    if (a->tensor.bytes != b->tensor.bytes) {
        return a->tensor.bytes < b->tensor.bytes ? -1 : 1;
    }
    return strcmp(a->tensor.name, b->tensor.name);
}

static muster_status check_layout(index_builder *builder)
{
    uint64_t end = 0;
    if (builder->count > 0) {
        qsort(builder->items, builder->count, sizeof(file_index),
              compare_offsets);
    }
    for (size_t i = 0; i < builder->count; i++) {
        const file_index *item = &builder->items[i];
        if (item->offset != end) {
            return bad(builder, item->tensor.name,
                       item->offset < end ? "overlaps another"
                                          : "a gap before it");
        }
        end += item->tensor.bytes;
    }
    if (end != builder->data_bytes) {
        return muster_error_set(builder->error_out, MUSTER_ERR_INPUT,
                                "%.300s: bytes after the last tensor",
                                builder->place);
    }
    return MUSTER_OK;
}

static muster_status build_index(index_builder *builder, json_t *header)
{
    muster_status status = MUSTER_OK;
    const char *key;
    json_t *value;
    json_object_foreach(header, key, value)
    {
        if (status == MUSTER_OK) {
            status = strcmp(key, "__metadata__") == 0
                         ? check_notes(builder, value)
                         : read_tensor(builder, key, value);
        }
    }
    return status == MUSTER_OK ? check_layout(builder) : status;
}

static muster_status out_of_memory(const char *place, muster_error *error_out)
{
    return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                            "%.300s: out of memory", place);
}

static muster_status fill(muster_safetensors *file, const index_builder *built)
{
    file->tensors = muster_mem_array(built->count, sizeof(muster_tensor));
    if (file->tensors == NULL) {
        return out_of_memory(built->place, built->error_out);
    }
    file->count = built->count;
    for (size_t i = 0; i < built->count; i++) {
        file->tensors[i] = built->items[i].tensor;
        file->tensors[i].data =
            (const char *)file->data + built->items[i].offset;
    }
    return MUSTER_OK;
}

/* Index the header; file->data must be the data's block already. */
static muster_status index_header(muster_safetensors *file, const char *header,
                                  size_t header_bytes, uint64_t data_bytes,
                                  const char *place, muster_error *error_out)
{
    json_error_t problem;
    file->header =
        json_loadb(header, header_bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!json_is_object(file->header) ||
        json_object_size(file->header) > MUSTER_TENSORS_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%.300s: not safetensors: the header is not a "
                                "JSON object of at most %u tensors",
                                place, MUSTER_TENSORS_MAX);
    }
    index_builder builder = {
        .place = place, .error_out = error_out, .data_bytes = data_bytes};
    builder.items =
        muster_mem_array(json_object_size(file->header), sizeof(file_index));
    if (builder.items == NULL) {
        return out_of_memory(place, error_out);
    }
    muster_status status = build_index(&builder, file->header);
    if (status == MUSTER_OK) {
        status = fill(file, &builder);
    }
    muster_mem_free(builder.items);
    return status;
}

static muster_status check_length(uint64_t size, const unsigned char *prefix,
                                  const char *place, muster_error *error_out,
                                  size_t *header_bytes_out)
{
    uint64_t length = 0;
    for (size_t i = 0; i < 8; i++) {
        length |= (uint64_t)prefix[i] << (8 * i);
    }
    if (size < 8 || length > size - 8 || length > MUSTER_TENSOR_HEADER_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%.300s: not safetensors, or cut short", place);
    }
    *header_bytes_out = (size_t)length;
    return MUSTER_OK;
}

muster_status muster_safetensors_parse(const void *bytes, size_t size,
                                       const char *place,
                                       muster_error *error_out,
                                       muster_safetensors **file_out)
{
    unsigned char prefix[8] = {0};
    size_t header_bytes = 0;
    memcpy(prefix, bytes, size < 8 ? size : 8);
    muster_status status =
        check_length(size, prefix, place, error_out, &header_bytes);
    if (status != MUSTER_OK) {
        return status;
    }
    const char *header = (const char *)bytes + 8;
    size_t data_bytes = size - 8 - header_bytes;
    muster_safetensors *file = muster_mem_array(1, sizeof(*file));
    if (file == NULL) {
        return out_of_memory(place, error_out);
    }
    file->data = muster_mem_raw_aligned(data_bytes, 1);
    if (file->data == NULL) {
        status = out_of_memory(place, error_out);
    } else {
        memcpy(file->data, header + header_bytes, data_bytes);
        status = index_header(file, header, header_bytes, data_bytes, place,
                              error_out);
    }
    if (status != MUSTER_OK) {
        muster_safetensors_close(file);
        return status;
    }
    *file_out = file;
    return MUSTER_OK;
}

static muster_status cannot_read(const char *path, muster_error *error_out)
{
    char text[128] = "";
    if (strerror_r(errno, text, sizeof(text)) != 0 || text[0] == '\0') {
        snprintf(text, sizeof(text), "cannot be read");
    }
    return muster_error_set(error_out, MUSTER_ERR_INPUT, "%.300s: %s", path,
                            text);
}

/* Read the header's text and the data of an open stream of `size` bytes. */
static muster_status load(FILE *stream, uint64_t size, const char *path,
                          muster_error *error_out, muster_safetensors *file)
{
    unsigned char prefix[8] = {0};
    size_t header_bytes = 0;
    if (fread(prefix, 1, sizeof(prefix), stream) < sizeof(prefix) &&
        ferror(stream)) {
        return cannot_read(path, error_out);
    }
    muster_status status =
        check_length(size, prefix, path, error_out, &header_bytes);
    if (status != MUSTER_OK) {
        return status;
    }
    size_t data_bytes = (size_t)size - 8 - header_bytes;
    char *header = muster_mem_array(header_bytes, 1);
    file->data = muster_mem_raw_aligned(data_bytes, 1);
    if (header == NULL || file->data == NULL) {
        status = out_of_memory(path, error_out);
    } else if (fread(header, 1, header_bytes, stream) != header_bytes ||
               fread(file->data, 1, data_bytes, stream) != data_bytes) {
        status = muster_error_set(error_out, MUSTER_ERR_INPUT,
                                  "%.300s: cut short while reading", path);
    } else {
        status = index_header(file, header, header_bytes, data_bytes, path,
                              error_out);
    }
    muster_mem_free(header);
    return status;
}

muster_status muster_safetensors_open(const char *path, muster_error *error_out,
                                      muster_safetensors **file_out)
{
    FILE *stream = fopen(path, "rbe");
    if (stream == NULL) {
        return cannot_read(path, error_out);
    }
    muster_status status = MUSTER_OK;
    struct stat about;
    muster_safetensors *file = muster_mem_array(1, sizeof(*file));
    if (file == NULL) {
        status = out_of_memory(path, error_out);
    } else if (fstat(fileno(stream), &about) != 0) {
        status = cannot_read(path, error_out);
    } else if (!S_ISREG(about.st_mode)) {
        status = muster_error_set(error_out, MUSTER_ERR_INPUT,
                                  "%.300s: not a file", path);
    } else {
        status = load(stream, (uint64_t)about.st_size, path, error_out, file);
    }
    fclose(stream);
    if (status != MUSTER_OK) {
        muster_safetensors_close(file);
        return status;
    }
    *file_out = file;
    return MUSTER_OK;
}

void muster_safetensors_close(muster_safetensors *file)
{
    if (file == NULL) {
        return;
    }
    json_decref(file->header);
    muster_mem_free(file->tensors);
    muster_mem_free(file->data);
    muster_mem_free(file);
}

size_t muster_safetensors_count(const muster_safetensors *file)
{
    return file->count;
}

const muster_tensor *muster_safetensors_at(const muster_safetensors *file,
                                           size_t index)
{
    return index < file->count ? &file->tensors[index] : NULL;
}

const muster_tensor *muster_safetensors_find(const muster_safetensors *file,
                                             const char *name)
{
    for (size_t i = 0; i < file->count; i++) {
        if (strcmp(file->tensors[i].name, name) == 0) {
            return &file->tensors[i];
        }
    }
    return NULL;
}

const char *muster_safetensors_note(const muster_safetensors *file,
                                    const char *key)
{
    return json_string_value(
        json_object_get(json_object_get(file->header, "__metadata__"), key));
}

size_t muster_safetensors_note_count(const muster_safetensors *file)
{
    return json_object_size(json_object_get(file->header, "__metadata__"));
}

muster_note muster_safetensors_note_at(const muster_safetensors *file,
                                       size_t index)
{
    json_t *notes = json_object_get(file->header, "__metadata__");
    void *at = json_object_iter(notes);
    for (size_t i = 0; i < index && at != NULL; i++) {
        at = json_object_iter_next(notes, at);
    }
    muster_note note = {NULL, NULL};
    if (at != NULL) {
        note.key = json_object_iter_key(at);
        note.value = json_string_value(json_object_iter_value(at));
    }
    return note;
}
