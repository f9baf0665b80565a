/*
 * task/mf.h -- matrix factorisation, x_ij ~ w_i . h_j: what its parts share.
 *
 * With biases it is x_ij ~ mean + u (b_i + c_j) + w_i . h_j. The mean of the
 * cells is taken off them when they are read, b_i and c_j are the last floats
 * of the rows of w and h, and u is the root of the values' deviation: factors
 * and biases are then all of the size u, whatever the size of the values, and
 * one default of the rate and of l2 does for all of them.
 *
 * Rows of the matrix are dealt to the workers (by cells, so that shares are
 * even), so a row's factor is used by one worker only; columns are shared.
 * In column order a worker goes through all columns, each worker starting
 * elsewhere (mf_tour.c), and holds a column's factor for a stretch of its
 * cells. The table of columns comes first, so that a column may be held while
 * rows are opened.
 *
 * Invariant: the cells of part p are those from parts_at[p].cell up to that of
 * p + 1, sorted by (column, row); for the random order, those of each of its
 * blocks of MUSTER_MF_BLOCK are, and the blocks are random ones.
 */
#ifndef MUSTER_TASK_MF_H
#define MUSTER_TASK_MF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "data/ratings.h"
#include "task/kernel.h"
#include "task/task.h"

enum { MUSTER_MF_TABLE_COLS = 0, MUSTER_MF_TABLE_ROWS = 1 };
enum { MUSTER_MF_ORDER_COLUMN = 0, MUSTER_MF_ORDER_RANDOM = 1 };
enum {
    MUSTER_MF_SUM_ERROR = 0,
    MUSTER_MF_SUM_CELLS = 1,
    MUSTER_MF_SUM_TEST_ERROR = 2,
    MUSTER_MF_SUM_TEST_CELLS = 3,
    MUSTER_MF_SUM_NORM = 4,
    MUSTER_MF_SUM_VALID_ERROR = 5,
    MUSTER_MF_SUM_VALID_CELLS = 6
};

typedef struct muster_mf_options {
    uint32_t rank;
    uint32_t order;
    double decay;      // the rate of an epoch is the last one's times this
    double scale;      // of the initial factors; 0: muster_mf_scale()
    uint32_t bias;     // 1: mean and biases
    uint32_t patience; // epochs without a better valid_rmse that end the run;
                       // 0: none do
    double valid;      // share of the cells that is held out
} muster_mf_options;

/* The cells of one part in one column: up to the next run's. */
typedef struct muster_mf_run {
    uint64_t cell; // the first
    uint32_t col;
} muster_mf_run;

/* Where a part begins. */
typedef struct muster_mf_part {
    uint64_t cell;  // its first
    uint64_t run;   // its first
    uint64_t group; // of rows: its first
    uint64_t test;  // its first test cell
    uint64_t valid; // its first held-out cell
} muster_mf_part;

typedef struct muster_mf {
    muster_mf_options options;
    muster_ratings train;
    muster_ratings test;                 // count 0: none
    muster_ratings valid;                // held out of `train`; count 0: none
    muster_mf_part *parts_at;            // parts + 1
    muster_mf_run *runs;                 // one more than there are
    struct muster_mf_progress *progress; // by part: mf_tour.h
    uint32_t *cuts; // first columns of the pieces, one more than there are
    struct muster_mf_group *groups; // by part and row; each row is in one
    uint64_t group_count;
    uint32_t parts;
    uint32_t progress_table; // 0: none, nodes do not know how far others are
    int64_t wait_ns; // for a part that does not move, unless pieces take long
    int64_t (*now_ns)(void); // the clock; tests have their own
    double mean;             // was taken off all values; 0 without biases
    double unit;             // u; 1 without biases
    double rate;
    double l2;
    uint32_t optimizer;
    uint64_t seed;
    _Atomic bool *settled; // by part: its rows were once asked to come
} muster_mf;

/* Floats of a row without the optimiser's. */
static inline uint32_t muster_mf_width(const muster_mf *m)
{
    return m->options.rank + m->options.bias;
}

/* mf_hold.c: move a share of `train`, drawn cell by cell, to `valid`, at least
 * one cell stays (MUSTER_ERR_NO_MEMORY); and take the mean off all values. */
MUSTER_CHECKED muster_status muster_mf_hold_out(muster_mf *m, double share);
void muster_mf_centre(muster_mf *m);

/* mf_order.c: sort the cells into parts and runs. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_mf_arrange(muster_mf *m);
void muster_mf_arranged_free(muster_mf *m);

/* The first run of a part, counted from its first, of column `col` or above. */
uint64_t muster_mf_run_at(const muster_mf *m, uint32_t part, uint32_t col);

/* One worker's share of an epoch, in any order. */
typedef struct muster_mf_pass {
    const muster_mf *m;
    muster_ps_worker *worker;
    muster_kernel_mf_step step;
    const muster_cell *end; // of the cells that lie in the order of the work
    bool many;              // several nodes: rows have to travel
    double error;           // sum of squares
} muster_mf_pass;

/* Some cells; a column is held for the cells of it that follow each other. */
MUSTER_CHECKED muster_status muster_mf_work_cells(muster_mf_pass *p,
                                                  const muster_cell *cells,
                                                  size_t count);

/* Note that `cells` more were worked on. MUSTER_ERR_CANCELLED: stop. */
MUSTER_CHECKED static inline muster_status
muster_mf_note(const muster_task_share *share, uint64_t cells)
{
    muster_task_count(share, cells);
    return muster_task_stopped(share) ? MUSTER_ERR_CANCELLED : MUSTER_OK;
}

muster_status muster_mf_work(void *task, muster_ps_worker *worker,
                             const muster_task_share *share,
                             muster_task_sums *sums);
muster_status muster_mf_evaluate(void *task, muster_ps_worker *worker,
                                 const muster_task_share *share,
                                 muster_task_sums *sums);
uint32_t muster_mf_report(const void *task, const muster_task_sums *work,
                          const muster_task_sums *evaluation,
                          const char **names_out, double *values_out);

#endif // MUSTER_TASK_MF_H
