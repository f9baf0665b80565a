/*
 * search.c -- see search.h.
 */
#include "plan/search.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "muster/code.h"

#define FIRST_SAMPLES 16u
#define STAGE_GROWS   4u
#define KEPT_MIN      48u // of a stage
#define LONG_LIST     512u
/* Of a large cluster a draw takes long: fewer see all draws. */
#define LARGE      32u
#define KEPT_LARGE 16u
#define KEPT_LAST  8u
/* Of a quick search: by the surrogate, and of a stage. */
#define QUICK_LIST 64u
#define QUICK_KEPT 12u

static int compare_surrogates(const void *one, const void *two)
{
    const muster_finding *a = one;
    const muster_finding *b = two;
    return (a->surrogate_s > b->surrogate_s) -
           (a->surrogate_s < b->surrogate_s);
}

static int compare(const void *one, const void *two)
{
    const muster_finding *a = one;
    const muster_finding *b = two;
    return (a->expected_s > b->expected_s) - (a->expected_s < b->expected_s);
}

static bool list_findings(muster_search *search, bool split)
{
    muster_vec schemes = muster_vec_make(sizeof(muster_scheme));
    bool done = search->only != NULL ||
                muster_scheme_list(search->cluster, split, &schemes);
    const muster_vec *list = search->only != NULL ? search->only : &schemes;
    const muster_scheme *all = list->data;
    bool layered = search->layered && search->cluster->edge_count > 0;
    for (size_t i = 0; done && i < list->count; i++) {
        muster_finding finding = {.scheme = all[i]};
        if (!layered || all[i].kind == MUSTER_SCHEME_HIER) {
            done = muster_vec_append(&search->findings, &finding, 1);
        }
    }
    muster_vec_fini(&schemes);
    return done;
}

/* Value the first `count` findings by `samples` draws and sort them. */
static void run_stage(muster_search *search, size_t count, uint32_t samples)
{
    muster_finding *all = search->findings.data;
    for (size_t i = 0; i < count; i++) {
        all[i].expected_s = muster_estimate_mean_s(
            search->estimator, &all[i].scheme, samples, &all[i].error_s);
    }
    qsort(all, count, sizeof(*all), compare);
}

/* The best quarter of `count`, `min` at min. */
static size_t better_part(size_t count, size_t min)
{
    size_t kept = count / STAGE_GROWS;
    kept = kept > min ? kept : min;
    return kept < count ? kept : count;
}

/* How many are kept at least for a stage of so many draws. */
static size_t kept_at(const muster_search *search, uint32_t samples)
{
    if (search->quick) {
        return QUICK_KEPT;
    }
    if (search->cluster->worker_count <= LARGE) {
        return KEPT_MIN;
    }
    return samples < search->samples ? KEPT_LARGE : KEPT_LAST;
}

muster_status muster_search_run(muster_search *search, bool split)
{
    search->findings = muster_vec_make(sizeof(muster_finding));
    if (!list_findings(search, split)) {
        muster_search_fini(search);
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_finding *all = search->findings.data;
    for (size_t i = 0; i < search->findings.count; i++) {
        all[i].surrogate_s =
            muster_estimate_surrogate_s(search->estimator, &all[i].scheme);
    }
    size_t count = search->findings.count;
    uint32_t samples = FIRST_SAMPLES;
    qsort(all, count, sizeof(*all), compare_surrogates);
    count = better_part(count, search->quick ? QUICK_LIST : LONG_LIST);
    run_stage(search, count, samples);
    while (samples < search->samples) {
        samples *= STAGE_GROWS;
        samples = samples < search->samples ? samples : search->samples;
        count = better_part(count, kept_at(search, samples));
        run_stage(search, count, samples);
    }
    search->last = count;
    if (muster_estimator_has_failed(search->estimator)) {
        muster_search_fini(search);
        return MUSTER_ERR_NO_MEMORY;
    }
    return MUSTER_OK;
}

void muster_search_fini(muster_search *search)
{
    muster_vec_fini(&search->findings);
}

void muster_search_value(const muster_search *search, muster_finding *finding)
{
    finding->surrogate_s =
        muster_estimate_surrogate_s(search->estimator, &finding->scheme);
    finding->expected_s =
        muster_estimate_mean_s(search->estimator, &finding->scheme,
                               search->samples, &finding->error_s);
}

muster_status muster_search_check(const muster_search *search,
                                  muster_finding *finding, bool *usable_out)
{
    muster_code *code = NULL;
    muster_code_info info = MUSTER_CODE_INFO_INIT;
    muster_status status =
        muster_scheme_build(&finding->scheme, search->cluster, &code);
    *usable_out = false;
    if (status == MUSTER_OK) {
        status = muster_code_describe(code, &info);
        finding->d = info.load;
        finding->parts = info.parts;
        *usable_out = info.warning == NULL;
    } else if (status != MUSTER_ERR_NO_MEMORY) {
        status = MUSTER_OK; // refused: not usable
    }
    muster_code_free(code);
    return status;
}
