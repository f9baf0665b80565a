/*
 * dense.c -- pseudo-inverses, conditions and solves.
 *
 * One-sided Jacobi (Hestenes): rotate pairs of columns of A until all are
 * orthogonal; then A V = U S, and pinv(A) = V S^-1 U'. A wide matrix is
 * transposed first, so the rotated columns are always the short side. Sweeps
 * end when no pair is further from orthogonal than 1e-15 of its norms, after
 * about six; the limit of 40 is never met by finite input.
 */
#include "linalg/dense.h"

#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/dot.h"
#include "base/mem.h"

#define JACOBI_COLUMNS_MAX 32u
#define JACOBI_SWEEPS_MAX  40u
#define RANK_TOLERANCE     1e-11

/* a = u diag(s) v': `tall` x `few` with few <= tall, by columns (each column
 * contiguous). u overwrites a; s has few entries, v is few x few. */
typedef struct svd_parts {
    uint32_t tall;
    uint32_t few;
    double *u;
    double *s;
    double *v; // column j at v + j * few
} svd_parts;

static bool all_finite(const double *a, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(a[i])) {
            return false;
        }
    }
    return true;
}

static void rotate(double *x, double *y, uint32_t n, double c, double s)
{
    for (uint32_t i = 0; i < n; i++) {
        double left = x[i];
        double right = y[i];
        x[i] = c * left - s * right;
        y[i] = s * left + c * right;
    }
}

/* Make columns p and q orthogonal; true when they were not yet. */
static bool rotate_pair(const svd_parts *svd, uint32_t p, uint32_t q)
{
    double *up = svd->u + (size_t)p * svd->tall;
    double *uq = svd->u + (size_t)q * svd->tall;
    double alpha = muster_dot_f64(up, up, svd->tall);
    double beta = muster_dot_f64(uq, uq, svd->tall);
    double gamma = muster_dot_f64(up, uq, svd->tall);
    if (fabs(gamma) <= 1e-15 * sqrt(alpha * beta) || gamma == 0.0) {
        return false;
    }
    double zeta = (beta - alpha) / (2.0 * gamma);
    double t = copysign(1.0, zeta) / (fabs(zeta) + hypot(1.0, zeta));
    double c = 1.0 / hypot(1.0, t);
    rotate(up, uq, svd->tall, c, c * t);
    rotate(svd->v + (size_t)p * svd->few, svd->v + (size_t)q * svd->few,
           svd->few, c, c * t);
    return true;
}

static void jacobi_svd(const svd_parts *svd)
{
    memset(svd->v, 0, sizeof(double) * svd->few * svd->few);
    for (uint32_t j = 0; j < svd->few; j++) {
        svd->v[(size_t)j * svd->few + j] = 1.0;
    }
    bool changed = true;
    for (uint32_t sweep = 0; changed && sweep < JACOBI_SWEEPS_MAX; sweep++) {
        changed = false;
        for (uint32_t p = 0; p + 1 < svd->few; p++) {
            for (uint32_t q = p + 1; q < svd->few; q++) {
                changed |= rotate_pair(svd, p, q);
            }
        }
    }
    for (uint32_t j = 0; j < svd->few; j++) {
        double *column = svd->u + (size_t)j * svd->tall;
        double norm = sqrt(muster_dot_f64(column, column, svd->tall));
        svd->s[j] = norm;
        for (uint32_t i = 0; norm > 0.0 && i < svd->tall; i++) {
            column[i] /= norm;
        }
    }
}

/* With `values_only`, u and v are left unspecified. */
static muster_status lapack_svd(const svd_parts *svd, bool values_only)
{
    char job = values_only ? 'N' : 'O';
    lapack_int tall = (lapack_int)svd->tall;
    lapack_int few = (lapack_int)svd->few;
    double size = 0.0;
    lapack_int info =
        LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, job, tall, few, svd->u, tall,
                            svd->s, NULL, tall, svd->v, few, &size, -1, NULL);
    if (info != 0) {
        return MUSTER_ERR_INVALID;
    }
    lapack_int work_count = (lapack_int)size;
    double *work = muster_mem_array((size_t)work_count, sizeof(double));
    lapack_int *marks = muster_mem_array(svd->few, 8 * sizeof(lapack_int));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (work != NULL && marks != NULL) {
        // LAPACK leaves v' by columns; transpose to v by columns.
        info = LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, job, tall, few, svd->u,
                                   tall, svd->s, NULL, tall, svd->v, few, work,
                                   work_count, marks);
        status = info == 0 ? MUSTER_OK : MUSTER_ERR_INVALID;
        for (uint32_t i = 0; !values_only && i < svd->few; i++) {
            for (uint32_t j = 0; j < i; j++) {
                double *one = svd->v + (size_t)i * svd->few + j;
                double *two = svd->v + (size_t)j * svd->few + i;
                double kept = *one;
                *one = *two;
                *two = kept;
            }
        }
    }
    muster_mem_free(marks);
    muster_mem_free(work);
    return status;
}

/* Fill svd from the row-major a, transposing when it is wide. `memory` is the
 * one block behind u, s and v. */
static muster_status svd_of(const double *a, uint32_t rows, uint32_t cols,
                            bool values_only, svd_parts *svd,
                            double **memory_out)
{
    bool wide = cols > rows;
    svd->tall = wide ? cols : rows;
    svd->few = wide ? rows : cols;
    size_t entries = (size_t)rows * cols;
    if (!all_finite(a, entries)) {
        return MUSTER_ERR_INVALID;
    }
    double *memory = muster_mem_array(
        entries + svd->few + (size_t)svd->few * svd->few, sizeof(double));
    if (memory == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    svd->u = memory;
    svd->s = memory + entries;
    svd->v = svd->s + svd->few;
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < cols; j++) {
            size_t to = wide ? (size_t)i * cols + j : (size_t)j * svd->tall + i;
            svd->u[to] = a[(size_t)i * cols + j];
        }
    }
    muster_status status = MUSTER_OK;
    if (svd->few <= JACOBI_COLUMNS_MAX) {
        jacobi_svd(svd);
    } else {
        status = lapack_svd(svd, values_only);
    }
    if (status != MUSTER_OK) {
        muster_mem_free(memory);
        return status;
    }
    *memory_out = memory;
    return MUSTER_OK;
}

static muster_dense_shape shape_of(const svd_parts *svd)
{
    double high = 0.0;
    double low = INFINITY;
    for (uint32_t j = 0; j < svd->few; j++) {
        high = fmax(high, svd->s[j]);
        low = fmin(low, svd->s[j]);
    }
    muster_dense_shape shape = {0, low > 0.0 ? high / low : INFINITY};
    for (uint32_t j = 0; j < svd->few; j++) {
        shape.rank += svd->s[j] > RANK_TOLERANCE * high;
    }
    return shape;
}

muster_status muster_dense_pinv(const double *a, uint32_t rows, uint32_t cols,
                                double *pinv_out, muster_dense_shape *shape_out)
{
    svd_parts svd;
    double *memory = NULL;
    muster_status status = svd_of(a, rows, cols, false, &svd, &memory);
    if (status != MUSTER_OK) {
        return status;
    }
    double high = 0.0;
    for (uint32_t j = 0; j < svd.few; j++) {
        high = fmax(high, svd.s[j]);
    }
    // A wide matrix was transposed: pinv(a) = pinv(a')'.
    bool wide = cols > rows;
    memset(pinv_out, 0, sizeof(double) * rows * cols);
    for (uint32_t j = 0; j < svd.few; j++) {
        if (svd.s[j] <= RANK_TOLERANCE * high) {
            continue;
        }
        const double *u = svd.u + (size_t)j * svd.tall;
        const double *v = svd.v + (size_t)j * svd.few;
        for (uint32_t c = 0; c < cols; c++) {
            double left = (wide ? u[c] : v[c]) / svd.s[j];
            const double *right = wide ? v : u;
            for (uint32_t r = 0; r < rows; r++) {
                pinv_out[(size_t)c * rows + r] += left * right[r];
            }
        }
    }
    if (shape_out != NULL) {
        *shape_out = shape_of(&svd);
    }
    muster_mem_free(memory);
    return MUSTER_OK;
}

muster_status muster_dense_measure(const double *a, uint32_t rows,
                                   uint32_t cols, muster_dense_shape *shape_out)
{
    svd_parts svd;
    double *memory = NULL;
    muster_status status = svd_of(a, rows, cols, true, &svd, &memory);
    if (status == MUSTER_OK) {
        *shape_out = shape_of(&svd);
        muster_mem_free(memory);
    }
    return status;
}

/* Exchange rows k and pivot of a matrix of `columns` columns. */
static void swap_rows(double *a, size_t columns, uint32_t k, uint32_t pivot)
{
    for (size_t j = 0; pivot != k && j < columns; j++) {
        double kept = a[k * columns + j];
        a[k * columns + j] = a[pivot * columns + j];
        a[pivot * columns + j] = kept;
    }
}

/* row -= factor * pivot row, from column `from` on. */
static void subtract_row(double *row, const double *pivot_row, double factor,
                         uint32_t from, uint32_t columns)
{
    for (uint32_t j = from; factor != 0.0 && j < columns; j++) {
        row[j] -= factor * pivot_row[j];
    }
}

static void substitute_back(const double *a, uint32_t n, double *b,
                            uint32_t columns)
{
    for (uint32_t k = n; k-- > 0;) {
        double *row = b + (size_t)k * columns;
        for (uint32_t i = k + 1; i < n; i++) {
            subtract_row(row, b + (size_t)i * columns, a[(size_t)k * n + i], 0,
                         columns);
        }
        for (uint32_t j = 0; j < columns; j++) {
            row[j] /= a[(size_t)k * n + k];
        }
    }
}

muster_status muster_dense_solve(double *a, uint32_t n, double *b,
                                 uint32_t columns)
{
    if (!all_finite(a, (size_t)n * n) || !all_finite(b, (size_t)n * columns)) {
        return MUSTER_ERR_INVALID;
    }
    for (uint32_t k = 0; k < n; k++) {
        uint32_t pivot = k;
        for (uint32_t i = k + 1; i < n; i++) {
            if (fabs(a[(size_t)i * n + k]) > fabs(a[(size_t)pivot * n + k])) {
                pivot = i;
            }
        }
        swap_rows(a, n, k, pivot);
        swap_rows(b, columns, k, pivot);
        const double *lead = a + (size_t)k * n;
        if (lead[k] == 0.0) {
            return MUSTER_ERR_INVALID;
        }
        for (uint32_t i = k + 1; i < n; i++) {
            double factor = a[(size_t)i * n + k] / lead[k];
            subtract_row(a + (size_t)i * n, lead, factor, k + 1, n);
            subtract_row(b + (size_t)i * columns, b + (size_t)k * columns,
                         factor, 0, columns);
        }
    }
    substitute_back(a, n, b, columns);
    return MUSTER_OK;
}

muster_status muster_dense_orthonormalise(double *a, uint32_t rows,
                                          uint32_t cols)
{
    if (!all_finite(a, (size_t)rows * cols)) {
        return MUSTER_ERR_INVALID;
    }
    lapack_int tall = (lapack_int)rows;
    lapack_int few = (lapack_int)cols;
    lapack_int work_count = 64 * (few + 1);
    double *turned = muster_mem_array((size_t)rows * cols, sizeof(double));
    double *tau = muster_mem_array(cols, sizeof(double));
    double *work = muster_mem_array((size_t)work_count, sizeof(double));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (turned == NULL || tau == NULL || work == NULL) {
        goto out;
    }
    for (size_t i = 0; i < (size_t)rows * cols; i++) {
        turned[i % cols * rows + i / cols] = a[i];
    }
    status = MUSTER_ERR_INVALID;
    if (LAPACKE_dgeqrf_work(LAPACK_COL_MAJOR, tall, few, turned, tall, tau,
                            work, work_count) == 0 &&
        LAPACKE_dorgqr_work(LAPACK_COL_MAJOR, tall, few, few, turned, tall, tau,
                            work, work_count) == 0) {
        status = MUSTER_OK;
        for (size_t i = 0; i < (size_t)rows * cols; i++) {
            a[i] = turned[i % cols * rows + i / cols];
        }
    }
out:
    muster_mem_free(work);
    muster_mem_free(tau);
    muster_mem_free(turned);
    return status;
}
