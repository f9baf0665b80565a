/*
 * code/group_inside.h -- what the files of the group engine share.
 *
 * Invariants: groups stand one after another in a row of places, and a worker
 * has one place. The first `big_groups` groups have shapes[0].workers members,
 * the others shapes[1].workers = one less; the places after them are the
 * rest's. Parts stand in the same order.
 */
#ifndef MUSTER_CODE_GROUP_INSIDE_H
#define MUSTER_CODE_GROUP_INSIDE_H

#include "code/group.h"

typedef struct muster_group_state {
    uint32_t groups;
    uint32_t big_groups;
    uint32_t length; // parts of a group, unless first_part says
    uint32_t blocks; // m
    bool any_blocks_do;
    muster_group_shape shapes[2];
    muster_group_shortcut shortcut;
    const void *shortcut_context;
    void *owned;
    uint32_t *order;      // the worker at a place; NULL: places are workers
    uint32_t *place;      // and back; in the memory of order
    uint32_t *first_part; // groups + 1; NULL: length each
    muster_code *rest;    // codes the places after the groups', NULL: none
} muster_group_state;

/* One group of a query: places [first, first + shape->workers). */
typedef struct muster_group_ref {
    uint32_t index;
    uint32_t first;
    uint32_t first_part;
    uint32_t parts;
    const muster_group_shape *shape;
} muster_group_ref;

static inline uint32_t muster_group_place(const muster_group_state *state,
                                          uint32_t worker)
{
    return state->place != NULL ? state->place[worker] : worker;
}

/* Where the rest's places begin, or n. */
static inline uint32_t muster_group_end(const muster_group_state *state)
{
    return state->groups * state->shapes[1].workers + state->big_groups;
}

/* The first part of a group, or where the groups' parts end. */
static inline uint32_t muster_group_first_part(const muster_group_state *state,
                                               uint32_t index)
{
    return state->first_part != NULL ? state->first_part[index]
                                     : index * state->length;
}

static inline muster_group_ref muster_group_at(const muster_group_state *state,
                                               uint32_t index)
{
    uint32_t part = muster_group_first_part(state, index);
    muster_group_ref ref = {.index = index,
                            .first_part = part,
                            .parts = muster_group_first_part(state, index + 1) -
                                     part,
                            .shape = &state->shapes[0]};
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

/* The group at a place that is not the rest's. */
static inline muster_group_ref muster_group_of(const muster_group_state *state,
                                               uint32_t place)
{
    uint32_t in_big = state->big_groups * state->shapes[0].workers;
    if (place < in_big) {
        return muster_group_at(state, place / state->shapes[0].workers);
    }
    return muster_group_at(
        state, state->big_groups + (place - in_big) / state->shapes[1].workers);
}

/* group_form.c: cut n places into groups and a rest, by the plan; seat workers
 * by speed. MUSTER_ERR_NO_MEMORY, and what is wrong with the speeds. */
MUSTER_CHECKED muster_status muster_group_form(muster_group_state *state,
                                               const muster_code_spec *spec,
                                               const muster_group_plan *plan,
                                               muster_error *error);

/* group_rest.c: the rest's terms, after those of all groups. */
MUSTER_CHECKED muster_status muster_group_rest_add(muster_code *code);

/* What decodings of some groups add up to. */
typedef struct muster_group_sums {
    double residual; // squared, over the groups' part blocks
    double norm;
    double noise;
    double condition;
} muster_group_sums;

/* The same: decode the rest from the query's responders `first` and later, and
 * put its terms at their dense places (group_decode.c). */
MUSTER_CHECKED muster_status muster_group_rest_decode(
    const muster_group_state *state, muster_code_query *query, uint32_t first,
    muster_group_sums *sums);

/* group_decode.c: weights (blocks x count) of the members present, by least
 * squares. */
MUSTER_CHECKED muster_status muster_group_solve(const muster_group_shape *shape,
                                                uint32_t blocks,
                                                const uint32_t *present,
                                                uint32_t count, double *weights,
                                                double *condition_out);

#endif // MUSTER_CODE_GROUP_INSIDE_H
