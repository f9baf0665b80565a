/*
 * code/group_inside.h -- what the files of the group engine share.
 *
 * Invariants: the first `big_groups` groups have shapes[0].workers members,
 * the others shapes[1].workers = one less; group g owns parts
 * g * length .. g * length + length - 1; members of a group are consecutive.
 */
#ifndef MUSTER_CODE_GROUP_INSIDE_H
#define MUSTER_CODE_GROUP_INSIDE_H

#include "code/group.h"

typedef struct muster_group_state {
    uint32_t groups;
    uint32_t big_groups;
    uint32_t length; // parts of a group
    uint32_t blocks; // m
    bool any_blocks_do;
    muster_group_shape shapes[2];
    muster_group_shortcut shortcut;
    const void *shortcut_context;
    void *owned;
} muster_group_state;

/* One group of a query: members [first, first + workers) of the cluster. */
typedef struct muster_group_ref {
    uint32_t index;
    uint32_t first;
    const muster_group_shape *shape;
} muster_group_ref;

static inline muster_group_ref muster_group_at(const muster_group_state *state,
                                               uint32_t index)
{
    muster_group_ref ref = {index, 0, &state->shapes[0]};
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

static inline muster_group_ref muster_group_of(const muster_group_state *state,
                                               uint32_t worker)
{
    uint32_t in_big = state->big_groups * state->shapes[0].workers;
    if (worker < in_big) {
        return muster_group_at(state, worker / state->shapes[0].workers);
    }
    return muster_group_at(state,
                           state->big_groups +
                               (worker - in_big) / state->shapes[1].workers);
}

/* group_decode.c: weights (blocks x count) of the members present, by least
 * squares. */
MUSTER_CHECKED muster_status muster_group_solve(const muster_group_shape *shape,
                                                uint32_t blocks,
                                                const uint32_t *present,
                                                uint32_t count, double *weights,
                                                double *condition_out);

#endif // MUSTER_CODE_GROUP_INSIDE_H
