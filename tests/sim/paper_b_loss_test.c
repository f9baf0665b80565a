/*
 * paper_b_loss_test.c -- what the lost parts cost: a label-sorted layout
 * against a random one, with and without shuffling.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "study.h"

// ---- Loss: least squares on 8 workers in 4 groups of 2, 4 of them slow.

#define SAMPLES  400u
#define FEATURES 4u // the last is the bias
#define MACHINES 8u // and as many buckets, or half of them

typedef struct sample {
    double x[FEATURES];
    double y;
} sample;

static int by_label(const void *a, const void *b)
{
    double x = ((const sample *)a)->y;
    double y = ((const sample *)b)->y;
    return (x > y) - (x < y);
}

/* Labels bend away from any plane, so that what is left out matters. */
static void draw_samples(uint64_t seed, sample *out)
{
    muster_rng rng = muster_rng_make(seed, 7);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        for (uint32_t f = 0; f + 1 < FEATURES; f++) {
            out[i].x[f] = muster_rng_normal(&rng);
        }
        out[i].x[FEATURES - 1] = 1;
        double z = out[i].x[0] + 0.5 * out[i].x[1] - 0.3 * out[i].x[2];
        out[i].y = 5 + 2 * z + z * z * z / 2 + 0.1 * muster_rng_normal(&rng);
    }
}

/* Gram matrix and moment of each bucket of the samples: its gradient is
 * gram w - moment. */
typedef struct buckets {
    double gram[MACHINES][FEATURES][FEATURES];
    double moment[MACHINES][FEATURES];
} buckets;

static void gather_buckets(const sample *train, uint32_t count, buckets *out)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint32_t b = i * count / SAMPLES;
        for (uint32_t f = 0; f < FEATURES; f++) {
            out->moment[b][f] += train[i].x[f] * train[i].y;
            for (uint32_t g = 0; g < FEATURES; g++) {
                out->gram[b][f][g] += train[i].x[f] * train[i].x[g];
            }
        }
    }
}

static void descend(const buckets *data, uint32_t b, const double *at,
                    double rate, double *w)
{
    for (uint32_t f = 0; f < FEATURES; f++) {
        double slope = -data->moment[b][f];
        for (uint32_t g = 0; g < FEATURES; g++) {
            slope += data->gram[b][f][g] * at[g];
        }
        w[f] -= rate * slope;
    }
}

/* What is trained on: samples and layout, stragglers, copies of each bucket. */
typedef struct setting {
    const sample *samples;
    bool sorted;
    const source *from;
    uint32_t copies;
} setting;

/* Mean squared error over all samples after 1000 steps; a NULL policy loses
 * nothing. Lost buckets count 0, with no rescaling. */
static double train(const setting *of, const char *policy, uint32_t *moved)
{
    const sample *samples = of->samples;
    uint32_t copies = of->copies;
    static sample copy[SAMPLES];
    memcpy(copy, samples, sizeof(copy));
    if (of->sorted) {
        qsort(copy, SAMPLES, sizeof(sample), by_label);
    }
    static buckets data;
    gather_buckets(copy, MACHINES / copies, &data);
    layout parts;
    lay_frc(&parts, MACHINES, copies);
    study s;
    study_open(&s, of->from, &parts, policy != NULL ? policy : "none");
    double w[FEATURES] = {0};
    for (uint64_t step = 0; step < STEPS; step++) {
        bool missed[N_MAX];
        study_step(&s, step, missed);
        double at[FEATURES];
        memcpy(at, w, sizeof(at));
        for (uint32_t b = 0; b < MACHINES / copies; b++) {
            if (policy == NULL || !missed[(size_t)copies * b]) {
                descend(&data, b, at, 0.02 / SAMPLES, w);
            }
        }
    }
    *moved += study_close(&s).moved;
    double loss = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        double error = samples[i].y;
        for (uint32_t f = 0; f < FEATURES; f++) {
            error -= w[f] * samples[i].x[f];
        }
        loss += error * error / SAMPLES;
    }
    return loss;
}

typedef struct contest {
    const char *name, *policy;
    uint32_t copies;
    double excess[2]; // over the ideal run, mean: random layout, sorted one
    double worst[2];
    uint32_t moved; // parts
} contest;

static void run_draw(const source *from, uint64_t draw, unsigned draws,
                     contest *runs, size_t count)
{
    static sample samples[SAMPLES];
    draw_samples(draw, samples);
    for (int sorted = 0; sorted < 2; sorted++) {
        uint32_t none = 0;
        setting of = {samples, sorted, from, 2};
        double ideal = train(&of, NULL, &none);
        for (size_t r = 0; r < count; r++) {
            of.copies = runs[r].copies;
            double loss = train(&of, runs[r].policy, &runs[r].moved) - ideal;
            runs[r].excess[sorted] += loss / draws;
            runs[r].worst[sorted] = fmax(runs[r].worst[sorted], loss);
        }
    }
}

static void print_contest(const contest *run, const char *model)
{
    print_message("%s, %s: loss above ideal, mean (worst): random layout %.5f "
                  "(%.5f), label-sorted %.5f (%.5f); %u parts moved\n",
                  model, run->name, run->excess[0], run->worst[0],
                  run->excess[1], run->worst[1], run->moved);
}

static void a_sorted_layout_needs_shuffling_and_a_random_one_less(void **state)
{
    (void)state;
    const unsigned draws = 30;
    contest runs[] = {{.name = "frc", .policy = "none", .copies = 2},
                      {.name = "rotate:1", .policy = "rotate:1", .copies = 2},
                      {.name = "targeted", .policy = "targeted", .copies = 2},
                      {.name = "auto", .policy = "auto", .copies = 2},
                      {.name = "ignore", .policy = "none", .copies = 1}};
    for (unsigned draw = 0; draw < draws; draw++) {
        source from = make_classes(MACHINES, MACHINES / 2, draw);
        run_draw(&from, draw, draws, runs, 5);
    }
    for (int r = 0; r < 5; r++) {
        print_contest(&runs[r], "two classes");
    }
    for (int r = 1; r < 4; r++) {
        assert_true(runs[r].excess[1] < runs[0].excess[1] / 20);
        assert_true(runs[r].worst[1] < runs[0].worst[1] / 20);
    }
    assert_true(runs[0].excess[0] < runs[0].excess[1] / 2);
    assert_true(runs[0].worst[0] < runs[0].worst[1] / 2);
    // Two copies lose less than one; as published, for the sorted layout.
    assert_true(runs[0].excess[1] < runs[4].excess[1]);
    // Where slow ones stay slow, auto is not worse than targeted.
    assert_true(runs[3].excess[1] <= runs[2].excess[1]);
}

static void auto_follows_workers_that_are_slow_for_a_while(void **state)
{
    (void)state;
    const unsigned draws = 30;
    contest runs[] = {{.name = "frc", .policy = "none", .copies = 2},
                      {.name = "rotate:1", .policy = "rotate:1", .copies = 2},
                      {.name = "targeted", .policy = "targeted", .copies = 2},
                      {.name = "auto", .policy = "auto", .copies = 2}};
    for (unsigned draw = 0; draw < draws; draw++) {
        source from = make_chains(MACHINES, draw);
        run_draw(&from, draw, draws, runs, 4);
        muster_delay_free(from.delay);
    }
    for (int r = 0; r < 4; r++) {
        print_contest(&runs[r], "markov");
    }
    for (int sorted = 0; sorted < 2; sorted++) {
        assert_true(runs[3].excess[sorted] <= runs[1].excess[sorted]);
        assert_true(runs[3].worst[sorted] <= runs[1].worst[sorted]);
    }
    assert_true(runs[3].moved <= runs[1].moved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sorted_layout_needs_shuffling_and_a_random_one_less),
        cmocka_unit_test(auto_follows_workers_that_are_slow_for_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
