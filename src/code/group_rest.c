/*
 * group_rest.c -- the workers that fill no group: a whole code of their own
 * behind the groups, its workers and parts counted from 0. And what they and
 * the groups of a Gaussian code have in common: a bound on their conditions.
 */
#include <math.h>

#include "base/mem.h"
#include "code/gaussian.h"
#include "code/group_inside.h"

muster_status muster_group_rest_add(muster_code *code)
{
    const muster_group_state *state = code->state;
    const muster_code *rest = state->rest;
    const muster_code_encode_term *all = rest->terms.data;
    uint32_t first = muster_group_end(state);
    uint32_t part = muster_group_first_part(state, state->groups);
    for (uint32_t w = 0; w < rest->info.workers; w++) {
        muster_code_span span = rest->term_spans[w];
        muster_code_open_worker(code, first + w);
        for (uint32_t i = 0; i < span.count; i++) {
            muster_code_encode_term term = all[span.first + i];
            term.part += part;
            if (!muster_code_add_term(code, term)) {
                return MUSTER_ERR_NO_MEMORY;
            }
        }
        if (!muster_code_close_worker(code, first + w)) {
            return MUSTER_ERR_NO_MEMORY;
        }
    }
    return MUSTER_OK;
}

static void add_sums(const muster_code *rest, const muster_code_fit *fit,
                     muster_group_sums *sums)
{
    double entries = (double)rest->info.parts * rest->info.gradient_blocks;
    double noise = fit->error_f32 / MUSTER_CODE_ROUNDING;
    sums->residual += fit->residual * fit->residual * entries;
    sums->norm += fit->weight_norm * fit->weight_norm;
    sums->noise += noise * noise * entries;
    sums->condition = fmax(sums->condition, fit->condition);
}

/* Every responder of the rest gets its term for each output, then the weights
 * that the rest's decoding has for some. */
static void place_terms(const muster_code_query *sub, uint32_t blocks,
                        muster_code_query *query, uint32_t first)
{
    for (uint32_t u = 0; u < blocks; u++) {
        for (uint32_t i = first; i < query->count; i++) {
            query->terms[(size_t)u * query->count + i] =
                (muster_code_decode_term){u, query->responders[i], 0, 0.0};
        }
    }
    uint32_t at = 0; // both ascend by worker within an output
    for (size_t t = 0; t < sub->term_count; t++) {
        const muster_code_decode_term *term = &sub->terms[t];
        if (t > 0 && term->output_block != term[-1].output_block) {
            at = 0;
        }
        while (sub->responders[at] != term->worker) {
            at++;
        }
        query->terms[(size_t)term->output_block * query->count + first + at]
            .weight = term->weight;
    }
}

muster_status muster_group_rest_decode(const muster_group_state *state,
                                       muster_code_query *query, uint32_t first,
                                       muster_group_sums *sums)
{
    const muster_code *rest = state->rest;
    uint32_t count = query->count - first;
    uint32_t *responders = muster_mem_array(count, sizeof(uint32_t));
    muster_code_query sub = {
        .responders = responders,
        .count = count,
        .terms = muster_mem_array(muster_code_decode_terms_max(rest),
                                  sizeof(muster_code_decode_term)),
        .improvement_min = query->improvement_min};
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (responders != NULL && sub.terms != NULL) {
        for (uint32_t i = 0; i < count; i++) {
            responders[i] =
                query->responders[first + i] - muster_group_end(state);
        }
        status = muster_code_solve(rest, &sub);
    }
    if (status >= 0) {
        place_terms(&sub, state->blocks, query, first);
        add_sums(rest, &sub.fit, sums);
        query->fit.parts_missing += sub.fit.parts_missing;
        status = MUSTER_OK; // how exact it is, the sums say
    }
    muster_mem_free(sub.terms);
    muster_mem_free(responders);
    return status;
}

double muster_group_condition_bound(const muster_code *code, double risk)
{
    const muster_group_state *state = code->state;
    const muster_code *rest = state->rest;
    const bool used[2] = {state->big_groups > 0,
                          state->groups > state->big_groups};
    double bound = NAN;
    risk /= used[0] + used[1] + (rest != NULL); // all hold at once
    for (int i = 0; i < 2; i++) {
        uint32_t workers = state->shapes[i].workers;
        uint32_t answers = workers - code->info.stragglers;
        double choices =
            muster_gaussian_log_choose(workers, code->info.stragglers);
        if (used[i]) {
            bound = fmax(bound, muster_gaussian_condition(
                                    state->blocks, answers, choices, risk));
        }
    }
    return rest != NULL && rest->ops->condition_bound != NULL
               ? fmax(bound, rest->ops->condition_bound(rest, risk))
               : bound;
}
