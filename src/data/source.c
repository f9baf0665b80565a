/*
 * source.c -- a buffered reader over zlib's gzread, which reads plain files as
 * they are.
 *
 * Invariants: buffer[start .. end) is read and not yet taken; `ended` means
 * that nothing more will come; `taken` counts the bytes before `start`.
 */
#define _POSIX_C_SOURCE 200809L
#include "data/source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/error.h"
#include "base/mem.h"

#define BUFFER_BYTES  ((size_t)1 << 18)
#define DEFLATE_RATIO 1032u
#define FAIL_TEXT_MAX 256
#define ZLIB_READ_MAX ((size_t)1 << 20)

struct muster_source {
    char *name;
    gzFile file; // NULL over memory
    const uint8_t *memory;
    size_t memory_left;
    uint64_t total_max; // bytes that can come in all
    uint64_t taken;
    uint64_t lines;
    uint8_t *buffer; // capacity + 1 bytes: room for a line's zero
    size_t capacity;
    size_t start;
    size_t end;
    bool ended;
};

static muster_status fail_memory(const char *name, muster_error *error_out)
{
    return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                            "%s: out of memory while reading", name);
}

// NULL when out of memory. A small input needs no large buffer.
static muster_source *create(const char *name, uint64_t bytes)
{
    muster_source *source = muster_mem_array(1, sizeof(*source));
    if (source == NULL) {
        return NULL;
    }
    source->capacity = bytes < MUSTER_SOURCE_PEEK_MAX ? MUSTER_SOURCE_PEEK_MAX
                       : bytes < BUFFER_BYTES         ? (size_t)bytes
                                                      : BUFFER_BYTES;
    source->total_max = bytes;
    source->name = muster_mem_string(name);
    source->buffer = muster_mem_resize(NULL, source->capacity + 1, 1);
    if (source->name == NULL || source->buffer == NULL) {
        muster_source_close(source);
        return NULL;
    }
    return source;
}

// How much can come from a file of so many bytes.
static uint64_t total_max(int fd, uint64_t file_bytes)
{
    uint8_t magic[2] = {0, 0};
    bool zipped = pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
                  magic[0] == 0x1f && magic[1] == 0x8b;
    return zipped ? file_bytes * DEFLATE_RATIO : file_bytes;
}

// Opens the descriptor of a regular file, or says why not.
static muster_status open_regular(const char *path, muster_error *error_out,
                                  int *fd_out, uint64_t *bytes_out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%s: cannot open: %s", path, strerror(errno));
    }
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "%s: not a regular file", path);
    }
    *fd_out = fd;
    *bytes_out = (uint64_t)info.st_size;
    return MUSTER_OK;
}

// Takes the descriptor over, on failure too.
static muster_status open_descriptor(const char *name, int fd, uint64_t bytes,
                                     muster_error *error_out,
                                     muster_source **source_out)
{
    muster_source *source = create(name, bytes);
    if (source != NULL) {
        source->file = gzdopen(fd, "rb");
    }
    if (source == NULL || source->file == NULL) {
        close(fd);
        muster_source_close(source);
        return fail_memory(name, error_out);
    }
    gzbuffer(source->file, (unsigned)BUFFER_BYTES);
    *source_out = source;
    return MUSTER_OK;
}

// A copy of the descriptor is read and closed, stdin itself stays open. A pipe
// does not say how much will come.
static muster_status open_stdin(muster_error *error_out,
                                muster_source **source_out)
{
    struct stat info;
    int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    if (fd < 0 || fstat(fd, &info) != 0) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT,
                                "stdin: cannot open: %s", strerror(errno));
    }
    uint64_t bytes = S_ISREG(info.st_mode)
                         ? total_max(fd, (uint64_t)info.st_size)
                         : UINT64_MAX;
    return open_descriptor("stdin", fd, bytes, error_out, source_out);
}

bool muster_source_is_stdin(const char *path)
{
    return strcmp(path, "-") == 0;
}

bool muster_source_zipped_name(const char *path, char *name, size_t size)
{
    int length = snprintf(name, size, "%s.gz", path);
    return length >= 0 && (size_t)length < size && access(path, F_OK) != 0 &&
           errno == ENOENT && access(name, F_OK) == 0;
}

muster_status muster_source_open(const char *path, muster_error *error_out,
                                 muster_source **source_out)
{
    if (muster_source_is_stdin(path)) {
        return open_stdin(error_out, source_out);
    }
    int fd = -1;
    uint64_t file_bytes = 0;
    char zipped[PATH_MAX];
    if (muster_source_zipped_name(path, zipped, sizeof(zipped))) {
        path = zipped;
    }
    muster_status status = open_regular(path, error_out, &fd, &file_bytes);
    return status != MUSTER_OK
               ? status
               : open_descriptor(path, fd, total_max(fd, file_bytes), error_out,
                                 source_out);
}

muster_status muster_source_open_memory(const char *name, const void *bytes,
                                        size_t size, muster_error *error_out,
                                        muster_source **source_out)
{
    muster_source *source = create(name, size);
    if (source == NULL) {
        return fail_memory(name, error_out);
    }
    source->memory = bytes;
    source->memory_left = size;
    *source_out = source;
    return MUSTER_OK;
}

void muster_source_close(muster_source *source)
{
    if (source == NULL) {
        return;
    }
    if (source->file != NULL) {
        gzclose(source->file);
    }
    muster_mem_free(source->buffer);
    muster_mem_free(source->name);
    muster_mem_free(source);
}

const char *muster_source_name(const muster_source *source)
{
    return source->name;
}

uint64_t muster_source_offset(const muster_source *source)
{
    return source->taken;
}

uint64_t muster_source_left_max(const muster_source *source)
{
    return source->total_max > source->taken ? source->total_max - source->taken
                                             : 0;
}

static muster_status fail_read(muster_source *source, muster_error *error_out)
{
    int code = Z_OK;
    const char *text = gzerror(source->file, &code);
    if (code == Z_ERRNO) {
        return muster_error_set(error_out, MUSTER_ERR_SYSTEM,
                                "%s: cannot read: %s", source->name,
                                strerror(errno));
    }
    if (code == Z_MEM_ERROR) {
        return fail_memory(source->name, error_out);
    }
    return muster_error_set(
        error_out, MUSTER_ERR_INPUT,
        "%s: byte %llu: the gzip stream is %s (%s)", source->name,
        (unsigned long long)(source->taken + source->end - source->start),
        code == Z_BUF_ERROR ? "cut short" : "corrupt", text);
}

// Appends what comes next to the buffer, which must have room.
static muster_status fill(muster_source *source, muster_error *error_out)
{
    size_t room = source->capacity - source->end;
    if (source->file == NULL) {
        size_t count = room < source->memory_left ? room : source->memory_left;
        if (count > 0) {
            memcpy(source->buffer + source->end, source->memory, count);
            source->memory += count;
        }
        source->memory_left -= count;
        source->end += count;
        source->ended = count == 0;
        return MUSTER_OK;
    }
    unsigned ask = (unsigned)(room < ZLIB_READ_MAX ? room : ZLIB_READ_MAX);
    int count = gzread(source->file, source->buffer + source->end, ask);
    int code = Z_OK;
    gzerror(source->file, &code);
    // A stream that is cut short gives what it has and then Z_BUF_ERROR.
    if (count < 0 || (count < (int)ask && code == Z_BUF_ERROR)) {
        return fail_read(source, error_out);
    }
    source->end += (size_t)count;
    source->ended = count == 0;
    return MUSTER_OK;
}

// Moves what is left to the front, so that there is room behind it.
static void compact(muster_source *source)
{
    size_t left = source->end - source->start;
    if (source->start > 0 && left > 0) {
        memmove(source->buffer, source->buffer + source->start, left);
    }
    source->start = 0;
    source->end = left;
}

static void take(muster_source *source, size_t count)
{
    source->start += count;
    source->taken += count;
}

muster_status muster_source_peek(muster_source *source, muster_error *error_out,
                                 const uint8_t **bytes_out, size_t *count_out)
{
    compact(source);
    while (source->end < MUSTER_SOURCE_PEEK_MAX && !source->ended) {
        muster_status status = fill(source, error_out);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    *bytes_out = source->buffer;
    *count_out = source->end < MUSTER_SOURCE_PEEK_MAX ? source->end
                                                      : MUSTER_SOURCE_PEEK_MAX;
    return MUSTER_OK;
}

muster_status muster_source_read(muster_source *source, void *buffer,
                                 size_t bytes, muster_error *error_out)
{
    uint8_t *out = buffer;
    size_t left = bytes;
    while (left > 0) {
        size_t count = source->end - source->start;
        count = count < left ? count : left;
        if (count > 0) {
            memcpy(out, source->buffer + source->start, count);
            take(source, count);
            out += count;
            left -= count;
            continue;
        }
        compact(source);
        muster_status status = fill(source, error_out);
        if (status != MUSTER_OK) {
            return status;
        }
        if (source->ended) {
            return muster_source_fail_byte(
                source, error_out, "the file ends here, %zu bytes too early",
                left);
        }
    }
    return MUSTER_OK;
}

static muster_status grow(muster_source *source, muster_error *error_out)
{
    if (source->capacity >= MUSTER_SOURCE_LINE_MAX) {
        source->lines++;
        return muster_source_fail_line(source, error_out,
                                       "the line is longer than %zu bytes",
                                       MUSTER_SOURCE_LINE_MAX);
    }
    size_t capacity = source->capacity * 2;
    uint8_t *buffer = muster_mem_resize(source->buffer, capacity + 1, 1);
    if (buffer == NULL) {
        return fail_memory(source->name, error_out);
    }
    source->buffer = buffer;
    source->capacity = capacity;
    return MUSTER_OK;
}

// Reads on until a line end or the end of the file is in the buffer;
// *length_out is the length of the line without its LF.
static muster_status find_line_end(muster_source *source,
                                   muster_error *error_out, size_t *length_out)
{
    size_t searched = 0;
    for (;;) {
        const uint8_t *from = source->buffer + source->start + searched;
        size_t count = source->end - source->start - searched;
        const uint8_t *found = count > 0 ? memchr(from, '\n', count) : NULL;
        searched += found != NULL ? (size_t)(found - from) : count;
        if (found != NULL || source->ended) {
            *length_out = searched;
            return MUSTER_OK;
        }
        compact(source);
        muster_status status = MUSTER_OK;
        if (source->end == source->capacity) {
            status = grow(source, error_out);
        }
        if (status == MUSTER_OK) {
            status = fill(source, error_out);
        }
        if (status != MUSTER_OK) {
            return status;
        }
    }
}

muster_status muster_source_line(muster_source *source, muster_error *error_out,
                                 const char **line_out)
{
    size_t length = 0;
    muster_status status = find_line_end(source, error_out, &length);
    if (status != MUSTER_OK) {
        return status;
    }
    if (source->start == source->end) {
        *line_out = NULL;
        return MUSTER_OK;
    }
    source->lines++;
    char *line = (char *)source->buffer + source->start;
    bool has_end = source->start + length < source->end;
    take(source, length + has_end);
    if (memchr(line, '\0', length) != NULL) {
        return muster_source_fail_line(source, error_out,
                                       "the line holds a zero byte");
    }
    if (length > 0 && line[length - 1] == '\r') {
        length--;
    }
    line[length] = '\0';
    *line_out = line;
    return MUSTER_OK;
}

// What a file holds may be quoted in an error, but must not reach a terminal
// as control characters or break the line.
__attribute__((format(printf, 2, 0))) static void
print_clean(char *text, const char *format, va_list args)
{
    vsnprintf(text, FAIL_TEXT_MAX, format, args);
    for (char *p = text; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            *p = '?';
        }
    }
}

muster_status muster_source_fail_line(const muster_source *source,
                                      muster_error *error_out,
                                      const char *format, ...)
{
    char text[FAIL_TEXT_MAX];
    va_list args;
    va_start(args, format);
    print_clean(text, format, args);
    va_end(args);
    return muster_error_set(error_out, MUSTER_ERR_INPUT, "%s:%llu: %s",
                            source->name, (unsigned long long)source->lines,
                            text);
}

muster_status muster_source_fail_byte(const muster_source *source,
                                      muster_error *error_out,
                                      const char *format, ...)
{
    char text[FAIL_TEXT_MAX];
    va_list args;
    va_start(args, format);
    print_clean(text, format, args);
    va_end(args);
    return muster_error_set(error_out, MUSTER_ERR_INPUT, "%s: byte %llu: %s",
                            source->name, (unsigned long long)source->taken,
                            text);
}
