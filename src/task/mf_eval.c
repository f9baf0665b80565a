/*
 * mf_eval.c -- what matrix factorisation is measured by: errors on the cells it
 * was trained on and on the test set, and the norm of its factors.
 */
#include <math.h>

#include "base/mem.h"
#include "task/kernel.h"
#include "task/mf.h"

/* Squared error over a share of the cells. */
static muster_status measure(const muster_mf *m, muster_ps_worker *worker,
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
            status =
                muster_ps_pull(worker, MUSTER_MF_TABLE_COLS, &held, 1, both);
        }
        if (status == MUSTER_OK) {
            status = muster_ps_pull(worker, MUSTER_MF_TABLE_ROWS, &cells[i].row,
                                    1, both + rank);
        }
        double off = (double)(cells[i].value -
                              muster_kernel_dot(both, both + rank, rank));
        sum += off * off;
    }
    muster_mem_free(both);
    *error_out = sum;
    return status;
}

static muster_status norms(const muster_mf *m, muster_ps_worker *worker,
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

muster_status muster_mf_evaluate(void *task, muster_ps_worker *worker,
                                 const muster_task_share *share,
                                 muster_task_sums *sums)
{
    const muster_mf *m = task;
    double error = 0;
    double norm = 0;
    uint64_t from = m->parts_at[share->part].cell;
    uint64_t cells = m->parts_at[share->part + 1].cell - from;
    muster_status status =
        measure(m, worker, m->train.cells + from, cells, &error);
    sums->value[MUSTER_MF_SUM_ERROR] += error;
    sums->value[MUSTER_MF_SUM_CELLS] += (double)cells;
    if (status == MUSTER_OK) {
        status = norms(m, worker, share, &norm);
        sums->value[MUSTER_MF_SUM_NORM] += norm;
    }
    if (status == MUSTER_OK && m->test.count > 0) {
        uint64_t start = m->test.count * share->part / share->parts;
        uint64_t end = m->test.count * (share->part + 1) / share->parts;
        status = measure(m, worker, m->test.cells + start, end - start, &error);
        sums->value[MUSTER_MF_SUM_TEST_ERROR] += error;
        sums->value[MUSTER_MF_SUM_TEST_CELLS] += (double)(end - start);
    }
    return status;
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
    if (evaluation->value[MUSTER_MF_SUM_TEST_CELLS] > 0) {
        names_out[count] = "test_rmse";
        values_out[count++] = sqrt(evaluation->value[MUSTER_MF_SUM_TEST_ERROR] /
                                   evaluation->value[MUSTER_MF_SUM_TEST_CELLS]);
    }
    return count;
}
