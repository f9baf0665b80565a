/*
 * ye_abbe_dual.c -- ye-abbe-random and ye-abbe-tuned.
 *
 * The random variant (Ye and Abbe, ICML 2018, section on stability) draws V;
 * drawing P = [affine; N] of dual.h instead gives the same codes, and makes
 * encoding a solve of size s + m a part where the paper's is of size n - d. The
 * tuned one takes the best of the harmonic candidates of tuned.h.
 */
#include <math.h>

#include "base/rng.h"
#include "code/choose.h"
#include "code/dual.h"
#include "code/families/families.h"
#include "code/gaussian.h"
#include "code/layout.h"
#include "code/tuned.h"

#define STREAM_RANDOM 0x7ea0

static muster_status prepare(muster_code_spec *spec, const char *known,
                             muster_error *error)
{
    muster_status status = muster_code_spec_accept(spec, known, error);
    if (status == MUSTER_OK) {
        status = muster_code_spec_balance(spec, error);
    }
    if (status == MUSTER_OK) {
        status = muster_code_dense_only(spec, error);
    }
    return status;
}

/* Parts on d neighbours each, coefficients from the dual in code->state. */
static muster_status fill(muster_code *code, const muster_code_spec *spec,
                          muster_error *error)
{
    uint32_t n = spec->workers;
    uint32_t d = spec->load;
    uint32_t m = spec->comm;
    muster_code_layout layout;
    code->info.parts = n;
    code->info.stragglers = spec->stragglers;
    code->info.comm = m;
    code->info.gradient_blocks = m;
    muster_status status =
        muster_code_layout_init(&layout, n, (size_t)n * d, m);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_code_layout_cyclic(&layout, n, d);
    for (uint32_t part = 0; status == MUSTER_OK && part < n; part++) {
        size_t at = layout.first[part];
        status = muster_dual_encode(code->state, layout.holders + at, d,
                                    layout.cells + at * m);
    }
    if (status == MUSTER_OK) {
        status = muster_code_layout_fill(&layout, code, error);
    }
    muster_code_layout_fini(&layout);
    return status;
}

/* ---- random -------------------------------------------------------------- */

static muster_status random_draw(muster_code *code,
                                 const muster_code_spec *spec, uint32_t draw,
                                 muster_error *error)
{
    muster_rng rng = muster_rng_make(spec->seed, STREAM_RANDOM + draw);
    muster_dual *dual =
        muster_dual_create(spec->workers, spec->comm, 1, spec->stragglers);
    if (dual == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    code->state = dual;
    for (size_t i = 0; i < (size_t)spec->workers * spec->comm; i++) {
        dual->affine[i] = muster_rng_normal(&rng);
    }
    for (size_t i = 0; i < (size_t)spec->workers * spec->stragglers; i++) {
        dual->null[i] = muster_rng_normal(&rng);
    }
    muster_status status = muster_dual_orthonormalise(dual);
    return status == MUSTER_OK ? fill(code, spec, error) : status;
}

static muster_status random_build(muster_code *code,
                                  const muster_code_spec *given,
                                  muster_error *error)
{
    muster_code_spec spec = *given;
    uint32_t draws;
    muster_status status = prepare(&spec, "draws", error);
    if (status == MUSTER_OK) {
        status = muster_code_read_draws(&spec, error, &draws);
    }
    if (status == MUSTER_OK) {
        status = muster_code_keep_best(code, &spec, draws, random_draw, error);
    }
    if (status == MUSTER_OK) {
        status = muster_code_judge(code, &spec, false, "ye-abbe-tuned", error);
    }
    return status;
}

/* What is solved is s columns of N, made orthonormal: its condition is at most
 * that of the columns as drawn times that of all of N. */
static double random_bound(const muster_code *code, double risk)
{
    uint32_t n = code->info.workers;
    uint32_t s = code->info.stragglers;
    if (s == 0) {
        return NAN;
    }
    double choices = muster_gaussian_log_choose(n, s);
    return muster_gaussian_condition(s, s, choices, risk / 2.0) *
           muster_gaussian_condition(s, n, 0.0, risk / 2.0);
}

/* ---- tuned --------------------------------------------------------------- */

static muster_status tuned_draw(muster_code *code, const muster_code_spec *spec,
                                uint32_t draw, muster_error *error)
{
    muster_dual *dual = NULL;
    muster_status status = muster_tuned_create(spec->workers, spec->stragglers,
                                               spec->comm, draw, &dual);
    code->state = dual;
    return status == MUSTER_OK ? fill(code, spec, error) : status;
}

static muster_status tuned_build(muster_code *code,
                                 const muster_code_spec *given,
                                 muster_error *error)
{
    muster_code_spec spec = *given;
    muster_status status = prepare(&spec, "", error);
    if (status == MUSTER_OK) {
        status = muster_code_keep_best(
            code, &spec,
            muster_tuned_candidates(spec.workers, spec.stragglers, spec.comm),
            tuned_draw, error);
    }
    if (status == MUSTER_OK) {
        status = muster_code_judge(code, &spec, false, "linear:tuned", error);
    }
    return status;
}

const muster_code_ops muster_code_ye_abbe_random = {
    .name = "ye-abbe-random",
    .build = random_build,
    .weights = muster_dual_weights,
    .free_state = muster_dual_free,
    .condition_bound = random_bound,
    .needs = "d = s + m <= n",
    .limits = "(30,2) with m = 2; ye-abbe-tuned is better",
};

const muster_code_ops muster_code_ye_abbe_tuned = {
    .name = "ye-abbe-tuned",
    .build = tuned_build,
    .weights = muster_dual_weights,
    .free_state = muster_dual_free,
    .needs = "d = s + m <= n",
    .limits = "(30,8), (64,8) with m up to 4",
};
