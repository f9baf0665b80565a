/*
 * vanish.c -- constraints by QR, the rest by least squares (LAPACK).
 *
 * N_zero = Q [R; 0]. In coordinates y = Q' z the constraints fix y1 by a
 * triangular solve, and y2 is free. `turned` holds Q' N, so that rows are
 * affine + y1 turned_1 + y2 turned_2.
 */
#include "linalg/vanish.h"

#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "linalg/dense.h"

typedef struct vanish_memory {
    double *chosen; // freedom x q by columns, then its QR
    double *tau;    // q
    double *turned; // freedom x columns by columns
    double *fixed;  // q x outputs by columns: y1
    double *free;   // columns x (freedom - q) by columns
    double *right;  // columns x outputs by columns
    double *work;
    lapack_int work_count;
} vanish_memory;

static void release(vanish_memory *m)
{
    muster_mem_free(m->chosen);
    muster_mem_free(m->tau);
    muster_mem_free(m->turned);
    muster_mem_free(m->fixed);
    muster_mem_free(m->free);
    muster_mem_free(m->right);
    muster_mem_free(m->work);
}

static muster_status prepare(const muster_vanish *p, vanish_memory *m)
{
    size_t q = p->zero_count;
    size_t r = p->freedom;
    size_t c = p->columns;
    size_t widest = c > r ? c : r;
    size_t outputs = p->outputs;
    memset(m, 0, sizeof(*m));
    // 64 columns at a time is LAPACK's own block size.
    size_t work = 64 * (widest + r + outputs + 64);
    if (work > INT32_MAX || c > INT32_MAX / 2) {
        return MUSTER_ERR_INVALID;
    }
    m->work_count = (lapack_int)work;
    m->chosen = muster_mem_array(r * q, sizeof(double));
    m->tau = muster_mem_array(r, sizeof(double));
    m->turned = muster_mem_array(r * c, sizeof(double));
    m->fixed = muster_mem_array(q * outputs, sizeof(double));
    m->free = muster_mem_array(c * (r - q), sizeof(double));
    m->right = muster_mem_array(c * outputs, sizeof(double));
    m->work = muster_mem_array(work, sizeof(double));
    if (m->chosen == NULL || m->tau == NULL || m->turned == NULL ||
        m->fixed == NULL || m->free == NULL || m->right == NULL ||
        m->work == NULL) {
        release(m);
        return MUSTER_ERR_NO_MEMORY;
    }
    return MUSTER_OK;
}

/* Condition of the triangle R of the QR in `chosen`. */
static muster_status measure_triangle(const muster_vanish *p,
                                      const vanish_memory *m,
                                      double *condition_out)
{
    uint32_t q = p->zero_count;
    double *square = muster_mem_array((size_t)q * q, sizeof(double));
    if (square == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t j = 0; j < q; j++) {
        for (uint32_t i = 0; i <= j; i++) {
            square[(size_t)i * q + j] = m->chosen[(size_t)j * p->freedom + i];
        }
    }
    muster_dense_shape shape;
    muster_status status = muster_dense_measure(square, q, q, &shape);
    *condition_out = shape.condition;
    muster_mem_free(square);
    return status;
}

/* Factor the constraints, solve for y1 and turn N. */
static muster_status satisfy(const muster_vanish *p, vanish_memory *m)
{
    lapack_int q = (lapack_int)p->zero_count;
    lapack_int r = (lapack_int)p->freedom;
    lapack_int columns = (lapack_int)p->columns;
    lapack_int outputs = (lapack_int)p->outputs;
    for (uint32_t j = 0; j < p->zero_count; j++) {
        memcpy(m->chosen + (size_t)j * p->freedom,
               p->null + (size_t)p->zero[j] * p->freedom,
               p->freedom * sizeof(double));
        for (uint32_t u = 0; u < p->outputs; u++) {
            m->fixed[(size_t)u * p->zero_count + j] =
                -p->affine[(size_t)u * p->columns + p->zero[j]];
        }
    }
    if (LAPACKE_dgeqrf_work(LAPACK_COL_MAJOR, r, q, m->chosen, r, m->tau,
                            m->work, m->work_count) != 0 ||
        LAPACKE_dtrtrs_work(LAPACK_COL_MAJOR, 'U', 'T', 'N', q, outputs,
                            m->chosen, r, m->fixed, q) != 0 ||
        LAPACKE_dormqr_work(LAPACK_COL_MAJOR, 'L', 'T', r, columns, q,
                            m->chosen, r, m->tau, m->turned, r, m->work,
                            m->work_count) != 0) {
        return MUSTER_ERR_INVALID;
    }
    return MUSTER_OK;
}

/* Coefficients of some rows of `turned`: outputs columns, `stride` apart. */
typedef struct turned_mix {
    const double *y;
    size_t stride;
    uint32_t first; // row of turned
    uint32_t count;
} turned_mix;

static void add_turned(const muster_vanish *p, const vanish_memory *m,
                       turned_mix mix, double *rows)
{
    for (uint32_t u = 0; u < p->outputs; u++) {
        const double *y = mix.y + u * mix.stride;
        for (uint32_t c = 0; c < p->columns; c++) {
            const double *column =
                m->turned + (size_t)c * p->freedom + mix.first;
            double sum = 0.0;
            for (uint32_t t = 0; t < mix.count; t++) {
                sum += y[t] * column[t];
            }
            rows[(size_t)u * p->columns + c] += sum;
        }
    }
}

/* Use the freedom that is left to shorten the rows. Rows that cannot be
 * shortened (a rank-deficient problem) stay as they are. */
static void shorten(const muster_vanish *p, vanish_memory *m, double *rows)
{
    uint32_t q = p->zero_count;
    uint32_t left = p->freedom - q;
    for (uint32_t c = 0; c < p->columns; c++) {
        const double *column = m->turned + (size_t)c * p->freedom + q;
        for (uint32_t t = 0; t < left; t++) {
            m->free[(size_t)t * p->columns + c] = p->scale[c] * column[t];
        }
        for (uint32_t u = 0; u < p->outputs; u++) {
            m->right[(size_t)u * p->columns + c] =
                -p->scale[c] * rows[(size_t)u * p->columns + c];
        }
    }
    lapack_int columns = (lapack_int)p->columns;
    lapack_int info =
        LAPACKE_dgels_work(LAPACK_COL_MAJOR, 'N', columns, (lapack_int)left,
                           (lapack_int)p->outputs, m->free, columns, m->right,
                           columns, m->work, m->work_count);
    if (info == 0) {
        turned_mix mix = {m->right, p->columns, q, left};
        add_turned(p, m, mix, rows);
    }
}

muster_status muster_vanish_solve(const muster_vanish *p, double *rows_out,
                                  double *condition_out)
{
    vanish_memory m;
    muster_status status = prepare(p, &m);
    if (status != MUSTER_OK) {
        return status;
    }
    memcpy(rows_out, p->affine,
           (size_t)p->outputs * p->columns * sizeof(double));
    memcpy(m.turned, p->null, (size_t)p->columns * p->freedom * sizeof(double));
    *condition_out = 1.0;
    if (p->zero_count > 0) {
        status = satisfy(p, &m);
        if (status == MUSTER_OK) {
            status = measure_triangle(p, &m, condition_out);
        }
        if (status != MUSTER_OK) {
            goto out;
        }
        turned_mix mix = {m.fixed, p->zero_count, 0, p->zero_count};
        add_turned(p, &m, mix, rows_out);
    }
    if (p->zero_count < p->freedom && p->columns >= p->freedom) {
        shorten(p, &m, rows_out);
    }
    for (uint32_t u = 0; u < p->outputs; u++) {
        for (uint32_t j = 0; j < p->zero_count; j++) {
            rows_out[(size_t)u * p->columns + p->zero[j]] = 0.0;
        }
    }
out:
    release(&m);
    return status;
}
