/*
 * product.c -- c is cut into cells, each one call of a BLAS with one thread.
 *
 * Why cells of one block's products, not rows of the batch with sums of their
 * own: such sums are a copy of the gradient a thread, 84 MB each at
 * h = 4,096, and one more pass over them all; cells need no memory, and 512
 * rows by 4,096 columns are cells enough for 64 threads.
 */
#include "model/product.h"

#include <cblas.h>

/* At 100 GFLOPS. */
#define OPS_US 1e5
/* Copying a float for BLAS, in operations, and a loop over c. */
#define COPY_OPS 32.0
#define LOOP_OPS 32.0

typedef struct grid {
    const muster_product *product;
    uint32_t down;   // cells along m
    uint32_t across; // cells along n
} grid;

/* Of the largest cell. */
static double side(uint32_t size, uint32_t cells)
{
    uint32_t groups = (size + 15) / 16;
    uint32_t each = (groups + cells - 1) / cells;
    return 16.0 * each;
}

/* Of all grids of at most `cells` the one whose largest cell is done first. */
static grid grid_of(const muster_product *product, uint32_t cells)
{
    grid best = {product, 1, 1};
    double best_cost = 0;
    for (uint32_t down = 1; down <= cells; down++) {
        uint32_t across = cells / down;
        double m = side(product->m, down);
        double n = side(product->n, across);
        double cost = 2 * m * n + COPY_OPS * (m + n);
        if (down == 1 || cost < best_cost) {
            best = (grid){product, down, across};
            best_cost = cost;
        }
    }
    return best;
}

/* Sums of at most `terms`, one after another. */
static void multiply(const muster_product *p, const muster_product_cell *cell)
{
    size_t terms = p->terms > 0 ? p->terms : p->k;
    const float *a = p->a + cell->row * (p->a_turned ? 1 : p->a_stride);
    const float *b = p->b + cell->column * (p->b_turned ? p->b_stride : 1);
    for (size_t at = 0; at < p->k; at += terms) {
        size_t count = p->k - at < terms ? p->k - at : terms;
        cblas_sgemm(CblasRowMajor, p->a_turned ? CblasTrans : CblasNoTrans,
                    p->b_turned ? CblasTrans : CblasNoTrans, (int)cell->rows,
                    (int)cell->columns, (int)count, 1.0f,
                    a + at * (p->a_turned ? p->a_stride : 1), (int)p->a_stride,
                    b + at * (p->b_turned ? 1 : p->b_stride), (int)p->b_stride,
                    at == 0 ? p->beta : 1.0f, cell->c, (int)cell->c_stride);
    }
}

static void do_cell(void *context, uint32_t index)
{
    const grid *g = context;
    const muster_product *p = g->product;
    uint32_t i = index / g->across;
    uint32_t j = index % g->across;
    size_t row = muster_threads_part(p->m, g->down, i);
    size_t column = muster_threads_part(p->n, g->across, j);
    size_t rows = muster_threads_part(p->m, g->down, i + 1) - row;
    size_t columns = muster_threads_part(p->n, g->across, j + 1) - column;
    if (rows == 0 || columns == 0) {
        return;
    }
    const muster_product_cell cell = {(uint32_t)row,
                                      (uint32_t)column,
                                      (uint32_t)rows,
                                      (uint32_t)columns,
                                      p->c + row * p->c_stride + column,
                                      p->c_stride};
    if (p->before != NULL) {
        p->before(p->context, &cell);
    }
    multiply(p, &cell);
    if (p->after != NULL) {
        p->after(p->context, &cell);
    }
}

void muster_product_run(muster_threads *pool, const muster_product *product)
{
    double loops = (product->before != NULL ? LOOP_OPS : 0) +
                   (product->after != NULL ? LOOP_OPS : 0);
    double floats = (double)product->m * product->n;
    double copies = ((double)product->m + product->n) * product->k * COPY_OPS;
    double work_us = ((2.0 * product->k + loops) * floats + copies) / OPS_US;
    grid g = grid_of(product, muster_threads_parts(pool, work_us));
    muster_threads_run_some(pool, g.down * g.across, work_us, do_cell, &g);
}
