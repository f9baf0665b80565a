/*
 * trace.c -- see trace.h.
 *
 * Invariant: the file ends with a whole event, or with the opening bracket,
 * after every write; the buffer holds whole events.
 */
#define _POSIX_C_SOURCE 200809L
#include "record/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "record/atomic.h"

#define BUFFER_BYTES   65536u
#define EVENT_BYTES    768u
#define NAME_BYTES_MAX 64u
#define FLUSH_NS       MUSTER_NS_PER_S

struct muster_trace {
    int fd;
    int failed; // an errno, or 0
    char *path;
    bool started, any; // an origin is known; an event was written
    int64_t origin_ns;
    int64_t flushed_ns; // in the events' time
    size_t used;
    char buffer[BUFFER_BYTES];
};

static muster_status outcome(const muster_trace *trace, muster_error *error_out)
{
    return trace->failed == 0
               ? MUSTER_OK
               : muster_record_failed(trace->path, trace->failed, error_out);
}

static void flush(muster_trace *trace)
{
    if (trace->failed == 0) {
        trace->failed = muster_write_all(trace->fd, trace->buffer, trace->used);
    }
    trace->used = 0;
}

static void add(muster_trace *trace, const char *text, size_t size)
{
    if (trace->used + size > BUFFER_BYTES) {
        flush(trace);
    }
    memcpy(trace->buffer + trace->used, text, size);
    trace->used += size;
}

muster_status muster_trace_open(const char *path, muster_error *error_out,
                                muster_trace **trace_out)
{
    muster_trace *trace = muster_mem_array(1, sizeof *trace);
    char *copy = muster_mem_string(path);
    int reason = ENOMEM;
    if (trace == NULL || copy == NULL) {
        goto out;
    }
    trace->path = copy;
    trace->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (trace->fd < 0) {
        reason = errno;
        goto out;
    }
    add(trace, "[\n", 2);
    *trace_out = trace;
    return MUSTER_OK;

out:
    muster_mem_free(trace);
    muster_mem_free(copy);
    return muster_record_failed(path, reason, error_out);
}

/* A name between quotes; text_out has room for 6 bytes a character. */
static void quote(const char *name, char *text_out)
{
    size_t used = 0;
    for (size_t i = 0; i < NAME_BYTES_MAX && name[i] != '\0'; i++) {
        unsigned char byte = (unsigned char)name[i];
        if (byte == '"' || byte == '\\') {
            text_out[used++] = '\\';
            text_out[used++] = (char)byte;
        } else if (byte < 0x20 || byte > 0x7e) {
            static const char digits[] = "0123456789abcdef";
            memcpy(text_out + used, "\\u00", 4);
            text_out[used + 4] = digits[byte >> 4];
            text_out[used + 5] = digits[byte & 15];
            used += 6;
        } else {
            text_out[used++] = (char)byte;
        }
    }
    text_out[used] = '\0';
}

/* One event, after a comma where there was one before. */
static muster_status put(muster_trace *trace, const char *text, int length,
                         muster_error *error_out)
{
    if (trace->any) {
        add(trace, ",\n", 2);
    }
    trace->any = true;
    add(trace, text, (size_t)length);
    return outcome(trace, error_out);
}

muster_status muster_trace_name(muster_trace *trace, uint32_t row,
                                const char *name, muster_error *error_out)
{
    char text[EVENT_BYTES], quoted[6 * NAME_BYTES_MAX + 1];
    quote(name, quoted);
    int length = snprintf(
        text, sizeof text,
        "{\"ph\":\"M\",\"pid\":1,\"tid\":%" PRIu32
        ",\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}},\n"
        "{\"ph\":\"M\",\"pid\":1,\"tid\":%" PRIu32
        ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%" PRIu32
        "}}",
        row, quoted, row, row);
    return put(trace, text, length, error_out);
}

/* Microseconds since the first event. */
static double since_us(muster_trace *trace, int64_t at_ns)
{
    if (!trace->started) {
        trace->started = true;
        trace->origin_ns = at_ns;
        trace->flushed_ns = at_ns;
    }
    if (at_ns - trace->flushed_ns > FLUSH_NS) {
        trace->flushed_ns = at_ns;
        flush(trace);
    }
    return (double)(at_ns - trace->origin_ns) * 1e-3;
}

muster_status muster_trace_span(muster_trace *trace,
                                const muster_trace_event *event,
                                muster_error *error_out)
{
    char text[EVENT_BYTES], quoted[6 * NAME_BYTES_MAX + 1];
    double begin_us = since_us(trace, event->begin_ns);
    int64_t long_ns = event->end_ns - event->begin_ns;
    quote(event->name, quoted);
    int length =
        snprintf(text, sizeof text,
                 "{\"ph\":\"X\",\"pid\":1,\"tid\":%" PRIu32
                 ",\"name\":\"%s\",\"ts\":%.3f,\"dur\":%.3f,"
                 "\"args\":{\"step\":%" PRIu64 "}}",
                 event->row, quoted, begin_us,
                 long_ns > 0 ? (double)long_ns * 1e-3 : 0, event->step);
    return put(trace, text, length, error_out);
}

muster_status muster_trace_mark(muster_trace *trace,
                                const muster_trace_event *event,
                                muster_error *error_out)
{
    char text[EVENT_BYTES], quoted[6 * NAME_BYTES_MAX + 1];
    double at_us = since_us(trace, event->begin_ns);
    quote(event->name, quoted);
    int length = snprintf(
        text, sizeof text,
        "{\"ph\":\"i\",\"s\":\"t\",\"pid\":1,\"tid\":%" PRIu32
        ",\"name\":\"%s\",\"ts\":%.3f,\"args\":{\"step\":%" PRIu64 "}}",
        event->row, quoted, at_us, event->step);
    return put(trace, text, length, error_out);
}

muster_status muster_trace_close(muster_trace *trace, muster_error *error_out)
{
    if (trace == NULL) {
        return MUSTER_OK;
    }
    add(trace, "\n]\n", 3);
    flush(trace);
    if (close(trace->fd) != 0 && trace->failed == 0) {
        trace->failed = errno;
    }
    muster_status status = outcome(trace, error_out);
    muster_mem_free(trace->path);
    muster_mem_free(trace);
    return status;
}
