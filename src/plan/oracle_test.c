/*
 * oracle_test.c -- what is chosen, against an exhaustive search with a slow
 * twin of the whole estimate: random clusters of up to 16 workers, every set of
 * edges with every cut of workers, every code of the planner's families with
 * all its numbers.
 *
 * The twin shares nothing with the planner's estimator: loads are counted from
 * the parts of the built code, a step is over when the code's own progress says
 * so, a NIC is a list of messages of which each gets its part in every interval
 * between two events, and draws come from another stream. All codes are tried
 * with few draws, the best of them with many.
 *
 * MUSTER_SEEDS says how many clusters (`make check-all`: 20).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "code/hier.h"
#include "muster/code.h"
#include "plan/clusters_test.h"
#include "plan/plan.h"
#include "plan/scheme.h"
#include "plan/staged_test.h"

enum {
    CLUSTERS = 3,
    WORKERS_MAX = 16,
    EDGES_MAX = 4,
    FEW = 16,
    MANY = 1500,
    FINALISTS = 12,
    FLOATS = 20000,
};

/* ---- the slow twin ------------------------------------------------------- */

/* A code with the progress of every decoder that it has. */
typedef struct built {
    muster_code *code;
    bool layered;
    uint32_t decoders; // the outermost first, then one an edge
    muster_code_progress *progress[1 + EDGES_MAX];
    double load[WORKERS_MAX];
    muster_scheme scheme;
} built;

static void built_free(built *of)
{
    for (uint32_t i = 0; i < of->decoders; i++) {
        muster_code_progress_free(of->progress[i]);
    }
    muster_code_free(of->code);
}

static void add_decoder(built *of, const muster_code *code)
{
    assert_int_equal(
        muster_code_progress_create(code, &of->progress[of->decoders++]),
        MUSTER_OK);
}

static void build_decoders(const muster_cluster *cluster, built *of)
{
    of->layered = muster_code_is_hier(of->code);
    add_decoder(of, of->layered ? muster_hier_outer(of->code) : of->code);
    for (uint32_t e = 0; of->layered && e < cluster->edge_count; e++) {
        add_decoder(of, muster_hier_inner(of->code, e));
    }
}

/* False: there is no such code, or it is not within float32. */
static bool build(const muster_cluster *cluster, muster_scheme scheme,
                  built *of)
{
    char family[32];
    char name[96];
    double speeds[WORKERS_MAX];
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_scheme_name(&scheme, cluster, family, sizeof(family), name,
                       sizeof(name));
    muster_cluster_speeds(cluster, speeds);
    char *topology =
        cluster->edge_count > 0 ? muster_scheme_topology(cluster) : NULL;
    opts.name = name;
    opts.workers = cluster->worker_count;
    opts.topology = topology;
    opts.speeds = muster_scheme_by_speed(&scheme) ? speeds : NULL;
    *of = (built){.scheme = scheme};
    muster_status status = muster_code_create(&opts, NULL, &of->code);
    muster_mem_free(topology);
    muster_code_info info = MUSTER_CODE_INFO_INIT;
    if (status != MUSTER_OK ||
        muster_code_describe(of->code, &info) != MUSTER_OK ||
        info.warning != NULL) {
        muster_code_free(of->code);
        return false;
    }
    for (uint32_t w = 0; w < cluster->worker_count; w++) {
        const uint32_t *parts = NULL;
        uint32_t count = 0;
        assert_true(muster_code_parts(of->code, w, &parts, &count) >= 0);
        of->load[w] = (double)count / info.parts * cluster->worker_count;
    }
    build_decoders(cluster, of);
    return true;
}

/* Messages of `alone` seconds each that enter a shared NIC at `times`. */
static void pass_nic(double *times, uint32_t count, double alone)
{
    double left[WORKERS_MAX];
    bool passed[WORKERS_MAX] = {false};
    double now = 0;
    uint32_t done = 0;
    for (uint32_t i = 0; i < count; i++) {
        left[i] = alone;
    }
    while (alone > 0 && done < count) {
        uint32_t passing = 0;
        double next = INFINITY; // the next event
        for (uint32_t i = 0; i < count; i++) {
            passing += !passed[i] && times[i] <= now;
        }
        for (uint32_t i = 0; i < count; i++) {
            if (!passed[i]) {
                double at =
                    times[i] <= now ? now + left[i] * passing : times[i];
                next = fmin(next, at);
            }
        }
        for (uint32_t i = 0; i < count; i++) {
            if (!passed[i] && times[i] <= now) {
                left[i] -= (next - now) / passing;
                passed[i] = left[i] < 1e-12;
            }
            if (passed[i] && left[i] < 1e-12) {
                times[i] = next;
                left[i] = 1; // told once
                done++;
            }
        }
        now = next;
    }
}

static double over(double bytes, double bytes_per_s)
{
    return bytes_per_s > 0 ? bytes / bytes_per_s : 0;
}

static double link_s(const muster_cluster_link *link, double bytes,
                     muster_rng *rng)
{
    double seconds = link->latency_s + over(bytes, link->bytes_per_s);
    double all = seconds;
    while (muster_rng_uniform(rng) < link->loss) {
        all += seconds;
    }
    return all;
}

/* One stream a machine and a kind of draw: codes see the same luck. */
static muster_rng rng_of(uint64_t step, uint32_t machine, uint32_t kind)
{
    return muster_rng_make(9000 + step, machine * 8 + kind);
}

/* A code in stages: each with its message's way up, the model once. */
static double staged_s(const muster_cluster *cluster, const built *of,
                       uint64_t step)
{
    double bytes = FLOATS * sizeof(float);
    double begin[WORKERS_MAX];
    double each[WORKERS_MAX];
    for (uint32_t w = 0; w < cluster->worker_count; w++) {
        const muster_cluster_worker *worker = &cluster->workers[w];
        muster_rng compute = rng_of(step, w, 0);
        muster_rng down = rng_of(step, w, 1);
        muster_rng up = rng_of(step, w, 2);
        double work =
            worker->shift_s + worker->mean_s * muster_rng_exponential(&compute);
        begin[w] = link_s(&worker->link, bytes, &down) +
                   over(bytes * cluster->worker_count, cluster->bytes_per_s);
        each[w] = work / of->scheme.pieces / worker->speed +
                  link_s(&worker->link, bytes, &up);
    }
    return twin_step_s(of->code, begin, each,
                       over(bytes, cluster->bytes_per_s));
}

/* When the decoder has enough of those that come at `times`. */
static double decoded(muster_code_progress *progress, const double *times,
                      uint32_t count)
{
    bool heard[WORKERS_MAX] = {false};
    muster_code_progress_reset(progress);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t next = count;
        for (uint32_t i = 0; i < count; i++) {
            if (!heard[i] && (next == count || times[i] < times[next])) {
                next = i;
            }
        }
        heard[next] = true;
        if (muster_code_progress_add(progress, next)) {
            return times[next];
        }
    }
    fail_msg("all have answered, and the code is not ready");
    return INFINITY;
}

static uint32_t edge_of(const muster_cluster *cluster, uint32_t worker)
{
    uint32_t e = 0;
    while (e + 1 < cluster->edge_count &&
           cluster->edges[e + 1].first <= worker) {
        e++;
    }
    return e;
}

static double worker_s(const muster_cluster *cluster, const built *of,
                       uint32_t w, uint64_t step)
{
    const muster_cluster_worker *worker = &cluster->workers[w];
    double bytes = FLOATS * sizeof(float);
    muster_rng compute = rng_of(step, w, 0);
    muster_rng down = rng_of(step, w, 1);
    muster_rng up = rng_of(step, w, 2);
    double work =
        worker->shift_s + worker->mean_s * muster_rng_exponential(&compute);
    return link_s(&worker->link, bytes, &down) +
           of->load[w] * work / worker->speed +
           link_s(&worker->link, bytes / of->scheme.m, &up);
}

static double flat_s(const muster_cluster *cluster, const built *of,
                     uint64_t step)
{
    double times[WORKERS_MAX];
    double bytes = FLOATS * sizeof(float);
    double message = bytes / of->scheme.m;
    uint32_t n = cluster->worker_count;
    for (uint32_t w = 0; w < n; w++) {
        times[w] = worker_s(cluster, of, w, step) +
                   over(bytes * n, cluster->bytes_per_s);
        if (cluster->edge_count > 0) {
            uint32_t e = edge_of(cluster, w);
            const muster_cluster_edge *edge = &cluster->edges[e];
            muster_rng down = rng_of(step, edge->first, 3);
            muster_rng up = rng_of(step, w, 4);
            times[w] += link_s(&edge->link, bytes, &down) +
                        link_s(&edge->link, message * edge->workers, &up);
        }
    }
    pass_nic(times, n, over(message, cluster->bytes_per_s));
    return decoded(of->progress[0], times, n);
}

static double edge_s(const muster_cluster *cluster, const built *of, uint32_t e,
                     uint64_t step)
{
    const muster_cluster_edge *edge = &cluster->edges[e];
    double bytes = FLOATS * sizeof(float);
    double times[WORKERS_MAX];
    for (uint32_t w = 0; w < edge->workers; w++) {
        times[w] = worker_s(cluster, of, edge->first + w, step) +
                   over(bytes * edge->workers, edge->bytes_per_s);
    }
    pass_nic(times, edge->workers,
             over(bytes / of->scheme.m, edge->bytes_per_s));
    muster_rng down = rng_of(step, edge->first, 3);
    muster_rng up = rng_of(step, edge->first, 4);
    double model = fmax(over(bytes * cluster->edge_count, cluster->bytes_per_s),
                        over(bytes, edge->bytes_per_s));
    return decoded(of->progress[1 + e], times, edge->workers) + model +
           link_s(&edge->link, bytes, &down) +
           link_s(&edge->link, bytes / of->scheme.m_e, &up);
}

static double layered_s(const muster_cluster *cluster, const built *of,
                        uint64_t step)
{
    double bytes = (double)FLOATS * sizeof(float) / of->scheme.m_e;
    double left[EDGES_MAX];
    double times[EDGES_MAX];
    for (uint32_t e = 0; e < cluster->edge_count; e++) {
        times[e] = edge_s(cluster, of, e, step);
        left[e] = times[e] + over(bytes, cluster->edges[e].bytes_per_s);
    }
    pass_nic(times, cluster->edge_count, over(bytes, cluster->bytes_per_s));
    for (uint32_t e = 0; e < cluster->edge_count; e++) {
        times[e] = fmax(times[e], left[e]);
    }
    return decoded(of->progress[0], times, cluster->edge_count);
}

static double mean_s(const muster_cluster *cluster, const built *of,
                     uint32_t steps)
{
    double sum = 0;
    for (uint32_t step = 0; step < steps; step++) {
        bool staged = of->scheme.kind == MUSTER_SCHEME_STAGED;
        sum += staged        ? staged_s(cluster, of, step)
               : of->layered ? layered_s(cluster, of, step)
                             : flat_s(cluster, of, step);
    }
    return sum / steps;
}

/* ---- the exhaustive search ----------------------------------------------- */

typedef struct finalist {
    double value;
    muster_scheme scheme;
    bool keep[WORKERS_MAX];
} finalist;

typedef struct hunt {
    const muster_cluster *whole;
    const muster_cluster *cluster; // the set at hand
    bool keep[WORKERS_MAX];
    finalist best[FINALISTS];
    finalist winner;
    uint32_t count;
    uint64_t tried;
} hunt;

static void note(hunt *at, const muster_scheme *scheme, double value)
{
    uint32_t to = at->count < FINALISTS ? at->count++ : FINALISTS - 1;
    if (to == FINALISTS - 1 && at->best[to].value > 0 &&
        at->best[to].value <= value) {
        return;
    }
    for (; to > 0 && at->best[to - 1].value > value; to--) {
        at->best[to] = at->best[to - 1];
    }
    at->best[to] = (finalist){.value = value, .scheme = *scheme};
    memcpy(at->best[to].keep, at->keep, sizeof(at->keep));
}

static void try_scheme(hunt *at, muster_scheme scheme)
{
    built of;
    if (build(at->cluster, scheme, &of)) {
        note(at, &scheme, mean_s(at->cluster, &of, FEW));
        at->tried++;
        built_free(&of);
    }
}

static void try_flat(hunt *at)
{
    uint32_t n = at->cluster->worker_count;
    for (uint32_t m = 1; m <= n; m++) {
        for (uint32_t s = 0; s + m <= n; s++) {
            muster_scheme scheme = {.s = s, .m = m};
            scheme.kind = MUSTER_SCHEME_GROUPS;
            try_scheme(at, scheme);
            scheme.kind = MUSTER_SCHEME_SPREAD;
            try_scheme(at, scheme);
            scheme.kind = MUSTER_SCHEME_SPEEDS;
            if (m == 1) {
                try_scheme(at, scheme);
            }
        }
    }
}

static void try_staged(hunt *at)
{
    uint32_t n = at->cluster->worker_count;
    muster_scheme scheme = {.kind = MUSTER_SCHEME_STAGED, .m = 1};
    for (scheme.s = 1; scheme.s < n; scheme.s++) {
        for (scheme.pieces = 1; scheme.pieces <= 4; scheme.pieces *= 2) {
            scheme.order = MUSTER_ORDER_CYCLIC;
            try_scheme(at, scheme);
            scheme.order = MUSTER_ORDER_STAIRCASE;
            try_scheme(at, scheme);
            scheme.order = MUSTER_ORDER_SPEEDS;
            try_scheme(at, scheme);
        }
    }
}

static void try_hier(hunt *at)
{
    uint32_t edges = at->cluster->edge_count;
    uint32_t n = at->cluster->worker_count;
    muster_scheme scheme = {.kind = MUSTER_SCHEME_HIER};
    for (scheme.m_e = 1; scheme.m_e <= edges; scheme.m_e++) {
        for (scheme.s_e = 0; scheme.s_e + scheme.m_e <= edges; scheme.s_e++) {
            for (scheme.m_w = 1; scheme.m_w <= n; scheme.m_w++) {
                for (scheme.s_w = 0; scheme.s_w + scheme.m_w <= n;
                     scheme.s_w++) {
                    scheme.m = scheme.m_e * scheme.m_w;
                    try_scheme(at, scheme);
                }
            }
        }
    }
}

static double time_of(const muster_cluster_worker *worker)
{
    double bytes = FLOATS * sizeof(float);
    return (worker->shift_s + worker->mean_s) / worker->speed +
           2 *
               (worker->link.latency_s +
                over(bytes, worker->link.bytes_per_s)) /
               (1 - worker->link.loss);
}

/* All of the set's edges, and of their workers those up to `limit`. */
static void try_set(hunt *at, uint32_t edges, double limit)
{
    uint32_t kept = 0;
    for (uint32_t w = 0; w < at->whole->worker_count; w++) {
        at->keep[w] = (edges >> edge_of(at->whole, w) & 1u) != 0 &&
                      time_of(&at->whole->workers[w]) <= limit;
        kept += at->keep[w];
    }
    if (kept == 0) {
        return;
    }
    muster_cluster *set = muster_cluster_subset(at->whole, at->keep);
    at->cluster = set;
    try_flat(at);
    if (set->edge_count > 0) {
        try_hier(at);
    } else {
        try_staged(at);
    }
    muster_cluster_free(set);
}

static double exact_value(const muster_cluster *whole, const finalist *of)
{
    built code;
    muster_cluster *set = muster_cluster_subset(whole, of->keep);
    assert_true(build(set, of->scheme, &code));
    double value = mean_s(set, &code, MANY);
    built_free(&code);
    muster_cluster_free(set);
    return value;
}

static double best_of_all(hunt *at)
{
    uint32_t edges = at->whole->edge_count > 0 ? at->whole->edge_count : 1;
    for (uint32_t set = 1; set < 1u << edges; set++) {
        for (uint32_t w = 0; w < at->whole->worker_count; w++) {
            try_set(at, set, time_of(&at->whole->workers[w]));
        }
    }
    double best = INFINITY;
    for (uint32_t i = 0; i < at->count; i++) {
        double value = exact_value(at->whole, &at->best[i]);
        at->winner = value < best ? at->best[i] : at->winner;
        best = fmin(best, value);
    }
    return best;
}

/* ---- against the planner ------------------------------------------------- */

static void read_staged(const muster_plan_choice *c, muster_scheme *scheme)
{
    const char *pieces = strstr(c->spec, "pieces=");
    scheme->kind = MUSTER_SCHEME_STAGED;
    scheme->pieces =
        pieces != NULL ? (uint32_t)strtoul(pieces + 7, NULL, 10) : 1;
    scheme->order = c->by_speed ? MUSTER_ORDER_SPEEDS
                    : strstr(c->spec, "staircase") != NULL
                        ? MUSTER_ORDER_STAIRCASE
                        : MUSTER_ORDER_CYCLIC;
}

/* What was chosen, as the twin knows it. */
static finalist chosen_of(const muster_plan *plan)
{
    const muster_plan_choice *c = &plan->chosen;
    finalist of = {.scheme = {.s = c->s, .m = c->m}};
    bool hier = c->edges > 0 && (strncmp(c->spec, "hier", 4) == 0);
    if (strcmp(c->code, "scheduled") == 0) {
        read_staged(c, &of.scheme);
    } else if (hier) {
        of.scheme = (muster_scheme){.kind = MUSTER_SCHEME_HIER,
                                    .m = c->m,
                                    .s_e = c->s_e,
                                    .s_w = c->s_w,
                                    .m_e = c->m_e,
                                    .m_w = c->m_w};
    } else if (c->by_speed) {
        of.scheme.kind = MUSTER_SCHEME_SPEEDS;
    } else if (strcmp(c->code, "ye-abbe-tuned") == 0) {
        of.scheme.kind = MUSTER_SCHEME_SPREAD;
    }
    for (uint32_t w = 0; w < plan->worker_count; w++) {
        of.keep[w] = plan->workers[w].used;
    }
    return of;
}

static void check_cluster(uint64_t seed)
{
    muster_cluster *cluster = draw_cluster(seed, CLUSTERS, WORKERS_MAX);
    muster_plan_opts opts = MUSTER_PLAN_OPTS_INIT;
    muster_plan *plan = NULL;
    hunt *at = muster_mem_array(1, sizeof(*at));
    at->whole = cluster;
    opts.model_floats = FLOATS;
    assert_int_equal(muster_plan_of_cluster(cluster, &opts, NULL, &plan),
                     MUSTER_OK);
    finalist chosen = chosen_of(plan);
    double mine = exact_value(cluster, &chosen);
    double best = best_of_all(at);
    print_message("cluster %llu: %u workers, %u edges: %s with %u workers "
                  "%.3f ms (planned %.3f), best of %llu %.3f ms\n",
                  (unsigned long long)seed, cluster->worker_count,
                  cluster->edge_count, plan->chosen.spec, plan->chosen.workers,
                  mine * 1e3, plan->chosen.expected_ms,
                  (unsigned long long)at->tried, best * 1e3);
    if (mine > 1.05 * best) {
        const muster_scheme *w = &at->winner.scheme;
        print_message("better: kind %d, s %u, m %u, s_e %u, s_w %u, workers",
                      (int)w->kind, w->s, w->m, w->s_e, w->s_w);
        for (uint32_t i = 0; i < cluster->worker_count; i++) {
            print_message("%s", at->winner.keep[i] ? "+" : "-");
        }
        fail_msg("%s is not near the best", plan->chosen.spec);
    }
    assert_true(fabs(plan->chosen.expected_ms / (mine * 1e3) - 1) < 0.05);
    muster_plan_free(plan);
    muster_mem_free(at);
    muster_cluster_free(cluster);
}

static void choices_are_near_the_best_of_an_exhaustive_search(void **state)
{
    (void)state;
    const char *text = getenv("MUSTER_SEEDS");
    uint64_t count = text != NULL ? strtoull(text, NULL, 10) : CLUSTERS;
    for (uint64_t seed = 0; seed < count; seed++) {
        check_cluster(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_are_near_the_best_of_an_exhaustive_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
