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

muster_status muster_complex_fill_cyclic(muster_code *code,
                                         const double complex *coefs,
                                         uint32_t copies, muster_error *error)
{
    uint32_t n = code->info.workers;
    uint32_t blocks = code->info.message_blocks;
    muster_code_layout layout;
    code->info.parts = n;
    muster_status status = muster_code_layout_init(
        &layout, n, (size_t)n * copies, blocks * blocks);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_code_layout_cyclic(&layout, n, copies);
    for (size_t e = 0; e < layout.first[n]; e++) {
        double complex coef = coefs[e % copies];
        if (blocks == 1) {
            layout.cells[e] = creal(coef);
        } else {
            muster_complex_cells(coef, layout.cells + 4 * e);
        }
    }
    status = muster_code_layout_fill(&layout, code, error);
    muster_code_layout_fini(&layout);
    return status;
}
