/*
 * code/complex.h -- complex codes in their real form.
 *
 * A message of p/2 complex numbers carries g_lo + i g_hi, the two halves of
 * the gradient: two gradient blocks, two message blocks (real and imaginary
 * part). The coefficient c becomes the 2 x 2 cells [re -im; im re], a decode
 * weight a acts the same way.
 */
#ifndef MUSTER_CODE_COMPLEX_H
#define MUSTER_CODE_COMPLEX_H

#include <complex.h>

#include "code/dual.h"
#include "code/layout.h"

/* exp(2 pi i k / n), with k reduced first. */
double complex muster_root_of_unity(uint64_t k, uint32_t n);

/* The four cells of one coefficient. */
void muster_complex_cells(double complex coef, double *cells_out);

/* Set the decoding a that uses everyone, and row t (< s) of the null space, at
 * `worker`; the dual has outputs = blocks = 2. */
void muster_complex_set_affine(muster_dual *dual, uint32_t worker,
                               double complex a);
void muster_complex_set_null(muster_dual *dual, uint32_t t, uint32_t worker,
                             double complex value);

/* Set the terms of a code with n parts on `copies` neighbours each: holder t of
 * every part has coefs[t], of which a code of one block takes the real part.
 * MUSTER_ERR_NO_MEMORY, MUSTER_ERR_UNSUPPORTED (too many terms). */
MUSTER_CHECKED muster_status
muster_complex_fill_cyclic(muster_code *code, const double complex *coefs,
                           uint32_t copies, muster_error *error);

#endif // MUSTER_CODE_COMPLEX_H
