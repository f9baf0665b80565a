/*
 * group.c -- builds group codes: has each size's generator made, notes what it
 * tolerates, and writes the members' terms.
 */
#include "code/group.h"

#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "code/choose.h"
#include "code/generator.h"
#include "code/group_inside.h"

/* Straggler sets of a group to look at before warning. */
#define SURVEY_SETS 1000u

/* Choices of columns to look at for the distance of a larger group. */
#define DISTANCE_CHOICES 20000u

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
        status =
            muster_group_solve(shape, plan->blocks, everyone, shape->workers,
                               shape->full, &shape->full_condition);
    }
out:
    muster_mem_free(everyone);
    return status;
}

/* Does member r send the same as the group's first? */
static bool equals_first(const muster_group_state *state,
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

/* The worker at a place. */
static uint32_t worker_at(const muster_group_state *state, uint32_t place)
{
    return state->order != NULL ? state->order[place] : place;
}

/* The terms of member r of a group. */
static bool add_member(muster_code *code, const muster_group_state *state,
                       const muster_group_ref *ref, uint32_t r)
{
    const double *generator = ref->shape->generator;
    uint32_t columns = ref->shape->workers;
    uint32_t worker = worker_at(state, ref->first + r);
    if (r > 0 && equals_first(state, ref->shape, r)) {
        muster_code_share_worker(code, worker, worker_at(state, ref->first));
        return true;
    }
    muster_code_open_worker(code, worker);
    for (uint32_t j = 0; j < ref->parts; j++) {
        for (uint32_t u = 0; u < state->blocks; u++) {
            muster_code_encode_term term = {
                .message_block = 0,
                .part = ref->first_part + j,
                .gradient_block = u,
                .coef = generator[(size_t)u * columns + r]};
            if (term.coef != 0.0 && !muster_code_add_term(code, term)) {
                return false;
            }
        }
    }
    return muster_code_close_worker(code, worker);
}

static muster_status add_members(muster_code *code,
                                 const muster_group_state *state,
                                 muster_error *error)
{
    uint64_t terms_max = (uint64_t)code->info.parts * state->blocks *
                         (state->blocks > 1 ? state->shapes[0].workers : 1);
    if (terms_max > MUSTER_CODE_TERMS_MAX) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "%s: %llu encode terms; at most %u fit, take a "
                                "smaller load or fewer workers",
                                code->name, (unsigned long long)terms_max,
                                MUSTER_CODE_TERMS_MAX);
    }
    if (!muster_code_reserve(code, 0)) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t g = 0; g < state->groups; g++) {
        muster_group_ref ref = muster_group_at(state, g);
        for (uint32_t r = 0; r < ref.shape->workers; r++) {
            if (!add_member(code, state, &ref, r)) {
                return MUSTER_ERR_NO_MEMORY;
            }
        }
    }
    return state->rest != NULL ? muster_group_rest_add(code) : MUSTER_OK;
}

/* Warn when a group's worst decoding is rough in float32. */
static muster_status look_for_roughness(muster_code *code,
                                        const muster_group_shape *shape,
                                        const muster_group_plan *plan)
{
    muster_generator generator = {plan->blocks, shape->workers,
                                  shape->generator};
    muster_generator_survey survey;
    uint32_t answers = shape->workers - code->info.stragglers;
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

/* How many members of a group of this size may be missing, whichever. A group
 * of the block length has what the plan says; of a larger one the generator is
 * looked at where that is quick. */
static muster_status tolerance_of(const muster_group_plan *plan,
                                  const muster_group_shape *shape,
                                  uint32_t *tolerance_out)
{
    uint32_t distance = 0;
    *tolerance_out = plan->stragglers;
    if (shape->workers == plan->length) {
        return MUSTER_OK;
    }
    if (plan->any_blocks_do) {
        *tolerance_out = shape->workers - plan->blocks;
        return MUSTER_OK;
    }
    muster_generator generator = {plan->blocks, shape->workers,
                                  shape->generator};
    muster_status status =
        muster_generator_distance(&generator, DISTANCE_CHOICES, &distance);
    if (status == MUSTER_OK) {
        *tolerance_out = distance - 1;
    }
    return status == MUSTER_ERR_UNSUPPORTED ? MUSTER_OK : status;
}

/* Build the sizes of groups that there are, and note what all tolerate: an
 * approximate code's s is how many it goes on without. */
static muster_status build_shapes(muster_code *code,
                                  const muster_group_plan *plan,
                                  muster_error *error)
{
    muster_group_state *state = code->state;
    uint32_t tolerance_min =
        state->rest != NULL ? state->rest->info.stragglers : UINT32_MAX;
    bool used[2] = {state->big_groups > 0, state->groups > state->big_groups};
    for (int i = 1; i >= 0; i--) {
        uint32_t tolerance = tolerance_min;
        muster_status status = MUSTER_OK;
        if (used[i]) {
            status = build_shape(&state->shapes[i], plan, error);
        }
        if (used[i] && status == MUSTER_OK) {
            status = tolerance_of(plan, &state->shapes[i], &tolerance);
        }
        if (status != MUSTER_OK) {
            return status;
        }
        tolerance_min = tolerance < tolerance_min ? tolerance : tolerance_min;
    }
    code->info.stragglers = code->info.exact ? tolerance_min : plan->stragglers;
    return used[1] && plan->instead != NULL
               ? look_for_roughness(code, &state->shapes[1], plan)
               : MUSTER_OK;
}

muster_status muster_group_build(muster_code *code,
                                 const muster_code_spec *spec,
                                 const muster_group_plan *plan,
                                 muster_error *error)
{
    muster_group_state *state = muster_mem_array(1, sizeof(*state));
    if (state == NULL) {
        muster_mem_free(plan->owned);
        return MUSTER_ERR_NO_MEMORY;
    }
    code->state = state;
    state->owned = plan->owned;
    if (plan->length > spec->workers) {
        return muster_error_set(error, MUSTER_ERR_UNSUPPORTED,
                                "%s: a group needs %u workers (its block "
                                "length), there are %u",
                                code->name, plan->length, spec->workers);
    }
    state->length = plan->length;
    state->blocks = plan->blocks;
    state->any_blocks_do = plan->any_blocks_do;
    state->shortcut = plan->shortcut;
    state->shortcut_context = plan->shortcut_context;
    muster_status status = muster_group_form(state, spec, plan, error);
    if (status == MUSTER_OK) {
        status = build_shapes(code, plan, error);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    code->info.parts = muster_group_first_part(state, state->groups) +
                       (state->rest != NULL ? state->rest->info.parts : 0);
    code->info.comm = plan->blocks;
    code->info.gradient_blocks = plan->blocks;
    code->info.message_blocks = 1;
    return add_members(code, state, error);
}

void muster_group_free(void *memory)
{
    muster_group_state *state = memory;
    if (state == NULL) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        muster_mem_free(state->shapes[i].generator);
        muster_mem_free(state->shapes[i].full);
    }
    muster_mem_free(state->order);
    muster_mem_free(state->first_part);
    muster_code_free(state->rest);
    muster_mem_free(state->owned);
    muster_mem_free(state);
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
