/*
 * model/product.h -- a matrix product by several threads.
 *
 *   Determinism  The same sizes and the same number of threads give the same
 *                bits. Another number cuts elsewhere: rounding may differ.
 *   Allocation   None.
 */
#ifndef MUSTER_MODEL_PRODUCT_H
#define MUSTER_MODEL_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/threads.h"

/* A part of c, which one thread computes. */
typedef struct muster_product_cell {
    uint32_t row, column; // where it begins in c
    uint32_t rows, columns;
    float *c; // its first float
    size_t c_stride;
} muster_product_cell;

typedef void (*muster_product_work)(void *context,
                                    const muster_product_cell *cell);

/* c (m x n) = beta c + a b, by rows; a or b may lie transposed. */
typedef struct muster_product {
    uint32_t m, n, k;
    uint32_t terms; // of k that float32 sums take at once; 0: all
    const float *a;
    size_t a_stride;
    bool a_turned; // a is k x m
    const float *b;
    size_t b_stride;
    bool b_turned; // b is n x k
    float beta;
    float *c;
    size_t c_stride;
    /* What the thread of a cell does before and after its product; NULL:
     * nothing. So loops over c need no run of their own, and find it in the
     * thread's cache. */
    muster_product_work before, after;
    void *context;
} muster_product;

void muster_product_run(muster_threads *pool, const muster_product *product);

#endif // MUSTER_MODEL_PRODUCT_H
