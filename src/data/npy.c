/*
 * npy.c -- NumPy's array file: "\x93NUMPY", a version, the length of a header
 * that is a Python dictionary (descr, fortran_order, shape), then the elements.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/columns.h"
#include "data/readers.h"

#define HEADER_MAX     4000 // real ones are 118 bytes
#define DIMENSIONS_MAX 4
#define CHUNK_ELEMENTS 512

typedef struct npy_header {
    char kind; // 'f', 'i', 'u' or 'b'
    unsigned element_bytes;
    unsigned dimensions;
    uint64_t count;   // first dimension
    uint64_t element; // product of the others
    uint64_t sides[DIMENSIONS_MAX];
} npy_header;

// The text after `'key':`, or NULL.
static const char *find_value(const char *header, const char *key)
{
    const char *found = strstr(header, key);
    if (found == NULL) {
        return NULL;
    }
    found += strlen(key);
    return found + strspn(found, " ");
}

static muster_status parse_type(muster_source *source, const char *header,
                                muster_error *error_out, npy_header *parsed)
{
    static const char *const known[] = {"f4", "f8", "i1", "i2", "i4", "i8",
                                        "u1", "u2", "u4", "u8", "b1"};
    const char *type = find_value(header, "'descr':");
    if (type == NULL || *type != '\'') {
        return muster_source_fail_byte(source, error_out,
                                       "the npy header has no plain 'descr'");
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        bool order = type[1] == '<' || (type[1] == '|' && known[i][1] == '1');
        if (order && strncmp(type + 2, known[i], 2) == 0 && type[4] == '\'') {
            parsed->kind = known[i][0];
            parsed->element_bytes = (unsigned)(known[i][1] - '0');
            return MUSTER_OK;
        }
    }
    return muster_source_fail_byte(
        source, error_out,
        "npy elements %.6s; little-endian f4, f8, i1-i8, u1-u8 are read", type);
}

static muster_status parse_shape(muster_source *source, const char *header,
                                 muster_error *error_out, npy_header *parsed)
{
    const char *p = find_value(header, "'shape':");
    if (p == NULL || *p != '(') {
        return muster_source_fail_byte(source, error_out,
                                       "the npy header has no 'shape'");
    }
    parsed->element = 1;
    for (p++; *p >= '0' && *p <= '9'; p += strspn(p, ", ")) {
        char *end;
        uint64_t size = strtoull(p, &end, 10);
        p = end;
        bool first = parsed->dimensions == 0;
        if (parsed->dimensions < DIMENSIONS_MAX) {
            parsed->sides[parsed->dimensions] = size;
        }
        parsed->dimensions++;
        parsed->count = first ? size : parsed->count;
        if (parsed->dimensions > DIMENSIONS_MAX ||
            parsed->count > MUSTER_TABLE_SAMPLES_MAX ||
            (!first && size != 0 &&
             parsed->element > MUSTER_TABLE_FEATURES_MAX / size)) {
            return muster_source_fail_byte(source, error_out,
                                           "the npy shape is too large");
        }
        parsed->element *= first ? 1 : size;
    }
    if (*p != ')' || parsed->dimensions == 0) {
        return muster_source_fail_byte(source, error_out,
                                       "the npy shape is not (a, b)");
    }
    return MUSTER_OK;
}

// Magic, version and the text of the dictionary.
static muster_status read_text(muster_source *source, muster_error *error_out,
                               char *text, size_t text_max)
{
    uint8_t b[12];
    muster_status status = muster_source_read(source, b, 8, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    if (memcmp(b, "\x93NUMPY", 6) != 0 || b[6] < 1 || b[6] > 3) {
        return muster_source_fail_byte(source, error_out,
                                       "not an npy file of version 1, 2 or 3");
    }
    size_t length_bytes = b[6] == 1 ? 2 : 4;
    status = muster_source_read(source, b + 8, length_bytes, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    size_t length = (size_t)b[8] | (size_t)b[9] << 8;
    if (length_bytes == 4) {
        length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    }
    if (length >= text_max) {
        return muster_source_fail_byte(source, error_out,
                                       "an npy header of %zu bytes", length);
    }
    text[length] = '\0';
    return muster_source_read(source, text, length, error_out);
}

static muster_status read_header(muster_source *source, muster_error *error_out,
                                 npy_header *parsed)
{
    char text[HEADER_MAX + 1];
    *parsed = (npy_header){0};
    muster_status status = read_text(source, error_out, text, sizeof(text));
    if (status == MUSTER_OK) {
        status = parse_type(source, text, error_out, parsed);
    }
    if (status == MUSTER_OK) {
        status = parse_shape(source, text, error_out, parsed);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    const char *order = find_value(text, "'fortran_order':");
    if (order == NULL || strncmp(order, "False", 5) != 0) {
        return muster_source_fail_byte(
            source, error_out,
            "the array must be in C order: save numpy.ascontiguousarray(x)");
    }
    // Each factor is bounded above, so the product is below 2^64.
    uint64_t bytes = parsed->count * parsed->element * parsed->element_bytes;
    uint64_t left = muster_source_left_max(source);
    if (bytes > left) {
        return muster_source_fail_byte(
            source, error_out,
            "cut short: the header promises %llu bytes, at most %llu follow",
            (unsigned long long)bytes, (unsigned long long)left);
    }
    return MUSTER_OK;
}

static float to_float(char kind, unsigned bytes, const uint8_t *at)
{
    uint64_t bits = 0;
    memcpy(&bits, at, bytes); // little-endian, as the machine
    if (kind == 'f' && bytes == 4) {
        float value;
        memcpy(&value, at, sizeof(value));
        return value;
    }
    if (kind == 'f') {
        double value;
        memcpy(&value, at, sizeof(value));
        return (float)value;
    }
    if (kind == 'i') {
        unsigned unused = 64 - 8 * bytes;
        return (float)((int64_t)(bits << unused) >> unused);
    }
    return (float)bits;
}

// Takes the next `count` elements.
static muster_status read_elements(muster_source *source,
                                   const npy_header *header, uint64_t count,
                                   muster_error *error_out, float *out)
{
    uint8_t chunk[CHUNK_ELEMENTS * 8];
    for (uint64_t done = 0; done < count;) {
        uint64_t left = count - done;
        size_t now = left < CHUNK_ELEMENTS ? (size_t)left : CHUNK_ELEMENTS;
        unsigned long long at = muster_source_offset(source);
        muster_status status = muster_source_read(
            source, chunk, now * header->element_bytes, error_out);
        if (status != MUSTER_OK) {
            return status;
        }
        for (size_t i = 0; i < now; i++) {
            size_t offset = i * header->element_bytes;
            out[done + i] =
                to_float(header->kind, header->element_bytes, chunk + offset);
            if (!isfinite(out[done + i])) {
                return muster_source_fail_byte(
                    source, error_out,
                    "the value at byte %llu is not finite in float32",
                    at + offset);
            }
        }
        done += now;
    }
    return MUSTER_OK;
}

static muster_status check_ended(muster_source *source, muster_error *error_out)
{
    const uint8_t *more;
    size_t count;
    muster_status status = muster_source_peek(source, error_out, &more, &count);
    if (status == MUSTER_OK && count > 0) {
        return muster_source_fail_byte(
            source, error_out, "the file goes on after its last element");
    }
    return status;
}

muster_status muster_npy_read_column(muster_source *source, uint64_t samples,
                                     const char *what, muster_error *error_out,
                                     float *out)
{
    npy_header header;
    muster_status status = read_header(source, error_out, &header);
    if (status != MUSTER_OK) {
        return status;
    }
    if (header.count != samples || header.element != 1) {
        return muster_source_fail_byte(
            source, error_out,
            "%llu x %llu %ss for %llu samples: need one %s a sample",
            (unsigned long long)header.count,
            (unsigned long long)header.element, what,
            (unsigned long long)samples, what);
    }
    status = read_elements(source, &header, samples, error_out, out);
    return status == MUSTER_OK ? check_ended(source, error_out) : status;
}

muster_status muster_npy_read_features(muster_source *source, uint64_t samples,
                                       muster_error *error_out,
                                       uint32_t *features_out, float **rows_out)
{
    npy_header header;
    muster_status status = read_header(source, error_out, &header);
    if (status != MUSTER_OK) {
        return status;
    }
    if (header.count != samples || header.element == 0 ||
        header.element > INT32_MAX) {
        return muster_source_fail_byte(
            source, error_out,
            "%llu rows of %llu features for %llu samples: need one row a "
            "sample",
            (unsigned long long)header.count,
            (unsigned long long)header.element, (unsigned long long)samples);
    }
    float *rows = muster_mem_array(samples, header.element * sizeof(*rows));
    if (rows == NULL) {
        return muster_table_fail_memory(muster_source_name(source), error_out);
    }
    status = read_elements(source, &header, samples * header.element, error_out,
                           rows);
    if (status == MUSTER_OK) {
        status = check_ended(source, error_out);
    }
    if (status != MUSTER_OK) {
        muster_mem_free(rows);
        return status;
    }
    *features_out = (uint32_t)header.element;
    *rows_out = rows;
    return MUSTER_OK;
}

// Samples in turn: what is before the label, the label, what is after it.
static muster_status read_rows(muster_source *source, const npy_header *header,
                               uint64_t label, muster_error *error_out,
                               muster_table *table)
{
    muster_status status = MUSTER_OK;
    uint64_t before = label - 1;
    for (uint64_t i = 0; status == MUSTER_OK && i < header->count; i++) {
        float *row = table->dense + i * table->features;
        status = read_elements(source, header, before, error_out, row);
        if (status == MUSTER_OK) {
            status =
                read_elements(source, header, 1, error_out, table->labels + i);
        }
        if (status == MUSTER_OK) {
            status = read_elements(source, header, table->features - before,
                                   error_out, row + before);
        }
    }
    return status;
}

static muster_status fail_shape(const muster_source *source, bool inside,
                                muster_error *error_out)
{
    return muster_source_fail_byte(
        source, error_out,
        "the array must have two dimensions: samples x features%s",
        inside ? ", the label among them" : "");
}

// What samples of two or three dimensions are; their sizes are bounded.
static muster_image image_of(const npy_header *header)
{
    if (header->dimensions < 3) {
        return (muster_image){0};
    }
    uint64_t channels = header->dimensions == 4 ? header->sides[3] : 1;
    return (muster_image){(uint32_t)header->sides[1],
                          (uint32_t)header->sides[2], (uint32_t)channels};
}

static muster_status read_all(muster_source *source, muster_source *labels,
                              const muster_label_column *wanted,
                              muster_error *error_out, muster_table *table)
{
    npy_header header;
    muster_status status = read_header(source, error_out, &header);
    if (status != MUSTER_OK) {
        return status;
    }
    bool inside = labels == NULL;
    muster_label_choice choice = {.number = 0};
    const char *name = muster_source_name(source);
    if (header.dimensions < 2) {
        return fail_shape(source, inside, error_out);
    }
    if (inside) {
        const muster_columns columns = {.count = header.element};
        status =
            muster_label_choose(&columns, wanted, name, error_out, &choice);
    }
    uint64_t features = header.element - (choice.number > 0);
    if (status == MUSTER_OK && features == 0) {
        status = fail_shape(source, inside, error_out);
    }
    if (status == MUSTER_OK) {
        status = muster_table_make_dense(table, header.count, features, name,
                                         error_out);
    }
    if (status == MUSTER_OK) {
        status =
            choice.number > 0
                ? read_rows(source, &header, choice.number, error_out, table)
                : read_elements(source, &header, header.count * features,
                                error_out, table->dense);
    }
    if (status == MUSTER_OK) {
        status = check_ended(source, error_out);
    }
    if (status == MUSTER_OK && !inside) {
        status = muster_npy_read_column(labels, header.count, "label",
                                        error_out, table->labels);
    }
    if (status == MUSTER_OK && inside && choice.number == 0) {
        muster_mem_free(table->labels);
        table->labels = NULL;
    }
    if (choice.number == 0) {
        table->image = image_of(&header);
    }
    table->label_column = (uint32_t)choice.number;
    table->label_why = choice.why;
    return status;
}

muster_status muster_npy_read(muster_source *source, muster_source *labels,
                              const muster_label_column *label,
                              muster_error *error_out, muster_table *table)
{
    muster_status status = read_all(source, labels, label, error_out, table);
    if (status != MUSTER_OK) {
        muster_table_fini(table);
    }
    return status;
}
