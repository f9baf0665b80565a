/*
 * code/frame.h -- real harmonic frames: vectors of which any `rows` are a
 * basis.
 *
 * Column t of the [period, rows] frame holds cos and sin of 2 pi f t / period
 * at consecutive frequencies f: 0 (as 1 / sqrt 2), 1, 2, .. for odd rows, 1/2,
 * 3/2, .. for even. Every rows x rows choice of columns is a diagonal times a
 * Vandermonde matrix at distinct roots of unity, hence regular, for all
 * rows <= period.
 */
#ifndef MUSTER_CODE_FRAME_H
#define MUSTER_CODE_FRAME_H

#include <stdint.h>

/* Entry of row `row` (< rows) in column `t` (< period). */
double muster_frame_entry(uint32_t rows, uint32_t period, uint32_t row,
                          uint32_t t);

/* The rows x period matrix, row-major. */
void muster_frame_fill(uint32_t rows, uint32_t period, double *out);

#endif // MUSTER_CODE_FRAME_H
