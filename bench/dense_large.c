/*
 * Steps of a large model: two workers of this machine, each with all the work
 * (frc, s = 1), beside what a step cannot do without: the workers' computing
 * and one pass of each message through memory.
 */
#define _GNU_SOURCE
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"
#include "bench_dense.h"

#define PATH_BYTES 1024u
#define MESSAGES   4.0 // the model and an answer, for each of two workers
#define TURNS      5u

/* The run's summary; NULL: it failed. */
static json_t *train(uint32_t hidden)
{
    char folder[PATH_BYTES];
    char command[PATH_BYTES + 512];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    if (length <= 0) {
        return NULL;
    }
    folder[length] = '\0';
    *strrchr(folder, '/') = '\0';
    snprintf(command, sizeof(command),
             "timeout 300 '%s/muster' train --data "
             "synthetic:samples=400,features=%u,classes=%u,test=0 --model "
             "mlp:hidden=%u,%u --local 2 --code frc --stragglers 1 --batch 64 "
             "--steps 12 --threads 1 --json --quiet 2>/dev/null",
             folder, DENSE_FEATURES, DENSE_CLASSES, hidden, hidden);
    FILE *pipe = popen(command, "r");
    json_t *object =
        pipe != NULL ? json_loadf(pipe, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    if (pipe != NULL) {
        pclose(pipe);
    }
    return object;
}

/* Of the faster worker: a step ends with its answer. */
static double compute_ms(const json_t *summary)
{
    double best = NAN;
    size_t index;
    const json_t *worker;
    json_array_foreach(json_object_get(summary, "workers"), index, worker)
    {
        const json_t *value = json_object_get(worker, "compute_ms_p50");
        best =
            fmin(best, json_is_number(value) ? json_number_value(value) : NAN);
    }
    return best;
}

/* Milliseconds to copy so many bytes. */
static double copy_ms(size_t bytes)
{
    double times[TURNS] = {NAN};
    char *from = muster_mem_raw_aligned(bytes, 1);
    char *to = muster_mem_raw_aligned(bytes, 1);
    for (uint32_t t = 0; from != NULL && to != NULL && t < TURNS; t++) {
        memset(from, (int)t, bytes);
        int64_t begin = muster_clock_ns();
        memcpy(to, from, bytes);
        times[t] = (double)(muster_clock_ns() - begin) * 1e-6;
    }
    muster_mem_free(to);
    muster_mem_free(from);
    return bench_median(times, TURNS);
}

void dense_bench_large(uint32_t hidden, bool json)
{
    char name[64];
    double floats = (DENSE_FEATURES + 1.0) * hidden + (hidden + 1.0) * hidden +
                    (hidden + 1.0) * DENSE_CLASSES;
    json_t *summary = train(hidden);
    const json_t *steps = json_object_get(summary, "step_ms");
    double step = json_number_value(json_object_get(steps, "p50"));
    double passes = MESSAGES * copy_ms((size_t)floats * sizeof(float));
    snprintf(name, sizeof(name), "step_%.0fM", floats / 1e6);
    bench_row row = {name, summary != NULL ? step : NAN, "ms",
                     "compute+messages", compute_ms(summary) + passes};
    bench_print(&row, json);
    json_decref(summary);
}
