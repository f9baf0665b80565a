/*
 * mf_work.c -- one worker's share of an epoch of matrix factorisation.
 *
 * With several nodes the rows of a part come once and stay. A row or column
 * that is not here in spite of that, or of being asked for ahead (mf_tour.c,
 * mf_random.c), only costs time.
 */
#include <math.h>

#include "base/assert.h"
#include "task/kernel.h"
#include "task/mf.h"
#include "task/mf_deal.h"
#include "task/mf_random.h"
#include "task/mf_tour.h"

#define AHEAD  12u // cells whose rows are asked for before
#define STRAYS 64u // rows that are fetched together when one is missing
#define LOCALIZE_MAX \
    2048u // at once: threads of two nodes wake up for each call

typedef muster_mf_pass pass;

/* Move both rows of a cell. */
static inline void move_cell(pass *p, float *w, float *h, float x)
{
    const muster_mf *m = p->m;
    const muster_kernel_mf_step *step = &p->step;
    uint32_t n = m->options.rank;
    bool adagrad = m->optimizer == MUSTER_PS_ADAGRAD;
    float error;
    if (m->options.bias) {
        error = adagrad ? muster_kernel_mf_bias_adagrad(w, h, n, x, step)
                        : muster_kernel_mf_bias(w, h, n, x, step);
    } else {
        error = adagrad
                    ? muster_kernel_mf_adagrad(w, h, n, x, step->rate, step->l2)
                    : muster_kernel_mf(w, h, n, x, step->rate, step->l2);
    }
    p->error += (double)error * (double)error;
}

/* Fetch what the cell AHEAD of this one names from memory; a column that the
 * cell before it names too is on its way. */
static inline void fetch_ahead(const pass *p, const muster_cell *cell)
{
    if (p->end - cell > AHEAD) {
        const muster_cell *later = cell + AHEAD;
        muster_ps_prefetch(p->worker, MUSTER_MF_TABLE_ROWS, later->row);
        if (later->col != later[-1].col) {
            muster_ps_prefetch(p->worker, MUSTER_MF_TABLE_COLS, later->col);
        }
    }
}

/* The first cells, as long as they are of one column, its factor held all
 * along; *done_out of them were worked on, fewer when a row turned out to be
 * elsewhere (MUSTER_ERR_AGAIN). */
static muster_status hold_column(pass *p, const muster_cell *cells,
                                 size_t count, size_t *done_out)
{
    float *h;
    uint32_t col = cells[0].col;
    size_t i = 0;
    muster_status status =
        muster_ps_begin(p->worker, MUSTER_MF_TABLE_COLS, col, &h);
    if (status != MUSTER_OK) {
        return status;
    }
    do {
        float *w;
        fetch_ahead(p, &cells[i]);
        status =
            muster_ps_begin(p->worker, MUSTER_MF_TABLE_ROWS, cells[i].row, &w);
        if (status != MUSTER_OK) {
            break;
        }
        move_cell(p, w, h, cells[i].value);
        status = muster_ps_end(p->worker, MUSTER_MF_TABLE_ROWS, cells[i].row);
        if (status != MUSTER_OK) {
            break;
        }
        i++;
    } while (i < count && cells[i].col == col);
    *done_out = i;
    muster_status ended = muster_ps_end(p->worker, MUSTER_MF_TABLE_COLS, col);
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
        muster_ps_begin(p->worker, MUSTER_MF_TABLE_ROWS, cell->row, &w);
    if (status != MUSTER_OK) {
        return status;
    }
    status = muster_ps_begin(p->worker, MUSTER_MF_TABLE_COLS, cell->col, &h);
    if (status == MUSTER_OK) {
        move_cell(p, w, h, cell->value);
        status = muster_ps_end(p->worker, MUSTER_MF_TABLE_COLS, cell->col);
    }
    muster_status ended =
        muster_ps_end(p->worker, MUSTER_MF_TABLE_ROWS, cell->row);
    return status == MUSTER_OK ? ended : status;
}

/* Rows that went astray, after a node was lost perhaps: the next cells' too. */
static muster_status fetch_rows(const pass *p, const muster_cell *cells,
                                size_t count)
{
    uint32_t rows[STRAYS];
    uint32_t wanted = 0;
    while (wanted < STRAYS && wanted < count) {
        rows[wanted] = cells[wanted].row;
        wanted++;
    }
    return muster_ps_fetch(p->worker, MUSTER_MF_TABLE_ROWS, rows, wanted);
}

muster_status muster_mf_work_cells(muster_mf_pass *p, const muster_cell *cells,
                                   size_t count)
{
    uint32_t tries = 0; // of the same cell
    MUSTER_ASSERT(cells != NULL);
    while (count > 0) {
        size_t done = 0;
        muster_status status = hold_column(p, cells, count, &done);
        tries = done > 0 ? 0 : tries + 1;
        if (status == MUSTER_ERR_AGAIN) {
            status = fetch_rows(p, cells + done, count - done);
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

/* The rows of a part are nobody else's: they come once and stay. */
static muster_status settle_rows(pass *p, uint32_t part)
{
    muster_mf_cursor rows = muster_mf_rows_of(p->m, part, part + 1);
    uint32_t keys[LOCALIZE_MAX];
    uint32_t count;
    while ((count = muster_mf_next_rows(&rows, keys, LOCALIZE_MAX)) > 0) {
        muster_status status =
            muster_ps_localize(p->worker, MUSTER_MF_TABLE_ROWS, keys, count);
        if (status == MUSTER_ERR_AGAIN) {
            status =
                muster_ps_fetch(p->worker, MUSTER_MF_TABLE_ROWS, keys, count);
        }
        if (status != MUSTER_OK) {
            return status;
        }
    }
    atomic_store(&p->m->settled[part], true);
    return MUSTER_OK;
}

muster_status muster_mf_work(void *task, muster_ps_worker *worker,
                             const muster_task_share *share,
                             muster_task_sums *sums)
{
    const muster_mf *m = task;
    if (share->parts != m->parts || share->part >= m->parts) {
        return MUSTER_ERR_INVALID;
    }
    pass p = {
        .m = m,
        .worker = worker,
        .step = {.rate = (float)(m->rate * pow(m->options.decay, share->epoch)),
                 .l2 = (float)m->l2,
                 .unit = (float)m->unit},
        .many = muster_ps_nodes(worker) > 1};
    muster_status status = MUSTER_OK;
    if (p.many && !atomic_load(&m->settled[share->part])) {
        status = settle_rows(&p, share->part);
    }
    if (status == MUSTER_OK) {
        status = m->options.order == MUSTER_MF_ORDER_COLUMN
                     ? muster_mf_work_columns(&p, share)
                     : muster_mf_work_random(&p, share);
    }
    sums->value[MUSTER_MF_SUM_ERROR] += p.error;
    sums->value[MUSTER_MF_SUM_CELLS] +=
        (double)(m->parts_at[share->part + 1].cell -
                 m->parts_at[share->part].cell);
    return status;
}
