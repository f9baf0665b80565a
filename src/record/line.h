/*
 * record/line.h -- the lines of metrics.jsonl and workers.jsonl.
 *
 * One struct each, to text and back. A number that is not finite is written as
 * null and read back as NAN. A step line without "exact" and "degraded" is of
 * an exact step, one without "bytes_moved" and "stages_dropped" of a release
 * that did not write them; they are then 0.
 */
#ifndef MUSTER_RECORD_LINE_H
#define MUSTER_RECORD_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUSTER_LINE_BYTES_MAX 512u

/* A step, as the coordinator saw it end. */
typedef struct muster_step_line {
    uint64_t step;
    double loss;
    double step_ms;
    uint32_t responders;
    uint32_t stragglers;
    double grad_err;
    uint64_t bytes_up; // of this step
    uint64_t bytes_down;
    uint64_t messages_up;
    uint64_t bytes_moved;    // parts sent to workers
    uint64_t stages_dropped; // of codes in stages: for nothing
    bool inexact;  // grad_err is more than rounding; "exact" is its opposite
    bool degraded; // inexact, though the code is an exact one
} muster_step_line;

/* A worker's answer to a step. */
typedef struct muster_worker_line {
    uint64_t step;
    uint32_t worker;
    double compute_ms;
    double arrive_ms; // since the step began
    bool late;        // after the step was decoded
    bool edge;        // `worker` is the number of an edge: the key is "edge"
} muster_worker_line;

/* The line with its newline; returns its length, below MUSTER_LINE_BYTES_MAX.
 */
size_t muster_step_line_write(const muster_step_line *line, char *text_out);
size_t muster_worker_line_write(const muster_worker_line *line, char *text_out);

/* False when the text (without a newline) is not such a line. */
bool muster_step_line_read(const char *text, size_t size,
                           muster_step_line *line_out);
bool muster_worker_line_read(const char *text, size_t size,
                             muster_worker_line *line_out);

#endif // MUSTER_RECORD_LINE_H
