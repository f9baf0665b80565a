/*
 * mf_eval.c -- what matrix factorisation is measured by: errors on the cells it
 * was trained on and on the test set, and the norm of its factors.
 */
#include <math.h>

#include "base/mem.h"
#include "task/kernel.h"
#include "task/mf.h"
#include "task/mf_deal.h"

#define CHUNK 512u // rows pulled at once: some may be on other nodes

typedef struct chunk {
    uint32_t cols[CHUNK]; // those of the cells, each once while it lasts
    uint32_t rows[CHUNK];
    uint32_t col_at[CHUNK]; // of a cell, in `cols`
    float *col_values;
    float *row_values;
} chunk;

static muster_status chunk_create(uint32_t width, chunk **chunk_out)
{
    chunk *c = muster_mem_array(1, sizeof(*c));
    if (c == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    c->col_values =
        muster_mem_raw_aligned((size_t)2 * CHUNK * width, sizeof(float));
    if (c->col_values == NULL) {
        muster_mem_free(c);
        return MUSTER_ERR_NO_MEMORY;
    }
    c->row_values = c->col_values + (size_t)CHUNK * width;
    *chunk_out = c;
    return MUSTER_OK;
}

static void chunk_free(chunk *c)
{
    muster_mem_free(c->col_values);
    muster_mem_free(c);
}

static float predict(const muster_mf *m, const float *w, const float *h)
{
    uint32_t rank = m->options.rank;
    float product = muster_kernel_dot(h, w, rank);
    float unit = (float)m->unit;
    return m->options.bias ? product + unit * (w[rank] + h[rank]) : product;
}

/* Squared error of the first chunk of `left` cells, added to *error. The rows
 * of the next one are fetched from memory meanwhile. */
static muster_status measure_chunk(const muster_mf *m, muster_ps_worker *worker,
                                   const muster_cell *cells, uint64_t left,
                                   chunk *c, double *error)
{
    uint32_t count = left < CHUNK ? (uint32_t)left : CHUNK;
    size_t width = muster_mf_width(m);
    uint32_t cols = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (cols == 0 || c->cols[cols - 1] != cells[i].col) {
            c->cols[cols++] = cells[i].col;
        }
        c->col_at[i] = cols - 1;
        c->rows[i] = cells[i].row;
    }
    muster_status status = muster_ps_pull(worker, MUSTER_MF_TABLE_COLS, c->cols,
                                          cols, c->col_values);
    if (status == MUSTER_OK) {
        status = muster_ps_pull(worker, MUSTER_MF_TABLE_ROWS, c->rows, count,
                                c->row_values);
    }
    for (uint32_t i = 0; i < count && status == MUSTER_OK; i++) {
        double off = (double)(cells[i].value -
                              predict(m, c->row_values + i * width,
                                      c->col_values + c->col_at[i] * width));
        *error += off * off;
        if (left - i > CHUNK) {
            muster_ps_prefetch(worker, MUSTER_MF_TABLE_ROWS,
                               cells[i + CHUNK].row);
        }
    }
    return status;
}

/* Squared error over a share of the cells. */
static muster_status measure(const muster_mf *m, muster_ps_worker *worker,
                             const muster_cell *cells, uint64_t count,
                             double *error_out)
{
    chunk *c;
    muster_status status = chunk_create(muster_mf_width(m), &c);
    *error_out = 0;
    if (status != MUSTER_OK) {
        return status;
    }
    for (uint64_t at = 0; at < count && status == MUSTER_OK; at += CHUNK) {
        status = measure_chunk(m, worker, cells + at, count - at, c, error_out);
    }
    chunk_free(c);
    return status;
}

/* Squared norms of rows of a table. */
static muster_status norms_of(const muster_mf *m, muster_ps_worker *worker,
                              uint32_t table, muster_mf_cursor at, double *norm)
{
    chunk *c;
    uint32_t count;
    muster_status status = chunk_create(muster_mf_width(m), &c);
    if (status != MUSTER_OK) {
        return status;
    }
    while (status == MUSTER_OK &&
           (count = muster_mf_next_rows(&at, c->rows, CHUNK)) > 0) {
        status = muster_ps_pull(worker, table, c->rows, count, c->row_values);
        *norm += status == MUSTER_OK
                     ? (double)muster_kernel_square(c->row_values,
                                                    count * muster_mf_width(m))
                     : 0;
    }
    chunk_free(c);
    return status;
}

/* The first part that a share has to measure: it has one as a rule, or all of
 * them. Rows are measured where they are worked on. */
static uint32_t part_at(const muster_mf *m, uint64_t share, uint32_t shares)
{
    return (uint32_t)(m->parts * share / shares);
}

static muster_status norms(const muster_mf *m, muster_ps_worker *worker,
                           const muster_task_share *share, double *norm_out)
{
    uint64_t cols = m->train.cols;
    muster_mf_group mine = {
        .row = (uint32_t)(cols * share->part / share->parts),
        .end = (uint32_t)(cols * (share->part + 1ull) / share->parts)};
    muster_mf_cursor at = {&mine, &mine + (mine.row < mine.end), mine.row};
    *norm_out = 0;
    muster_status status =
        norms_of(m, worker, MUSTER_MF_TABLE_COLS, at, norm_out);
    at = muster_mf_rows_of(m, part_at(m, share->part, share->parts),
                           part_at(m, share->part + 1ull, share->parts));
    return status == MUSTER_OK
               ? norms_of(m, worker, MUSTER_MF_TABLE_ROWS, at, norm_out)
               : status;
}

muster_status muster_mf_evaluate(void *task, muster_ps_worker *worker,
                                 const muster_task_share *share,
                                 muster_task_sums *sums)
{
    const muster_mf *m = task;
    double error = 0;
    double norm = 0;
    const muster_mf_part *from =
        m->parts_at + part_at(m, share->part, share->parts);
    const muster_mf_part *to =
        m->parts_at + part_at(m, share->part + 1ull, share->parts);
    uint64_t cells = to->cell - from->cell;
    muster_status status =
        measure(m, worker, m->train.cells + from->cell, cells, &error);
    sums->value[MUSTER_MF_SUM_ERROR] += error;
    sums->value[MUSTER_MF_SUM_CELLS] += (double)cells;
    if (status == MUSTER_OK) {
        status = norms(m, worker, share, &norm);
        sums->value[MUSTER_MF_SUM_NORM] += norm;
    }
    if (status == MUSTER_OK && m->test.count > 0) {
        cells = to->test - from->test;
        status = measure(m, worker, m->test.cells + from->test, cells, &error);
        sums->value[MUSTER_MF_SUM_TEST_ERROR] += error;
        sums->value[MUSTER_MF_SUM_TEST_CELLS] += (double)cells;
    }
    if (status == MUSTER_OK && m->valid.count > 0) {
        cells = to->valid - from->valid;
        status =
            measure(m, worker, m->valid.cells + from->valid, cells, &error);
        sums->value[MUSTER_MF_SUM_VALID_ERROR] += error;
        sums->value[MUSTER_MF_SUM_VALID_CELLS] += (double)cells;
    }
    return status;
}

/* The rmse of a set, when it has cells. */
static uint32_t report_rmse(const muster_task_sums *sums, int error,
                            double *value_out)
{
    double cells = sums->value[error + 1];
    *value_out = sqrt(sums->value[error] / cells);
    return cells > 0;
}

/* rmse, and the loss of the reference: squared error plus l2 times the squared
 * norm of all factors, per cell. */
uint32_t muster_mf_report(const void *task, const muster_task_sums *work,
                          const muster_task_sums *evaluation,
                          const char **names_out, double *values_out)
{
    const muster_mf *m = task;
    uint32_t count = 0;
    (void)work;
    double cells = evaluation->value[MUSTER_MF_SUM_CELLS];
    names_out[count] = "rmse";
    values_out[count++] = sqrt(evaluation->value[MUSTER_MF_SUM_ERROR] / cells);
    names_out[count] = "loss";
    values_out[count++] = (evaluation->value[MUSTER_MF_SUM_ERROR] +
                           m->l2 * evaluation->value[MUSTER_MF_SUM_NORM]) /
                          cells;
    names_out[count] = "valid_rmse";
    count +=
        report_rmse(evaluation, MUSTER_MF_SUM_VALID_ERROR, &values_out[count]);
    names_out[count] = "test_rmse";
    count +=
        report_rmse(evaluation, MUSTER_MF_SUM_TEST_ERROR, &values_out[count]);
    return count;
}
