/*
 * line.c -- written with snprintf (no allocation per step), read with jansson.
 */
#include "record/line.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "base/assert.h"

#define NUMBER_MAX 32

static const char *number(double value, char *text)
{
    if (!isfinite(value)) {
        return "null";
    }
    snprintf(text, NUMBER_MAX, "%.9g", value);
    return text;
}

size_t muster_step_line_write(const muster_step_line *line, char *text_out)
{
    char loss[NUMBER_MAX];
    char step_ms[NUMBER_MAX];
    char grad_err[NUMBER_MAX];
    int length = snprintf(
        text_out, MUSTER_LINE_BYTES_MAX,
        "{\"step\":%" PRIu64
        ",\"loss\":%s,\"step_ms\":%s,\"responders\":%" PRIu32
        ",\"stragglers\":%" PRIu32 ",\"grad_err\":%s,\"bytes_up\":%" PRIu64
        ",\"bytes_down\":%" PRIu64 ",\"messages_up\":%" PRIu64
        ",\"bytes_moved\":%" PRIu64 ",\"stages_dropped\":%" PRIu64
        ",\"exact\":%s,\"degraded\":%s}\n",
        line->step, number(line->loss, loss), number(line->step_ms, step_ms),
        line->responders, line->stragglers, number(line->grad_err, grad_err),
        line->bytes_up, line->bytes_down, line->messages_up, line->bytes_moved,
        line->stages_dropped, line->inexact ? "false" : "true",
        line->degraded ? "true" : "false");
    MUSTER_ASSERT(length > 0 && length < (int)MUSTER_LINE_BYTES_MAX);
    return (size_t)length;
}

size_t muster_worker_line_write(const muster_worker_line *line, char *text_out)
{
    char compute_ms[NUMBER_MAX];
    char arrive_ms[NUMBER_MAX];
    int length = snprintf(text_out, MUSTER_LINE_BYTES_MAX,
                          "{\"step\":%" PRIu64 ",\"%s\":%" PRIu32
                          ",\"compute_ms\":%s,\"arrive_ms\":%s,\"late\":%s}\n",
                          line->step, line->edge ? "edge" : "worker",
                          line->worker, number(line->compute_ms, compute_ms),
                          number(line->arrive_ms, arrive_ms),
                          line->late ? "true" : "false");
    MUSTER_ASSERT(length > 0 && length < (int)MUSTER_LINE_BYTES_MAX);
    return (size_t)length;
}

static bool get_uint(const json_t *object, const char *key, uint64_t max,
                     uint64_t *value_out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        (uint64_t)json_integer_value(value) > max) {
        return false;
    }
    *value_out = (uint64_t)json_integer_value(value);
    return true;
}

/* A count that lines of earlier releases do not have. */
static bool get_count(const json_t *object, const char *key,
                      uint64_t *value_out)
{
    *value_out = 0;
    return json_object_get(object, key) == NULL ||
           get_uint(object, key, INT64_MAX, value_out);
}

static bool get_number(const json_t *object, const char *key, double *value_out)
{
    const json_t *value = json_object_get(object, key);
    *value_out = json_is_number(value) ? json_number_value(value) : NAN;
    return json_is_number(value) || json_is_null(value);
}

/* A boolean that may be missing. */
static bool get_bool(const json_t *object, const char *key, bool *value_out)
{
    const json_t *value = json_object_get(object, key);
    if (value != NULL) {
        *value_out = json_is_true(value);
    }
    return value == NULL || json_is_boolean(value);
}

bool muster_step_line_read(const char *text, size_t size,
                           muster_step_line *line_out)
{
    json_t *object = json_loadb(text, size, 0, NULL);
    muster_step_line line;
    uint64_t responders = 0;
    uint64_t stragglers = 0;
    bool exact = true;
    line.degraded = false;
    bool good = get_uint(object, "step", INT64_MAX, &line.step) &&
                get_number(object, "loss", &line.loss) &&
                get_number(object, "step_ms", &line.step_ms) &&
                get_uint(object, "responders", UINT32_MAX, &responders) &&
                get_uint(object, "stragglers", UINT32_MAX, &stragglers) &&
                get_number(object, "grad_err", &line.grad_err) &&
                get_uint(object, "bytes_up", INT64_MAX, &line.bytes_up) &&
                get_uint(object, "bytes_down", INT64_MAX, &line.bytes_down) &&
                get_uint(object, "messages_up", INT64_MAX, &line.messages_up) &&
                get_count(object, "bytes_moved", &line.bytes_moved) &&
                get_count(object, "stages_dropped", &line.stages_dropped) &&
                get_bool(object, "exact", &exact) &&
                get_bool(object, "degraded", &line.degraded);
    json_decref(object);
    if (good) {
        line.responders = (uint32_t)responders;
        line.stragglers = (uint32_t)stragglers;
        line.inexact = !exact;
        *line_out = line;
    }
    return good;
}

bool muster_worker_line_read(const char *text, size_t size,
                             muster_worker_line *line_out)
{
    json_t *object = json_loadb(text, size, 0, NULL);
    muster_worker_line line;
    uint64_t worker = 0;
    const json_t *late = json_object_get(object, "late");
    line.edge = json_object_get(object, "edge") != NULL;
    bool good =
        get_uint(object, "step", INT64_MAX, &line.step) &&
        get_uint(object, line.edge ? "edge" : "worker", UINT32_MAX, &worker) &&
        get_number(object, "compute_ms", &line.compute_ms) &&
        get_number(object, "arrive_ms", &line.arrive_ms) &&
        json_is_boolean(late);
    if (good) {
        line.worker = (uint32_t)worker;
        line.late = json_is_true(late);
        *line_out = line;
    }
    json_decref(object);
    return good;
}
