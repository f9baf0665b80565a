/*
 * group_decode.c -- decodes group codes group by group, and adds up how good
 * that is.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "code/group_inside.h"
#include "linalg/dense.h"

muster_status muster_group_solve(const muster_group_shape *shape,
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

/* Add what one group's weights contribute to the fit. */
static void add_fit(const muster_group_state *state,
                    const muster_group_ref *ref, const uint32_t *present,
                    uint32_t count, const double *weights,
                    muster_group_sums *sums)
{
    uint32_t m = state->blocks;
    const muster_group_shape *shape = ref->shape;
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
        sums->noise += square * column * ref->parts;
    }
    for (uint32_t u = 0; u < m; u++) {
        for (uint32_t v = 0; v < m; v++) {
            double off = u == v ? -1.0 : 0.0;
            for (uint32_t i = 0; i < count; i++) {
                off +=
                    weights[(size_t)u * count + i] *
                    shape->generator[(size_t)v * shape->workers + present[i]];
            }
            sums->residual += off * off * ref->parts;
        }
    }
}

/* Weights of one group for its present members, into scratch->weights. */
typedef struct group_scratch {
    uint32_t *present;
    double *weights;
    uint32_t *list; // indices of responders by their places; NULL: as they are
} group_scratch;

static uint32_t index_at(const group_scratch *scratch, uint32_t at)
{
    return scratch->list != NULL ? scratch->list[at] : at;
}

/* The place of the responder number `at`, counted by places. */
static uint32_t place_at(const muster_group_state *state,
                         const muster_code_query *query,
                         const group_scratch *scratch, uint32_t at)
{
    return muster_group_place(state, query->responders[index_at(scratch, at)]);
}

/* Fill scratch->list: one pass over the places. */
static muster_status list_by_place(const muster_group_state *state,
                                   const muster_code_query *query, uint32_t n,
                                   group_scratch *scratch)
{
    uint32_t *seats = muster_mem_array(n, sizeof(uint32_t)); // index + 1
    scratch->list = muster_mem_array(query->count, sizeof(uint32_t));
    if (seats == NULL || scratch->list == NULL) {
        muster_mem_free(seats);
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < query->count; i++) {
        seats[state->place[query->responders[i]]] = i + 1;
    }
    uint32_t count = 0;
    for (uint32_t place = 0; place < n; place++) {
        if (seats[place] > 0) {
            scratch->list[count++] = seats[place] - 1;
        }
    }
    muster_mem_free(seats);
    return MUSTER_OK;
}

static muster_status decode_group(const muster_group_state *state,
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
    return muster_group_solve(shape, state->blocks, scratch->present, count,
                              scratch->weights, condition_out);
}

/* Write the group's weights as terms at their dense place: output block u of
 * the responder number i is term u * count + i. */
static void place_terms(const muster_group_state *state,
                        muster_code_query *query, const group_scratch *scratch,
                        uint32_t first, uint32_t members)
{
    for (uint32_t u = 0; u < state->blocks; u++) {
        for (uint32_t i = 0; i < members; i++) {
            uint32_t index = index_at(scratch, first + i);
            muster_code_decode_term *term =
                &query->terms[(size_t)u * query->count + index];
            term->output_block = u;
            term->worker = query->responders[index];
            term->message_block = 0;
            term->weight = scratch->weights[(size_t)u * members + i];
        }
    }
}

static void finish_query(const muster_code *code,
                         const muster_group_state *state,
                         muster_code_query *query,
                         const muster_group_sums *sums)
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

/* List the members present of the group of responder number `at`. */
static uint32_t list_members(const muster_group_state *state,
                             const muster_code_query *query,
                             const group_scratch *scratch,
                             const muster_group_ref *ref, uint32_t at)
{
    uint32_t members = 0;
    while (at + members < query->count) {
        uint32_t place = place_at(state, query, scratch, at + members);
        if (place - ref->first >= ref->shape->workers) {
            break;
        }
        scratch->present[members++] = place - ref->first;
    }
    return members;
}

static muster_status decode_groups(const muster_group_state *state,
                                   muster_code_query *query,
                                   const group_scratch *scratch,
                                   muster_group_sums *sums)
{
    uint32_t end = muster_group_end(state);
    uint32_t silent = muster_group_first_part(state, state->groups);
    uint32_t at = 0;
    while (at < query->count && place_at(state, query, scratch, at) < end) {
        muster_group_ref ref =
            muster_group_of(state, place_at(state, query, scratch, at));
        uint32_t members = list_members(state, query, scratch, &ref, at);
        double condition;
        muster_status status =
            decode_group(state, ref.shape, scratch, members, &condition);
        if (status != MUSTER_OK) {
            return status;
        }
        sums->condition = fmax(sums->condition, condition);
        add_fit(state, &ref, scratch->present, members, scratch->weights, sums);
        place_terms(state, query, scratch, at, members);
        at += members;
        silent -= ref.parts;
    }
    sums->residual += (double)silent * state->blocks;
    query->fit.parts_missing = silent;
    return state->rest != NULL
               ? muster_group_rest_decode(state, query, at, sums)
               : MUSTER_OK;
}

muster_status muster_group_weights(const muster_code *code,
                                   muster_code_query *query)
{
    const muster_group_state *state = code->state;
    uint32_t workers_max = state->shapes[0].workers;
    group_scratch scratch = {
        .present = muster_mem_array(workers_max, sizeof(uint32_t)),
        .weights = muster_mem_array((size_t)workers_max * state->blocks,
                                    sizeof(double))};
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (scratch.present != NULL && scratch.weights != NULL) {
        status =
            state->place == NULL
                ? MUSTER_OK
                : list_by_place(state, query, code->info.workers, &scratch);
    }
    if (status == MUSTER_OK) {
        muster_group_sums sums = {0.0, 0.0, 0.0, 1.0};
        status = decode_groups(state, query, &scratch, &sums);
        if (status == MUSTER_OK) {
            finish_query(code, state, query, &sums);
        }
    }
    muster_mem_free(scratch.list);
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
