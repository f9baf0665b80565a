/*
 * edge_seeds_test.c -- edges between the coordinator and its workers: seeds
 * with random faults, with one code and with plans that change again and again.
 *
 * Proved for each seed: training ends with theta equal to the serial answer at
 * every step, every model that a worker computes with is right, steps follow
 * each other, and no honest member is rejected. Or it ends with
 * MUSTER_ERR_QUORUM, and when that was decided, the edges that had been well
 * for long enough, with enough workers under them that had been, did not
 * suffice. Nobody is left running; the same seed gives the same history.
 *
 * A failing seed prints the command that replays it with a trace. MUSTER_SEEDS
 * sets how many there are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "faults.h"

#define SEEDS 350u
/* From here on, seeds are those of changing plans. */
#define PLANS_FROM 1000000u

/* A run with random faults. */
typedef struct story {
    faults f; // first: callbacks find the story by it
    uint32_t first_worker, hosts;
} story;

static void start(faults *f, uint32_t host)
{
    uint32_t first = ((story *)f)->first_worker;
    if (host < first) {
        toy_start_edge(&f->t, host, host - 1);
    } else {
        toy_start_worker(&f->t, host,
                         is_stranger(f) ? MUSTER_ID_ANY : host - first);
    }
}

/* An edge as often as all its workers together. */
static uint32_t some_host(story *s)
{
    bool edge = muster_rng_below(&s->f.rng, 2) == 0;
    return edge ? 1 + (uint32_t)muster_rng_below(&s->f.rng, s->f.t.edges)
                : s->first_worker + (uint32_t)muster_rng_below(
                                        &s->f.rng, s->hosts - s->first_worker);
}

static uint32_t leader(const faults *f, uint32_t host)
{
    uint32_t first = ((const story *)f)->first_worker;
    return host < first
               ? 0
               : toy_edge_host(muster_hier_edge_of(f->t.code, host - first));
}

/* The last two only where plans change. */
static void strike(muster_sim *sim, void *context, uint64_t value)
{
    static const fault_kind kinds[] = {
        FAULT_DIES,   FAULT_RESTARTS, FAULT_RESTARTS, FAULT_STOPS,
        FAULT_STOPS,  FAULT_CUT,      FAULT_BREAKS,   FAULT_HANGS,
        FAULT_LEAVES, FAULT_RESUMES,  FAULT_SLOW,     FAULT_SLOW};
    story *s = context;
    uint32_t host = some_host(s);
    (void)sim;
    (void)value;
    uint64_t kind_count = s->f.t.plan_code_count > 0 ? 12 : 10;
    befall(&s->f, host, kinds[muster_rng_below(&s->f.rng, kind_count)]);
}

/* What every code of the run goes on without. */
static muster_hier_numbers tolerance(const toy *t)
{
    muster_hier_numbers least = muster_hier_numbers_of(t->code);
    for (uint32_t i = 0; i < t->plan_code_count; i++) {
        muster_hier_numbers one = muster_hier_numbers_of(t->plan_codes[i]);
        if (one.edge_stragglers < least.edge_stragglers) {
            least.edge_stragglers = one.edge_stragglers;
        }
        if (one.worker_stragglers < least.worker_stragglers) {
            least.worker_stragglers = one.worker_stragglers;
        }
    }
    return least;
}

/* The coordinator says that too few are left; nobody knows of it yet. */
static void look_who_is_left(toy *t)
{
    story *s = (story *)t;
    muster_hier_numbers numbers = tolerance(t);
    uint32_t whole = 0;
    for (uint32_t edge = 0; edge < t->edges; edge++) {
        uint32_t first = muster_hier_first(t->code, edge);
        uint32_t end = muster_hier_first(t->code, edge + 1);
        uint32_t well = numbers.worker_stragglers;
        for (uint32_t w = first; w < end; w++) {
            well += is_long_well(t, toy_worker_host(t, w));
        }
        whole += is_long_well(t, toy_edge_host(edge)) && well >= end - first;
    }
    if (is_long_well(t, 0) && whole + numbers.edge_stragglers >= t->edges) {
        s->f.complaint = "gave up though enough edges were well";
    }
}

/* First the edges find out that it is over, then their workers. */
static const char *judge_edges(story *s)
{
    return s->f.t.inexact > 0 ? "a step is not exact"
                              : judge(&s->f, s->hosts - 1, SECONDS(90));
}

static toy_opts plot(uint64_t seed)
{
    static const struct {
        const char *code, *topology;
        uint32_t workers;
    } casts[] = {
        {"hier:se=1,sw=1", "4x4", 16},      {"hier:se=1,sw=2", "3,4,5,6", 18},
        {"hier:se=0,sw=1", "3x4", 12},      {"hier:se=1,sw=0", "3x3", 9},
        {"hier:se=1,sw=1,mw=2", "4x4", 16}, {"hier:se=0,sw=0", "2,3", 5},
        {"hier:se=2,sw=1", "5x3", 15},
    };
    static const int64_t jitters_ms[] = {0, 2, 4, 40};
    static const double chances[] = {0, 0, 0.05, 0.2};
    muster_rng rng = muster_rng_make(seed, 4);
    size_t cast = seed % (sizeof(casts) / sizeof(casts[0]));
    toy_opts opts = {.seed = seed,
                     .code = casts[cast].code,
                     .topology = casts[cast].topology,
                     .workers = casts[cast].workers,
                     .steps = 40};
    opts.duplicate = chances[muster_rng_below(&rng, 4)] / 2;
    opts.echo = chances[muster_rng_below(&rng, 4)];
    opts.pace = muster_rng_below(&rng, 3) == 0 ? 8 : 1;
    opts.jitter_ns = jitters_ms[muster_rng_below(&rng, 4)] * MUSTER_NS_PER_MS;
    opts.begun_bytes = muster_rng_below(&rng, 2); // all payloads, or none
    return opts;
}

/* The same with codes of other lengths, parts and tolerances in turn. */
static toy_opts plot_of_plans(uint64_t seed)
{
    static const struct {
        const char *first, *topology;
        uint32_t workers;
        const char *codes[6];
    } casts[] = {
        {"hier:se=1,sw=1",
         "4x4",
         16,
         {"hier:se=0,sw=2", "hier:se=1,sw=1,mw=2", "hier:se=2,sw=1",
          "hier:se=1,sw=0"}},
        {"hier:se=1,sw=1",
         "3,4,5,6",
         18,
         {"hier:se=1,sw=2", "hier:se=0,sw=1", "hier:se=2,sw=1"}},
        {"hier",
         "3x3",
         9,
         {"hier:se=1,sw=1", "hier:se=0,sw=1,mw=2", "hier:se=2,sw=2"}},
        {"hier:se=0,sw=1",
         "2,3",
         5,
         {"hier", "hier:se=0,sw=1,me=1,mw=1", "hier:se=0,sw=0,mw=2"}},
    };
    size_t cast = seed % (sizeof(casts) / sizeof(casts[0]));
    toy_opts opts = plot(seed);
    opts.code = casts[cast].first;
    opts.topology = casts[cast].topology;
    opts.workers = casts[cast].workers;
    opts.plan_codes = casts[cast].codes;
    opts.shards = 4 * opts.workers + (uint32_t)seed % 5;
    opts.steps = 90;
    return opts;
}

typedef struct outcome {
    muster_status status;
    uint32_t plans;
    uint64_t hash, lost, late, twice, echoes;
    uint64_t decodes, early; // DECODE jobs, and messages that they added
    const char *complaint;
} outcome;

static outcome tell(uint64_t seed, bool aloud)
{
    static story s; // the callbacks keep its address
    s = (story){.f = {.rng = muster_rng_make(seed, 3),
                      .start = start,
                      .leader = leader}};
    bool plans = seed >= PLANS_FROM;
    toy_opts opts = plans ? plot_of_plans(seed - PLANS_FROM) : plot(seed);
    opts.on_trace = aloud ? print_line : NULL;
    toy_init(&s.f.t, &opts);
    s.first_worker = toy_worker_host(&s.f.t, 0);
    s.hosts = s.first_worker + opts.workers;
    s.f.t.on_gave_up = look_who_is_left;
    uint64_t strikes = muster_rng_below(&s.f.rng, 8);
    uint64_t window_ms = (uint64_t)((plans ? 2700 : 1200) * opts.pace);
    for (uint64_t i = 0; i < strikes; i++) {
        muster_sim_at(s.f.t.sim, some_ms(&s.f, 0, window_ms), strike, &s, 0);
    }
    if (muster_rng_below(&s.f.rng, 3) == 0) {
        s.f.t.slow_ms[some_host(&s)] = 60;
    }
    muster_sim_run(s.f.t.sim, SECONDS(600));
    outcome result = {.complaint = judge_edges(&s)};
    result.status = s.f.t.status;
    result.plans = s.f.t.plan;
    result.hash = muster_sim_hash(s.f.t.sim);
    result.lost = s.f.t.lost;
    result.late = s.f.t.late;
    result.twice = s.f.t.twice;
    result.echoes = s.f.t.echoes;
    result.decodes = s.f.t.early.asked;
    result.early = s.f.t.early.used;
    toy_fini(&s.f.t);
    return result;
}

static void complain(uint64_t seed, const char *what)
{
    fail_msg("seed %llu: %s; replay: build/dev/test_sim_edge_seeds %llu",
             (unsigned long long)seed, what, (unsigned long long)seed);
}

static void tell_seeds(uint64_t first)
{
    outcome sum = {0};
    uint64_t seeds = seed_count("MUSTER_SEEDS", SEEDS);
    uint64_t finished = 0;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        outcome result = tell(seed, false);
        if (result.complaint != NULL) {
            complain(seed, result.complaint);
        }
        finished += result.status == MUSTER_OK;
        sum.plans += result.plans - (result.plans > 0);
        sum.lost += result.lost;
        sum.late += result.late;
        sum.twice += result.twice;
        sum.echoes += result.echoes;
        sum.decodes += result.decodes;
        sum.early += result.early;
    }
    print_message(
        "%llu of %llu runs finished; %u changes of the code, %llu "
        "edges lost, %llu late messages, %llu twice, %llu echoes "
        "spoiled, %llu decodings begun early, of %llu messages\n",
        (unsigned long long)finished, (unsigned long long)seeds, sum.plans,
        (unsigned long long)sum.lost, (unsigned long long)sum.late,
        (unsigned long long)sum.twice, (unsigned long long)sum.echoes,
        (unsigned long long)sum.decodes, (unsigned long long)sum.early);
    // The faults must bite, and must not bite every time.
    assert_true(finished > seeds * 8 / 10 && (finished < seeds || seeds < 200));
    assert_true(sum.lost > seeds / 2 && sum.late > seeds);
    assert_true(sum.twice > seeds / 4 && sum.echoes > seeds);
    assert_true(sum.decodes > seeds && sum.early > seeds);
    assert_true((sum.plans > seeds) == (first == PLANS_FROM));
}

static void every_seed_ends_right_or_says_why(void **state)
{
    (void)state;
    tell_seeds(0);
}

static void so_does_every_seed_while_plans_change(void **state)
{
    (void)state;
    tell_seeds(PLANS_FROM);
}

static void the_same_seed_is_the_same_history(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed += 25) {
        if (tell(seed, false).hash != tell(seed, false).hash) {
            complain(seed, "two histories");
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        uint64_t seed = strtoull(argv[1], NULL, 10);
        outcome result = tell(seed, true);
        printf("seed %llu: %s, hash %016llx: %s\n", (unsigned long long)seed,
               muster_status_name(result.status),
               (unsigned long long)result.hash,
               result.complaint != NULL ? result.complaint : "all is well");
        return result.complaint != NULL;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_seed_ends_right_or_says_why),
        cmocka_unit_test(so_does_every_seed_while_plans_change),
        cmocka_unit_test(the_same_seed_is_the_same_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
