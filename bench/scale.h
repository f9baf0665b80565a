/*
 * scale.h -- the parts of `muster bench scale`.
 *
 * bench_scale.c has options and tasks and runs the layouts with scale_run.c.
 * Loops without a server: scale_plain.c has that of mf, scale_loop.c those of
 * the other tasks on the rows of scale_rows.c. scale_graph.c makes graphs
 * smaller. scale_report.c prints what was found and writes csv and svg.
 */
#ifndef MUSTER_BENCH_SCALE_H
#define MUSTER_BENCH_SCALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCALE_LAYOUTS_MAX = 32, SCALE_REPEATS_MAX = 15, SCALE_APART_MAX = 64 };
enum { SCALE_FOLDER_BYTES = 32, SCALE_FOLDERS_MAX = 16 };

typedef struct scale_task {
    const char *name;
    const char *model;
    const char *data;    // a made-up one, or beside MUSTER_DATA
    const char *test;    // or NULL
    const char *options; // further ones of train
    const char *quality; // member of the summary
    const char *unit;
    uint32_t epochs;
    uint32_t quick_epochs; // with --quick
    uint32_t stop_epochs;  // while a node stops now and then; 0: it never does
    uint32_t every;        // of a graph: every so-manieth triple; 0: of none
    uint32_t ranked;       // of a graph: so many test triples
    const char *size;      // what its own data is
    bool large;            // once, at the end, the most workers only
} scale_task;

typedef enum scale_kind {
    SCALE_USUAL,
    SCALE_LONG,    // stop_epochs of them
    SCALE_STOPPED, // and one node stops for a tenth of every second
    SCALE_APART,   // as many runs of 1x1 at once: what the machine can do
} scale_kind;

/* One number of nodes and threads, and the figures of its runs. Where a run
 * failed or was left out they are NAN. */
typedef struct scale_layout {
    uint32_t nodes;
    uint32_t threads;
    scale_kind kind;
    double last_s; // the last run took
    uint32_t runs;
    double rates[SCALE_REPEATS_MAX];
    double plain[SCALE_REPEATS_MAX];
    double quality[SCALE_REPEATS_MAX];
    double waits[SCALE_REPEATS_MAX];
} scale_layout;

/* The layouts of a task, the first is 1x1. */
typedef struct scale_found {
    const scale_task *task;
    const char *size; // what the figures are of
    uint32_t count;
    scale_layout layouts[SCALE_LAYOUTS_MAX];
} scale_found;

/* Run a shell command and read its first line of output; with `stops`, one of
 * its nodes stops now and then. False: it failed. */
bool scale_run(const char *command, bool stops, char *line_out, size_t bytes);
/* Run a command `count` times at once and give the lines to `take`. False: one
 * failed. */
bool scale_run_apart(const char *command, uint32_t count,
                     void (*take)(void *context, const char *line),
                     void *context);

/* Write a smaller graph to a new folder: every `every`-th training triple,
 * `ranked` test triples and a tenth as many to hold out. The folder is removed
 * when the program ends, by exit() or a signal that asks for it. False: the
 * graph could not be read or written, which is told. */
bool scale_graph_make(const char *data, uint32_t every, uint32_t ranked,
                      char folder_out[SCALE_FOLDER_BYTES]);

/* Units a second of the task in a plain loop of so many threads, none of which
 * waits for another, over some epochs. NAN: the task could not be made, which
 * is told, or there are too many threads. */
double scale_plain_mf(const char *model, const char *data, uint32_t threads,
                      uint64_t seed);
double scale_plain_loop(const char *model, const char *data, uint32_t threads,
                        uint64_t seed);

/* A "server" of arrays, and a thread's view of it; muster_mem_free() frees that
 * one. */
struct muster_ps *scale_rows_make(uint64_t seed);
void scale_rows_free(struct muster_ps *ps);
struct muster_ps_worker *scale_rows_worker(const struct muster_ps *ps);

/* Print medians of all layouts. */
void scale_report(const scale_found *found, bool json);
/* Write scale.csv and scale.svg; false: one could not be written. */
bool scale_write(const scale_found *found, uint32_t count, const char *folder);

#endif // MUSTER_BENCH_SCALE_H
