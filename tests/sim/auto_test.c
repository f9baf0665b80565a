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

#include "scene.h"

#define SEEDS   150u
#define WORKERS 8u
#define STEPS   90u
/* Who was well for so long is known to be there. */
#define SETTLE_NS SECONDS(9)
#define DEATHS    (WORKERS - 1)

typedef struct story {
    toy t; // first: its callbacks find the story by it
    muster_rng rng;
    bool hopeless;          // DEATHS of them will not come back
    bool gone[WORKERS + 1]; // by host
    bool gave_up_too_early;
} story;

static int64_t some_ms(story *s, uint64_t low, uint64_t high)
{
    uint64_t ms = low + muster_rng_below(&s->rng, high - low);
    return (int64_t)ms * MUSTER_NS_PER_MS;
}

/* Whatever befell the host ends: it is started again. */
static void mend(muster_sim *sim, void *context, uint64_t host)
{
    story *s = context;
    muster_sim_cut(sim, (uint32_t)host, false);
    muster_sim_cont(sim, (uint32_t)host);
    if (s->gone[host] || s->t.over || muster_sim_is_up(sim, (uint32_t)host)) {
        return;
    }
    if (host == 0) {
        toy_start_coordinator(&s->t);
    } else {
        toy_start_worker(&s->t, (uint32_t)host, (uint32_t)host - 1);
    }
}

static void end_for_good(muster_sim *sim, void *context, uint64_t host)
{
    story *s = context;
    s->gone[host] = true;
    muster_sim_kill(sim, (uint32_t)host);
}

static bool is_settled(const toy *t, uint32_t host)
{
    int64_t since_ns = muster_sim_well_since(t->sim, host);
    return since_ns >= 0 && muster_sim_now(t->sim) - since_ns > SETTLE_NS;
}

/* The coordinator says that too few are left. */
static void look_who_is_left(toy *t)
{
    bool all = true;
    for (uint32_t host = 0; host <= WORKERS; host++) {
        all = all && is_settled(t, host);
    }
    ((story *)t)->gave_up_too_early |= all;
}

static void strike(muster_sim *sim, void *context, uint64_t value)
{
    story *s = context;
    uint32_t host = 1 + (uint32_t)muster_rng_below(&s->rng, WORKERS);
    (void)value;
    switch (muster_rng_below(&s->rng, 8)) {
    case 0:
    case 1: // slow from now on, or not any more
        s->t.slow_ms[host] = s->t.slow_ms[host] > 0 ? 0 : 60;
        return;
    case 2:
    case 3:
        muster_sim_kill(sim, host);
        break;
    case 4:
        muster_sim_stop(sim, host);
        break;
    case 5:
        muster_sim_cut(sim, host, true);
        break;
    case 6:
        muster_sim_break(sim, 0, host);
        return;
    default: // resumed, it begins with the first code again
        host = 0;
        muster_sim_kill(sim, host);
        break;
    }
    muster_sim_at(sim, muster_sim_now(sim) + some_ms(s, 1, 4000), mend, s,
                  host);
}

/* All but one of the workers die, at some time. */
static void end_most(story *s)
{
    uint32_t spared = 1 + (uint32_t)muster_rng_below(&s->rng, WORKERS);
    for (uint32_t host = 1; host <= WORKERS; host++) {
        if (host != spared) {
            muster_sim_at(s->t.sim, some_ms(s, 0, 1500), end_for_good, s, host);
        }
    }
}

/* After the coordinator has given up, whoever looks for it gives up too. */
static bool somebody_is_left(const toy *t)
{
    bool left = false;
    muster_sim_run(t->sim, muster_sim_now(t->sim) + SECONDS(60));
    for (uint32_t host = 1; host <= WORKERS; host++) {
        left = left || muster_sim_is_up(t->sim, host);
    }
    return left;
}

/* How often the plan changed; the run went well or lacked workers. */
static uint32_t tell(uint64_t seed, bool *finished_out)
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
    s = (story){.rng = muster_rng_make(seed, 3), .hopeless = seed % 8 == 7};
    toy_opts opts = plain("uncoded", WORKERS, STEPS);
    opts.seed = seed;
    opts.plan_codes = codes + seed % 3;
    opts.shards = 48 + (uint32_t)seed % 5;
    opts.duplicate = seed % 4 == 0 ? 0.05 : 0;
    opts.echo = seed % 5 == 0 ? 0.1 : 0;
    opts.jitter_ns = (int64_t)(seed % 3) * 2 * MUSTER_NS_PER_MS;
    toy_init(&s.t, &opts);
    s.t.on_gave_up = look_who_is_left;
    if (s.hopeless) {
        end_most(&s);
    }
    uint64_t faults = 2 + muster_rng_below(&s.rng, 8);
    for (uint64_t i = 0; i < faults; i++) {
        muster_sim_at(s.t.sim, some_ms(&s, 0, 3000), strike, &s, 0);
    }
    muster_sim_run(s.t.sim, SECONDS(600));
    toy *t = &s.t;
    bool right = t->wrong < 1e-3 && t->off < 1e-1 && t->inexact == 0 &&
                 t->wrong_model < 1e-3 && !t->disorder && !t->miscounted &&
                 !t->premature && t->rejected == 0;
    *finished_out = t->status == MUSTER_OK && t->serial_step == t->steps;
    bool quorum = t->status == MUSTER_ERR_QUORUM && t->snapshots > 0 &&
                  !s.gave_up_too_early && !somebody_is_left(t);
    if (!t->over || !right || (!*finished_out && !quorum) ||
        (s.hopeless && *finished_out)) {
        fail_msg("seed %llu: over %d, right %d, status %d, step %llu of %u: %s",
                 (unsigned long long)seed, t->over, right, (int)t->status,
                 (unsigned long long)t->serial_step, STEPS, t->reason);
    }
    uint32_t plans = t->plan;
    toy_fini(t);
    return plans;
}

static void plans_change_and_every_step_is_right_or_it_says_why(void **state)
{
    (void)state;
    const char *text = getenv("MUSTER_SEEDS");
    uint64_t seeds = text != NULL ? strtoull(text, NULL, 10) : SEEDS;
    uint64_t finished = 0, changes = 0;
    uint64_t hopeless = seeds / 8;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        bool went_well = false;
        uint32_t plans = tell(seed, &went_well);
        changes += plans - (plans > 0);
        finished += went_well;
    }
    print_message("%llu of %llu runs finished; %llu changes of the code\n",
                  (unsigned long long)finished, (unsigned long long)seeds,
                  (unsigned long long)changes);
    assert_true(finished > seeds / 2 && changes > seeds);
    assert_true(finished <= seeds - hopeless);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_change_and_every_step_is_right_or_it_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
