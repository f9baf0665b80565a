/*
 * edge_test.c -- edges between the coordinator and its workers: named
 * histories, and seeds with random faults, with one code and with plans that
 * change again and again.
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

#include "scene.h"

#define SEEDS 350u
/* From here on, seeds are those of changing plans. */
#define PLANS_FROM 1000000u
#define SETTLE_NS  SECONDS(9)

static toy_opts under_edges(const char *code, const char *topology,
                            uint32_t workers, uint64_t steps)
{
    toy_opts opts = plain(code, workers, steps);
    opts.topology = topology;
    return opts;
}

static void steps_are_right_and_one_message_comes_per_edge(void **state)
{
    (void)state;
    static const struct {
        const char *code, *topology;
        uint32_t workers, edges;
    } casts[] = {
        {"hier:se=1,sw=1", "4x4", 16, 4},
        {"hier:se=0,sw=0", "4x4", 16, 4},
        {"hier:se=1,sw=0", "3x5", 15, 3},
        {"hier:se=0,sw=2", "3,4,5", 12, 3},
        {"hier:se=1,sw=2", "3,4,5,6", 18, 4},
        {"hier:se=1,sw=1,me=2", "4x4", 16, 4},
        {"hier:se=1,sw=1,mw=2", "4x4", 16, 4},
        {"hier:se=0,sw=1,me=2,mw=2", "4x4", 16, 4},
    };
    for (size_t i = 0; i < sizeof(casts) / sizeof(casts[0]); i++) {
        toy t;
        toy_opts opts =
            under_edges(casts[i].code, casts[i].topology, casts[i].workers, 40);
        toy_init(&t, &opts);
        run_to_end(&t);
        assert_right(&t);
        assert_int_equal(t.inexact, 0);
        assert_int_equal(t.lost, 0);
        assert_true(t.messages_up <= 40 * casts[i].edges);
        // The model goes once to each edge in a step.
        uint64_t model = TOY_DIM * sizeof(float);
        assert_in_range(t.bytes_down, 40 * (casts[i].edges - 1) * model,
                        40 * casts[i].edges * (model + 64));
        toy_fini(&t);
    }
}

/* Each worker's shards pass its edge once, and no edge asks for more. */
static void shards_pass_through_the_edges(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = under_edges("hier:se=1,sw=1", "4x4", 16, 10);
    toy_init(&t, &opts);
    run_to_end(&t);
    assert_right(&t);
    const muster_code_info *info = muster_code_numbers(t.code);
    assert_true(t.bytes_moved > 0 && t.shards_made <= 16 * info->load);
    toy_fini(&t);
}

static void slow_workers_and_a_stopped_edge_are_not_waited_for(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = under_edges("hier:se=1,sw=1", "4x4", 16, 100);
    toy_init(&t, &opts);
    for (uint32_t edge = 1; edge < 4; edge++) {
        t.slow_ms[toy_worker_host(&t, 4 * edge + 2)] = 200;
    }
    muster_sim_run(t.sim, SECONDS(1) / 2);
    muster_sim_stop(t.sim, toy_edge_host(0));
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.steps_without, 0);
    assert_true(muster_sim_now(t.sim) < SECONDS(5)); // 100 steps of some 20 ms
    toy_fini(&t);
}

static void start_edge(muster_sim *sim, void *context, uint64_t edge)
{
    (void)sim;
    toy_start_edge(context, toy_edge_host((uint32_t)edge), (uint32_t)edge);
}

static void an_edge_that_dies_comes_back_with_its_workers(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = under_edges("hier:se=0,sw=1", "4x4", 16, 200);
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1));
    uint64_t moved = t.bytes_moved;
    muster_sim_kill(t.sim, toy_edge_host(2));
    muster_sim_at(t.sim, SECONDS(4), start_edge, &t, 2);
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.lost, 1);
    assert_int_equal(t.ready, 5);
    assert_int_equal(t.bytes_moved, moved); // workers kept their shards
    toy_fini(&t);
}

/* The edge itself is well, but cannot do without its workers. */
static void an_edge_with_too_few_workers_counts_as_lost(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = under_edges("hier:se=0,sw=1", "4x4", 16, 1000);
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1));
    muster_sim_kill(t.sim, toy_worker_host(&t, 4));
    muster_sim_run(t.sim, SECONDS(2));
    assert_int_equal(t.lost, 0);
    muster_sim_kill(t.sim, toy_worker_host(&t, 5));
    muster_sim_run(t.sim, SECONDS(8));
    assert_int_equal(t.lost, 1);
    uint64_t ends = t.ends;
    toy_start_worker(&t, toy_worker_host(&t, 5), 5);
    muster_sim_run(t.sim, SECONDS(14));
    assert_true(t.ends > ends + 50);
    assert_true(!t.over || t.status == MUSTER_OK);
    toy_fini(&t);
}

static void without_enough_edges_the_run_ends_with_quorum(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = under_edges("hier:se=1,sw=1", "4x4", 16, 1000);
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1));
    for (uint32_t edge = 1; edge < 4; edge++) {
        muster_sim_kill(t.sim, toy_edge_host(edge));
    }
    run_to_end(&t);
    assert_int_equal(t.status, MUSTER_ERR_QUORUM);
    assert_true(t.wrong < 1e-3 && t.snapshots > 0);
    assert_non_null(strstr(t.reason, "edges"));
    muster_sim_run(t.sim, muster_sim_now(t.sim) + SECONDS(60));
    for (uint32_t host = 1; host <= 20; host++) {
        assert_false(muster_sim_is_up(t.sim, host));
    }
    toy_fini(&t);
}

/* Its workers would otherwise have seen later steps than it asks for. */
static void a_resumed_coordinator_takes_the_edges_back(void **state)
{
    (void)state;
    toy t;
    toy_opts opts = under_edges("hier:se=1,sw=1", "4x4", 16, 150);
    toy_init(&t, &opts);
    muster_sim_run(t.sim, SECONDS(1));
    uint64_t moved = t.bytes_moved;
    muster_sim_kill(t.sim, 0);
    start_coordinator_at(&t, SECONDS(3));
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.bytes_moved, moved);
    toy_fini(&t);
}

/* Each worker is sent what it lacks, and no more. */
static void plans_change_under_edges_and_only_missing_shards_move(void **state)
{
    (void)state;
    static const char *const codes[] = {"hier:se=1,sw=1", "hier:se=0,sw=2",
                                        "hier:se=1,sw=0", NULL};
    toy t;
    toy_opts opts = under_edges("hier", "4x4", 16, 120);
    opts.plan_codes = codes;
    opts.shards = 64;
    toy_init(&t, &opts);
    t.slow_ms[toy_worker_host(&t, 5)] = 30;
    muster_sim_run(t.sim, SECONDS(1));
    t.slow_ms[toy_worker_host(&t, 5)] = 0;
    t.slow_ms[toy_worker_host(&t, 9)] = 30;
    run_to_end(&t);
    assert_right(&t);
    assert_int_equal(t.inexact, 0);
    assert_int_equal(t.lost, 0);
    assert_true(t.plan > 2);
    // What a worker holds of one plan it is not sent for the next.
    uint64_t held = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const muster_code_info *info = muster_code_numbers(t.plan_codes[i]);
        held += (uint64_t)info->load * 64 / info->parts;
    }
    assert_true(t.loaded > 16 * 4 && t.loaded < 16 * held * (t.plan + 2) / 3);
    assert_true(t.forgotten > 0);
    toy_fini(&t);
}

/* A run with random faults. */
typedef struct story {
    toy t; // first: its callbacks find the story by it
    muster_rng rng;
    uint32_t first_worker, hosts;
    const char *complaint;
} story;

static int64_t some_ms(story *s, uint64_t low, uint64_t high)
{
    uint64_t ms = low + muster_rng_below(&s->rng, high - low);
    return (int64_t)ms * MUSTER_NS_PER_MS;
}

static void mend_stop(muster_sim *sim, void *context, uint64_t host)
{
    (void)context;
    muster_sim_cont(sim, (uint32_t)host);
}

static void mend_cut(muster_sim *sim, void *context, uint64_t host)
{
    (void)context;
    muster_sim_cut(sim, (uint32_t)host, false);
}

static void mend_kill(muster_sim *sim, void *context, uint64_t value)
{
    story *s = context;
    uint32_t host = (uint32_t)value;
    muster_sim_kill(sim, host);
    if (s->t.over) {
        return;
    }
    if (host == 0) {
        toy_start_coordinator(&s->t);
    } else if (host < s->first_worker) {
        toy_start_edge(&s->t, host, host - 1);
    } else {
        // Some come back under their number, some as strangers.
        bool stranger = muster_rng_below(&s->rng, 3) == 0;
        toy_start_worker(&s->t, host,
                         stranger ? MUSTER_ID_ANY : host - s->first_worker);
    }
}

/* An edge as often as all its workers together. */
static uint32_t some_host(story *s)
{
    bool edge = muster_rng_below(&s->rng, 2) == 0;
    return edge ? 1 + (uint32_t)muster_rng_below(&s->rng, s->t.edges)
                : s->first_worker + (uint32_t)muster_rng_below(
                                        &s->rng, s->hosts - s->first_worker);
}

/* Whom a host is connected to. */
static uint32_t leader_of(const story *s, uint32_t host)
{
    return host < s->first_worker ? 0
                                  : toy_edge_host(muster_hier_edge_of(
                                        s->t.code, host - s->first_worker));
}

static void strike(muster_sim *sim, void *context, uint64_t value)
{
    story *s = context;
    int64_t now = muster_sim_now(sim);
    uint32_t host = some_host(s);
    (void)value;
    uint64_t kinds = s->t.plan_code_count > 0 ? 12 : 10;
    switch (muster_rng_below(&s->rng, kinds)) {
    case 10:
    case 11: // slow from now on, or not any more
        s->t.slow_ms[host] = s->t.slow_ms[host] > 0 ? 0 : 60;
        break;
    case 0: // dies for good
        muster_sim_kill(sim, host);
        break;
    case 1:
    case 2: // dies, is started again
        muster_sim_kill(sim, host);
        muster_sim_at(sim, now + some_ms(s, 1, 3000), mend_kill, s, host);
        break;
    case 3:
    case 4: // stopped for a while, short or long; the coordinator, too
        host = muster_rng_below(&s->rng, 4) == 0 ? 0 : host;
        muster_sim_stop(sim, host);
        muster_sim_at(sim, now + some_ms(s, 1, 6000), mend_stop, s, host);
        break;
    case 5: // the cable
        muster_sim_cut(sim, host, true);
        muster_sim_at(sim, now + some_ms(s, 1, 6000), mend_cut, s, host);
        break;
    case 6: // comes back at once
        muster_sim_break(sim, leader_of(s, host), host);
        break;
    case 7: // hangs; somebody restarts it after a while
        muster_sim_stick(sim, host);
        muster_sim_at(sim, now + some_ms(s, 2000, 15000), mend_kill, s, host);
        break;
    case 8: // leaves, and comes again
        muster_sim_interrupt(sim, host);
        muster_sim_at(sim, now + some_ms(s, 2000, 4000), mend_kill, s, host);
        break;
    default: // the coordinator dies and is resumed
        muster_sim_kill(sim, 0);
        muster_sim_at(sim, now + some_ms(s, 1, 3000), mend_kill, s, 0);
        break;
    }
}

static bool is_settled(const toy *t, uint32_t host)
{
    int64_t since_ns = muster_sim_well_since(t->sim, host);
    return since_ns >= 0 && muster_sim_now(t->sim) - since_ns > SETTLE_NS;
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
            well += is_settled(t, toy_worker_host(t, w));
        }
        whole += is_settled(t, toy_edge_host(edge)) && well >= end - first;
    }
    if (is_settled(t, 0) && whole + numbers.edge_stragglers >= t->edges) {
        s->complaint = "gave up though enough edges were well";
    }
}

static const char *judge(story *s)
{
    toy *t = &s->t;
    if (!t->over) {
        return "hangs: neither finished nor gave up in ten minutes";
    }
    if (t->wrong > 1e-3 || t->off > 1e-1 || t->inexact > 0) {
        return "a step differs from the serial answer";
    }
    if (t->wrong_model > 0) {
        return "a worker computed with a wrong model";
    }
    if (t->disorder) {
        return "steps did not follow each other";
    }
    if (t->miscounted) {
        return "an answer was counted twice, or not at all";
    }
    if (t->rejected > 0) {
        return "an honest edge was rejected";
    }
    if (t->status == MUSTER_OK && t->serial_step != t->steps) {
        return "ended before the last step";
    }
    if (t->status != MUSTER_OK && t->status != MUSTER_ERR_QUORUM) {
        return t->reason;
    }
    // The others must find out that it is over, by word or by patience: first
    // the edges, then their workers.
    muster_sim_run(t->sim, muster_sim_now(t->sim) + SECONDS(90));
    for (uint32_t host = 1; host < s->hosts; host++) {
        if (muster_sim_is_up(t->sim, host)) {
            return "somebody was left running";
        }
    }
    return s->complaint;
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
    toy_opts opts = under_edges(casts[cast].code, casts[cast].topology,
                                casts[cast].workers, 40);
    opts.seed = seed;
    opts.duplicate = chances[muster_rng_below(&rng, 4)] / 2;
    opts.echo = chances[muster_rng_below(&rng, 4)];
    opts.pace = muster_rng_below(&rng, 3) == 0 ? 8 : 1;
    opts.jitter_ns = jitters_ms[muster_rng_below(&rng, 4)] * MUSTER_NS_PER_MS;
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

static void print_line(void *context, const char *line)
{
    (void)context;
    puts(line);
}

typedef struct outcome {
    muster_status status;
    uint32_t plans;
    uint64_t hash, lost, late, twice, echoes;
    const char *complaint;
} outcome;

static outcome tell(uint64_t seed, bool aloud)
{
    static story s; // the callbacks keep its address
    s = (story){.rng = muster_rng_make(seed, 3)};
    bool plans = seed >= PLANS_FROM;
    toy_opts opts = plans ? plot_of_plans(seed - PLANS_FROM) : plot(seed);
    opts.on_trace = aloud ? print_line : NULL;
    toy_init(&s.t, &opts);
    s.first_worker = toy_worker_host(&s.t, 0);
    s.hosts = s.first_worker + opts.workers;
    s.t.on_gave_up = look_who_is_left;
    uint64_t faults = muster_rng_below(&s.rng, 8);
    uint64_t window_ms = (uint64_t)((plans ? 2700 : 1200) * opts.pace);
    for (uint64_t i = 0; i < faults; i++) {
        muster_sim_at(s.t.sim, some_ms(&s, 0, window_ms), strike, &s, 0);
    }
    if (muster_rng_below(&s.rng, 3) == 0) {
        s.t.slow_ms[some_host(&s)] = 60;
    }
    muster_sim_run(s.t.sim, SECONDS(600));
    outcome result = {.complaint = judge(&s)};
    result.status = s.t.status;
    result.plans = s.t.plan;
    result.hash = muster_sim_hash(s.t.sim);
    result.lost = s.t.lost;
    result.late = s.t.late;
    result.twice = s.t.twice;
    result.echoes = s.t.echoes;
    toy_fini(&s.t);
    return result;
}

static uint64_t seed_count(void)
{
    const char *text = getenv("MUSTER_SEEDS");
    uint64_t seeds = text != NULL ? strtoull(text, NULL, 10) : 0;
    return seeds > 0 ? seeds : SEEDS;
}

static void complain(uint64_t seed, const char *what)
{
    fail_msg("seed %llu: %s; replay: build/dev/test_sim_edge %llu",
             (unsigned long long)seed, what, (unsigned long long)seed);
}

static void tell_seeds(uint64_t first)
{
    outcome sum = {0};
    uint64_t seeds = seed_count();
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
    }
    print_message("%llu of %llu runs finished; %u changes of the code, %llu "
                  "edges lost, %llu late messages, %llu twice, %llu echoes "
                  "spoiled\n",
                  (unsigned long long)finished, (unsigned long long)seeds,
                  sum.plans, (unsigned long long)sum.lost,
                  (unsigned long long)sum.late, (unsigned long long)sum.twice,
                  (unsigned long long)sum.echoes);
    // The faults must bite, and must not bite every time.
    assert_true(finished > seeds * 8 / 10 && (finished < seeds || seeds < 200));
    assert_true(sum.lost > seeds / 2 && sum.late > seeds);
    assert_true(sum.twice > seeds / 4 && sum.echoes > seeds);
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
        cmocka_unit_test(steps_are_right_and_one_message_comes_per_edge),
        cmocka_unit_test(shards_pass_through_the_edges),
        cmocka_unit_test(slow_workers_and_a_stopped_edge_are_not_waited_for),
        cmocka_unit_test(an_edge_that_dies_comes_back_with_its_workers),
        cmocka_unit_test(an_edge_with_too_few_workers_counts_as_lost),
        cmocka_unit_test(without_enough_edges_the_run_ends_with_quorum),
        cmocka_unit_test(a_resumed_coordinator_takes_the_edges_back),
        cmocka_unit_test(plans_change_under_edges_and_only_missing_shards_move),
        cmocka_unit_test(every_seed_ends_right_or_says_why),
        cmocka_unit_test(so_does_every_seed_while_plans_change),
        cmocka_unit_test(the_same_seed_is_the_same_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
