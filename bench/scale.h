/*
 * scale.h -- the parts of `muster bench scale`.
 *
 * bench_scale.c has options and tasks and runs the layouts, scale_plain.c the
 * loops without a server, scale_report.c prints what was found and writes csv
 * and svg.
 */
#ifndef MUSTER_BENCH_SCALE_H
#define MUSTER_BENCH_SCALE_H

#include <stdbool.h>
#include <stdint.h>

enum { SCALE_LAYOUTS_MAX = 32, SCALE_REPEATS_MAX = 15 };

typedef struct scale_task {
    const char *name;
    const char *model;
    const char *data;    // a made-up one, or beside MUSTER_DATA
    const char *test;    // or NULL
    const char *options; // further ones of train
    const char *quality; // member of the summary
    const char *unit;
    uint32_t epochs;
} scale_task;

/* One number of nodes and threads, and the figures of its runs. Where a run
 * failed or was left out they are NAN. */
typedef struct scale_layout {
    uint32_t nodes;
    uint32_t threads;
    uint32_t runs;
    double rates[SCALE_REPEATS_MAX];
    double plain[SCALE_REPEATS_MAX];
    double quality[SCALE_REPEATS_MAX];
    double waits[SCALE_REPEATS_MAX];
} scale_layout;

/* The layouts of a task, the first is 1x1. */
typedef struct scale_found {
    const scale_task *task;
    uint32_t count;
    scale_layout layouts[SCALE_LAYOUTS_MAX];
} scale_found;

/* Units a second of the task's cells and kernel in a plain loop of so many
 * threads, none of which waits for another, over some epochs. NAN where there
 * is no such loop. */
double scale_plain_mf(const char *model, const char *data, uint32_t threads,
                      uint64_t seed);

/* Print medians of all layouts. */
void scale_report(const scale_found *found, bool json);
/* Write scale.csv and scale.svg; false: one could not be written. */
bool scale_write(const scale_found *found, uint32_t count, const char *folder);

#endif // MUSTER_BENCH_SCALE_H
