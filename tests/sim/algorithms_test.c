/*
 * algorithms_test.c -- local:H, ssp:BOUND, async and gossip under random
 * faults, computed exactly.
 *
 * Each seed draws workers that are killed and started again, stopped and
 * continued, or slow for a while, messages that come twice or again much later,
 * and a latency. Proved for each: the run goes on and does all its steps, and
 * the loss at its end is within 1 % of that of the same run without faults.
 *
 * A failing seed prints the command that replays it. MUSTER_SEEDS sets how many
 * there are for each algorithm.
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

#include "base/log.h"
#include "base/rng.h"
#include "run/simulation.h"

#define SEEDS      25u
#define STEPS      160u
#define LAST_STEP  100u // by which every fault has ended
#define FLAGS_MAX  48u
#define FLAG_BYTES 64u
#define FAULTS_MAX 3u
#define TOLERANCE  0.01

/* The options of a run, as `muster simulate` has them. */
typedef struct flag_list {
    char text[FLAGS_MAX][FLAG_BYTES];
    const char *list[FLAGS_MAX];
    int count;
} flag_list;

typedef struct outcome {
    muster_status status;
    double loss;
    uint64_t steps, losses;
    char reason[256];
} outcome;

static void add(flag_list *flags, const char *name, const char *value)
{
    assert_true(flags->count + 2 <= (int)FLAGS_MAX);
    for (int i = 0; i < 2; i++) {
        char *text = flags->text[flags->count];
        snprintf(text, FLAG_BYTES, "%s", i == 0 ? name : value);
        flags->list[flags->count++] = text;
    }
}

static void add_number(flag_list *flags, const char *name, uint64_t value)
{
    char text[FLAG_BYTES];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    add(flags, name, text);
}

/* "2@17", or "2:300ms@17". */
static void add_fault(flag_list *flags, const char *name, uint32_t worker,
                      const char *what, uint64_t step)
{
    char text[FLAG_BYTES];
    snprintf(text, sizeof(text), "%u%s@%llu", worker, what,
             (unsigned long long)step);
    add(flags, name, text);
}

static void set_scene(flag_list *flags, const char *algorithm, uint32_t workers)
{
    *flags = (flag_list){.count = 0};
    add(flags, "--data",
        "synthetic:samples=400,features=6,classes=3,seed=5,test=0");
    add(flags, "--algorithm", algorithm);
    add_number(flags, "--workers", workers);
    add_number(flags, "--steps", STEPS);
    add(flags, "--model", "softmax");
    add(flags, "--optimizer", "sgd");
    add(flags, "--batch", "200");
    add(flags, "--lr", "0.2");
    add(flags, "--l2", "0.02");
    add(flags, "--compute", "40ms");
    add(flags, "--placement", "proportional-stratified");
}

/* A fault that begins and ends. Workers have at most one, so that somebody is
 * always there. */
static void add_trouble(flag_list *flags, muster_rng *rng, uint32_t worker)
{
    uint64_t begin = 1 + muster_rng_below(rng, LAST_STEP / 2);
    uint64_t end = begin + 1 + muster_rng_below(rng, LAST_STEP / 2);
    switch (muster_rng_below(rng, 3)) {
    case 0:
        add_fault(flags, "--kill", worker, "", begin);
        add_fault(flags, "--rejoin", worker, "", end);
        break;
    case 1:
        add_fault(flags, "--stop", worker, "", begin);
        add_fault(flags, "--cont", worker, "", end);
        break;
    default:
        add_fault(flags, "--slow", worker,
                  muster_rng_below(rng, 2) == 0 ? ":300ms" : ":5x", begin);
        add_fault(flags, "--slow", worker, ":0", end);
        break;
    }
}

static uint32_t plot(flag_list *flags, const char *algorithm, uint64_t seed,
                     muster_rng *rng)
{
    static const char *const latencies[] = {"50us", "5ms", "60ms"};
    uint32_t workers = 4 + (uint32_t)(seed % 3);
    uint64_t troubles = 1 + muster_rng_below(rng, FAULTS_MAX);
    uint32_t first = (uint32_t)muster_rng_below(rng, workers);
    set_scene(flags, algorithm, workers);
    add_number(flags, "--seed", seed);
    add(flags, "--latency", latencies[muster_rng_below(rng, 3)]);
    for (uint32_t i = 0; i < troubles; i++) {
        add_trouble(flags, rng, (first + i) % workers);
    }
    return workers;
}

static muster_config *configure(const flag_list *flags)
{
    muster_config *config = NULL;
    muster_error error = {0};
    assert_int_equal(muster_config_create("simulate", &config), MUSTER_OK);
    muster_status status =
        muster_config_parse(config, flags->count, flags->list, &error);
    if (status == MUSTER_OK) {
        status = muster_config_check(config, &error);
    }
    if (status != MUSTER_OK) {
        fail_msg("%s", error.text);
    }
    return config;
}

static outcome play(const flag_list *flags, double duplicate, double echo)
{
    muster_config *config = configure(flags);
    muster_error error = {0};
    muster_simulation simulation;
    muster_virtual run;
    outcome result = {.loss = NAN};
    result.status =
        muster_simulation_init(&simulation, config, "uncoded", &error);
    assert_int_equal(result.status, MUSTER_OK);
    simulation.opts.duplicate = duplicate;
    simulation.opts.echo = echo;
    assert_int_equal(muster_virtual_init(&run, &simulation.opts, &error),
                     MUSTER_OK);
    result.status = muster_virtual_run(&run, &error);
    if (result.status == MUSTER_OK) {
        result.status = run.status;
    }
    result.loss = run.loss;
    result.steps = run.steps_done;
    result.losses = run.losses;
    snprintf(result.reason, sizeof(result.reason), "%.200s",
             error.text[0] != 0 ? error.text : run.reason);
    muster_virtual_fini(&run);
    muster_simulation_fini(&simulation);
    muster_config_free(config);
    return result;
}

/* The loss of the same run without faults. */
static double calm_loss(const char *algorithm, uint32_t workers)
{
    flag_list flags;
    set_scene(&flags, algorithm, workers);
    outcome result = play(&flags, 0, 0);
    assert_int_equal(result.status, MUSTER_OK);
    return result.loss;
}

static const char *judge(const outcome *result, double calm, char *text,
                         size_t room)
{
    if (result->status != MUSTER_OK) {
        return result->reason;
    }
    if (result->steps != STEPS) {
        return "ended before the last step";
    }
    if (!(fabs(result->loss - calm) <= TOLERANCE * calm)) {
        snprintf(text, room, "loss %.6f, and %.6f without faults", result->loss,
                 calm);
        return text;
    }
    return NULL;
}

static outcome tell(const char *algorithm, uint64_t seed, bool aloud,
                    uint32_t *workers_out)
{
    static const double chances[] = {0, 0, 0.05, 0.2};
    muster_rng rng = muster_rng_make(seed, 19);
    flag_list flags;
    *workers_out = plot(&flags, algorithm, seed, &rng);
    double duplicate = chances[muster_rng_below(&rng, 4)] / 2;
    double echo = chances[muster_rng_below(&rng, 4)];
    if (aloud) {
        printf("muster simulate");
        for (int i = 0; i < flags.count; i++) {
            printf(" %s", flags.list[i]);
        }
        printf("\nwith %g of the messages twice, %g again later\n", duplicate,
               echo);
    }
    return play(&flags, duplicate, echo);
}

static uint64_t seed_count(void)
{
    const char *text = getenv("MUSTER_SEEDS");
    uint64_t seeds = text != NULL ? strtoull(text, NULL, 10) : 0;
    return seeds > 0 ? seeds : SEEDS;
}

static void every_seed_ends_near(const char *algorithm)
{
    double calm[16] = {0};
    double worst = 0;
    uint64_t lost = 0;
    uint64_t seeds = seed_count();
    for (uint64_t seed = 0; seed < seeds; seed++) {
        char text[96];
        uint32_t workers = 0;
        outcome result = tell(algorithm, seed, false, &workers);
        calm[workers] =
            calm[workers] != 0 ? calm[workers] : calm_loss(algorithm, workers);
        const char *complaint =
            judge(&result, calm[workers], text, sizeof(text));
        if (complaint != NULL) {
            fail_msg("%s, seed %llu: %s; replay: build/dev/test_sim_algorithms "
                     "%s %llu",
                     algorithm, (unsigned long long)seed, complaint, algorithm,
                     (unsigned long long)seed);
        }
        lost += result.losses;
        worst = fmax(worst, fabs(result.loss / calm[workers] - 1));
    }
    print_message("%s: %llu seeds, %llu workers lost, loss off by %.5f at "
                  "most\n",
                  algorithm, (unsigned long long)seeds,
                  (unsigned long long)lost, worst);
    assert_true(lost > 0);
}

static void averages_of_local_models_survive_every_seed(void **state)
{
    (void)state;
    every_seed_ends_near("local:4");
}

static void bounded_gradients_survive_every_seed(void **state)
{
    (void)state;
    every_seed_ends_near("ssp:2");
}

static void unbounded_gradients_survive_every_seed(void **state)
{
    (void)state;
    every_seed_ends_near("async");
}

static void models_in_a_ring_survive_every_seed(void **state)
{
    (void)state;
    every_seed_ends_near("gossip:ring");
}

static void models_of_random_partners_survive_every_seed(void **state)
{
    (void)state;
    every_seed_ends_near("gossip:random:2");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(averages_of_local_models_survive_every_seed),
        cmocka_unit_test(bounded_gradients_survive_every_seed),
        cmocka_unit_test(unbounded_gradients_survive_every_seed),
        cmocka_unit_test(models_in_a_ring_survive_every_seed),
        cmocka_unit_test(models_of_random_partners_survive_every_seed),
    };
    if (argc == 3) {
        uint32_t workers = 0;
        outcome result =
            tell(argv[1], strtoull(argv[2], NULL, 10), true, &workers);
        printf("status %d (%s), %llu steps, loss %.6f\n", (int)result.status,
               result.reason, (unsigned long long)result.steps, result.loss);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
