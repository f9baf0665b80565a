/*
 * bench_ps.h -- what the parts of `muster bench ps` share.
 *
 * bench_ps.c has the options and decides which parts run; ps_micro.c measures
 * single operations, ps_hot.c rows that nobody asks for, ps_sample.c samples,
 * ps_mf.c, ps_kge.c and ps_skipgram.c whole tasks on the teams and meshes of
 * ps_team.c, ps_memory.c the room that rows take. Whatever goes wrong ends the
 * program with a line on stderr.
 *
 *   Ownership    A team owns its task, server and workers until
 *                bench_team_fini; names and options are lent for the run.
 *   Threads      A team starts its own and joins them; the nodes of a mesh are
 *                processes.
 */
#ifndef MUSTER_BENCH_BENCH_PS_H
#define MUSTER_BENCH_BENCH_PS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bench.h"
#include "muster/ps.h"
#include "muster/status.h"
#include "task/task.h"

enum {
    BENCH_ROW_KEYS = 200000,
    BENCH_ROW_WIDTH = 32,
    BENCH_THREADS_MAX = 8,
    BENCH_NODES = 2,
    BENCH_REPEATS_MAX = 100,
    BENCH_FIGURES_MAX = 8
};

typedef struct bench_ps {
    const char *only; // the part to run; NULL: all
    int repeats;
    uint32_t seeds; // of figures that are means over seeds
    bool json;
} bench_ps;

void *bench_must(void *block);
void bench_check(muster_status status);
/* A line on stderr: how far a long part has come, or why one is left out. */
void bench_progress(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
/* `name` in the folder of data that MUSTER_DATA names. */
void bench_data_path(const char *name, char *path_out, size_t bytes);
bool bench_wanted(const bench_ps *b, const char *name);
void bench_report(const bench_ps *b, const char *name, double value,
                  const char *unit, const char *baseline,
                  double baseline_value);

/* The threads of one node, all on one task. */
typedef struct bench_team {
    const muster_task_ops *ops;
    void *task;
    muster_ps *ps;
    uint32_t threads;
    muster_ps_worker *workers[BENCH_THREADS_MAX];
    double cpu_s; // of its threads, in the last run
} bench_team;

bench_team bench_team_make(const muster_task_opts *opts, uint32_t threads);
void bench_team_fini(bench_team *t);

/* All threads through one epoch, or one evaluation; the sums together. */
muster_task_sums bench_team_run(bench_team *t, uint32_t epoch, bool evaluate);

/* Seconds of the fastest epoch, by the clock and of the processors; and a
 * metric after some epochs. */
typedef struct bench_times {
    double s;
    double cpu_s;
    double quality;
} bench_times;

/* Run an epoch and note its times where they are less than the best. */
muster_task_sums bench_time(bench_team *t, uint32_t epoch, bench_times *best);

/* Processor seconds of this process so far, all of its threads. */
double bench_cpu_s(void);

/* One metric of an evaluation, NAN if the task has none of that name. */
double bench_team_metric(bench_team *t, const char *name);

/* One node of a mesh: what it is given and what it found. */
typedef struct bench_node {
    const bench_ps *b;
    const muster_task_opts *opts; // NULL: a plain table
    const char *folder;
    uint32_t node;
    uint32_t manage;
    pid_t process;
    muster_ps *ps;
    muster_ps_worker *worker;
    const char *metric; // of the evaluation, or NULL
    double best_s;      // of an epoch, as this node sees it
    uint32_t epochs;    // so far
    // Of each of them, the node's threads together; what the run gives back has
    // the sums over all nodes.
    double cpu_s[BENCH_REPEATS_MAX];
    double best_cpu_s; // of them: the epoch with the least sum
    double quality;
    double figures[BENCH_FIGURES_MAX]; // what else its life found
} bench_node;

/* Open, declare and connect `n`; with a team the task's tables, without one
 * a plain table of BENCH_ROW_KEYS rows. */
void bench_mesh_open(bench_node *n, bench_team *t);

/* One epoch of all nodes, from barrier to barrier, and its times. */
void bench_mesh_epoch(bench_node *n, const bench_team *t, uint32_t epoch);

/* n->metric, when no node works; one of them measures all of it. */
double bench_mesh_quality(bench_node *n, const bench_team *t);

/* Leave the mesh when all others do. */
void bench_mesh_close(bench_node *n, bench_team *t);

/* Run BENCH_NODES lives at once, each in a process of its own; node 0's
 * findings. */
bench_node bench_mesh_run(const bench_ps *b, const muster_task_opts *opts,
                          const char *metric_name, void *(*life)(void *));

void bench_rows(const bench_ps *b);
void bench_sample(const bench_ps *b);
void bench_remote(const bench_ps *b);
void bench_hot(const bench_ps *b);
void bench_mf(const bench_ps *b);
void bench_kge(const bench_ps *b);
void bench_skipgram(const bench_ps *b);
void bench_memory(const bench_ps *b);

#endif // MUSTER_BENCH_BENCH_PS_H
