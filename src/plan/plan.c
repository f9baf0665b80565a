/*
 * plan.c -- makes plans: the search, what is chosen, what stands beside it.
 */
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "plan/nodes.h"
#include "plan/subset.h"

/* All machines are used unless a plan without some is this much faster. */
#define ALL_USED 1.01
/* Sets of machines are tried by so many draws; the best of them by all. */
#define ROUGH_SAMPLES 64u
#define SETS_KEPT     3u
#define ROUGHLY_EQUAL 1.05
/* With more workers only the schemes that the surrogate likes are tried. */
#define QUICK_ABOVE 64u
/* Draws times workers; draws at least. */
#define DRAWS_MAX   (1u << 17)
#define SAMPLES_MIN 256u

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
    choice.by_speed = muster_scheme_by_speed(scheme);
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
    choice.workers = search->cluster->worker_count;
    choice.edges = search->cluster->edge_count;
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

/* A worker that is left out has nothing. */
static void describe_worker(const muster_estimate_worker *found,
                            muster_plan_worker *worker)
{
    if (worker->used) {
        worker->load = found->load;
        worker->storage = found->storage;
        worker->expected_ms = found->mean_s * 1e3;
        worker->in_time = found->in_time;
    }
}

static muster_status describe_workers(muster_plan *plan,
                                      const muster_cluster *whole,
                                      const muster_search *search,
                                      const bool *keep,
                                      const muster_scheme *scheme)
{
    uint32_t used = search->cluster->worker_count;
    uint32_t n = whole->worker_count;
    muster_estimate_worker *found = muster_mem_array(used, sizeof(*found));
    plan->workers = muster_mem_array(n, sizeof(muster_plan_worker));
    if (found == NULL || plan->workers == NULL) {
        muster_mem_free(found);
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_estimate_workers(search->estimator, scheme, search->samples, found);
    for (uint32_t w = 0, edge = 0, at = 0; w < n; w++) {
        while (edge + 1 < whole->edge_count &&
               w >= whole->edges[edge + 1].first) {
            edge++;
        }
        plan->workers[w] =
            (muster_plan_worker){.struct_size = sizeof(muster_plan_worker),
                                 .edge = edge,
                                 .used = keep == NULL || keep[w]};
        describe_worker(&found[at], &plan->workers[w]);
        at += plan->workers[w].used && at + 1 < used;
    }
    plan->worker_count = n;
    muster_mem_free(found);
    return MUSTER_OK;
}

/* Take over what was chosen, of all machines or of some. */
static muster_status take_chosen(muster_plan *plan, const muster_cluster *whole,
                                 const muster_subset *subset, const bool *keep,
                                 const muster_finding *chosen)
{
    muster_mem_free(plan->workers);
    muster_mem_free(plan->used);
    plan->chosen = choice_of(&subset->search, chosen, "chosen");
    plan->workers = NULL;
    plan->used = muster_cluster_text(subset->search.cluster);
    return plan->used != NULL ? describe_workers(plan, whole, &subset->search,
                                                 keep, &chosen->scheme)
                              : MUSTER_ERR_NO_MEMORY;
}

/* The plan that uses all machines, and the comparison. */
static muster_status fill(muster_plan *plan, const muster_cluster *whole,
                          const muster_subset *all)
{
    const muster_search *search = &all->search;
    muster_finding chosen;
    muster_status status = muster_subset_choose(all, &chosen);
    if (status != MUSTER_OK) {
        return status;
    }
    muster_vec choices = muster_vec_make(sizeof(muster_plan_choice));
    bool done = list_choices(search, &chosen, &choices);
    plan->choices = choices.data; // the array is handed over
    plan->choice_count = (uint32_t)choices.count;
    plan->schemes = search->findings.count;
    plan->edge_count = whole->edge_count;
    plan->samples = search->samples;
    return done ? take_chosen(plan, whole, all, NULL, &chosen)
                : MUSTER_ERR_NO_MEMORY;
}

/* ---- machines left out --------------------------------------------------- */

/* A set of machines that a rough search likes, and the schemes it likes there.
 */
typedef struct liked_set {
    uint32_t set;
    double value_s;
    muster_vec schemes; // muster_scheme
} liked_set;

/* The best so far, by ascending value. */
typedef struct best_sets {
    uint32_t count;
    liked_set sets[SETS_KEPT];
} best_sets;

static bool list_schemes(const muster_search *search, muster_vec *schemes)
{
    const muster_finding *all = search->findings.data;
    bool done = true;
    for (size_t i = 0; done && i < search->last; i++) {
        done = muster_vec_append(schemes, &all[i].scheme, 1);
    }
    return done;
}

/* False: out of memory. */
static bool keep_best(best_sets *best, uint32_t set,
                      const muster_subset *subset)
{
    double value_s = muster_subset_best_s(subset);
    liked_set *last = &best->sets[SETS_KEPT - 1];
    if (best->count == SETS_KEPT) {
        if (last->value_s <= value_s) {
            return true;
        }
        muster_vec_fini(&last->schemes);
        best->count--;
    }
    uint32_t at = best->count++;
    for (; at > 0 && best->sets[at - 1].value_s > value_s; at--) {
        best->sets[at] = best->sets[at - 1];
    }
    best->sets[at] =
        (liked_set){set, value_s, muster_vec_make(sizeof(muster_scheme))};
    return list_schemes(&subset->search, &best->sets[at].schemes);
}

static muster_status try_roughly(muster_plan *plan, muster_subset_opts opts,
                                 const muster_node_sets *sets, best_sets *best)
{
    muster_status status = MUSTER_OK;
    opts.samples = ROUGH_SAMPLES;
    opts.quick = sets->workers > QUICK_ABOVE;
    for (uint32_t i = 0; status == MUSTER_OK && i < sets->count; i++) {
        muster_subset subset;
        opts.keep = sets->keep + (size_t)i * sets->workers;
        status = muster_subset_init(&subset, &opts);
        if (status == MUSTER_OK) {
            plan->schemes += subset.search.findings.count;
            status =
                keep_best(best, i, &subset) ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
            muster_subset_fini(&subset);
        }
    }
    return status;
}

/* Take the set's plan if it is faster than the one at hand. */
static muster_status try_set(muster_plan *plan, const muster_subset_opts *opts)
{
    muster_subset subset;
    muster_finding chosen;
    muster_status status = muster_subset_init(&subset, opts);
    if (status != MUSTER_OK) {
        return status;
    }
    status = muster_subset_choose(&subset, &chosen);
    if (status == MUSTER_OK &&
        chosen.expected_s * 1e3 * ALL_USED < plan->chosen.expected_ms) {
        status = take_chosen(plan, opts->whole, &subset, opts->keep, &chosen);
    }
    muster_subset_fini(&subset);
    return status;
}

/* What is best with all machines, beside the choice that leaves some out. */
static bool show_all_workers(muster_plan *plan, const muster_plan_choice *all)
{
    muster_plan_choice *more =
        muster_mem_resize(plan->choices, plan->choice_count + 1, sizeof(*more));
    if (more == NULL) {
        return false;
    }
    plan->choices = more;
    more[plan->choice_count] = *all;
    (void)snprintf(more[plan->choice_count++].label, sizeof(all->label),
                   "all workers");
    return true;
}

static muster_status leave_out(muster_plan *plan, muster_subset_opts opts)
{
    muster_node_sets sets;
    best_sets best = {.count = 0};
    const muster_plan_choice all = plan->chosen;
    double bytes = (double)opts.plan->model_floats * sizeof(float);
    muster_status status = muster_node_sets_init(&sets, opts.whole, bytes)
                               ? MUSTER_OK
                               : MUSTER_ERR_NO_MEMORY;
    if (status == MUSTER_OK) {
        status = try_roughly(plan, opts, &sets, &best);
    }
    for (uint32_t i = 0; i < best.count; i++) {
        liked_set *liked = &best.sets[i];
        opts.keep = sets.keep + (size_t)liked->set * sets.workers;
        opts.only = &liked->schemes;
        // Rough values are a little off: what looks no better may be.
        if (status == MUSTER_OK &&
            liked->value_s * 1e3 < ROUGHLY_EQUAL * all.expected_ms) {
            status = try_set(plan, &opts);
        }
        muster_vec_fini(&liked->schemes);
    }
    muster_node_sets_fini(&sets);
    if (status == MUSTER_OK && plan->chosen.workers < all.workers &&
        !show_all_workers(plan, &all)) {
        status = MUSTER_ERR_NO_MEMORY;
    }
    return status;
}

/* Fewer draws of more workers: they take as long. */
static uint32_t samples_for(const muster_cluster *cluster, uint32_t wanted)
{
    uint32_t samples = wanted > 0 ? wanted : MUSTER_PLAN_SAMPLES;
    uint32_t affordable = DRAWS_MAX / cluster->worker_count;
    affordable = affordable > SAMPLES_MIN ? affordable : SAMPLES_MIN;
    return samples < affordable ? samples : affordable;
}

static muster_status make(muster_plan *plan, const muster_cluster *cluster,
                          const muster_plan_opts *opts)
{
    muster_subset all;
    muster_subset_opts whole = {
        .whole = cluster,
        .plan = opts,
        .samples = samples_for(cluster, opts->samples),
    };
    muster_status status = muster_subset_init(&all, &whole);
    if (status != MUSTER_OK) {
        return status;
    }
    status = fill(plan, cluster, &all);
    muster_subset_fini(&all);
    return status == MUSTER_OK && !opts->all_workers ? leave_out(plan, whole)
                                                     : status;
}

muster_status muster_plan_of_cluster(const muster_cluster *cluster,
                                     const muster_plan_opts *opts,
                                     muster_error *error_out,
                                     muster_plan **plan_out)
{
    muster_plan *plan = muster_mem_array(1, sizeof(*plan));
    muster_status status =
        plan != NULL ? make(plan, cluster, opts) : MUSTER_ERR_NO_MEMORY;
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
    muster_mem_free(plan->used);
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

char *muster_plan_used(const muster_plan *plan)
{
    return muster_mem_string(plan->used);
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
