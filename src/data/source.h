/*
 * data/source.h -- the bytes of a data file, plain or gzipped, of stdin or of
 * memory.
 *
 * Readers pull lines (text) or exact runs of bytes (binary) and never see how
 * the file is stored. The source counts lines and bytes, so that an error can
 * name its place.
 *
 *   Promise      A gzip stream that is cut short or corrupt is an error, never
 *                an early end.
 *   Lifecycle    open, any number of reads, close.
 *   Allocation   One buffer, which grows to the longest line.
 *   Threads      One at a time.
 */
#ifndef MUSTER_DATA_SOURCE_H
#define MUSTER_DATA_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

#define MUSTER_SOURCE_PEEK_MAX 4096u

/* A longer line is refused. */
#define MUSTER_SOURCE_LINE_MAX ((size_t)1 << 28)

typedef struct muster_source muster_source;

/* The file, or FILE.gz where only that exists; "-" is stdin, called "stdin" in
 * errors. MUSTER_ERR_INPUT when the file cannot be opened or is not a regular
 * one. */
MUSTER_CHECKED muster_status muster_source_open(const char *path,
                                                muster_error *error_out,
                                                muster_source **source_out);

/* Does a path mean stdin? It can be read once in a process. */
bool muster_source_is_stdin(const char *path);

/* Where there is no file `path` but a file `path`.gz: its name, and true. */
bool muster_source_zipped_name(const char *path, char *name, size_t size);

/* The same over bytes in memory (never unzipped), which must outlive it. */
MUSTER_CHECKED muster_status
muster_source_open_memory(const char *name, const void *bytes, size_t size,
                          muster_error *error_out, muster_source **source_out);

void muster_source_close(muster_source *source);

/* The name of the file that is read, lent until close. */
const char *muster_source_name(const muster_source *source);

/* Bytes taken so far, after unzipping. */
uint64_t muster_source_offset(const muster_source *source);

/* No more than so many bytes can still come: what a header may promise. A pipe
 * may bring any number (UINT64_MAX). Deflate cannot shrink more than 1032
 * times, so this holds for gzip too. */
uint64_t muster_source_left_max(const muster_source *source);

/* Look at the next bytes without taking them: up to MUSTER_SOURCE_PEEK_MAX,
 * fewer at the end only. Lent until the next call. */
MUSTER_CHECKED muster_status muster_source_peek(muster_source *source,
                                                muster_error *error_out,
                                                const uint8_t **bytes_out,
                                                size_t *count_out);

/* Take exactly `bytes` bytes; MUSTER_ERR_INPUT when the file ends before. */
MUSTER_CHECKED muster_status muster_source_read(muster_source *source,
                                                void *buffer, size_t bytes,
                                                muster_error *error_out);

/* Take a line: zero-terminated, without its end (LF or CR LF), which the last
 * line may lack. *line_out is NULL at the end of the file; lent until the next
 * call. MUSTER_ERR_INPUT for a line that is too long or holds a zero byte. */
MUSTER_CHECKED muster_status muster_source_line(muster_source *source,
                                                muster_error *error_out,
                                                const char **line_out);

/* MUSTER_ERR_INPUT with "NAME:LINE: " (the line taken last) or "NAME: byte
 * OFFSET: " before the text. */
muster_status muster_source_fail_line(const muster_source *source,
                                      muster_error *error_out,
                                      const char *format, ...)
    __attribute__((format(printf, 3, 4)));
muster_status muster_source_fail_byte(const muster_source *source,
                                      muster_error *error_out,
                                      const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif // MUSTER_DATA_SOURCE_H
