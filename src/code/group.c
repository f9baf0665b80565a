/*
 * group.c -- builds group codes and decodes them group by group.
 *
 * Invariants: the first `big_groups` groups have shapes[0].workers members,
 * the others shapes[1].workers = one less; group g owns parts
 * g * length .. g * length + length - 1; members of a group are consecutive.
 */
#include "code/group.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "code/choose.h"
#include "code/generator.h"
#include "linalg/dense.h"

/* Columns closer than this to the span of the others count as inside it. */
#define SPAN_TOLERANCE 1e-7

/* Straggler sets of a group to look at before warning. */
#define SURVEY_SETS 1000u

typedef struct group_state {
    uint32_t groups;
    uint32_t big_groups;
    uint32_t length; // parts of a group
    uint32_t blocks; // m
    bool any_blocks_do;
    muster_group_shape shapes[2];
    muster_group_shortcut shortcut;
    const void *shortcut_context;
    void *owned;
} group_state;

/* One group of a query: members [first, first + workers) of the cluster. */
typedef struct group_ref {
    uint32_t index;
    uint32_t first;
    const muster_group_shape *shape;
} group_ref;

/* Answers of a progress, per group, followed by ranks and bases. */
typedef struct group_progress {
    uint32_t groups_ready;
    uint32_t pad;
    uint32_t counts[]; // per group: answers, or rank where that is needed
} group_progress;

static group_ref group_at(const group_state *state, uint32_t index)
{
    group_ref ref = {index, 0, &state->shapes[0]};
    uint32_t big = state->shapes[0].workers;
    if (index < state->big_groups) {
        ref.first = index * big;
    } else {
        ref.shape = &state->shapes[1];
        ref.first = state->big_groups * big +
                    (index - state->big_groups) * ref.shape->workers;
    }
    return ref;
}

static group_ref group_of(const group_state *state, uint32_t worker)
{
    uint32_t in_big = state->big_groups * state->shapes[0].workers;
    if (worker < in_big) {
        return group_at(state, worker / state->shapes[0].workers);
    }
    return group_at(state, state->big_groups +
                               (worker - in_big) / state->shapes[1].workers);
}

/* ---- building ---------------------------------------------------------- */

static muster_status decode_by_solve(const muster_group_shape *shape,
                                     uint32_t blocks, const uint32_t *present,
                                     uint32_t count, double *weights,
                                     double *condition_out)
{
    double *columns = muster_mem_array((size_t)count * blocks, sizeof(double));
    if (columns == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t u = 0; u < blocks; u++) {
            columns[(size_t)i * blocks + u] =
                shape->generator[(size_t)u * shape->workers + present[i]];
        }
    }
    muster_dense_shape solved;
    muster_status status =
        muster_dense_pinv(columns, count, blocks, weights, &solved);
    *condition_out = solved.condition;
    muster_mem_free(columns);
    return status;
}

static muster_status build_shape(muster_group_shape *shape,
                                 const muster_group_plan *plan,
                                 muster_error *error)
{
    size_t entries = (size_t)plan->blocks * shape->workers;
    uint32_t *everyone = muster_mem_array(shape->workers, sizeof(uint32_t));
    shape->generator = muster_mem_array(entries, sizeof(double));
    shape->full = muster_mem_array(entries, sizeof(double));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (everyone == NULL || shape->generator == NULL || shape->full == NULL) {
        goto out;
    }
    status =
        plan->generate(plan->context, shape->workers, shape->generator, error);
    if (status != MUSTER_OK) {
        goto out;
    }
    for (uint32_t i = 0; i < shape->workers; i++) {
        everyone[i] = i;
    }
    shape->full_condition = 1.0;
    if (plan->shortcut == NULL ||
        !plan->shortcut(plan->shortcut_context, shape, everyone, shape->workers,
                        shape->full)) {
        status = decode_by_solve(shape, plan->blocks, everyone, shape->workers,
                                 shape->full, &shape->full_condition);
    }
out:
    muster_mem_free(everyone);
    return status;
}

/* Does member r send the same as the group's first? */
static bool equals_first(const group_state *state,
                         const muster_group_shape *shape, uint32_t r)
{
    for (uint32_t u = 0; u < state->blocks; u++) {
        const double *row = shape->generator + (size_t)u * shape->workers;
        if (row[r] != row[0]) {
            return false;
        }
    }
    return true;
}

/* The terms of member r of a group. */
static bool add_member(muster_code *code, const group_state *state,
                       const group_ref *ref, uint32_t r)
{
    const double *generator = ref->shape->generator;
    uint32_t columns = ref->shape->workers;
    uint32_t worker = ref->first + r;
    if (r > 0 && equals_first(state, ref->shape, r)) {
        muster_code_share_worker(code, worker, ref->first);
        return true;
    }
    muster_code_open_worker(code, worker);
    for (uint32_t j = 0; j < state->length; j++) {
        for (uint32_t u = 0; u < state->blocks; u++) {
            muster_code_encode_term term = {
                .message_block = 0,
                .part = ref->index * state->length + j,
                .gradient_block = u,
                .coef = generator[(size_t)u * columns + r]};
            if (term.coef != 0.0 && !muster_code_add_term(code, term)) {
                return false;
            }
        }
    }
    return muster_code_close_worker(code, worker);
}

static muster_status add_members(muster_code *code, const group_state *state,
                                 muster_error *error)
{
    uint64_t most = (uint64_t)state->groups * state->length * state->blocks *
                    (state->blocks > 1 ? state->shapes[0].workers : 1);
    if (most > MUSTER_CODE_TERMS_MAX) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "%s: %llu encode terms; at most %u fit, take a "
                                "smaller load or fewer workers",
                                code->name, (unsigned long long)most,
                                MUSTER_CODE_TERMS_MAX);
    }
    if (!muster_code_reserve(code, 0)) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t g = 0; g < state->groups; g++) {
        group_ref ref = group_at(state, g);
        for (uint32_t r = 0; r < ref.shape->workers; r++) {
            if (!add_member(code, state, &ref, r)) {
                return MUSTER_ERR_NO_MEMORY;
            }
        }
    }
    return MUSTER_OK;
}

/* Warn when a group's worst decoding is rough in float32. */
static muster_status look_for_roughness(muster_code *code,
                                        const muster_group_shape *shape,
                                        const muster_group_plan *plan)
{
    muster_generator generator = {plan->blocks, shape->workers,
                                  shape->generator};
    muster_generator_survey survey;
    uint32_t answers = shape->workers - plan->stragglers;
    muster_status status =
        muster_generator_survey_run(&generator, answers, SURVEY_SETS, &survey);
    if (status == MUSTER_OK &&
        !(survey.error_worst <= MUSTER_CODE_ERROR_LIMIT)) {
        snprintf(code->warning, sizeof(code->warning),
                 "%s on groups of %u with m = %u may be off by %.1e of the "
                 "gradient in float32; use %s",
                 code->name, shape->workers, plan->blocks, survey.error_worst,
                 plan->instead);
    }
    return status;
}

muster_status muster_group_build(muster_code *code,
                                 const muster_code_spec *spec,
                                 const muster_group_plan *plan,
                                 muster_error *error)
{
    uint32_t n = spec->workers;
    group_state *state = muster_mem_array(1, sizeof(*state));
    if (state == NULL) {
        muster_mem_free(plan->owned);
        return MUSTER_ERR_NO_MEMORY;
    }
    code->state = state;
    state->owned = plan->owned;
    if (plan->length > n) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "%s: a group needs %u workers (its block "
                                "length), there are %u",
                                code->name, plan->length, n);
    }
    state->groups = n / plan->length;
    state->big_groups = n % state->groups;
    state->length = plan->length;
    state->blocks = plan->blocks;
    state->any_blocks_do = plan->any_blocks_do;
    state->shortcut = plan->shortcut;
    state->shortcut_context = plan->shortcut_context;
    state->shapes[0].workers = n / state->groups + 1;
    state->shapes[1].workers = n / state->groups;

    muster_status status = build_shape(&state->shapes[1], plan, error);
    if (status == MUSTER_OK && state->big_groups > 0) {
        status = build_shape(&state->shapes[0], plan, error);
    }
    if (status == MUSTER_OK && plan->instead != NULL) {
        status = look_for_roughness(code, &state->shapes[1], plan);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    code->info.parts = state->groups * plan->length;
    code->info.stragglers = plan->stragglers;
    code->info.comm = plan->blocks;
    code->info.gradient_blocks = plan->blocks;
    code->info.message_blocks = 1;
    return add_members(code, state, error);
}

void muster_group_free(void *memory)
{
    group_state *state = memory;
    if (state == NULL) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        muster_mem_free(state->shapes[i].generator);
        muster_mem_free(state->shapes[i].full);
    }
    muster_mem_free(state->owned);
    muster_mem_free(state);
}

/* ---- decoding ---------------------------------------------------------- */

typedef struct group_sums {
    double residual; // squared, over the group's part blocks
    double norm;
    double noise;
    double condition;
} group_sums;

/* Add what one group's weights contribute to the fit. */
static void add_fit(const group_state *state, const muster_group_shape *shape,
                    const uint32_t *present, uint32_t count,
                    const double *weights, group_sums *sums)
{
    uint32_t m = state->blocks;
    for (uint32_t i = 0; i < count; i++) {
        double column = 0.0;
        double square = 0.0;
        for (uint32_t u = 0; u < m; u++) {
            double g =
                shape->generator[(size_t)u * shape->workers + present[i]];
            double w = weights[(size_t)u * count + i];
            column += g * g;
            square += w * w;
        }
        sums->norm += square;
        sums->noise += square * column * state->length;
    }
    for (uint32_t u = 0; u < m; u++) {
        for (uint32_t v = 0; v < m; v++) {
            double off = u == v ? -1.0 : 0.0;
            for (uint32_t i = 0; i < count; i++) {
                off +=
                    weights[(size_t)u * count + i] *
                    shape->generator[(size_t)v * shape->workers + present[i]];
            }
            sums->residual += off * off * state->length;
        }
    }
}

/* Weights of one group for its present members, into scratch->weights. */
typedef struct group_scratch {
    uint32_t *present;
    double *weights;
} group_scratch;

static muster_status decode_group(const group_state *state,
                                  const muster_group_shape *shape,
                                  const group_scratch *scratch, uint32_t count,
                                  double *condition_out)
{
    if (count == shape->workers) {
        memcpy(scratch->weights, shape->full,
               sizeof(double) * state->blocks * count);
        *condition_out = shape->full_condition;
        return MUSTER_OK;
    }
    *condition_out = 1.0;
    if (state->shortcut != NULL &&
        state->shortcut(state->shortcut_context, shape, scratch->present, count,
                        scratch->weights)) {
        return MUSTER_OK;
    }
    return decode_by_solve(shape, state->blocks, scratch->present, count,
                           scratch->weights, condition_out);
}

/* Write the group's weights as terms at their dense place: output block u of
 * the responder at position p is term u * count + p. */
static void place_terms(const group_state *state, muster_code_query *query,
                        uint32_t position, uint32_t members,
                        const double *weights)
{
    for (uint32_t u = 0; u < state->blocks; u++) {
        for (uint32_t i = 0; i < members; i++) {
            muster_code_decode_term *term =
                &query->terms[(size_t)u * query->count + position + i];
            term->output_block = u;
            term->worker = query->responders[position + i];
            term->message_block = 0;
            term->weight = weights[(size_t)u * members + i];
        }
    }
}

static void finish_query(const muster_code *code, const group_state *state,
                         muster_code_query *query, const group_sums *sums)
{
    double entries = (double)code->info.parts * state->blocks;
    size_t kept = 0;
    for (size_t i = 0; i < (size_t)query->count * state->blocks; i++) {
        if (query->terms[i].weight != 0.0) {
            query->terms[kept++] = query->terms[i];
        }
    }
    query->term_count = kept;
    query->fit.residual = sqrt(sums->residual / entries);
    query->fit.weight_norm = sqrt(sums->norm);
    query->fit.condition = sums->condition;
    query->fit.error_f32 = MUSTER_CODE_ROUNDING * sqrt(sums->noise / entries);
}

static muster_status decode_groups(const group_state *state,
                                   muster_code_query *query,
                                   const group_scratch *scratch,
                                   group_sums *sums)
{
    uint32_t heard = 0;
    for (uint32_t at = 0; at < query->count;) {
        group_ref ref = group_of(state, query->responders[at]);
        uint32_t members = 0;
        while (at + members < query->count &&
               query->responders[at + members] - ref.first <
                   ref.shape->workers) {
            scratch->present[members] =
                query->responders[at + members] - ref.first;
            members++;
        }
        double condition;
        muster_status status =
            decode_group(state, ref.shape, scratch, members, &condition);
        if (status != MUSTER_OK) {
            return status;
        }
        sums->condition = fmax(sums->condition, condition);
        add_fit(state, ref.shape, scratch->present, members, scratch->weights,
                sums);
        place_terms(state, query, at, members, scratch->weights);
        at += members;
        heard++;
    }
    uint32_t silent = state->groups - heard;
    sums->residual += (double)silent * state->length * state->blocks;
    query->fit.parts_missing = silent * state->length;
    return MUSTER_OK;
}

muster_status muster_group_weights(const muster_code *code,
                                   muster_code_query *query)
{
    const group_state *state = code->state;
    uint32_t most = state->shapes[0].workers;
    group_scratch scratch = {
        muster_mem_array(most, sizeof(uint32_t)),
        muster_mem_array((size_t)most * state->blocks, sizeof(double))};
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (scratch.present != NULL && scratch.weights != NULL) {
        group_sums sums = {0.0, 0.0, 0.0, 1.0};
        status = decode_groups(state, query, &scratch, &sums);
        if (status == MUSTER_OK) {
            finish_query(code, state, query, &sums);
        }
    }
    muster_mem_free(scratch.weights);
    muster_mem_free(scratch.present);
    return status;
}

bool muster_group_first(const void *context, const muster_group_shape *shape,
                        const uint32_t *present, uint32_t count,
                        double *weights)
{
    (void)context;
    (void)shape;
    (void)present;
    for (uint32_t i = 0; i < count; i++) {
        weights[i] = i == 0 ? 1.0 : 0.0;
    }
    return true;
}

muster_status muster_group_ones(void *context, uint32_t workers,
                                double *generator_out, muster_error *error)
{
    (void)context;
    (void)error;
    for (uint32_t i = 0; i < workers; i++) {
        generator_out[i] = 1.0;
    }
    return MUSTER_OK;
}

/* ---- progress ---------------------------------------------------------- */

/* Doubles of the bases start at the first multiple of 8 after the counts. */
static size_t bases_offset(const group_state *state)
{
    size_t bytes = sizeof(group_progress) + sizeof(uint32_t) * state->groups;
    return (bytes + 7) / 8 * 8;
}

size_t muster_group_progress_bytes(const muster_code *code)
{
    const group_state *state = code->state;
    size_t base = state->any_blocks_do
                      ? 0
                      : sizeof(double) * state->blocks * state->blocks;
    return bases_offset(state) + base * state->groups;
}

void muster_group_progress_reset(const muster_code *code, void *memory)
{
    const group_state *state = code->state;
    group_progress *progress = memory;
    progress->groups_ready = 0;
    memset(progress->counts, 0, sizeof(uint32_t) * state->groups);
}

/* Add column r of the generator to an orthonormal basis of `rank` vectors;
 * true when it points out of their span. Twice, because once is not enough
 * (Kahan). */
static bool extend_basis(const muster_group_shape *shape, uint32_t blocks,
                         uint32_t r, double *basis, uint32_t rank)
{
    double *fresh = basis + (size_t)rank * blocks;
    double size = 0.0;
    for (uint32_t u = 0; u < blocks; u++) {
        fresh[u] = shape->generator[(size_t)u * shape->workers + r];
        size += fresh[u] * fresh[u];
    }
    for (uint32_t i = 0; i < 2 * rank; i++) {
        const double *known = basis + (size_t)(i % rank) * blocks;
        double along = 0.0;
        for (uint32_t u = 0; u < blocks; u++) {
            along += known[u] * fresh[u];
        }
        for (uint32_t u = 0; u < blocks; u++) {
            fresh[u] -= along * known[u];
        }
    }
    double left = 0.0;
    for (uint32_t u = 0; u < blocks; u++) {
        left += fresh[u] * fresh[u];
    }
    if (left <= SPAN_TOLERANCE * SPAN_TOLERANCE * size) {
        return false;
    }
    for (uint32_t u = 0; u < blocks; u++) {
        fresh[u] /= sqrt(left);
    }
    return true;
}

bool muster_group_progress_add(const muster_code *code, void *memory,
                               uint32_t worker)
{
    const group_state *state = code->state;
    group_progress *progress = memory;
    group_ref ref = group_of(state, worker);
    uint32_t *count = &progress->counts[ref.index];
    if (*count < state->blocks) {
        bool counts = true;
        if (!state->any_blocks_do) {
            double *bases =
                (double *)(void *)((char *)memory + bases_offset(state));
            double *basis =
                bases + (size_t)ref.index * state->blocks * state->blocks;
            counts = extend_basis(ref.shape, state->blocks, worker - ref.first,
                                  basis, *count);
        }
        *count += counts;
        progress->groups_ready += counts && *count == state->blocks;
    }
    return progress->groups_ready == state->groups;
}
