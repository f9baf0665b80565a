/*
 * heter.c -- heterogeneity-aware codes (Wang et al., ICDCS 2019): worker i
 * holds an arc of n_i parts in proportion to its speed, every part lies on s +
 * 1 workers, and everybody finishes at the same time.
 *
 * The paper draws C at random with C B = 1. Here it is the best of the harmonic
 * candidates of tuned.h. The first of them, n + 1 vectors in R^(s+1) with the
 * extra one in the place of the paper's all-ones vector, meets both of the
 * paper's conditions by proof; the others replace it only where they measure
 * better, which they mostly do by a factor of 10 to 100.
 */
#include "code/families/heter.h"
#include "base/mem.h"
#include "code/choose.h"
#include "code/dual.h"
#include "code/families/families.h"
#include "code/layout.h"
#include "code/speeds.h"
#include "code/tuned.h"

muster_status muster_heter_cells(const muster_dual *dual, const uint32_t *names,
                                 muster_code_layout *layout)
{
    muster_status status = MUSTER_OK;
    const uint32_t *known = NULL; // holders of the last solve
    const double *cells = NULL;
    uint32_t copies = dual->stragglers + 1;
    for (uint32_t part = 0; status == MUSTER_OK && part < layout->parts;
         part++) {
        uint32_t *holders = layout->holders + layout->first[part];
        double *to = layout->cells + layout->first[part];
        bool same = known != NULL;
        for (uint32_t i = 0; same && i < copies; i++) {
            same = known[i] == holders[i];
        }
        for (uint32_t i = 0; same && i < copies; i++) {
            to[i] = cells[i];
        }
        if (!same) {
            status = muster_dual_encode(dual, holders, copies, to);
        }
        known = holders;
        cells = to;
    }
    // From places in the dual to worker numbers.
    for (size_t e = 0; names != NULL && e < layout->first[layout->parts]; e++) {
        layout->holders[e] = names[layout->holders[e]];
    }
    return status;
}

muster_status muster_heter_parts(const muster_code_spec *spec,
                                 muster_error *error, uint32_t *parts_out)
{
    uint32_t parts = spec->workers;
    // Finer parts follow unequal speeds better.
    if (muster_code_speeds_differ(spec)) {
        parts *= 4;
    }
    muster_status status = muster_code_spec_option_number(
        spec, "k", spec->workers, 16 * MUSTER_CODE_WORKERS_DENSE_MAX, error,
        &parts);
    *parts_out = parts;
    return status;
}

static muster_status fill(muster_code *code, const muster_code_spec *spec,
                          const muster_dual *dual, muster_error *error)
{
    uint32_t copies = spec->stragglers + 1;
    uint32_t parts = code->info.parts;
    uint32_t *loads = muster_mem_array(spec->workers, sizeof(uint32_t));
    if (loads == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_status status =
        muster_code_share_load(spec, parts, copies, error, loads);
    muster_code_layout layout;
    if (status == MUSTER_OK) {
        status =
            muster_code_layout_init(&layout, parts, (size_t)parts * copies, 1);
    }
    if (status == MUSTER_OK) {
        muster_code_layout_lists(&layout, loads, NULL, spec->workers);
        status = muster_heter_cells(dual, NULL, &layout);
        if (status == MUSTER_OK) {
            status = muster_code_layout_fill(&layout, code, error);
        }
        muster_code_layout_fini(&layout);
    }
    muster_mem_free(loads);
    return status;
}

static muster_status build_draw(muster_code *code, const muster_code_spec *spec,
                                uint32_t draw, muster_error *error)
{
    muster_status status = muster_heter_parts(spec, error, &code->info.parts);
    muster_dual *dual = NULL;
    if (status == MUSTER_OK) {
        status = muster_tuned_create(spec->workers, spec->stragglers, 1, draw,
                                     &dual);
    }
    code->info.stragglers = spec->stragglers;
    code->state = dual;
    return status == MUSTER_OK ? fill(code, spec, dual, error) : status;
}

muster_status muster_heter_build(muster_code *code,
                                 const muster_code_spec *given,
                                 muster_code_draw draw, const char *instead,
                                 muster_error *error)
{
    muster_code_spec spec = *given;
    // The load follows from the speeds; a given one buys tolerance.
    muster_status status = muster_code_settle_dense(&spec, "k", error);
    if (status == MUSTER_OK) {
        status = muster_code_keep_best(
            code, &spec,
            muster_tuned_candidates(spec.workers, spec.stragglers, 1), draw,
            error);
    }
    if (status == MUSTER_OK) {
        status = muster_code_judge(code, &spec, false, instead, error);
    }
    return status;
}

static muster_status build(muster_code *code, const muster_code_spec *given,
                           muster_error *error)
{
    return muster_heter_build(
        code, given, build_draw,
        "a smaller s, heter-group, or linear:tuned on machines of equal speed",
        error);
}

const muster_code_ops muster_code_heter = {
    .name = "heter",
    .build = build,
    .weights = muster_dual_weights,
    .free_state = muster_dual_free,
    .needs = "any s < n; m = 1; --speeds for unequal loads; k= parts",
    .limits = "(30,8), (64,8)",
};
