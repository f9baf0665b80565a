/*
 * delay_trace.c -- reads the csv of cluster/delay_trace.h: once for the lines,
 * then into a table that must come out full.
 */
#include "cluster/delay_trace.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/vec.h"

#define ITERATIONS_MAX 0x7fffffffu
#define WORKERS_MAX    65536u

typedef struct measurement {
    uint32_t iteration;
    uint32_t worker;
    double seconds;
} measurement;

/* A number below `limit` and the comma after it; NULL: it is not there. */
static const char *parse_index(const char *text, uint32_t limit, uint32_t *out)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    if (end == text || *end != ',' || *text == '-' || value >= limit) {
        return NULL;
    }
    *out = (uint32_t)value;
    return end + 1;
}

static bool parse_line(const char *line, measurement *out)
{
    const char *at = parse_index(line, ITERATIONS_MAX, &out->iteration);
    at = at != NULL ? parse_index(at, WORKERS_MAX, &out->worker) : NULL;
    if (at == NULL) {
        return false;
    }
    char *end = NULL;
    out->seconds = strtod(at, &end);
    bool whole = end != at && end[strspn(end, "\r\n")] == 0;
    return whole && isfinite(out->seconds) && out->seconds >= 0;
}

static muster_status read_lines(FILE *file, const char *path,
                                muster_error *error, muster_vec *lines)
{
    char line[256];
    for (size_t number = 1; fgets(line, sizeof(line), file) != NULL; number++) {
        if (number == 1 && strncmp(line, "iteration,worker,seconds", 24) == 0) {
            continue;
        }
        measurement next;
        if (!parse_line(line, &next)) {
            return muster_error_set(
                error, MUSTER_ERR_INPUT,
                "%s:%zu: expected iteration,worker,seconds such as 0,3,1.25",
                path, number);
        }
        if (!muster_vec_append(lines, &next, 1)) {
            return muster_error_set(error, MUSTER_ERR_NO_MEMORY,
                                    "%s: no memory", path);
        }
    }
    return MUSTER_OK;
}

static muster_status fill(const muster_vec *lines, const char *path,
                          muster_error *error, muster_delay_trace *trace)
{
    const measurement *all = lines->data;
    for (size_t i = 0; i < lines->count; i++) {
        if (all[i].iteration >= trace->iterations) {
            trace->iterations = all[i].iteration + 1;
        }
        if (all[i].worker >= trace->workers) {
            trace->workers = all[i].worker + 1;
        }
    }
    size_t cells = (size_t)trace->iterations * trace->workers;
    if (cells != lines->count || cells == 0) {
        return muster_error_set(
            error, MUSTER_ERR_INPUT,
            "%s: %zu lines, but %u iterations of %u workers need %zu", path,
            lines->count, trace->iterations, trace->workers, cells);
    }
    trace->seconds = muster_mem_array(cells, sizeof(double));
    if (trace->seconds == NULL) {
        return muster_error_set(error, MUSTER_ERR_NO_MEMORY, "%s: no memory",
                                path);
    }
    for (size_t i = 0; i < cells; i++) {
        trace->seconds[i] = -1;
    }
    for (size_t i = 0; i < cells; i++) {
        double *cell =
            &trace->seconds[(size_t)all[i].iteration * trace->workers +
                            all[i].worker];
        if (*cell >= 0) {
            return muster_error_set(
                error, MUSTER_ERR_INPUT,
                "%s: iteration %u of worker %u is there twice", path,
                all[i].iteration, all[i].worker);
        }
        *cell = all[i].seconds;
    }
    return MUSTER_OK;
}

muster_status muster_delay_trace_load(const char *path, muster_error *error_out,
                                      muster_delay_trace *trace_out)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INPUT, "%s: %s", path,
                                strerror(errno));
    }
    muster_delay_trace trace = {0};
    muster_vec lines = muster_vec_make(sizeof(measurement));
    muster_status status = read_lines(file, path, error_out, &lines);
    if (status == MUSTER_OK) {
        status = fill(&lines, path, error_out, &trace);
    }
    fclose(file);
    muster_vec_fini(&lines);
    if (status != MUSTER_OK) {
        muster_delay_trace_fini(&trace);
        return status;
    }
    *trace_out = trace;
    return MUSTER_OK;
}

void muster_delay_trace_fini(muster_delay_trace *trace)
{
    muster_mem_free(trace->seconds);
    *trace = (muster_delay_trace){0};
}
