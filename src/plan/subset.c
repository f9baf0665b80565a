/*
 * subset.c -- see subset.h.
 */
#include "plan/subset.h"

#include <math.h>

#include "base/mem.h"

/* Uncoded is kept unless a code is expected to be this much faster. */
#define UNCODED_KEPT 1.01
/* A code in stages gives way to one that is as fast and holds less. */
#define LIGHTER_KEPT 1.01

/* The numbers that those who stay have in the whole cluster. */
static uint32_t *numbers_of(const bool *keep, uint32_t whole, uint32_t kept)
{
    uint32_t *numbers = muster_mem_array(kept, sizeof(uint32_t));
    for (uint32_t w = 0, to = 0; numbers != NULL && w < whole; w++) {
        if (keep[w]) {
            numbers[to++] = w;
        }
    }
    return numbers;
}

static muster_estimator *make_estimator(const muster_subset_opts *opts,
                                        const muster_cluster *cluster)
{
    muster_estimator_opts model = {
        .cluster = cluster,
        .message_bytes = (double)opts->plan->model_floats * sizeof(float),
        .samples = opts->samples,
        .seed = opts->plan->seed,
        .whole = opts->whole->worker_count,
    };
    uint32_t *numbers = NULL;
    if (opts->keep != NULL) {
        numbers = numbers_of(opts->keep, opts->whole->worker_count,
                             cluster->worker_count);
        if (numbers == NULL) {
            return NULL;
        }
    }
    model.numbers = numbers;
    muster_estimator *estimator = muster_estimator_create(&model);
    muster_mem_free(numbers);
    return estimator;
}

/* Do messages take time by their length anywhere? */
static bool has_bandwidth(const muster_cluster *cluster)
{
    bool found = cluster->bytes_per_s > 0;
    for (uint32_t i = 0; !found && i < cluster->worker_count; i++) {
        found = cluster->workers[i].link.bytes_per_s > 0;
    }
    for (uint32_t i = 0; !found && i < cluster->edge_count; i++) {
        found = cluster->edges[i].link.bytes_per_s > 0 ||
                cluster->edges[i].bytes_per_s > 0;
    }
    return found;
}

muster_status muster_subset_init(muster_subset *subset,
                                 const muster_subset_opts *opts)
{
    *subset = (muster_subset){.search = {.samples = opts->samples,
                                         .quick = opts->quick,
                                         .only = opts->only,
                                         .in_force = opts->plan->in_force,
                                         .even = opts->plan->even,
                                         .layered = opts->plan->layered}};
    if (opts->keep != NULL) {
        subset->own = muster_cluster_subset(opts->whole, opts->keep);
        if (subset->own == NULL) {
            return MUSTER_ERR_NO_MEMORY;
        }
    }
    const muster_cluster *cluster =
        opts->keep != NULL ? subset->own : opts->whole;
    muster_estimator *estimator = make_estimator(opts, cluster);
    muster_status status = MUSTER_ERR_NO_MEMORY;
    subset->search.cluster = cluster;
    subset->search.estimator = estimator;
    if (estimator != NULL) {
        status =
            muster_search_run(&subset->search, opts->plan->model_floats > 0 &&
                                                   has_bandwidth(cluster));
    }
    if (status != MUSTER_OK) {
        muster_estimator_free(estimator);
        muster_cluster_free(subset->own);
    }
    return status;
}

void muster_subset_fini(muster_subset *subset)
{
    muster_search_fini(&subset->search);
    muster_estimator_free(subset->search.estimator);
    muster_cluster_free(subset->own);
    *subset = (muster_subset){0};
}

static bool may_be_chosen(const muster_search *search,
                          const muster_finding *finding)
{
    return !search->even || !muster_scheme_by_speed(&finding->scheme);
}

double muster_subset_best_s(const muster_subset *subset)
{
    const muster_search *search = &subset->search;
    const muster_finding *all = search->findings.data;
    for (size_t i = 0; i < search->last; i++) {
        if (may_be_chosen(search, &all[i])) {
            return all[i].expected_s;
        }
    }
    return (double)INFINITY;
}

static uint32_t stages_of(const muster_scheme *scheme)
{
    return (scheme->s + 1) * scheme->pieces;
}

/* Codes in stages are the faster the more they may take over: of those that are
 * about as fast as `best`, the one of fewest stages. */
static muster_finding *lightest(const muster_search *search,
                                muster_finding *best)
{
    muster_finding *all = search->findings.data;
    muster_finding *found = best;
    for (size_t i = 0;
         best->scheme.kind == MUSTER_SCHEME_STAGED && i < search->last; i++) {
        if (all[i].scheme.kind == MUSTER_SCHEME_STAGED &&
            may_be_chosen(search, &all[i]) &&
            all[i].expected_s <= LIGHTER_KEPT * best->expected_s &&
            stages_of(&all[i].scheme) < stages_of(&found->scheme)) {
            found = &all[i];
        }
    }
    return found;
}

muster_status muster_subset_choose(const muster_subset *subset,
                                   muster_finding *chosen_out)
{
    const muster_search *search = &subset->search;
    muster_finding *all = search->findings.data;
    muster_finding uncoded = {.scheme = muster_scheme_uncoded(search->cluster)};
    muster_search_value(search, &uncoded);
    bool usable = false;
    for (size_t i = 0; !usable && i < search->last; i++) {
        if (!may_be_chosen(search, &all[i])) {
            continue;
        }
        if (uncoded.expected_s <= UNCODED_KEPT * all[i].expected_s) {
            break;
        }
        muster_finding *found = lightest(search, &all[i]);
        muster_status status = muster_search_check(search, found, &usable);
        if (status != MUSTER_OK) {
            return status;
        }
        *chosen_out = *found;
    }
    if (usable) {
        return MUSTER_OK;
    }
    *chosen_out = uncoded;
    return muster_search_check(search, chosen_out, &usable);
}
