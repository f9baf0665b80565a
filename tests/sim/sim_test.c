/*
 * sim_test.c -- a thousand histories of twenty workers with random faults.
 *
 * Codes exact and approximate, with and without shuffling, degrading and
 * deadlines. Proved for each seed: training ends with theta equal to the serial
 * answer, exactly, at every step (or, where the step was reported as inexact,
 * no further off than its grad_err and the parts missing say); or with
 * MUSTER_ERR_QUORUM, and then not while every worker was well for as long as
 * the patience; nobody is left running; the same seed gives the same history.
 *
 * A failing seed prints the command that replays it with a trace. MUSTER_SEEDS
 * sets how many there are.
 */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "toy.h"

#define SEEDS   1000u // unless MUSTER_SEEDS says otherwise
#define WORKERS 20u
#define FAULTS  10u

typedef struct story {
    toy t;
    muster_rng rng;
    int64_t trouble_ns; // when the last fault, or its mending, happened
} story;

typedef struct outcome {
    muster_status status;
    uint64_t hash, events, steps, lost, late;
    uint64_t inexact, degraded, plans, forgotten;
    const char *complaint; // NULL: all is well
} outcome;

static int64_t some_ms(story *s, uint64_t low, uint64_t high)
{
    uint64_t ms = low + muster_rng_below(&s->rng, high - low);
    return (int64_t)ms * MUSTER_NS_PER_MS;
}

/* Mending: what a fault schedules for later. */
static void mend_stop(muster_sim *sim, void *context, uint64_t host)
{
    ((story *)context)->trouble_ns = muster_sim_now(sim);
    muster_sim_cont(sim, (uint32_t)host);
}

static void mend_cut(muster_sim *sim, void *context, uint64_t host)
{
    ((story *)context)->trouble_ns = muster_sim_now(sim);
    muster_sim_cut(sim, (uint32_t)host, false);
}

static void mend_kill(muster_sim *sim, void *context, uint64_t host)
{
    story *s = context;
    s->trouble_ns = muster_sim_now(sim);
    if (muster_sim_is_up(sim, (uint32_t)host)) {
        muster_sim_kill(sim, (uint32_t)host);
    }
    if (s->t.over) {
        return;
    }
    if (host == 0) {
        toy_start_coordinator(&s->t);
    } else {
        // Some come back under their number, some as strangers.
        bool stranger = muster_rng_below(&s->rng, 3) == 0;
        toy_start_worker(&s->t, (uint32_t)host,
                         stranger ? MUSTER_ID_ANY : (uint32_t)host - 1);
    }
}

static void strike(muster_sim *sim, void *context, uint64_t value)
{
    story *s = context;
    int64_t now = muster_sim_now(sim);
    uint32_t host = 1 + (uint32_t)muster_rng_below(&s->rng, WORKERS);
    s->trouble_ns = now;
    (void)value;
    switch (muster_rng_below(&s->rng, 8)) {
    case 0: // dies for good
        muster_sim_kill(sim, host);
        break;
    case 1:
    case 2: // dies, is started again
        muster_sim_kill(sim, host);
        muster_sim_at(sim, now + some_ms(s, 1, 3000), mend_kill, s, host);
        break;
    case 3: // stopped for a while, short or long
        muster_sim_stop(sim, host);
        muster_sim_at(sim, now + some_ms(s, 1, 6000), mend_stop, s, host);
        break;
    case 4: // the cable
        muster_sim_cut(sim, host, true);
        muster_sim_at(sim, now + some_ms(s, 1, 6000), mend_cut, s, host);
        break;
    case 5:
        muster_sim_break(sim, 0, host);
        break;
    case 6: // hangs; somebody restarts it after a while
        muster_sim_stick(sim, host);
        muster_sim_at(sim, now + some_ms(s, 2000, 15000), mend_kill, s, host);
        break;
    default: // the coordinator dies and is resumed
        muster_sim_kill(sim, 0);
        muster_sim_at(sim, now + some_ms(s, 1, 3000), mend_kill, s, 0);
        break;
    }
}

static const char *judge(story *s)
{
    toy *t = &s->t;
    int64_t now = muster_sim_now(t->sim);
    if (!t->over) {
        return "neither finished nor gave up";
    }
    if (t->wrong > 1e-3 || t->off > 1e-1) {
        return "a step differs from the serial answer";
    }
    if (t->loose > 1e-2) {
        return "a step is further off than its residual says";
    }
    if (t->status == MUSTER_OK && t->serial_step != t->steps) {
        return "ended before the last step";
    }
    if (t->status != MUSTER_OK && t->status != MUSTER_ERR_QUORUM) {
        return t->reason;
    }
    // The others must find out that it is over, by word or by patience.
    muster_sim_run(t->sim, now + 60 * MUSTER_NS_PER_S);
    for (uint32_t host = 1; host <= WORKERS; host++) {
        if (muster_sim_is_up(t->sim, host)) {
            return "a worker was left running";
        }
    }
    return NULL;
}

static void print_line(void *context, const char *line)
{
    (void)context;
    puts(line);
}

/* Everything of a seed that is not chance: code, shuffle, and so on. */
static toy_opts plot(uint64_t seed)
{
    static const char *const codes[] = {
        "frc:s=3",         "frc:s=1", "uncoded",        "frc:s=4",
        "linear:spc",      "crc:s=2", "ignore",         "cyclic-mds:s=3",
        "bgc:d=3",         "frc:s=3", "graph:degree=4", "heter-group:s=1",
        "erasurehead:d=4",
    };
    static const char *const shuffles[] = {NULL, "rotate:1", "targeted",
                                           "rotate:5", "none"};
    static const int64_t jitters_ms[] = {0, 2, 4, 40};
    toy_opts opts = {.seed = seed,
                     .code = codes[seed % (sizeof(codes) / sizeof(codes[0]))],
                     .workers = WORKERS,
                     .steps = 40,
                     .duplicate = seed % 4 == 0 ? 0.05 : 0,
                     .jitter_ns = jitters_ms[seed / 2 % 4] * MUSTER_NS_PER_MS,
                     .bytes_per_s = seed % 7 == 3 ? 2e4 : 0,
                     .shuffle = shuffles[seed / 13 % 5],
                     .degrade = seed / 65 % 3 == 1};
    bool approximate = opts.code[0] == 'i' || opts.code[0] == 'b' ||
                       opts.code[0] == 'g' || opts.code[0] == 'e';
    if (approximate && seed / 65 % 3 == 2) {
        opts.deadline_ns = 14 * MUSTER_NS_PER_MS;
    }
    return opts;
}

static outcome tell(uint64_t seed, bool aloud)
{
    story s = {.rng = muster_rng_make(seed, 3)};
    toy_opts opts = plot(seed);
    opts.on_trace = aloud ? print_line : NULL;
    toy_init(&s.t, &opts);
    for (uint32_t i = 0; i < seed / 5 % 4; i++) {
        s.t.slow_ms[1 + muster_rng_below(&s.rng, WORKERS)] = 60;
    }
    uint64_t faults = muster_rng_below(&s.rng, FAULTS + 1);
    for (uint64_t i = 0; i < faults; i++) {
        muster_sim_at(s.t.sim, some_ms(&s, 0, 900), strike, &s, 0);
    }
    muster_sim_run(s.t.sim, 600 * MUSTER_NS_PER_S);
    outcome result = {.complaint = judge(&s)};
    result.status = s.t.status;
    result.hash = muster_sim_hash(s.t.sim);
    result.events = muster_sim_events(s.t.sim);
    result.steps = s.t.ends;
    result.lost = s.t.lost;
    result.late = s.t.late;
    result.inexact = s.t.inexact;
    result.degraded = s.t.degraded;
    result.plans = s.t.plan;
    result.forgotten = s.t.forgotten;
    toy_fini(&s.t);
    return result;
}

/* A broken belief of our own ends the program: say in which seed. */
static volatile sig_atomic_t seed_told;

static void say_seed(int signal_number)
{
    char text[24] = "seed ";
    size_t length = 5;
    char digits[12];
    size_t count = 0;
    int seed = seed_told;
    do {
        digits[count++] = (char)('0' + seed % 10);
        seed /= 10;
    } while (seed > 0 && count < sizeof(digits));
    while (count > 0) {
        text[length++] = digits[--count];
    }
    text[length++] = '\n';
    ssize_t wrote = write(STDERR_FILENO, text, length);
    (void)wrote;
    (void)signal_number;
}

static void complain(uint64_t seed, const char *what)
{
    fail_msg("seed %llu: %s; replay: build/dev/test_sim_sim %llu",
             (unsigned long long)seed, what, (unsigned long long)seed);
}

static uint64_t seed_count(void)
{
    const char *text = getenv("MUSTER_SEEDS");
    uint64_t seeds = text != NULL ? strtoull(text, NULL, 10) : 0;
    return seeds > 0 ? seeds : SEEDS;
}

static void every_seed_ends_right_or_says_why(void **state)
{
    (void)state;
    outcome sum = {0};
    uint64_t finished = 0;
    uint64_t seeds = seed_count();
    for (uint64_t seed = 0; seed < seeds; seed++) {
        seed_told = (sig_atomic_t)seed;
        outcome result = tell(seed, false);
        if (result.complaint != NULL) {
            complain(seed, result.complaint);
        }
        sum.events += result.events;
        sum.lost += result.lost;
        sum.late += result.late;
        sum.inexact += result.inexact;
        sum.degraded += result.degraded;
        sum.plans += result.plans;
        sum.forgotten += result.forgotten;
        finished += result.status == MUSTER_OK;
    }
    print_message(
        "%llu of %llu runs finished; %llu events, %llu losses, %llu late "
        "answers, %llu inexact steps, %llu of them degraded, %llu plans, %llu "
        "parts forgotten\n",
        (unsigned long long)finished, (unsigned long long)seeds,
        (unsigned long long)sum.events, (unsigned long long)sum.lost,
        (unsigned long long)sum.late, (unsigned long long)sum.inexact,
        (unsigned long long)sum.degraded, (unsigned long long)sum.plans,
        (unsigned long long)sum.forgotten);
    // The faults must bite, and must not bite every time.
    // Far fewer finish when workers that return are not taken back.
    assert_true(finished > seeds * 9 / 10 && finished < seeds);
    assert_true(sum.lost > seeds && sum.late > seeds);
    assert_true(sum.inexact > seeds && sum.degraded > seeds / 10);
    assert_true(sum.plans > 2 * seeds && sum.forgotten > 10 * seeds);
}

static void the_same_seed_is_the_same_history(void **state)
{
    (void)state;
    uint64_t previous = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed += 25) {
        outcome once = tell(seed, false);
        outcome again = tell(seed, false);
        if (once.hash != again.hash || once.events != again.events) {
            complain(seed, "two histories");
        }
        assert_true(once.hash != previous);
        previous = once.hash;
    }
}

int main(int argc, char **argv)
{
    signal(SIGABRT, say_seed);
    if (argc > 1) {
        uint64_t seed = strtoull(argv[1], NULL, 10);
        outcome result = tell(seed, true);
        printf("seed %llu: %s, hash %016llx, %llu steps, %llu lost: %s\n",
               (unsigned long long)seed, muster_status_name(result.status),
               (unsigned long long)result.hash,
               (unsigned long long)result.steps,
               (unsigned long long)result.lost,
               result.complaint != NULL ? result.complaint : "all is well");
        return result.complaint != NULL;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_seed_ends_right_or_says_why),
        cmocka_unit_test(the_same_seed_is_the_same_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
