/*
 * format.c -- which reader a file needs.
 */
#include <string.h>

#include "base/error.h"
#include "data/readers.h"

static bool name_ends(const char *name, size_t length, const char *ending)
{
    size_t size = strlen(ending);
    return length >= size && memcmp(name + length - size, ending, size) == 0;
}

// The format that a name promises, or 0.
static int by_name(const char *path)
{
    static const struct {
        const char *ending;
        muster_format format;
    } endings[] = {
        {".npy", MUSTER_FORMAT_NPY},    {".csv", MUSTER_FORMAT_CSV},
        {".tsv", MUSTER_FORMAT_CSV},    {".libsvm", MUSTER_FORMAT_LIBSVM},
        {".svm", MUSTER_FORMAT_LIBSVM}, {".idx", MUSTER_FORMAT_IDX},
        {"-ubyte", MUSTER_FORMAT_IDX},  {"_batch.bin", MUSTER_FORMAT_CIFAR},
    };
    size_t length = strlen(path);
    length -= name_ends(path, length, ".gz") ? 3 : 0;
    const char *batch = strstr(path, "data_batch_");
    if (batch != NULL && name_ends(path, length, ".bin")) {
        return MUSTER_FORMAT_CIFAR;
    }
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        if (name_ends(path, length, endings[i].ending)) {
            return (int)endings[i].format;
        }
    }
    return 0;
}

// What the text looks like, or 0: a colon is libsvm's, a separator csv's.
static int by_text(const uint8_t *bytes, size_t count)
{
    bool separated = false;
    for (size_t i = 0; i < count; i++) {
        uint8_t c = bytes[i];
        if (c < 0x20 && c != '\n' && c != '\r' && c != '\t') {
            return 0;
        }
        if (c == ':') {
            return MUSTER_FORMAT_LIBSVM;
        }
        separated = separated || c == ',' || c == ';' || c == '\t' || c == ' ';
    }
    return separated ? MUSTER_FORMAT_CSV : 0;
}

muster_status muster_format_guess(muster_source *source,
                                  muster_error *error_out,
                                  muster_format *format_out)
{
    const uint8_t *bytes;
    size_t count;
    muster_status status =
        muster_source_peek(source, error_out, &bytes, &count);
    if (status != MUSTER_OK) {
        return status;
    }
    int format = count > 0 ? by_name(muster_source_name(source)) : 0;
    if (count >= 6 && memcmp(bytes, "\x93NUMPY", 6) == 0) {
        format = MUSTER_FORMAT_NPY;
    } else if (count >= 4 && memcmp(bytes, "\0\0\x08", 3) == 0) {
        format = MUSTER_FORMAT_IDX;
    } else if (format == 0) {
        format = by_text(bytes, count);
    }
    if (format == 0) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%s: %s; expected idx, npy, libsvm, csv or "
                                "CIFAR-10, plain or gzipped",
                                muster_source_name(source),
                                count == 0 ? "the file is empty"
                                           : "of no known format");
    }
    *format_out = (muster_format)format;
    return MUSTER_OK;
}
