/*
 * sim_test.c -- a thousand histories of twenty workers with random faults.
 *
 * Every code that training accepts, with and without shuffling, degrading and
 * deadlines; workers that die, stop, hang, are cut off, leave, come late, come
 * back under their number or another, and spares that wait for a place;
 * coordinators that stop, or die and resume; duplicates, and echoes of earlier
 * steps and lives. Proved for each seed:
 *
 *   Training ends with theta equal to the serial answer, exactly, at every step
 *   (or, where the step was reported as inexact, no further off than its
 *   grad_err and the parts missing say); every model that a worker computes
 *   with is right; steps follow each other; no honest worker is rejected.
 *   Whoever has been well for long enough counts again (watch.h). Or it ends
 *   with MUSTER_ERR_QUORUM, and when that was decided, those that were well
 *   for long enough did not suffice.
 *   Nobody is left running; the same seed gives the same history.
 *
 * A failing seed prints the command that replays it with a trace. MUSTER_SEEDS
 * sets how many there are, MUSTER_STAGED_SEEDS how many with codes in stages.
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

#include "cast.h"
#include "code/numbers.h"
#include "faults.h"
#include "muster/code_report.h"
#include "muster/config.h"
#include "watch.h"

#define SEEDS        1000u // unless MUSTER_SEEDS says otherwise
#define STAGED_SEEDS 300u  // likewise
#define SPARES       2u

typedef struct story {
    faults f; // first: callbacks find the story by it
    watch watch;
    double pace;
} story;

typedef struct outcome {
    muster_status status;
    uint64_t hash, events, steps, lost, late;
    uint64_t inexact, degraded, plans, forgotten, twice, echoes;
    uint64_t decodes, early; // DECODE jobs, and messages that they added
    const char *complaint;   // NULL: all is well
} outcome;

static void start(faults *f, uint32_t host)
{
    bool stranger = host > f->t.workers || is_stranger(f);
    toy_start_worker(&f->t, host, stranger ? MUSTER_ID_ANY : host - 1);
}

static void strike(muster_sim *sim, void *context, uint64_t value)
{
    static const fault_kind kinds[] = {
        FAULT_DIES,   FAULT_RESTARTS, FAULT_RESTARTS, FAULT_STOPS,
        FAULT_CUT,    FAULT_BREAKS,   FAULT_BREAKS,   FAULT_HANGS,
        FAULT_LEAVES, FAULT_RESUMES,  FAULT_DIES};
    faults *f = context;
    uint32_t host = 1 + (uint32_t)muster_rng_below(&f->rng, f->t.workers);
    (void)sim;
    (void)value;
    befall(f, host, kinds[muster_rng_below(&f->rng, 11)]);
}

/* A line that is bad: the worker comes back at once. */
static void flap(muster_sim *sim, void *context, uint64_t host)
{
    (void)context;
    muster_sim_break(sim, 0, (uint32_t)host);
}

/* The coordinator says that too few are left; nobody knows of it yet. */
static void look_who_is_left(toy *t)
{
    story *s = (story *)t;
    if (watch_enough_are_settled(&s->watch, t)) {
        s->f.complaint = "gave up though enough workers were well";
    }
}

static void look_who_is_back(toy *t)
{
    story *s = (story *)t;
    if (!watch_all_are_back(&s->watch, t)) {
        s->f.complaint = "a worker that was well for long did not count";
    }
}

/* Everything of a seed that is not a fault: code, shuffle, and so on. */
static toy_opts plot(uint64_t seed)
{
    static const char *const shuffles[] = {NULL, "rotate:1", "targeted",
                                           "rotate:5", "none"};
    static const int64_t jitters_ms[] = {0, 2, 4, 40};
    static const double paces[] = {1, 1, 4, 16};
    static const double chances[] = {0, 0, 0.05, 0.2};
    muster_rng rng = muster_rng_make(seed, 4);
    size_t cast = cast_of(seed);
    toy_opts opts = {.seed = seed,
                     .code = casts[cast].code,
                     .made = code_of(cast),
                     .workers = casts[cast].workers,
                     .spares = SPARES,
                     .steps = 40};
    double more = seed < SMALL_FIRST ? 1 : 3;
    opts.duplicate = more * chances[muster_rng_below(&rng, 4)] / 2;
    opts.echo = more * chances[muster_rng_below(&rng, 4)];
    opts.pace = paces[muster_rng_below(&rng, 4)];
    opts.jitter_ns = jitters_ms[muster_rng_below(&rng, 4)] * MUSTER_NS_PER_MS;
    opts.bytes_per_s = muster_rng_below(&rng, 7) == 0 ? 2e4 : 0;
    opts.shuffle = shuffles[muster_rng_below(&rng, 5)];
    uint64_t loss = muster_rng_below(&rng, 3);
    opts.degrade = loss == 1;
    if (loss == 2) {
        opts.deadline_ns = (int64_t)(14 * opts.pace * 1e6);
    }
    // Parts of equal numbers of shards, or not.
    uint32_t parts = muster_code_numbers(opts.made)->parts;
    opts.shards = parts * (1 + (uint32_t)muster_rng_below(&rng, 3));
    opts.shards += (uint32_t)muster_rng_below(&rng, 2) * (parts / 3);
    if (seed >= STAGED_FIRST && opts.workers == 20 && loss == 0) {
        static const char *const changes[] = {NULL, "frc:s=3",
                                              "scheduled:s=2,pieces=2"};
        opts.change_code = changes[muster_rng_below(&rng, 3)];
        opts.change_step = 5 + muster_rng_below(&rng, 20);
    }
    opts.begun_bytes = muster_rng_below(&rng, 2); // all payloads, or none
    return opts;
}

/* Faults, late comers and spares. */
static void stir(story *s)
{
    uint64_t slow = muster_rng_below(&s->f.rng, 4);
    for (uint64_t i = 0; i < slow; i++) {
        s->f.t.slow_ms[1 + muster_rng_below(&s->f.rng, s->f.t.workers)] = 60;
    }
    uint64_t window_ms = (uint64_t)(700 * s->pace);
    uint64_t strikes = muster_rng_below(&s->f.rng, s->f.t.workers / 2 + 1);
    for (uint64_t i = 0; i < strikes; i++) {
        muster_sim_at(s->f.t.sim, some_ms(&s->f, 0, window_ms), strike, s, 0);
    }
    uint64_t flaps = s->f.t.workers <= 4 ? muster_rng_below(&s->f.rng, 8) : 0;
    for (uint64_t i = 0; i < flaps; i++) {
        uint64_t host = 1 + muster_rng_below(&s->f.rng, s->f.t.workers);
        muster_sim_at(s->f.t.sim, some_ms(&s->f, 0, window_ms), flap, s, host);
    }
    uint64_t late = muster_rng_below(&s->f.rng, 4) == 0 ? 3 : 0;
    for (uint64_t i = 0; i < late; i++) {
        uint64_t host = 1 + muster_rng_below(&s->f.rng, s->f.t.workers);
        muster_sim_kill(s->f.t.sim, (uint32_t)host);
        muster_sim_at(s->f.t.sim, some_ms(&s->f, 1, 5000), mend_kill, s, host);
    }
    uint64_t spares = muster_rng_below(&s->f.rng, 4) == 0 ? SPARES : 0;
    for (uint64_t i = 1; i <= spares; i++) {
        muster_sim_at(s->f.t.sim, some_ms(&s->f, 1, window_ms), mend_kill, s,
                      s->f.t.workers + i);
    }
    s->watch.hosts = s->f.t.workers + (uint32_t)spares;
}

static outcome tell(uint64_t seed, bool aloud)
{
    static story s; // the callbacks keep its address
    s = (story){.f = {.rng = muster_rng_make(seed, 3), .start = start}};
    toy_opts opts = plot(seed);
    opts.on_trace = aloud ? print_line : NULL;
    toy_init(&s.f.t, &opts);
    s.pace = opts.pace;
    // To notice (2.5 s), to try again (2 s), and to be given what is lacking:
    // some forty messages.
    s.watch.settle_ns = SECONDS(5) + 80 * opts.jitter_ns +
                        (opts.bytes_per_s > 0 ? SECONDS(3) : 0);
    s.f.t.on_gave_up = look_who_is_left;
    s.f.t.on_step_end = look_who_is_back;
    stir(&s);
    muster_sim_run(s.f.t.sim, SECONDS(600));
    outcome result = {.complaint =
                          judge(&s.f, s.f.t.workers + SPARES, SECONDS(60))};
    result.status = s.f.t.status;
    result.hash = muster_sim_hash(s.f.t.sim);
    result.events = muster_sim_events(s.f.t.sim);
    result.steps = s.f.t.ends;
    result.lost = s.f.t.lost;
    result.late = s.f.t.late;
    result.inexact = s.f.t.inexact;
    result.degraded = s.f.t.degraded;
    result.plans = s.f.t.plan;
    result.forgotten = s.f.t.forgotten;
    result.twice = s.f.t.twice;
    result.echoes = s.f.t.echoes;
    result.decodes = s.f.t.early.asked;
    result.early = s.f.t.early.used;
    toy_fini(&s.f.t);
    return result;
}

/* A broken belief of our own ends the program: say how to see it again. */
static volatile sig_atomic_t seed_told;

static void say_seed(int signal_number)
{
    char text[64] = "replay: build/dev/test_sim_sim ";
    size_t length = strlen(text);
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

/* So many histories; returns how many runs finished. */
static uint64_t tell_all(uint64_t first, uint64_t count, outcome *sum)
{
    uint64_t finished = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        seed_told = (sig_atomic_t)seed;
        outcome result = tell(seed, false);
        if (result.complaint != NULL) {
            complain(seed, result.complaint);
        }
        sum->events += result.events;
        sum->lost += result.lost;
        sum->late += result.late;
        sum->inexact += result.inexact;
        sum->degraded += result.degraded;
        sum->plans += result.plans;
        sum->forgotten += result.forgotten;
        sum->twice += result.twice;
        sum->echoes += result.echoes;
        sum->decodes += result.decodes;
        sum->early += result.early;
        finished += result.status == MUSTER_OK;
    }
    print_message(
        "%llu of %llu runs finished; %llu events, %llu losses, %llu late "
        "answers, %llu inexact steps, %llu of them degraded, %llu plans, %llu "
        "parts forgotten, %llu answers twice, %llu echoes spoiled, %llu "
        "decodings begun early, of %llu messages\n",
        (unsigned long long)finished, (unsigned long long)count,
        (unsigned long long)sum->events, (unsigned long long)sum->lost,
        (unsigned long long)sum->late, (unsigned long long)sum->inexact,
        (unsigned long long)sum->degraded, (unsigned long long)sum->plans,
        (unsigned long long)sum->forgotten, (unsigned long long)sum->twice,
        (unsigned long long)sum->echoes, (unsigned long long)sum->decodes,
        (unsigned long long)sum->early);
    return finished;
}

static void every_seed_ends_right_or_says_why(void **state)
{
    (void)state;
    outcome sum = {0};
    uint64_t seeds = seed_count("MUSTER_SEEDS", SEEDS);
    uint64_t finished = tell_all(0, seeds, &sum);
    // The faults must bite, and must not bite every time: fewer finish when
    // workers that return are not taken back.
    double few = 0.95 * (double)seeds - sqrt((double)seeds) / 2;
    assert_true((double)finished > few && (finished < seeds || seeds < 200));
    assert_true(sum.lost > seeds && sum.late > seeds);
    assert_true(sum.inexact > seeds && sum.degraded > seeds / 10);
    assert_true(sum.plans > 2 * seeds && sum.forgotten > 10 * seeds);
    assert_true(sum.twice > seeds && sum.echoes > 10 * seeds);
    assert_true(sum.decodes > seeds && sum.early > seeds);
}

/* Where a part soon comes back to the same worker, and a plan in which
 * everybody must answer follows another. */
static void every_small_crew_ends_right_or_says_why(void **state)
{
    (void)state;
    outcome sum = {0};
    uint64_t seeds = seed_count("MUSTER_SEEDS", SEEDS);
    uint64_t finished = tell_all(SMALL_FIRST, seeds, &sum);
    double few = 0.95 * (double)seeds - sqrt((double)seeds) / 2;
    assert_true((double)finished > few && (finished < seeds || seeds < 200));
    assert_true(sum.plans > 2 * seeds && sum.echoes > seeds);
}

/* Late stages, stages twice, and plans that change under them. */
static void every_run_in_stages_ends_right_or_says_why(void **state)
{
    (void)state;
    outcome sum = {0};
    uint64_t seeds = seed_count("MUSTER_STAGED_SEEDS", STAGED_SEEDS);
    uint64_t finished = tell_all(STAGED_FIRST, seeds, &sum);
    double few = 0.95 * (double)seeds - sqrt((double)seeds) / 2;
    assert_true((double)finished > few);
    assert_true(sum.lost > seeds && sum.twice > seeds);
    assert_true(sum.plans > 2 * seeds && sum.echoes > seeds);
}

/* Found beyond the seeds above. 1001992: a shard that was announced and sent as
 * well came back to the coordinator's list after its FORGET. */
static void seeds_that_once_failed_end_right(void **state)
{
    (void)state;
    static const uint64_t seeds[] = {1001992};
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
        outcome sum = {0};
        (void)tell_all(seeds[i], 1, &sum);
    }
}

static void the_same_seed_is_the_same_history(void **state)
{
    (void)state;
    uint64_t previous = 0;
    for (uint64_t i = 0; i < 48; i++) {
        uint64_t seed = i < 40 ? 25 * i : STAGED_FIRST + i;
        outcome once = tell(seed, false);
        outcome again = tell(seed, false);
        if (once.hash != again.hash || once.events != again.events) {
            complain(seed, "two histories");
        }
        assert_true(once.hash != previous);
        previous = once.hash;
    }
}

static void the_seeds_have_every_code_of_the_list(void **state)
{
    (void)state;
    char *list = muster_code_list_text(false);
    assert_non_null(list);
    size_t count = 0;
    char *rest = NULL;
    (void)strtok_r(list, "\n", &rest); // the head of the table
    for (char *line; (line = strtok_r(NULL, "\n", &rest)) != NULL; count++) {
        size_t length = strcspn(line, " ");
        bool found = false;
        for (size_t i = 0; i < CASTS - SMALL && !found; i++) {
            const char *name = casts[i].code;
            found = strncmp(name, line, length) == 0 &&
                    (name[length] == 0 || strchr(":=", name[length]) != NULL);
        }
        if (!found) {
            fail_msg("no seed has the code of the line: %s", line);
        }
    }
    assert_true(count >= 20);
    muster_config_text_free(list);
}

int main(int argc, char **argv)
{
    signal(SIGABRT, say_seed);
    if (argc > 1) {
        uint64_t seed = strtoull(argv[1], NULL, 10);
        if (write_generator(NULL) != 0) {
            return 1;
        }
        seed_told = (sig_atomic_t)seed;
        outcome result = tell(seed, true);
        printf("seed %llu: %s, hash %016llx, %llu steps, %llu lost: %s\n",
               (unsigned long long)seed, muster_status_name(result.status),
               (unsigned long long)result.hash,
               (unsigned long long)result.steps,
               (unsigned long long)result.lost,
               result.complaint != NULL ? result.complaint : "all is well");
        return free_codes(NULL) != 0 || result.complaint != NULL;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_seeds_have_every_code_of_the_list),
        cmocka_unit_test(every_seed_ends_right_or_says_why),
        cmocka_unit_test(every_small_crew_ends_right_or_says_why),
        cmocka_unit_test(every_run_in_stages_ends_right_or_says_why),
        cmocka_unit_test(seeds_that_once_failed_end_right),
        cmocka_unit_test(the_same_seed_is_the_same_history),
    };
    return cmocka_run_group_tests(tests, write_generator, free_codes);
}
