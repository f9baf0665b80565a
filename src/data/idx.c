/*
 * idx.c -- the format of MNIST: 0, 0, a type, the number of dimensions, each
 * dimension as a big-endian 32-bit number, then the elements.
 */
#include "data/readers.h"

#include "base/mem.h"

#define TYPE_UBYTE     0x08
#define DIMENSIONS_MAX 4
#define CHUNK_BYTES    4096

typedef struct idx_header {
    unsigned dimensions;
    uint64_t count;   // first dimension
    uint64_t element; // product of the others
    muster_image image;
} idx_header;

static uint32_t big_endian(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 |
           b[3];
}

static muster_status read_magic(muster_source *source, muster_error *error_out,
                                unsigned *dimensions_out)
{
    const uint8_t *b;
    size_t count;
    muster_status status = muster_source_peek(source, error_out, &b, &count);
    if (status != MUSTER_OK) {
        return status;
    }
    if (count < 4 || b[0] != 0 || b[1] != 0) {
        return muster_source_fail_byte(
            source, error_out,
            "not an idx file: it must begin with 0, 0, type, dimensions");
    }
    if (b[2] != TYPE_UBYTE) {
        return muster_source_fail_byte(
            source, error_out,
            "idx elements of type 0x%02x; only unsigned bytes (0x08) are read",
            b[2]);
    }
    if (b[3] == 0 || b[3] > DIMENSIONS_MAX) {
        return muster_source_fail_byte(source, error_out,
                                       "%u idx dimensions; 1 to %u are read",
                                       b[3], DIMENSIONS_MAX);
    }
    *dimensions_out = b[3];
    return MUSTER_OK;
}

static muster_status read_header(muster_source *source, muster_error *error_out,
                                 idx_header *header)
{
    uint8_t bytes[4 + 4 * DIMENSIONS_MAX];
    muster_status status = read_magic(source, error_out, &header->dimensions);
    if (status == MUSTER_OK) {
        status = muster_source_read(
            source, bytes, 4 + 4 * (size_t)header->dimensions, error_out);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    header->count = big_endian(bytes + 4);
    if (header->dimensions >= 3) {
        header->image = (muster_image){
            big_endian(bytes + 8), big_endian(bytes + 12),
            header->dimensions == 4 ? big_endian(bytes + 16) : 1};
    }
    header->element = 1;
    for (unsigned d = 1; d < header->dimensions; d++) {
        uint64_t size = big_endian(bytes + 4 + 4 * (size_t)d);
        if (size != 0 && header->element > MUSTER_TABLE_FEATURES_MAX / size) {
            return muster_source_fail_byte(
                source, error_out, "more than %llu values a sample",
                (unsigned long long)MUSTER_TABLE_FEATURES_MAX);
        }
        header->element *= size;
    }
    uint64_t left = muster_source_left_max(source);
    if (header->count * header->element > left) {
        return muster_source_fail_byte(
            source, error_out,
            "cut short: the header promises %llu x %llu bytes, at most %llu "
            "follow",
            (unsigned long long)header->count,
            (unsigned long long)header->element, (unsigned long long)left);
    }
    return MUSTER_OK;
}

// Bytes to floats by a table of 256, up to the end of the file.
static muster_status read_elements(muster_source *source, uint64_t count,
                                   const float *float_of,
                                   muster_error *error_out, float *out)
{
    uint8_t chunk[CHUNK_BYTES];
    for (uint64_t done = 0; done < count;) {
        uint64_t left = count - done;
        size_t now = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
        muster_status status =
            muster_source_read(source, chunk, now, error_out);
        if (status != MUSTER_OK) {
            return status;
        }
        for (size_t i = 0; i < now; i++) {
            out[done + i] = float_of[chunk[i]];
        }
        done += now;
    }
    const uint8_t *more;
    size_t more_count;
    muster_status status =
        muster_source_peek(source, error_out, &more, &more_count);
    if (status == MUSTER_OK && more_count > 0) {
        return muster_source_fail_byte(
            source, error_out, "the file goes on after its last element");
    }
    return status;
}

/* The header of the labels, which must be one for each sample. */
static muster_status check_labels(muster_source *labels,
                                  const idx_header *shape,
                                  muster_error *error_out)
{
    idx_header label_shape = {0};
    muster_status status = read_header(labels, error_out, &label_shape);
    if (status != MUSTER_OK) {
        return status;
    }
    if (shape->dimensions < 2 || label_shape.dimensions != 1 ||
        shape->count != label_shape.count) {
        return muster_source_fail_byte(
            labels, error_out,
            "%llu labels (%u-dimensional) for %llu samples (%u-dimensional): "
            "need one label a sample",
            (unsigned long long)label_shape.count, label_shape.dimensions,
            (unsigned long long)shape->count, shape->dimensions);
    }
    return MUSTER_OK;
}

static muster_status read_all(muster_source *images, muster_source *labels,
                              muster_error *error_out, muster_table *table)
{
    idx_header shape = {0};
    muster_status status = read_header(images, error_out, &shape);
    if (status == MUSTER_OK && labels != NULL) {
        status = check_labels(labels, &shape, error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_table_make_dense(table, shape.count, shape.element,
                                         muster_source_name(images), error_out);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    table->image = shape.image;
    float scaled[256];
    float plain[256];
    for (unsigned i = 0; i < 256; i++) {
        scaled[i] = (float)i / 255.0f;
        plain[i] = (float)i;
    }
    status = read_elements(images, shape.count * shape.element, scaled,
                           error_out, table->dense);
    if (labels == NULL) {
        muster_mem_free(table->labels);
        table->labels = NULL;
    } else if (status == MUSTER_OK) {
        status =
            read_elements(labels, shape.count, plain, error_out, table->labels);
    }
    return status;
}

muster_status muster_idx_read(muster_source *images, muster_source *labels,
                              muster_error *error_out, muster_table *table)
{
    muster_status status = read_all(images, labels, error_out, table);
    if (status != MUSTER_OK) {
        muster_table_fini(table);
    }
    return status;
}
