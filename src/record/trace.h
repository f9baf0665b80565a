/*
 * record/trace.h -- what happened when, as Chrome trace events.
 *
 * A file in the JSON array format that chrome://tracing and Perfetto read: one
 * row per worker and one for the coordinator, spans and marks on them. Events
 * are written as they come, through a fixed buffer and always whole, so a file
 * whose writer was killed lacks only the last events and the closing bracket,
 * which those programs do not ask for.
 *
 *   muster_trace_open(path, &error, &trace);
 *   muster_trace_name(trace, 1, "worker 0", &error);
 *   muster_trace_span(trace, &(muster_trace_event){..}, &error);
 *   muster_trace_close(trace, &error);
 *
 *   Ownership    The caller's from open to close.
 *   Errors       MUSTER_ERR_SYSTEM names the file; from then on every call
 *                fails likewise.
 *   Threads      One at a time.
 *   Allocation   open only.
 */
#ifndef MUSTER_RECORD_TRACE_H
#define MUSTER_RECORD_TRACE_H

#include <stdint.h>

#include "muster/status.h"

typedef struct muster_trace muster_trace;

typedef struct muster_trace_event {
    uint32_t row;
    const char *name; // at most 64 bytes; escaped as JSON wants it
    int64_t begin_ns; // of one clock, any origin
    int64_t end_ns;   // not before begin_ns; a mark has none
    uint64_t step;
} muster_trace_event;

/* Replaces what PATH held. */
MUSTER_CHECKED muster_status muster_trace_open(const char *path,
                                               muster_error *error_out,
                                               muster_trace **trace_out);

/* What stands beside a row. Rows are in order of their number. */
MUSTER_CHECKED muster_status muster_trace_name(muster_trace *trace,
                                               uint32_t row, const char *name,
                                               muster_error *error_out);
MUSTER_CHECKED muster_status muster_trace_span(muster_trace *trace,
                                               const muster_trace_event *event,
                                               muster_error *error_out);
MUSTER_CHECKED muster_status muster_trace_mark(muster_trace *trace,
                                               const muster_trace_event *event,
                                               muster_error *error_out);

/* The closing bracket, and the end of `trace` also on failure. NULL is
 * allowed. */
MUSTER_CHECKED muster_status muster_trace_close(muster_trace *trace,
                                                muster_error *error_out);

#endif // MUSTER_RECORD_TRACE_H
