/*
 * rs.c -- Reed-Solomon gradient codes (Halbawi, Azizan, Salehi, Hassibi, 2018).
 *
 * Evaluation points are the n-th roots of unity a_i. Part j has the polynomial
 * t_j(x) = prod over non-holders l of (x - a_l) / (-a_l): zero at
 * non-holders, 1 at x = 0. Worker i sends sum_j t_j(a_i) g_j; decoding
 * evaluates the interpolating polynomial at 0. In the terms of dual.h: the mean
 * of all points gives h(0) for any h of degree < n, and a_i^1 .. a_i^s average
 * every h of degree < n - s to nothing. Complex: see complex.h.
 */
#include "base/mem.h"
#include "code/choose.h"
#include "code/complex.h"
#include "code/families/families.h"

/* t_0 at `worker`, who holds part 0. Rotating part and worker together leaves a
 * coefficient unchanged, so part 0 speaks for all. */
static double complex coefficient(uint32_t n, uint32_t s, uint32_t worker)
{
    double complex at = muster_root_of_unity(worker, n);
    double complex value = 1.0;
    for (uint32_t l = 1; l < n - s; l++) {
        double complex point = muster_root_of_unity(l, n); // lacks the part
        value *= (at - point) / -point;
    }
    return value;
}

static muster_status fill(muster_code *code, uint32_t s, muster_error *error)
{
    uint32_t n = code->info.workers;
    double complex *coefs = muster_mem_array((size_t)s + 1, sizeof(*coefs));
    if (coefs == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t t = 0; t <= s; t++) {
        coefs[t] = coefficient(n, s, (n - s + t) % n);
    }
    muster_status status =
        muster_complex_fill_cyclic(code, coefs, s + 1, error);
    muster_mem_free(coefs);
    return status;
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
    muster_dual *dual = muster_dual_create(n, 2, 2, spec.stragglers);
    if (dual == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    code->state = dual;
    for (uint32_t i = 0; i < n; i++) {
        muster_complex_set_affine(dual, i, 1.0 / n);
        for (uint32_t t = 0; t < spec.stragglers; t++) {
            muster_complex_set_null(
                dual, t, i, muster_root_of_unity((uint64_t)(t + 1) * i, n));
        }
    }
    code->info.stragglers = spec.stragglers;
    code->info.gradient_blocks = 2;
    code->info.message_blocks = 2;
    status = muster_dual_orthonormalise(dual);
    if (status == MUSTER_OK) {
        status = fill(code, spec.stragglers, error);
    }
    if (status == MUSTER_OK) {
        status = muster_code_judge(code, &spec, false,
                                   "ye-abbe-tuned with m = 1, of the same load",
                                   error);
    }
    return status;
}

const muster_code_ops muster_code_rs = {
    .name = "rs",
    .build = build,
    .weights = muster_dual_weights,
    .free_state = muster_dual_free,
    .needs = "any s < n; m = 1",
    .limits = "(20,8), (25,5), (30,4)",
};
