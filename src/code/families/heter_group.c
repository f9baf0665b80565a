/*
 * heter_group.c -- the group-based variant of heter (Wang et al., ICDCS 2019).
 *
 * Groups are sets of workers whose loads add up to exactly k: laid side by side
 * their arcs cover every part once, they send plain sums, and a complete group
 * decodes by adding. With P disjoint groups, s stragglers that spoil all of
 * them leave at most s - P for the other workers, who are coded by heter with
 * that tolerance. So speeds need not be known well: a group is ready when its
 * own members are.
 */
#include <string.h>

#include "base/mem.h"
#include "code/choose.h"
#include "code/families/families.h"
#include "code/families/heter.h"
#include "code/lsq.h"
#include "code/speeds.h"
#include "code/tuned.h"

#define NO_GROUP UINT32_MAX

typedef struct heter_groups {
    uint32_t workers;
    uint32_t groups; // P
    uint32_t *
        group_of; // owns the lists; per worker; NO_GROUP: one of the coded rest
    uint32_t *sizes;     // per group
    uint32_t rest;       // workers of the rest that hold anything
    uint32_t rest_spare; // of which so many may be missing: s - P
    uint32_t *place_of;  // per worker of the rest: its place in the dual
    uint32_t *names;     // and back
    muster_dual *dual;   // NULL without a rest
} heter_groups;

static void free_state(void *memory)
{
    heter_groups *state = memory;
    if (state == NULL) {
        return;
    }
    muster_mem_free(state->group_of);
    muster_dual_free(state->dual);
    muster_mem_free(state);
}

/* ---- finding groups ------------------------------------------------------ */

/* Take free workers whose loads sum to k; false when there are none. A sum is
 * marked with the first worker that reaches it, so that walking back from k
 * never meets a worker twice. */
static bool take_group(heter_groups *state, const uint32_t *loads, uint32_t k,
                       uint32_t *reached)
{
    for (uint32_t sum = 0; sum <= k; sum++) {
        reached[sum] = UINT32_MAX;
    }
    for (uint32_t i = 0; i < state->workers && reached[k] == UINT32_MAX; i++) {
        uint32_t load = loads[i];
        if (state->group_of[i] != NO_GROUP || load == 0) {
            continue;
        }
        for (uint32_t sum = k; sum >= load; sum--) {
            bool open = sum == load || reached[sum - load] < i;
            if (open && reached[sum] == UINT32_MAX) {
                reached[sum] = i;
            }
        }
    }
    if (reached[k] == UINT32_MAX) {
        return false;
    }
    for (uint32_t sum = k; sum > 0;) {
        uint32_t worker = reached[sum];
        state->group_of[worker] = state->groups;
        state->sizes[state->groups]++;
        sum -= loads[worker];
    }
    state->groups++;
    return true;
}

static muster_status find_groups(heter_groups *state, const uint32_t *loads,
                                 uint32_t parts, uint32_t copies)
{
    uint32_t *reached = muster_mem_array((size_t)parts + 1, sizeof(uint32_t));
    if (reached == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < state->workers; i++) {
        state->group_of[i] = NO_GROUP;
    }
    while (state->groups < copies && take_group(state, loads, parts, reached)) {
    }
    for (uint32_t i = 0; i < state->workers; i++) {
        if (state->group_of[i] == NO_GROUP && loads[i] > 0) {
            state->place_of[i] = state->rest;
            state->names[state->rest++] = i;
        }
    }
    muster_mem_free(reached);
    return MUSTER_OK;
}

static muster_status make_state(muster_code *code, const uint32_t *loads,
                                uint32_t copies)
{
    uint32_t n = code->info.workers;
    heter_groups *state = muster_mem_array(1, sizeof(*state));
    if (state == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    code->state = state;
    state->workers = n;
    state->group_of =
        muster_mem_array(3 * (size_t)n + copies, sizeof(uint32_t));
    if (state->group_of == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    state->place_of = state->group_of + n;
    state->names = state->place_of + n;
    state->sizes = state->names + n;
    muster_status status = find_groups(state, loads, code->info.parts, copies);
    // Not used without a rest: then P = s + 1.
    state->rest_spare = state->rest > 0 ? copies - 1 - state->groups : 0;
    return status;
}

/* ---- encoding ------------------------------------------------------------ */

/* Holders and cells of the rest, in a layout of their own. */
static muster_status code_rest(heter_groups *state, const uint32_t *loads,
                               uint32_t draw, muster_code_layout *rest)
{
    muster_status status = muster_tuned_create(state->rest, state->rest_spare,
                                               1, draw, &state->dual);
    if (status != MUSTER_OK) {
        return status;
    }
    uint32_t *own = muster_mem_array(state->rest, sizeof(uint32_t));
    if (own == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < state->rest; i++) {
        own[i] = loads[state->names[i]];
    }
    muster_code_layout_lists(rest, own, NULL, state->rest);
    muster_mem_free(own);
    return muster_heter_cells(state->dual, state->names, rest);
}

/* Which worker of each group holds each part: owner[g * parts + part]. */
static void cover(const heter_groups *state, const uint32_t *loads,
                  uint32_t parts, uint32_t *owner)
{
    for (uint32_t g = 0; g < state->groups; g++) {
        uint32_t part = 0;
        for (uint32_t i = 0; i < state->workers; i++) {
            for (uint32_t j = 0; state->group_of[i] == g && j < loads[i]; j++) {
                owner[(size_t)g * parts + part++] = i;
            }
        }
    }
}

/* Both kinds of holders, part by part. */
static void join(const heter_groups *state, const uint32_t *owner,
                 const muster_code_layout *rest, muster_code_layout *all)
{
    size_t at = 0;
    for (uint32_t part = 0; part < all->parts; part++) {
        all->first[part] = at;
        for (uint32_t g = 0; g < state->groups; g++) {
            all->holders[at] = owner[(size_t)g * all->parts + part];
            all->cells[at++] = 1.0;
        }
        for (size_t e = rest->first[part]; e < rest->first[part + 1]; e++) {
            all->holders[at] = rest->holders[e];
            all->cells[at++] = rest->cells[e];
        }
    }
    all->first[all->parts] = at;
}

static muster_status fill(muster_code *code, const uint32_t *loads,
                          uint32_t copies, uint32_t draw, muster_error *error)
{
    heter_groups *state = code->state;
    uint32_t parts = code->info.parts;
    size_t rest_count = (size_t)parts * (copies - state->groups);
    muster_code_layout rest;
    muster_code_layout all;
    muster_status status = muster_code_layout_init(&rest, parts, rest_count, 1);
    if (status != MUSTER_OK) {
        return status;
    }
    if (state->rest > 0) {
        status = code_rest(state, loads, draw, &rest);
    }
    uint32_t *owner =
        muster_mem_array((size_t)parts * state->groups, sizeof(uint32_t));
    if (status == MUSTER_OK && owner == NULL) {
        status = MUSTER_ERR_NO_MEMORY;
    }
    if (status == MUSTER_OK) {
        status =
            muster_code_layout_init(&all, parts, (size_t)parts * copies, 1);
    }
    if (status == MUSTER_OK) {
        cover(state, loads, parts, owner);
        join(state, owner, &rest, &all);
        status = muster_code_layout_fill(&all, code, error);
        muster_code_layout_fini(&all);
    }
    muster_mem_free(owner);
    muster_code_layout_fini(&rest);
    return status;
}

static muster_status build_draw(muster_code *code, const muster_code_spec *spec,
                                uint32_t draw, muster_error *error)
{
    uint32_t copies = spec->stragglers + 1;
    muster_status status = muster_heter_parts(spec, error, &code->info.parts);
    if (status != MUSTER_OK) {
        return status;
    }
    code->info.stragglers = spec->stragglers;
    uint32_t *loads = muster_mem_array(spec->workers, sizeof(uint32_t));
    if (loads == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    status =
        muster_code_share_load(spec, code->info.parts, copies, error, loads);
    if (status == MUSTER_OK) {
        status = make_state(code, loads, copies);
    }
    if (status == MUSTER_OK) {
        status = fill(code, loads, copies, draw, error);
    }
    muster_mem_free(loads);
    return status;
}

/* Without a group all workers are the coded rest: say that this is heter. */
static void tell_without_groups(muster_code *code)
{
    const heter_groups *state = code->state;
    if (state->groups > 0) {
        return;
    }
    muster_code_warn(code,
                     "heter-group found no workers whose loads add up to the "
                     "%u parts: this is heter; another k= may have groups",
                     code->info.parts);
}

static muster_status build(muster_code *code, const muster_code_spec *given,
                           muster_error *error)
{
    muster_status status = muster_heter_build(code, given, build_draw,
                                              "a smaller s, or frc", error);
    if (status == MUSTER_OK) {
        tell_without_groups(code);
    }
    return status;
}

/* ---- decoding ------------------------------------------------------------ */

/* The first complete group, or NO_GROUP. */
static uint32_t complete_group(const heter_groups *state,
                               const muster_code_query *query, uint32_t *counts)
{
    memset(counts, 0, state->groups * sizeof(uint32_t));
    for (uint32_t r = 0; r < query->count; r++) {
        uint32_t g = state->group_of[query->responders[r]];
        if (g != NO_GROUP && ++counts[g] == state->sizes[g]) {
            return g;
        }
    }
    return NO_GROUP;
}

static muster_status add_up(const muster_code *code, muster_code_query *query,
                            uint32_t group)
{
    const heter_groups *state = code->state;
    query->term_count = 0;
    for (uint32_t r = 0; r < query->count; r++) {
        uint32_t worker = query->responders[r];
        if (state->group_of[worker] == group) {
            query->terms[query->term_count++] =
                (muster_code_decode_term){0, worker, 0, 1.0};
        }
    }
    return muster_code_measure(code, query);
}

/* Responders of the rest as places of the dual; returns how many. */
static uint32_t list_rest(const heter_groups *state,
                          const muster_code_query *query, uint32_t *places)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < query->count; r++) {
        uint32_t place = state->place_of[query->responders[r]];
        if (place < state->rest &&
            state->names[place] == query->responders[r]) {
            places[count++] = place;
        }
    }
    return count;
}

static muster_status decode_rest(const muster_code *code,
                                 muster_code_query *query,
                                 const uint32_t *places, uint32_t count)
{
    const heter_groups *state = code->state;
    double *weights = muster_mem_array(state->rest, sizeof(double));
    if (weights == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_dual_query solve = {code, state->names, places, count};
    muster_status status =
        muster_dual_solve(state->dual, &solve, weights, &query->fit.condition);
    query->term_count = 0;
    for (uint32_t i = 0; status == MUSTER_OK && i < count; i++) {
        query->terms[query->term_count++] = (muster_code_decode_term){
            0, state->names[places[i]], 0, weights[places[i]]};
    }
    muster_mem_free(weights);
    return status == MUSTER_OK ? muster_code_measure(code, query) : status;
}

static muster_status weights(const muster_code *code, muster_code_query *query)
{
    const heter_groups *state = code->state;
    uint32_t *scratch = muster_mem_array((size_t)state->workers + state->groups,
                                         sizeof(uint32_t));
    if (scratch == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    uint32_t group = complete_group(state, query, scratch);
    uint32_t count = list_rest(state, query, scratch);
    muster_status status = MUSTER_ERR_INVALID;
    if (group != NO_GROUP) {
        status = add_up(code, query, group);
    } else if (state->rest > 0 && count + state->rest_spare >= state->rest) {
        status = decode_rest(code, query, scratch, count);
    }
    muster_mem_free(scratch);
    return status == MUSTER_ERR_INVALID ? muster_code_least_squares(code, query)
                                        : status;
}

/* ---- progress: answers per group, and of the rest ------------------------ */

static size_t progress_bytes(const muster_code *code)
{
    const heter_groups *state = code->state;
    return ((size_t)state->groups + 1) * sizeof(uint32_t);
}

static void progress_reset(const muster_code *code, void *progress)
{
    memset(progress, 0, progress_bytes(code));
}

static bool progress_add(const muster_code *code, void *progress,
                         uint32_t worker)
{
    const heter_groups *state = code->state;
    uint32_t *counts = progress;
    uint32_t group = state->group_of[worker];
    if (group != NO_GROUP) {
        return ++counts[group] == state->sizes[group];
    }
    if (code->term_spans[worker].count == 0) {
        return false;
    }
    uint32_t heard = ++counts[state->groups];
    return heard + state->rest_spare >= state->rest;
}

const muster_code_ops muster_code_heter_group = {
    .name = "heter-group",
    .build = build,
    .weights = weights,
    .free_state = free_state,
    .progress_bytes = progress_bytes,
    .progress_reset = progress_reset,
    .progress_add = progress_add,
    .needs = "any s < n; m = 1; --speeds for unequal loads; k= parts",
    .limits = "(30,8), (64,8)",
};
