/*
 * cyclic.c -- cyclic MDS codes (Raviv, Tamo, Tandon, Dimakis, 2017).
 *
 * Row i of B is the shift by i of the coefficients of
 * g(x) = prod_r (x - w^r), w = exp(2 pi i / n), over s consecutive r around
 * n/2, never r = 0. Then 1 / g(1) on everyone decodes, and the characters w^(-r
 * i) decode nothing: both matrices of dual.h in closed form. The roots come in
 * conjugate pairs, and g is real, when n - s is odd; else the code is complex.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "code/choose.h"
#include "code/complex.h"
#include "code/families/families.h"

typedef struct cyclic_shape {
    uint32_t n;
    uint32_t s;
    uint32_t first_root; // exponents first_root .. first_root + s - 1
    bool real;
} cyclic_shape;

/* g_0 .. g_s, ascending powers, by multiplying the roots in one after the
 * other; taken from the ends towards the middle of the run in turns, which
 * keeps the partial products small. */
static void generator_polynomial(const cyclic_shape *shape, double complex *g)
{
    memset(g, 0, ((size_t)shape->s + 1) * sizeof(*g));
    g[0] = 1.0;
    for (uint32_t i = 0; i < shape->s; i++) {
        uint32_t r =
            shape->first_root + (i % 2 == 0 ? i / 2 : shape->s - 1 - i / 2);
        double complex root = muster_root_of_unity(r, shape->n);
        for (uint32_t e = i + 1; e > 0; e--) {
            g[e] = g[e - 1] - root * g[e];
        }
        g[0] = -root * g[0];
    }
}

/* A decoding is c + x^first q(x) at the points x = w^i, q of degree below s. It
 * has no more zeros there than its degree, read upwards or, divided by x^n = 1,
 * downwards. The exponents are no run with 0 in it, so these may be more than
 * the s zeros of MDS codes in general, and decoding may need fewer than n - s
 * workers. */
static uint32_t zeros_max(const cyclic_shape *shape)
{
    uint32_t up = shape->first_root + shape->s - 1;
    uint32_t down = shape->n - shape->first_root;
    return shape->s == 0 ? 0 : up < down ? up : down;
}

static void set_dual_real(const cyclic_shape *shape, double total,
                          muster_dual *dual)
{
    for (uint32_t i = 0; i < shape->n; i++) {
        dual->affine[i] = 1.0 / total;
        for (uint32_t t = 0; t < shape->s; t++) {
            // Exponents come in pairs r, n - r; n / 2 alone when s is odd.
            uint32_t r = shape->first_root + t;
            double complex value =
                muster_root_of_unity((uint64_t)r * i, shape->n);
            dual->null[(size_t)i * shape->s + t] =
                2 * r <= shape->n ? creal(value) : cimag(value);
        }
    }
}

static void set_dual_complex(const cyclic_shape *shape, double complex total,
                             muster_dual *dual)
{
    for (uint32_t i = 0; i < shape->n; i++) {
        muster_complex_set_affine(dual, i, 1.0 / total);
        for (uint32_t t = 0; t < shape->s; t++) {
            uint32_t r = shape->first_root + t;
            muster_complex_set_null(
                dual, t, i,
                muster_root_of_unity((uint64_t)(shape->n - r) * i, shape->n));
        }
    }
}

/* Worker i's coefficient of part j is g_(j - i): holder t of a part, worker
 * j - s + t, has g_(s - t). */
static muster_status fill(muster_code *code, const cyclic_shape *shape,
                          double complex *g, muster_error *error)
{
    uint32_t blocks = shape->real ? 1 : 2;
    uint32_t s = shape->s;
    muster_dual *dual = muster_dual_create(shape->n, blocks, blocks, s);
    if (dual == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    code->state = dual;
    dual->zeros_max = zeros_max(shape);
    double complex total = 0.0;
    for (uint32_t t = 0; t <= s; t++) {
        total += g[t];
    }
    if (shape->real) {
        set_dual_real(shape, creal(total), dual);
    } else {
        set_dual_complex(shape, total, dual);
    }
    muster_status status = muster_dual_orthonormalise(dual);
    if (status != MUSTER_OK) {
        return status;
    }
    for (uint32_t t = 0; 2 * t < s; t++) {
        double complex last = g[s - t];
        g[s - t] = g[t];
        g[t] = last;
    }
    code->info.gradient_blocks = blocks;
    code->info.message_blocks = blocks;
    return muster_complex_fill_cyclic(code, g, s + 1, error);
}

static muster_status build(muster_code *code, const muster_code_spec *given,
                           muster_error *error)
{
    muster_code_spec spec = *given;
    muster_status status = muster_code_settle_dense(&spec, "", error);
    if (status != MUSTER_OK) {
        return status;
    }
    uint32_t n = spec.workers;
    uint32_t s = spec.stragglers;
    cyclic_shape shape = {n, s, (n - s + 1) / 2, s == 0 || (n - s) % 2 == 1};
    code->info.stragglers = s;
    double complex *g = muster_mem_array((size_t)s + 1, sizeof(*g));
    if (g == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    generator_polynomial(&shape, g);
    status = fill(code, &shape, g, error);
    muster_mem_free(g);
    if (status == MUSTER_OK) {
        status = muster_code_judge(code, &spec, false,
                                   "ye-abbe-tuned with m = 1, of the same load",
                                   error);
    }
    return status;
}

const muster_code_ops muster_code_cyclic_mds = {
    .name = "cyclic-mds",
    .build = build,
    .weights = muster_dual_weights,
    .free_state = muster_dual_free,
    .progress_bytes = muster_dual_progress_bytes,
    .progress_reset = muster_dual_progress_reset,
    .progress_add = muster_dual_progress_add,
    .needs = "any s < n; m = 1; n - s even doubles the encoding work",
    .limits = "(20,8), (25,6), (30,5), (64,4)",
};
