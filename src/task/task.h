/*
 * task/task.h -- a sparse task: a loop over data that works on rows of the
 * parameter server.
 *
 * A task reads its data, adds its tables, and then does an epoch's share of
 * work for whoever asks: worker `part` of `parts`. It makes no threads, but
 * while its data is made up, and knows nothing of nodes; the runtime brings
 * workers, barriers and files, the benchmark brings one worker and a clock.
 *
 *   Lifecycle    create; tables (once per node); work and evaluate, as often
 *                as wanted; free.
 *   Threads      After tables, a task does not change: work and evaluate of
 *                different parts may run at the same time.
 *   Determinism  With one part and independent samples an epoch is a function
 *                of the seed and the rows it begins with.
 *   Not here     Threads, clocks, files that are written.
 */
#ifndef MUSTER_TASK_TASK_H
#define MUSTER_TASK_TASK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/spec.h"
#include "muster/ps.h"
#include "muster/ps_sample.h"
#include "muster/status.h"

#define MUSTER_TASK_METRICS_MAX 16u
#define MUSTER_TASK_OUTPUTS_MAX 4u

/* What to do; from the command line. */
typedef struct muster_task_opts {
    const char *model;     // "mf:rank=32,order=column"
    const char *data;      // file or folder
    const char *test;      // or NULL
    const char *optimizer; // NULL: the task's own
    double rate;           // 0: the task's own
    double l2;             // < 0: the task's own
    uint32_t epochs;       // of the whole run, for schedules; >= 1
    bool open_ended;       // nobody asked for so many: it may stop earlier
    uint32_t parts_max;    // workers that will share the work
    uint32_t threads;      // for create, to make up data with; 0: 1
    uint64_t seed;
} muster_task_opts;

/* One worker's share of an epoch. */
typedef struct muster_task_share {
    uint32_t part;
    uint32_t parts;
    uint32_t epoch; // from 0
    bool together;  // every part is worked on now, by a thread of its own
    bool final; // evaluate: on all of the test set, not a part of the valid one
    _Atomic uint64_t *done;       // units done in this epoch by this node
    const _Atomic uint32_t *stop; // not 0: return early, MUSTER_ERR_CANCELLED
} muster_task_share;

/* Sums over a share; the shares of all workers are added up. */
typedef struct muster_task_sums {
    double value[MUSTER_TASK_METRICS_MAX];
} muster_task_sums;

/* A table to be written to files: rows 0..rows-1 of `table`. */
typedef struct muster_task_output {
    const char *name; // of the tensor
    uint32_t table;
    uint32_t first;
    uint32_t rows;
    uint32_t width;
    float last[2]; // the last float x of a row is written as last[0] +
                   // last[1] x; {0, 0}: as it is
} muster_task_output;

typedef struct muster_task_ops {
    const char *name;
    const char *unit; // what an epoch is counted in: "cells"
    bool uses_blas;
    muster_status (*create)(const muster_task_opts *opts,
                            muster_error *error_out, void **task_out);
    void (*free)(void *task);
    /* Add tables and distributions to a fresh node. */
    muster_status (*tables)(void *task, muster_ps *ps, muster_error *error_out);
    /* Add tables that hold nothing of the model: no checkpoint has them. NULL:
     * there are none. */
    muster_status (*working_tables)(void *task, muster_ps *ps,
                                    muster_error *error_out);
    uint64_t (*units)(const void *task); // of an epoch
    // Of one part of it, or a few more; NULL: parts are equal.
    uint64_t (*part_units)(const void *task, uint32_t part, uint32_t parts);
    uint32_t (*epochs)(void); // a good number when none is asked for
    /* The metric, the less the better, that ends the run before its last epoch
     * when it has not become better for *patience_out epochs; NULL, or no such
     * function: none does. Such a task has no use for `final`. */
    const char *(*stops_by)(const void *task, uint32_t *patience_out);
    muster_status (*work)(void *task, muster_ps_worker *worker,
                          const muster_task_share *share,
                          muster_task_sums *sums);
    /* Quality now, on held-out data where there is some. */
    muster_status (*evaluate)(void *task, muster_ps_worker *worker,
                              const muster_task_share *share,
                              muster_task_sums *sums);
    /* Names and values of the metrics from the sums of work (trained) and of
     * evaluate; returns how many. Names are static. */
    uint32_t (*report)(const void *task, const muster_task_sums *work,
                       const muster_task_sums *evaluation,
                       const char **names_out, double *values_out);
    uint32_t (*outputs)(const void *task, muster_task_output *outputs_out);
    /* The name of row `row` of output 0 (a word, an entity), or NULL. */
    const char *(*label)(const void *task, uint32_t row);
} muster_task_ops;

/* By the name before ':' of a model spec; NULL when there is none. */
const muster_task_ops *muster_task_find(const char *model);

/* Fill a task's struct of options from "mf:rank=32,..". MUSTER_ERR_INVALID. */
MUSTER_CHECKED muster_status
muster_task_options(const char *model, const muster_spec_field *fields,
                    void *into, muster_error *error_out);

/* True when the worker should return; every few thousand units. */
static inline bool muster_task_stopped(const muster_task_share *share)
{
    return share->stop != NULL &&
           atomic_load_explicit(share->stop, memory_order_relaxed) != 0;
}

static inline void muster_task_count(const muster_task_share *share,
                                     uint64_t units)
{
    if (share->done != NULL) {
        atomic_fetch_add_explicit(share->done, units, memory_order_relaxed);
    }
}

#endif // MUSTER_TASK_TASK_H
