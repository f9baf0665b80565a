/*
 * plan.c -- makes plans: the search, what is chosen, what stands beside it.
 */
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "plan/search.h"

/* Uncoded is kept unless a code is expected to be this much faster. */
#define UNCODED_KEPT 1.01

/* Findings shown after the chosen one. */
#define NEXT_SHOWN 3u

/* The fields of the first release: no caller has fewer. */
#define OPTS_MIN   (offsetof(muster_plan_opts, seed) + sizeof(uint64_t))
#define CHOICE_MIN (offsetof(muster_plan_choice, surrogate_ms) + sizeof(double))
#define WORKER_MIN (offsetof(muster_plan_worker, in_time) + sizeof(double))

/* Which findings a row of the comparison is about. */
typedef bool (*row_filter)(const muster_scheme *scheme);

static bool is_worker_only(const muster_scheme *scheme)
{
    return scheme->kind == MUSTER_SCHEME_HIER && scheme->s_e == 0 &&
           scheme->s_w > 0;
}

static bool is_edge_only(const muster_scheme *scheme)
{
    return scheme->kind == MUSTER_SCHEME_HIER && scheme->s_e > 0 &&
           scheme->s_w == 0;
}

static bool is_flat_code(const muster_scheme *scheme)
{
    return scheme->kind != MUSTER_SCHEME_HIER &&
           !muster_scheme_is_uncoded(scheme);
}

static bool is_flat_uncoded(const muster_scheme *scheme)
{
    return muster_scheme_is_uncoded(scheme);
}

static muster_plan_choice choice_of(const muster_search *search,
                                    const muster_finding *finding,
                                    const char *label)
{
    const muster_scheme *scheme = &finding->scheme;
    muster_plan_choice choice = MUSTER_PLAN_CHOICE_INIT;
    (void)snprintf(choice.label, sizeof(choice.label), "%s", label);
    muster_scheme_name(scheme, search->cluster, choice.code,
                       sizeof(choice.code), choice.spec, sizeof(choice.spec));
    choice.exact = scheme->kind != MUSTER_SCHEME_IGNORE;
    choice.by_speed = scheme->kind == MUSTER_SCHEME_SPEEDS;
    choice.s = scheme->kind == MUSTER_SCHEME_HIER
                   ? (scheme->s_e + 1) * (scheme->s_w + 1) - 1
                   : scheme->s;
    choice.m = scheme->m;
    choice.d = finding->d;
    choice.parts = finding->parts;
    choice.s_e = scheme->s_e;
    choice.s_w = scheme->s_w;
    choice.m_e = scheme->m_e > 0 ? scheme->m_e : 1;
    choice.m_w = scheme->m_w > 0 ? scheme->m_w : scheme->m;
    choice.expected_ms = finding->expected_s * 1e3;
    choice.error_ms = finding->error_s * 1e3;
    choice.surrogate_ms = finding->surrogate_s * 1e3;
    return choice;
}

static bool add_choice(muster_vec *choices, const muster_search *search,
                       muster_finding finding, const char *label)
{
    muster_search_value(search, &finding);
    muster_plan_choice choice = choice_of(search, &finding, label);
    return muster_vec_append(choices, &choice, 1);
}

/* The best finding that passes, or NULL. */
static const muster_finding *best_of(const muster_search *search,
                                     row_filter filter)
{
    const muster_finding *all = search->findings.data;
    for (size_t i = 0; i < search->findings.count; i++) {
        if (filter(&all[i].scheme)) {
            return &all[i];
        }
    }
    return NULL;
}

static const muster_finding *least_surrogate(const muster_search *search)
{
    const muster_finding *all = search->findings.data;
    const muster_finding *best = all;
    for (size_t i = 1; i < search->findings.count; i++) {
        best = all[i].surrogate_s < best->surrogate_s ? &all[i] : best;
    }
    return best;
}

/* Waiting for as many as the chosen code does, with an uncoded load. */
static muster_finding ignore_like(const muster_search *search,
                                  const muster_scheme *chosen)
{
    bool edges = search->cluster->edge_count > 0;
    muster_finding finding = {.scheme = {.kind = MUSTER_SCHEME_IGNORE, .m = 1}};
    muster_scheme *scheme = &finding.scheme;
    if (edges && chosen->kind == MUSTER_SCHEME_HIER) {
        scheme->s_e = chosen->s_e;
        scheme->s_w = chosen->s_w;
    } else if (edges) {
        scheme->s_w = search->cluster->edges[0].workers > 1;
    } else {
        scheme->s = chosen->s;
    }
    if (scheme->s_e + scheme->s_w + scheme->s == 0) {
        scheme->s = !edges && search->cluster->worker_count > 1;
    }
    return finding;
}

/* The code whose name was given, where the list has it. */
static bool add_in_force(const muster_search *search, muster_vec *choices)
{
    const muster_finding *all = search->findings.data;
    for (size_t i = 0; search->in_force != NULL && i < search->findings.count;
         i++) {
        muster_plan_choice choice = choice_of(search, &all[i], "");
        if (strcmp(choice.spec, search->in_force) == 0) {
            return add_choice(choices, search, all[i], "in force");
        }
    }
    return true;
}

static bool list_choices(const muster_search *search,
                         const muster_finding *chosen, muster_vec *choices)
{
    static const struct {
        const char *label;
        row_filter filter;
    } rows[] = {
        {"uncoded", is_flat_uncoded},
        {"worker-only", is_worker_only},
        {"edge-only", is_edge_only},
        {"flat", is_flat_code},
    };
    bool done = true;
    for (size_t i = 0; done && i < sizeof(rows) / sizeof(rows[0]); i++) {
        const muster_finding *best = best_of(search, rows[i].filter);
        done =
            best == NULL || add_choice(choices, search, *best, rows[i].label);
    }
    done = done && add_in_force(search, choices);
    done = done && add_choice(choices, search,
                              ignore_like(search, &chosen->scheme), "ignore");
    done = done &&
           add_choice(choices, search, *least_surrogate(search), "surrogate");
    const muster_finding *all = search->findings.data;
    uint32_t shown = 0;
    for (size_t i = 0; done && i < search->last && shown < NEXT_SHOWN; i++) {
        if (memcmp(&all[i].scheme, &chosen->scheme, sizeof(muster_scheme)) !=
            0) {
            done = add_choice(choices, search, all[i], "next");
            shown++;
        }
    }
    return done;
}

/* The first finding that can be used; uncoded where codes gain nothing. */
static muster_status choose(const muster_search *search,
                            muster_finding *chosen_out)
{
    muster_finding *all = search->findings.data;
    muster_finding uncoded = *best_of(search, is_flat_uncoded);
    muster_search_value(search, &uncoded);
    bool usable = false;
    for (size_t i = 0; !usable && i < search->last; i++) {
        if (search->even && all[i].scheme.kind == MUSTER_SCHEME_SPEEDS) {
            continue;
        }
        if (uncoded.expected_s <= UNCODED_KEPT * all[i].expected_s) {
            break;
        }
        muster_status status = muster_search_check(search, &all[i], &usable);
        if (status != MUSTER_OK) {
            return status;
        }
        *chosen_out = all[i];
    }
    if (usable) {
        return MUSTER_OK;
    }
    *chosen_out = uncoded;
    return muster_search_check(search, chosen_out, &usable);
}

static muster_status describe_workers(muster_plan *plan,
                                      const muster_search *search,
                                      const muster_scheme *scheme)
{
    const muster_cluster *cluster = search->cluster;
    uint32_t n = cluster->worker_count;
    muster_estimate_worker *found = muster_mem_array(n, sizeof(*found));
    plan->workers = muster_mem_array(n, sizeof(muster_plan_worker));
    if (found == NULL || plan->workers == NULL) {
        muster_mem_free(found);
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_estimate_workers(search->estimator, scheme, search->samples, found);
    uint32_t edge = 0;
    for (uint32_t w = 0; w < n; w++) {
        while (edge + 1 < cluster->edge_count &&
               w >= cluster->edges[edge + 1].first) {
            edge++;
        }
        plan->workers[w] = (muster_plan_worker){
            .struct_size = sizeof(muster_plan_worker),
            .edge = edge,
            .load = found[w].load,
            .storage = found[w].load / n,
            .expected_ms = found[w].mean_s * 1e3,
            .in_time = found[w].in_time,
        };
    }
    plan->worker_count = n;
    muster_mem_free(found);
    return MUSTER_OK;
}

static muster_status fill(muster_plan *plan, muster_search *search)
{
    muster_finding chosen;
    muster_status status = choose(search, &chosen);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_vec choices = muster_vec_make(sizeof(muster_plan_choice));
    plan->chosen = choice_of(search, &chosen, "chosen");
    bool done = list_choices(search, &chosen, &choices);
    plan->choices = choices.data; // the array is handed over
    plan->choice_count = (uint32_t)choices.count;
    plan->schemes = search->findings.count;
    plan->edge_count = search->cluster->edge_count;
    plan->samples = search->samples;
    return done ? describe_workers(plan, search, &chosen.scheme)
                : MUSTER_ERR_NO_MEMORY;
}

/* Do messages take time by their length anywhere? */
static bool has_bandwidth(const muster_cluster *cluster)
{
    bool found = false;
    for (uint32_t i = 0; !found && i < cluster->worker_count; i++) {
        found = cluster->workers[i].link.bytes_per_s > 0;
    }
    for (uint32_t i = 0; !found && i < cluster->edge_count; i++) {
        found = cluster->edges[i].link.bytes_per_s > 0;
    }
    return found;
}

muster_status muster_plan_of_cluster(const muster_cluster *cluster,
                                     const muster_plan_opts *opts,
                                     muster_error *error_out,
                                     muster_plan **plan_out)
{
    const muster_estimator_opts model = {
        .cluster = cluster,
        .message_bytes = (double)opts->model_floats * sizeof(float),
        .samples = opts->samples > 0 ? opts->samples : MUSTER_PLAN_SAMPLES,
        .seed = opts->seed,
    };
    muster_plan *plan = muster_mem_array(1, sizeof(*plan));
    muster_search search = {.cluster = cluster,
                            .samples = model.samples,
                            .in_force = opts->in_force,
                            .even = opts->even};
    search.estimator = muster_estimator_create(&model);
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (plan != NULL && search.estimator != NULL) {
        status = muster_search_run(&search, opts->model_floats > 0 &&
                                                has_bandwidth(cluster));
    }
    if (status == MUSTER_OK) {
        status = fill(plan, &search);
        muster_search_fini(&search);
    }
    muster_estimator_free(search.estimator);
    if (status == MUSTER_OK) {
        *plan_out = plan;
        return status;
    }
    muster_plan_free(plan);
    return muster_error_set(error_out, status, "no memory for the plan");
}

muster_status muster_plan_create(const muster_plan_opts *opts,
                                 muster_error *error_out,
                                 muster_plan **plan_out)
{
    muster_plan_opts known = MUSTER_PLAN_OPTS_INIT;
    if (opts == NULL || !muster_sized_read(opts, OPTS_MIN, &known) ||
        known.cluster == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "muster_plan_opts: start from "
                                "MUSTER_PLAN_OPTS_INIT and set cluster");
    }
    muster_cluster *cluster = NULL;
    muster_status status = muster_cluster_parse(
        known.cluster, strlen(known.cluster),
        known.file != NULL ? known.file : "cluster", error_out, &cluster);
    if (status == MUSTER_OK) {
        status = muster_plan_of_cluster(cluster, &known, error_out, plan_out);
        muster_cluster_free(cluster);
    }
    return status;
}

void muster_plan_free(muster_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    muster_mem_free(plan->choices);
    muster_mem_free(plan->workers);
    muster_mem_free(plan);
}

/* ---- looking ------------------------------------------------------------- */

muster_status muster_plan_chosen(const muster_plan *plan,
                                 muster_plan_choice *choice_out)
{
    if (!muster_sized_is_legal(choice_out, CHOICE_MIN)) {
        return MUSTER_ERR_INVALID;
    }
    muster_sized_fill(choice_out, &plan->chosen, sizeof(plan->chosen));
    return MUSTER_OK;
}

uint32_t muster_plan_alternative_count(const muster_plan *plan)
{
    return plan->choice_count;
}

muster_status muster_plan_alternative(const muster_plan *plan, uint32_t index,
                                      muster_plan_choice *choice_out)
{
    if (index >= plan->choice_count ||
        !muster_sized_is_legal(choice_out, CHOICE_MIN)) {
        return MUSTER_ERR_INVALID;
    }
    muster_sized_fill(choice_out, &plan->choices[index],
                      sizeof(plan->choices[index]));
    return MUSTER_OK;
}

uint32_t muster_plan_worker_count(const muster_plan *plan)
{
    return plan->worker_count;
}

muster_status muster_plan_worker_at(const muster_plan *plan, uint32_t index,
                                    muster_plan_worker *worker_out)
{
    if (index >= plan->worker_count ||
        !muster_sized_is_legal(worker_out, WORKER_MIN)) {
        return MUSTER_ERR_INVALID;
    }
    muster_sized_fill(worker_out, &plan->workers[index],
                      sizeof(plan->workers[index]));
    return MUSTER_OK;
}
