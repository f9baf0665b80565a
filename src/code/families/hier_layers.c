/*
 * hier_layers.c -- the codes of the two layers of hier.
 *
 * Edges of one size whose number s_e + m_e divides form groups (frc,
 * linear:tuned): such codes have the smallest float32 error, and are ready as
 * soon as each group is. Else an edge holds an arc of the ring of parts, in
 * proportion to its workers, with the coefficients of a harmonic dual, as the
 * heterogeneity-aware code has them (heter.c), for any m_e.
 * The same choice is made under each edge.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "code/choose.h"
#include "code/dual.h"
#include "code/families/hier_inside.h"
#include "code/layout.h"
#include "code/sets.h"
#include "code/tuned.h"

/* Straggler sets by which inner codes are compared. */
#define COMPARE_SETS 200u

static uint32_t gcd(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* ---- arcs: the outer code of unequal edges ------------------------------- */

/* spec->speeds are the numbers of workers of the edges. */
static uint32_t count_workers(const muster_code_spec *spec)
{
    double sum = 0;
    for (uint32_t i = 0; i < spec->workers; i++) {
        sum += spec->speeds[i];
    }
    return (uint32_t)sum;
}

static muster_status fill_arcs(muster_code *code, const muster_code_spec *spec,
                               const uint32_t *loads, muster_error *error)
{
    uint32_t copies = spec->stragglers + spec->comm;
    uint32_t parts = code->info.parts;
    muster_code_layout layout;
    muster_status status = muster_code_layout_init(
        &layout, parts, (size_t)parts * copies, spec->comm);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_code_layout_lists(&layout, loads, NULL, spec->workers);
    for (uint32_t part = 0; status == MUSTER_OK && part < parts; part++) {
        size_t at = layout.first[part];
        status = muster_dual_encode(code->state, layout.holders + at, copies,
                                    layout.cells + at * spec->comm);
    }
    if (status == MUSTER_OK) {
        status = muster_code_layout_fill(&layout, code, error);
    }
    muster_code_layout_fini(&layout);
    return status;
}

static muster_status draw_arcs(muster_code *code, const muster_code_spec *spec,
                               uint32_t draw, muster_error *error)
{
    uint32_t copies = spec->stragglers + spec->comm;
    uint32_t workers = count_workers(spec);
    uint32_t common = gcd(workers, copies);
    muster_dual *dual = NULL;
    uint32_t *loads = muster_mem_array(spec->workers, sizeof(uint32_t));
    if (loads == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_status status = muster_tuned_create(spec->workers, spec->stragglers,
                                               spec->comm, draw, &dual);
    code->state = dual;
    code->info.parts = workers / common;
    code->info.comm = spec->comm;
    code->info.gradient_blocks = spec->comm;
    for (uint32_t i = 0; i < spec->workers; i++) {
        loads[i] = copies / common * (uint32_t)spec->speeds[i];
    }
    if (status == MUSTER_OK) {
        status = fill_arcs(code, spec, loads, error);
    }
    muster_mem_free(loads);
    return status;
}

static muster_status build_arcs(muster_code *code, const muster_code_spec *spec,
                                muster_error *error)
{
    muster_status status = muster_code_dense_only(spec, error);
    if (status == MUSTER_OK) {
        status = muster_code_keep_best(code, spec,
                                       muster_tuned_candidates(spec->workers,
                                                               spec->stragglers,
                                                               spec->comm),
                                       draw_arcs, error);
    }
    if (status == MUSTER_OK) {
        status = muster_code_judge(code, spec, false, "a smaller se", error);
    }
    return status;
}

/* Not in the list of families: only hier makes it. */
static const muster_code_ops arcs_ops = {
    .name = "hier-edges",
    .build = build_arcs,
    .weights = muster_dual_weights,
    .free_state = muster_dual_free,
    .needs = "edges of any size",
    .limits = "as heter",
};

static muster_status create_arcs(const muster_hier *hier,
                                 const muster_code_spec *given,
                                 muster_error *error, muster_code **outer_out)
{
    uint32_t edges = hier->topology.edges;
    double *sizes = muster_mem_array(edges, sizeof(double));
    muster_code *code = muster_mem_array(1, sizeof(*code));
    if (sizes == NULL || code == NULL) {
        muster_mem_free(sizes);
        muster_mem_free(code);
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < edges; i++) {
        sizes[i] = hier->topology.sizes[i];
    }
    muster_code_spec spec = {.workers = edges,
                             .stragglers = hier->edge_stragglers,
                             .comm = hier->edge_comm,
                             .force = given->force,
                             .seed = given->seed,
                             .speeds = sizes};
    (void)snprintf(spec.family, sizeof(spec.family), "%s", arcs_ops.name);
    muster_code_start(code, &arcs_ops, &spec);
    muster_status status = build_arcs(code, &spec, error);
    code->info.name = code->name;
    code->info.warning = code->warning[0] != '\0' ? code->warning : NULL;
    muster_mem_free(sizes);
    if (status == MUSTER_OK) {
        *outer_out = code;
    } else {
        muster_code_free(code);
    }
    return status;
}

/* ---- codes by name ------------------------------------------------------- */

static muster_status create_named(const char *name, uint32_t workers,
                                  uint32_t stragglers, uint32_t comm,
                                  muster_error *error, muster_code **code_out)
{
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    opts.name = name;
    opts.workers = workers;
    opts.stragglers = stragglers;
    opts.comm = comm;
    return muster_code_create(&opts, error, code_out);
}

static bool are_equal(const muster_topology *topology)
{
    bool equal = true;
    for (uint32_t i = 1; i < topology->edges; i++) {
        equal = equal && topology->sizes[i] == topology->sizes[0];
    }
    return equal;
}

muster_status muster_hier_build_outer(const muster_hier *hier,
                                      const muster_code_spec *spec,
                                      muster_error *error,
                                      muster_code **outer_out)
{
    uint32_t edges = hier->topology.edges;
    uint32_t copies = hier->edge_stragglers + hier->edge_comm;
    if (are_equal(&hier->topology) && edges % copies == 0) {
        return create_named(hier->edge_comm > 1 ? "linear:tuned" : "frc", edges,
                            hier->edge_stragglers, hier->edge_comm, error,
                            outer_out);
    }
    return create_arcs(hier, spec, error, outer_out);
}

/* Keep the better of *best and the code of this name; one that cannot be built
 * is passed over. */
static muster_status try_inner(const char *name, const muster_hier *hier,
                               uint32_t workers, muster_code **best,
                               double *error_min)
{
    muster_code *code = NULL;
    muster_code_survey survey;
    muster_status status = create_named(name, workers, hier->worker_stragglers,
                                        hier->worker_comm, NULL, &code);
    if (status != MUSTER_OK) {
        return status == MUSTER_ERR_NO_MEMORY ? status : MUSTER_OK;
    }
    status = muster_code_survey_run(code, COMPARE_SETS, 1, 0.0, &survey);
    double now = survey.error_worst + survey.residual_worst;
    // A code in complex numbers sends two blocks; other edges' may not.
    if (status == MUSTER_OK && code->info.message_blocks == 1 &&
        now < *error_min) {
        muster_code *worse = *best;
        *best = code;
        *error_min = now;
        code = worse;
    }
    muster_code_free(code);
    return status;
}

static muster_status choose_inner(const muster_hier *hier, uint32_t workers,
                                  muster_error *error, muster_code **inner_out)
{
    static const char *const whole[] = {"heter", "cyclic-mds"};
    static const char *const split[] = {"ye-abbe-tuned"};
    bool is_split = hier->worker_comm > 1;
    const char *const *names = is_split ? split : whole;
    double error_min = INFINITY;
    muster_code *best = NULL;
    muster_status status = MUSTER_OK;
    for (unsigned i = 0; status == MUSTER_OK && i < (is_split ? 1u : 2u); i++) {
        status = try_inner(names[i], hier, workers, &best, &error_min);
    }
    if (status == MUSTER_OK && best == NULL) {
        status = create_named(names[0], workers, hier->worker_stragglers,
                              hier->worker_comm, error, &best);
    }
    if (status == MUSTER_OK) {
        *inner_out = best;
    } else {
        muster_code_free(best);
    }
    return status;
}

muster_status muster_hier_build_inner(const muster_hier *hier,
                                      const muster_code_spec *spec,
                                      uint32_t workers, muster_error *error,
                                      muster_code **inner_out)
{
    const char *family = muster_code_spec_option_get(spec, "inner");
    uint32_t copies = hier->worker_stragglers + hier->worker_comm;
    if (family == NULL && workers % copies != 0) {
        return choose_inner(hier, workers, error, inner_out);
    }
    if (family == NULL) {
        family = hier->worker_comm > 1 ? "linear:tuned" : "frc";
    }
    return create_named(family, workers, hier->worker_stragglers,
                        hier->worker_comm, error, inner_out);
}
