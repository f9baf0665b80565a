/*
 * group_form.c -- who is in which group, and how many parts a group owns.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "code/group_inside.h"
#include "code/speeds.h"

/* Parts for each of the places of equal groups, so that shares can follow
 * speeds; 1 in large clusters, where groups are many and much alike. */
#define FINER             4u
#define FINER_WORKERS_MAX MUSTER_CODE_WORKERS_DENSE_MAX

/* Larger rests are rough in float32. */
#define REST_MAX 64u

/* The code of the workers that fill no group: NULL where there are none, or
 * where it would be rough, which larger groups are not. */
static muster_status make_rest(const muster_code_spec *spec,
                               const muster_group_plan *plan,
                               muster_code **rest_out)
{
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    uint32_t over = spec->workers % plan->length;
    *rest_out = NULL;
    opts.name = plan->rest;
    opts.workers = plan->length + over;
    opts.stragglers = plan->stragglers;
    opts.comm = plan->blocks;
    opts.seed = spec->seed;
    if (plan->rest == NULL || over == 0 || opts.workers > REST_MAX) {
        return MUSTER_OK;
    }
    muster_code *rest = NULL;
    muster_status status = muster_code_create(&opts, NULL, &rest);
    if (status == MUSTER_OK && rest->warning[0] == '\0') {
        *rest_out = rest;
        return MUSTER_OK;
    }
    muster_code_free(rest);
    return status == MUSTER_ERR_NO_MEMORY ? status : MUSTER_OK;
}

/* ---- by speed ------------------------------------------------------------ */

typedef struct seat {
    double speed;
    uint32_t worker;
} seat;

/* Descending by speed, then by worker. */
static int compare(const void *one, const void *two)
{
    const seat *a = one;
    const seat *b = two;
    if (a->speed != b->speed) {
        return a->speed < b->speed ? 1 : -1;
    }
    return (a->worker > b->worker) - (a->worker < b->worker);
}

/* Deal the workers out, fastest first: each turn gives one to every group, in
 * turns from the first and from the last; the last turn of unequal groups goes
 * to the larger ones. totals_out: the groups' speeds, zeroed by the caller. */
static void deal(muster_group_state *state, const seat *seats, uint32_t n,
                 double *totals_out)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t turn = i / state->groups;
        uint32_t g = i % state->groups;
        bool backwards = turn % 2 == 1 && turn < state->shapes[1].workers;
        g = backwards ? state->groups - 1 - g : g;
        uint32_t place = muster_group_at(state, g).first + turn;
        state->order[place] = seats[i].worker;
        state->place[seats[i].worker] = place;
        totals_out[g] += seats[i].speed;
    }
}

/* Parts by the groups' speeds, one at least. */
static muster_status share_parts(muster_group_state *state,
                                 const muster_code_spec *like,
                                 const double *totals, muster_error *error)
{
    muster_code_spec spec = *like;
    uint32_t finer = like->workers <= FINER_WORKERS_MAX ? FINER : 1;
    spec.workers = state->groups;
    spec.speeds = totals;
    if (!muster_code_speeds_differ(&spec)) {
        return MUSTER_OK;
    }
    uint32_t *first =
        muster_mem_array((size_t)state->groups + 1, sizeof(uint32_t));
    if (first == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    // What each group has beyond its one part goes by speed.
    uint32_t shared = state->groups * (state->length * finer - 1);
    muster_status status =
        shared > 0 ? muster_code_share_load(&spec, shared, 1, error, first + 1)
                   : MUSTER_OK;
    if (status != MUSTER_OK) {
        muster_mem_free(first);
        return status;
    }
    for (uint32_t g = 0; g < state->groups; g++) {
        first[g + 1] += first[g] + 1;
    }
    state->first_part = first;
    return MUSTER_OK;
}

static muster_status seat_by_speed(muster_group_state *state,
                                   const muster_code_spec *spec,
                                   muster_error *error)
{
    uint32_t n = spec->workers;
    muster_status status = muster_code_check_speeds(spec, 1, error);
    if (status != MUSTER_OK) {
        return status;
    }
    seat *seats = muster_mem_array(n, sizeof(*seats));
    double *totals = muster_mem_array(state->groups, sizeof(double));
    state->order = muster_mem_array(2 * (size_t)n, sizeof(uint32_t));
    status = MUSTER_ERR_NO_MEMORY;
    if (seats != NULL && totals != NULL && state->order != NULL) {
        state->place = state->order + n;
        for (uint32_t i = 0; i < n; i++) {
            seats[i] = (seat){spec->speeds[i], i};
        }
        qsort(seats, n, sizeof(*seats), compare);
        deal(state, seats, n, totals);
        status = share_parts(state, spec, totals, error);
    }
    muster_mem_free(totals);
    muster_mem_free(seats);
    return status;
}

muster_status muster_group_form(muster_group_state *state,
                                const muster_code_spec *spec,
                                const muster_group_plan *plan,
                                muster_error *error)
{
    uint32_t n = spec->workers;
    bool by_speed = plan->by_speed && muster_code_speeds_differ(spec);
    // A cyclic rest has equal loads: no use where speeds differ.
    if (!by_speed) {
        muster_status status = make_rest(spec, plan, &state->rest);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    state->groups = n / plan->length - (state->rest != NULL);
    uint32_t grouped =
        n - (state->rest != NULL ? state->rest->info.workers : 0);
    uint32_t size = state->groups > 0 ? grouped / state->groups : plan->length;
    state->big_groups = grouped - size * state->groups;
    state->shapes[0].workers = size + 1;
    state->shapes[1].workers = size;
    return by_speed ? seat_by_speed(state, spec, error) : MUSTER_OK;
}
