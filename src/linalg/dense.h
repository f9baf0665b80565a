/*
 * linalg/dense.h -- small dense systems in double.
 *
 * Matrices are row-major arrays without gaps. The small ones that codes solve
 * per responder set (up to 32 columns) go through a one-sided Jacobi SVD of our
 * own, which is accurate to the last digits and has no call overhead; larger
 * ones through LAPACK.
 *
 *   Ownership    Inputs are not kept; outputs are the caller's arrays.
 *   Threads      Pure functions.
 *   Allocation   Scratch from base/mem.h, freed before return: control path.
 */
#ifndef MUSTER_LINALG_DENSE_H
#define MUSTER_LINALG_DENSE_H

#include <stdint.h>

#include "muster/export.h"
#include "muster/status.h"

/* What a factorisation learnt about a matrix. */
typedef struct muster_dense_shape {
    uint32_t rank;    // singular values above 1e-11 of the largest
    double condition; // largest over smallest; INFINITY when singular
} muster_dense_shape;

/*
 * pinv_out (cols x rows) = the pseudo-inverse of a (rows x cols): with full
 * column rank the least-squares inverse, with full row rank the one of least
 * norm, else both. shape_out may be NULL. rows, cols >= 1.
 * MUSTER_ERR_NO_MEMORY; MUSTER_ERR_INVALID when an entry is not finite.
 */
MUSTER_CHECKED muster_status muster_dense_pinv(const double *a, uint32_t rows,
                                               uint32_t cols, double *pinv_out,
                                               muster_dense_shape *shape_out);

/* Rank and condition alone, over min(rows, cols) singular values. */
MUSTER_CHECKED muster_status
muster_dense_measure(const double *a, uint32_t rows, uint32_t cols,
                     muster_dense_shape *shape_out);

/*
 * Solve a x = b in place by LU with partial pivoting: a is n x n and is
 * destroyed, b is n x columns and becomes x. MUSTER_ERR_INVALID when a is
 * exactly singular or not finite.
 */
MUSTER_CHECKED muster_status muster_dense_solve(double *a, uint32_t n,
                                                double *b, uint32_t columns);

/*
 * Replace the columns of a (rows x cols, cols <= rows) by an orthonormal basis
 * of their span. MUSTER_ERR_INVALID when not finite.
 */
MUSTER_CHECKED muster_status muster_dense_orthonormalise(double *a,
                                                         uint32_t rows,
                                                         uint32_t cols);

#endif // MUSTER_LINALG_DENSE_H
