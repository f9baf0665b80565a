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
#define RUNS     4
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

/* Mean squared error over all samples after 1000 steps, with `copies` of each
 * bucket; a NULL policy loses nothing. Lost buckets count 0, with no rescaling.
 */
static double train(const sample *samples, bool sorted, const source *from,
                    uint32_t copies, const char *policy)
{
    static sample copy[SAMPLES];
    memcpy(copy, samples, sizeof(copy));
    if (sorted) {
        qsort(copy, SAMPLES, sizeof(sample), by_label);
    }
    static buckets data;
    gather_buckets(copy, MACHINES / copies, &data);
    layout parts;
    lay_frc(&parts, MACHINES, copies);
    study s;
    study_open(&s, from, &parts, policy != NULL ? policy : "none");
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
    (void)study_close(&s);
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

static void a_sorted_layout_needs_shuffling_and_a_random_one_less(void **state)
{
    (void)state;
    static sample samples[SAMPLES];
    const unsigned draws = 30;
    // Excess over the ideal run: [sorted][which].
    static const struct {
        const char *name, *policy;
        uint32_t copies;
    } runs[RUNS] = {{"frc", "none", 2},
                    {"rotate:1", "rotate:1", 2},
                    {"targeted", "targeted", 2},
                    {"ignore", "none", 1}};
    double excess[2][RUNS] = {{0}};
    double worst[2][RUNS] = {{0}};
    for (unsigned draw = 0; draw < draws; draw++) {
        draw_samples(draw, samples);
        source from = make_classes(MACHINES, MACHINES / 2, draw);
        for (int sorted = 0; sorted < 2; sorted++) {
            double ideal = train(samples, sorted, &from, 2, NULL);
            for (int r = 0; r < RUNS; r++) {
                double loss = train(samples, sorted, &from, runs[r].copies,
                                    runs[r].policy);
                excess[sorted][r] += (loss - ideal) / draws;
                worst[sorted][r] = fmax(worst[sorted][r], loss - ideal);
            }
        }
    }
    for (int r = 0; r < RUNS; r++) {
        print_message("%s: loss above ideal, mean (worst): random layout %.4f "
                      "(%.4f), label-sorted %.4f (%.4f)\n",
                      runs[r].name, excess[0][r], worst[0][r], excess[1][r],
                      worst[1][r]);
    }
    for (int r = 1; r < 3; r++) {
        assert_true(excess[1][r] < excess[1][0] / 20);
        assert_true(worst[1][r] < worst[1][0] / 20);
    }
    assert_true(excess[0][0] < excess[1][0] / 2);
    assert_true(worst[0][0] < worst[1][0] / 2);
    // Two copies lose less than one; as published, for the sorted layout.
    assert_true(excess[1][0] < excess[1][3]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sorted_layout_needs_shuffling_and_a_random_one_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
