/*
 * auto_test.c -- --code auto with random faults: plans that change again and
 * again, between codes of other lengths, parts, stages and tolerances, while
 * workers die, stop, are cut off and return, coordinators die and are resumed,
 * and messages come late, twice or again. Every step is the serial one, or the
 * run ends with MUSTER_ERR_QUORUM. In every eighth seed seven workers die for
 * good, which no code goes on without: these end so, after a snapshot, and
 * nobody is left running. No run ends so while all workers are well.
 *
 * MUSTER_SEEDS sets how many seeds there are (`make check-all`: 2000).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "faults.h"
#include "scene.h"

#define SEEDS   150u
#define WORKERS 8u
#define STEPS   90u
#define DEATHS  (WORKERS - 1)

typedef struct story {
    faults f;               // first: callbacks find the story by it
    bool hopeless;          // DEATHS of them will not come back
    bool gone[WORKERS + 1]; // by host
} story;

static void start(faults *f, uint32_t host)
{
    if (!((story *)f)->gone[host]) {
        toy_start_worker(&f->t, host, host - 1);
    }
}

static void end_for_good(muster_sim *sim, void *context, uint64_t host)
{
    story *s = context;
    s->gone[host] = true;
    muster_sim_kill(sim, (uint32_t)host);
}

/* The coordinator says that too few are left. */
static void look_who_is_left(toy *t)
{
    bool all = true;
    for (uint32_t host = 0; host <= WORKERS; host++) {
        all = all && is_long_well(t, host);
    }
    if (all) {
        ((story *)t)->f.complaint = "gave up though all workers were well";
    }
}

/* A coordinator that is resumed begins with the first code again. */
static void strike(muster_sim *sim, void *context, uint64_t value)
{
    static const fault_kind kinds[] = {
        FAULT_SLOW,  FAULT_SLOW, FAULT_RESTARTS, FAULT_RESTARTS,
        FAULT_STOPS, FAULT_CUT,  FAULT_BREAKS,   FAULT_RESUMES};
    story *s = context;
    uint32_t host = 1 + (uint32_t)muster_rng_below(&s->f.rng, WORKERS);
    (void)sim;
    (void)value;
    befall(&s->f, host, kinds[muster_rng_below(&s->f.rng, 8)]);
}

/* All but one of the workers die, at some time. */
static void end_most(story *s)
{
    uint32_t spared = 1 + (uint32_t)muster_rng_below(&s->f.rng, WORKERS);
    for (uint32_t host = 1; host <= WORKERS; host++) {
        if (host != spared) {
            muster_sim_at(s->f.t.sim, some_ms(&s->f, 0, 1500), end_for_good, s,
                          host);
        }
    }
}

/* What is wrong with the run; NULL: nothing. Those that look for a coordinator
 * that gave up give up too, within a minute. */
static const char *judge_auto(story *s)
{
    const toy *t = &s->f.t;
    const char *wrong = judge(&s->f, WORKERS, SECONDS(60));
    if (wrong == NULL && t->inexact > 0) {
        wrong = "a step is not exact";
    }
    if (wrong == NULL && t->status == MUSTER_ERR_QUORUM && t->snapshots == 0) {
        wrong = "gave up without a snapshot";
    }
    if (wrong == NULL && t->status == MUSTER_OK && s->hopeless) {
        wrong = "finished though too few were left";
    }
    return wrong;
}

/* How often the plan changed; the run went well or lacked workers. *early grows
 * by the messages that DECODE jobs added. */
static uint32_t tell(uint64_t seed, bool *finished_out, uint64_t *early)
{
    static const char *const codes[] = {"frc:s=1",
                                        "scheduled:s=2,order=cyclic",
                                        "ye-abbe-tuned:s=2,m=2",
                                        "scheduled:s=1,order=staircase",
                                        "uncoded",
                                        "cyclic-mds:s=2",
                                        "frc:s=3",
                                        "heter:s=2,k=24",
                                        "scheduled:s=3,pieces=3,start=now",
                                        "linear:tuned:s=2,m=2",
                                        NULL};
    static story s; // the callbacks keep its address
    s = (story){.f = {.rng = muster_rng_make(seed, 3), .start = start},
                .hopeless = seed % 8 == 7};
    toy_opts opts = plain("uncoded", WORKERS, STEPS);
    opts.seed = seed;
    opts.plan_codes = codes + seed % 3;
    opts.shards = 48 + (uint32_t)seed % 5;
    opts.duplicate = seed % 4 == 0 ? 0.05 : 0;
    opts.echo = seed % 5 == 0 ? 0.1 : 0;
    opts.jitter_ns = (int64_t)(seed % 3) * 2 * MUSTER_NS_PER_MS;
    opts.begun_bytes = seed / 8 % 2; // all payloads, or none
    toy_init(&s.f.t, &opts);
    s.f.t.on_gave_up = look_who_is_left;
    if (s.hopeless) {
        end_most(&s);
    }
    uint64_t count = 2 + muster_rng_below(&s.f.rng, 8);
    for (uint64_t i = 0; i < count; i++) {
        muster_sim_at(s.f.t.sim, some_ms(&s.f, 0, 3000), strike, &s, 0);
    }
    muster_sim_run(s.f.t.sim, SECONDS(600));
    toy *t = &s.f.t;
    const char *wrong = judge_auto(&s);
    if (wrong != NULL) {
        fail_msg("seed %llu, step %llu of %u: %s", (unsigned long long)seed,
                 (unsigned long long)t->serial_step, STEPS, wrong);
    }
    *finished_out = t->status == MUSTER_OK;
    *early += t->early.used;
    uint32_t plans = t->plan;
    toy_fini(t);
    return plans;
}

static void plans_change_and_every_step_is_right_or_it_says_why(void **state)
{
    (void)state;
    uint64_t seeds = seed_count("MUSTER_SEEDS", SEEDS);
    uint64_t finished = 0, changes = 0, early = 0;
    uint64_t hopeless = seeds / 8;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        bool went_well = false;
        uint32_t plans = tell(seed, &went_well, &early);
        changes += plans - (plans > 0);
        finished += went_well;
    }
    print_message("%llu of %llu runs finished; %llu changes of the code, %llu "
                  "messages decoded early\n",
                  (unsigned long long)finished, (unsigned long long)seeds,
                  (unsigned long long)changes, (unsigned long long)early);
    assert_true(finished > seeds / 2 && changes > seeds);
    assert_true(early > seeds || seeds < 16);
    assert_true(finished <= seeds - hopeless);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_change_and_every_step_is_right_or_it_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
