/*
 * mf.c -- matrix factorisation: x_ij ~ w_i . h_j.
 *
 * Rows of the matrix are divided among the workers (by cells, so that shares
 * are even), so a row's factor is used by one worker only; columns are shared.
 * In column order a worker goes through all columns, each starting elsewhere,
 * and holds a column's factor for a stretch of its cells. The table of columns
 * comes first, so that a column may be held while rows are opened.
 *
 * Invariant: cells[from[p] .. from[p+1]) belong to part p, sorted by (column,
 * row) counted from the part's own first column.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/perm.h"
#include "data/ratings.h"
#include "task/kernel.h"
#include "task/tasks.h"

enum { TABLE_COLS = 0, TABLE_ROWS = 1 };
enum { ORDER_COLUMN = 0, ORDER_RANDOM = 1 };
enum {
    SUM_ERROR = 0,
    SUM_CELLS = 1,
    SUM_TEST_ERROR = 2,
    SUM_TEST_CELLS = 3,
    SUM_NORM = 4
};

#define HOLD_CELLS 64u // a column is let go after so many cells
#define AHEAD      4u
#define LOOK_CELLS 65536u // columns are wished for at most so many cells before
#define WISHES     512u
#define COUNT_EACH 4096u

typedef struct mf_options {
    uint32_t rank;
    uint32_t order;
    double decay; // the rate of an epoch is the last one's times this
    double scale; // of the initial factors; 0: rank^-1/4 / 2
} mf_options;

typedef struct mf {
    mf_options options;
    muster_ratings train;
    muster_ratings test; // count 0: none
    uint64_t *from;      // parts + 1 offsets into train.cells
    uint32_t parts;
    double rate;
    double l2;
    uint32_t optimizer;
    uint64_t seed;
} mf;

static const muster_spec_field fields[] = {
    {"rank", MUSTER_SPEC_UINT, offsetof(mf_options, rank), 1, 4096, NULL},
    {"order", MUSTER_SPEC_WORD, offsetof(mf_options, order), 0, 0,
     "column|random"},
    {"decay", MUSTER_SPEC_DOUBLE, offsetof(mf_options, decay), 0.01, 1, NULL},
    {"scale", MUSTER_SPEC_DOUBLE, offsetof(mf_options, scale), 0, 100, NULL},
};

static void mf_free(void *task)
{
    mf *m = task;
    if (m == NULL) {
        return;
    }
    muster_ratings_fini(&m->train);
    muster_ratings_fini(&m->test);
    muster_mem_free(m->from);
    muster_mem_free(m);
}

/* Order cells by (part of the row, column seen from the part's start, row). */
typedef struct sort_key {
    uint64_t major;
    muster_cell cell;
} sort_key;

static int compare_keys(const void *a, const void *b)
{
    const sort_key *x = a;
    const sort_key *y = b;
    if (x->major != y->major) {
        return x->major < y->major ? -1 : 1;
    }
    return (x->cell.row > y->cell.row) - (x->cell.row < y->cell.row);
}

/* Replace the number of cells of each row (or column) by the part it falls
 * to, so that parts follow each other and have about as many cells each. */
static void divide(const mf *m, uint32_t *cells_to_part, uint32_t count)
{
    uint64_t seen = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t part = seen * m->parts / m->train.count;
        seen += cells_to_part[i];
        cells_to_part[i] = (uint32_t)(part < m->parts ? part : m->parts - 1);
    }
}

/* Where a part begins its tour of the columns. The parts start as far from
 * each other as cells go: few columns can hold most of them. */
static uint64_t first_column(const uint32_t *part_of_col, uint32_t cols,
                             uint64_t part)
{
    uint64_t low = 0;
    uint64_t high = cols;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (part_of_col[middle] < part) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low % cols;
}

static void fill_keys(mf *m, const uint32_t *part_of_row,
                      const uint32_t *part_of_col, sort_key *keys)
{
    uint64_t cols = m->train.cols;
    for (uint64_t i = 0; i < m->train.count; i++) {
        muster_cell cell = m->train.cells[i];
        uint64_t part = part_of_row[cell.row];
        uint64_t start = first_column(part_of_col, m->train.cols, part);
        keys[i].major = part * cols + (cell.col + cols - start) % cols;
        keys[i].cell = cell;
        m->from[part + 1]++;
    }
}

static muster_status arrange(mf *m)
{
    MUSTER_ASSERT(m->parts > 0 && m->train.count > 0 && m->train.cols > 0);
    uint32_t *rows = muster_mem_array(m->train.rows, sizeof(*rows));
    uint32_t *cols = muster_mem_array(m->train.cols, sizeof(*cols));
    sort_key *keys = muster_mem_array(m->train.count, sizeof(*keys));
    m->from = muster_mem_array((size_t)m->parts + 1, sizeof(*m->from));
    bool built =
        rows != NULL && cols != NULL && keys != NULL && m->from != NULL;
    if (built) {
        for (uint64_t i = 0; i < m->train.count; i++) {
            rows[m->train.cells[i].row]++;
            cols[m->train.cells[i].col]++;
        }
        divide(m, rows, m->train.rows);
        divide(m, cols, m->train.cols);
        fill_keys(m, rows, cols, keys);
        for (uint32_t part = 0; part < m->parts; part++) {
            m->from[part + 1] += m->from[part];
        }
        qsort(keys, m->train.count, sizeof(*keys), compare_keys);
        for (uint64_t i = 0; i < m->train.count; i++) {
            m->train.cells[i] = keys[i].cell;
        }
    }
    muster_mem_free(rows);
    muster_mem_free(cols);
    muster_mem_free(keys);
    return built ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
}

static muster_status load(mf *m, const muster_task_opts *opts,
                          muster_error *error_out)
{
    muster_status status =
        muster_ratings_load(opts->data, error_out, &m->train);
    if (status == MUSTER_OK && opts->test != NULL) {
        status = muster_ratings_load(opts->test, error_out, &m->test);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    // Rows and columns that only the test set has keep their initial factors.
    m->train.rows = m->test.rows > m->train.rows ? m->test.rows : m->train.rows;
    m->train.cols = m->test.cols > m->train.cols ? m->test.cols : m->train.cols;
    status = arrange(m);
    return status == MUSTER_OK
               ? MUSTER_OK
               : muster_error_set(error_out, status, "mf: out of memory");
}

static muster_status mf_create(const muster_task_opts *opts,
                               muster_error *error_out, void **task_out)
{
    mf *m = muster_mem_array(1, sizeof(*m));
    if (m == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "mf: out of memory");
    }
    m->options = (mf_options){.rank = 32, .order = ORDER_COLUMN, .decay = 0.95};
    m->parts = opts->parts_max > 0 ? opts->parts_max : 1;
    m->seed = opts->seed;
    m->l2 = opts->l2 >= 0 ? opts->l2 : 0.02;
    muster_status status = muster_spec_parse(opts->model, fields,
                                             sizeof(fields) / sizeof(fields[0]),
                                             &m->options, error_out);
    if (status == MUSTER_OK && opts->optimizer != NULL) {
        m->optimizer = strcmp(opts->optimizer, "adagrad") == 0
                           ? MUSTER_PS_ADAGRAD
                           : MUSTER_PS_NONE;
        if (m->optimizer == MUSTER_PS_NONE &&
            strcmp(opts->optimizer, "sgd") != 0) {
            status = muster_error_set(error_out, MUSTER_ERR_INVALID,
                                      "--optimizer %s: mf offers sgd and "
                                      "adagrad",
                                      opts->optimizer);
        }
    }
    bool adagrad = m->optimizer == MUSTER_PS_ADAGRAD;
    m->rate = opts->rate > 0 ? opts->rate : adagrad ? 0.1 : 0.01;
    if (status == MUSTER_OK) {
        status = load(m, opts, error_out);
    }
    if (status != MUSTER_OK) {
        mf_free(m);
        return status;
    }
    *task_out = m;
    return MUSTER_OK;
}

static muster_status mf_tables(void *task, muster_ps *ps,
                               muster_error *error_out)
{
    mf *m = task;
    muster_ps_table_opts opts = MUSTER_PS_TABLE_OPTS_INIT;
    opts.width = m->options.rank;
    opts.optimizer = m->optimizer;
    opts.init = MUSTER_PS_NORMAL;
    opts.scale =
        (float)(m->options.scale > 0 ? m->options.scale
                                     : pow(m->options.rank, -0.25) / 2);
    uint32_t number;
    opts.keys = m->train.cols;
    muster_status status = muster_ps_table_add(ps, &opts, error_out, &number);
    if (status == MUSTER_OK) {
        opts.keys = m->train.rows;
        status = muster_ps_table_add(ps, &opts, error_out, &number);
    }
    return status;
}

static uint64_t mf_units(const void *task)
{
    const mf *m = task;
    return m->train.count;
}

static uint32_t mf_epochs(void)
{
    return 20;
}

typedef float (*cell_kernel)(float *w, float *h, uint32_t n, float x,
                             float rate, float l2);

typedef struct pass {
    const mf *m;
    muster_ps_worker *worker;
    cell_kernel kernel;
    float rate;
    const muster_cell *end; // of the part; NULL: the next cell is elsewhere
    bool many;              // several nodes: rows have to travel
    uint64_t wished;        // columns of cells before this are wished for
    double error;           // sum of squares
} pass;

/* The cells of one column, its factor held all along; *done_out of them were
 * worked on when a row turned out to be elsewhere (MUSTER_ERR_AGAIN). */
static muster_status hold_column(pass *p, const muster_cell *cells,
                                 size_t count, size_t *done_out)
{
    float *h;
    uint32_t rank = p->m->options.rank;
    float l2 = (float)p->m->l2;
    uint32_t col = cells[0].col;
    size_t i = 0;
    muster_status status = muster_ps_begin(p->worker, TABLE_COLS, col, &h);
    if (status != MUSTER_OK) {
        return status;
    }
    for (; i < count; i++) {
        float *w;
        if (p->end != NULL && (size_t)(p->end - cells) > i + AHEAD) {
            muster_ps_prefetch(p->worker, TABLE_ROWS, cells[i + AHEAD].row);
        }
        status = muster_ps_begin(p->worker, TABLE_ROWS, cells[i].row, &w);
        if (status != MUSTER_OK) {
            break;
        }
        float error = p->kernel(w, h, rank, cells[i].value, p->rate, l2);
        p->error += (double)error * (double)error;
        status = muster_ps_end(p->worker, TABLE_ROWS, cells[i].row);
        if (status != MUSTER_OK) {
            break;
        }
    }
    *done_out = i;
    muster_status ended = muster_ps_end(p->worker, TABLE_COLS, col);
    return status == MUSTER_OK ? ended : status;
}

/* A cell whose row does not come here: its copy is opened first, which leaves
 * the column free to be held or copied. */
static muster_status work_apart(pass *p, const muster_cell *cell)
{
    MUSTER_ASSERT(cell != NULL);
    float *w;
    float *h;
    muster_status status =
        muster_ps_begin(p->worker, TABLE_ROWS, cell->row, &w);
    if (status != MUSTER_OK) {
        return status;
    }
    status = muster_ps_begin(p->worker, TABLE_COLS, cell->col, &h);
    if (status == MUSTER_OK) {
        float error = p->kernel(w, h, p->m->options.rank, cell->value, p->rate,
                                (float)p->m->l2);
        p->error += (double)error * (double)error;
        status = muster_ps_end(p->worker, TABLE_COLS, cell->col);
    }
    muster_status ended = muster_ps_end(p->worker, TABLE_ROWS, cell->row);
    return status == MUSTER_OK ? ended : status;
}

static muster_status work_column(pass *p, const muster_cell *cells,
                                 size_t count)
{
    uint32_t tries = 0; // of the same cell
    MUSTER_ASSERT(cells != NULL);
    while (count > 0) {
        size_t done = 0;
        muster_status status = hold_column(p, cells, count, &done);
        tries = done > 0 ? 0 : tries + 1;
        if (status == MUSTER_ERR_AGAIN) {
            status =
                muster_ps_fetch(p->worker, TABLE_ROWS, &cells[done].row, 1);
        }
        if (status == MUSTER_OK && tries > 1 && done == 0) {
            status = work_apart(p, cells);
            // The row came after all: it is held, so its column cannot be.
            bool came =
                status == MUSTER_ERR_INVALID || status == MUSTER_ERR_AGAIN;
            done = status == MUSTER_OK;
            status = came ? MUSTER_OK : status;
        }
        if (status != MUSTER_OK) {
            return status;
        }
        cells += done;
        count -= done;
    }
    return MUSTER_OK;
}

/* Wish for the columns of cells up to LOOK_CELLS from `at`. */
static muster_status wish_columns(pass *p, uint64_t at, uint64_t end)
{
    const muster_cell *cells = p->m->train.cells;
    uint32_t wishes[WISHES];
    uint32_t count = 0;
    uint64_t until = at + LOOK_CELLS < end ? at + LOOK_CELLS : end;
    // Many wishes at once: each wakes threads on several nodes.
    if (p->wished == end || p->wished > at + LOOK_CELLS / 2) {
        return MUSTER_OK;
    }
    for (; p->wished < until && count < WISHES; p->wished++) {
        if (count == 0 || wishes[count - 1] != cells[p->wished].col) {
            wishes[count++] = cells[p->wished].col;
        }
    }
    muster_status status =
        muster_ps_localize(p->worker, TABLE_COLS, wishes, count);
    return status == MUSTER_ERR_AGAIN ? MUSTER_OK : status;
}

/* The rows of a part are nobody else's: they come once and stay. */
static muster_status settle_rows(pass *p, const muster_task_share *share)
{
    const muster_cell *cells = p->m->train.cells;
    uint32_t low = UINT32_MAX;
    uint32_t high = 0;
    for (uint64_t i = p->m->from[share->part]; i < p->m->from[share->part + 1];
         i++) {
        low = cells[i].row < low ? cells[i].row : low;
        high = cells[i].row > high ? cells[i].row : high;
    }
    for (uint32_t first = low; first <= high; first += WISHES) {
        uint32_t wishes[WISHES];
        uint32_t count = 0;
        for (; count < WISHES && first + count <= high; count++) {
            wishes[count] = first + count;
        }
        muster_status status =
            muster_ps_localize(p->worker, TABLE_ROWS, wishes, count);
        if (status == MUSTER_ERR_AGAIN) {
            status = muster_ps_fetch(p->worker, TABLE_ROWS, wishes, count);
        }
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

static muster_status work_columns(pass *p, const muster_task_share *share)
{
    const mf *m = p->m;
    uint64_t end = m->from[share->part + 1];
    uint64_t counted = 0;
    p->end = m->train.cells + end;
    p->wished = m->from[share->part];
    for (uint64_t at = m->from[share->part]; at < end;) {
        const muster_cell *cells = m->train.cells + at;
        size_t limit = end - at < HOLD_CELLS ? end - at : HOLD_CELLS;
        size_t count = 1;
        while (count < limit && cells[count].col == cells[0].col) {
            count++;
        }
        muster_status status = p->many ? wish_columns(p, at, end) : MUSTER_OK;
        if (status == MUSTER_OK) {
            status = work_column(p, cells, count);
        }
        if (status != MUSTER_OK) {
            return status;
        }
        at += count;
        counted += count;
        if (counted >= COUNT_EACH) {
            muster_task_count(share, counted);
            counted = 0;
            if (muster_task_stopped(share)) {
                return MUSTER_ERR_CANCELLED;
            }
        }
    }
    muster_task_count(share, counted);
    return MUSTER_OK;
}

static muster_status work_random(pass *p, const muster_task_share *share)
{
    const mf *m = p->m;
    uint64_t start = m->from[share->part];
    uint64_t cells = m->from[share->part + 1] - start;
    if (cells == 0) {
        return MUSTER_OK;
    }
    muster_perm order = muster_perm_make(m->seed, share->epoch, cells);
    for (uint64_t i = 0; i < cells; i++) {
        const muster_cell *cell =
            &m->train.cells[start + muster_perm_at(&order, i)];
        muster_status status = work_column(p, cell, 1);
        if (status != MUSTER_OK) {
            return status;
        }
        if ((i + 1) % COUNT_EACH == 0 || i + 1 == cells) {
            muster_task_count(share, i % COUNT_EACH + 1);
            if (muster_task_stopped(share)) {
                return MUSTER_ERR_CANCELLED;
            }
        }
    }
    return MUSTER_OK;
}

static muster_status mf_work(void *task, muster_ps_worker *worker,
                             const muster_task_share *share,
                             muster_task_sums *sums)
{
    const mf *m = task;
    bool adagrad = m->optimizer == MUSTER_PS_ADAGRAD;
    if (share->parts != m->parts || share->part >= m->parts) {
        return MUSTER_ERR_INVALID;
    }
    pass p = {.m = m,
              .worker = worker,
              .kernel = adagrad ? muster_kernel_mf_adagrad : muster_kernel_mf,
              .many = muster_ps_nodes(worker) > 1,
              .rate = (float)(m->rate * pow(m->options.decay, share->epoch))};
    muster_status status = p.many ? settle_rows(&p, share) : MUSTER_OK;
    if (status == MUSTER_OK) {
        status = m->options.order == ORDER_COLUMN ? work_columns(&p, share)
                                                  : work_random(&p, share);
    }
    sums->value[SUM_ERROR] += p.error;
    sums->value[SUM_CELLS] +=
        (double)(m->from[share->part + 1] - m->from[share->part]);
    return status;
}

/* Squared error over a share of the cells. */
static muster_status measure(const mf *m, muster_ps_worker *worker,
                             const muster_cell *cells, uint64_t count,
                             double *error_out)
{
    uint32_t rank = m->options.rank;
    float *both = muster_mem_array((size_t)2 * rank, sizeof(*both));
    muster_status status = both == NULL ? MUSTER_ERR_NO_MEMORY : MUSTER_OK;
    double sum = 0;
    uint32_t held = UINT32_MAX;
    for (uint64_t i = 0; i < count && status == MUSTER_OK; i++) {
        if (cells[i].col != held) {
            held = cells[i].col;
            status = muster_ps_pull(worker, TABLE_COLS, &held, 1, both);
        }
        if (status == MUSTER_OK) {
            status = muster_ps_pull(worker, TABLE_ROWS, &cells[i].row, 1,
                                    both + rank);
        }
        double off = (double)(cells[i].value -
                              muster_kernel_dot(both, both + rank, rank));
        sum += off * off;
    }
    muster_mem_free(both);
    *error_out = sum;
    return status;
}

static muster_status norms(const mf *m, muster_ps_worker *worker,
                           const muster_task_share *share, double *norm_out)
{
    const uint32_t keys[2] = {m->train.cols, m->train.rows};
    float *row = muster_mem_array(m->options.rank, sizeof(*row));
    muster_status status = row == NULL ? MUSTER_ERR_NO_MEMORY : MUSTER_OK;
    double sum = 0;
    for (uint32_t table = 0; table < 2; table++) {
        for (uint32_t key = share->part;
             key < keys[table] && status == MUSTER_OK; key += share->parts) {
            status = muster_ps_pull(worker, table, &key, 1, row);
            sum += (double)muster_kernel_square(row, m->options.rank);
        }
    }
    muster_mem_free(row);
    *norm_out = sum;
    return status;
}

static muster_status mf_evaluate(void *task, muster_ps_worker *worker,
                                 const muster_task_share *share,
                                 muster_task_sums *sums)
{
    const mf *m = task;
    double error = 0;
    double norm = 0;
    uint64_t from = m->from[share->part];
    uint64_t cells = m->from[share->part + 1] - from;
    muster_status status =
        measure(m, worker, m->train.cells + from, cells, &error);
    sums->value[SUM_ERROR] += error;
    sums->value[SUM_CELLS] += (double)cells;
    if (status == MUSTER_OK) {
        status = norms(m, worker, share, &norm);
        sums->value[SUM_NORM] += norm;
    }
    if (status == MUSTER_OK && m->test.count > 0) {
        uint64_t start = m->test.count * share->part / share->parts;
        uint64_t end = m->test.count * (share->part + 1) / share->parts;
        status = measure(m, worker, m->test.cells + start, end - start, &error);
        sums->value[SUM_TEST_ERROR] += error;
        sums->value[SUM_TEST_CELLS] += (double)(end - start);
    }
    return status;
}

/* rmse, and the loss of the reference: squared error plus l2 times the squared
 * norm of all factors, per cell. */
static uint32_t mf_report(const void *task, const muster_task_sums *work,
                          const muster_task_sums *evaluation,
                          const char **names_out, double *values_out)
{
    const mf *m = task;
    uint32_t count = 0;
    (void)work;
    double cells = evaluation->value[SUM_CELLS];
    names_out[count] = "rmse";
    values_out[count++] = sqrt(evaluation->value[SUM_ERROR] / cells);
    names_out[count] = "loss";
    values_out[count++] =
        (evaluation->value[SUM_ERROR] + m->l2 * evaluation->value[SUM_NORM]) /
        cells;
    if (evaluation->value[SUM_TEST_CELLS] > 0) {
        names_out[count] = "test_rmse";
        values_out[count++] = sqrt(evaluation->value[SUM_TEST_ERROR] /
                                   evaluation->value[SUM_TEST_CELLS]);
    }
    return count;
}

static uint32_t mf_outputs(const void *task, muster_task_output *outputs_out)
{
    const mf *m = task;
    outputs_out[0] = (muster_task_output){"cols", TABLE_COLS, 0, m->train.cols,
                                          m->options.rank};
    outputs_out[1] = (muster_task_output){"rows", TABLE_ROWS, 0, m->train.rows,
                                          m->options.rank};
    return 2;
}

static const char *mf_label(const void *task, uint32_t row)
{
    (void)task;
    (void)row;
    return NULL;
}

const muster_task_ops muster_task_mf = {
    .name = "mf",
    .unit = "cells",
    .create = mf_create,
    .free = mf_free,
    .tables = mf_tables,
    .units = mf_units,
    .epochs = mf_epochs,
    .work = mf_work,
    .evaluate = mf_evaluate,
    .report = mf_report,
    .outputs = mf_outputs,
    .label = mf_label,
};
