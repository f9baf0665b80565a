/*
 * complex.c -- complex numbers as pairs of blocks.
 *
 * Output 0 (g_lo) of weight a takes re(a) of the real block and -im(a) of the
 * imaginary one; output 1 (g_hi) takes im(a) and re(a). Adding z v to a, z
 * complex, spans for both outputs the same two real rows: (re v, -im v) and
 * (im v, re v).
 */
#include "code/complex.h"

#include <math.h>

#define PI 3.14159265358979323846

double complex muster_root_of_unity(uint64_t k, uint32_t n)
{
    double angle = 2.0 * PI * (double)(k % n) / (double)n;
    return cos(angle) + sin(angle) * (double complex)I;
}

void muster_complex_cells(double complex coef, double *cells_out)
{
    cells_out[0] = creal(coef);
    cells_out[1] = -cimag(coef);
    cells_out[2] = cimag(coef);
    cells_out[3] = creal(coef);
}

void muster_complex_set_affine(muster_dual *dual, uint32_t worker,
                               double complex a)
{
    size_t columns = 2 * (size_t)dual->workers;
    dual->affine[2 * (size_t)worker] = creal(a);
    dual->affine[2 * (size_t)worker + 1] = -cimag(a);
    dual->affine[columns + 2 * (size_t)worker] = cimag(a);
    dual->affine[columns + 2 * (size_t)worker + 1] = creal(a);
}

void muster_complex_set_null(muster_dual *dual, uint32_t t, uint32_t worker,
                             double complex value)
{
    double *real =
        dual->null + 2 * (size_t)worker * dual->freedom + 2 * (size_t)t;
    double *imaginary = real + dual->freedom;
    real[0] = creal(value);
    imaginary[0] = -cimag(value);
    real[1] = cimag(value);
    imaginary[1] = creal(value);
}
