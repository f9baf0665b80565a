/*
 * paper_b_test.c -- slow and active workers, with and without shuffling (Johri,
 * Yardi, Bodas, "Approximate gradient coding for heterogeneous nodes", 2021),
 * and the targeted shuffle against the paper's rotation.
 *
 * The published distributions are computed and simulated; the bars of received
 * parts, the loss with a label-sorted layout and the replay of measured traces
 * come from the shuffle and the class estimates that the coordinator uses. All
 * policies see the same stragglers: those are a function of (worker, step).
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/perm.h"
#include "base/rng.h"
#include "cluster/classes.h"
#include "cluster/delay.h"
#include "cluster/trace.h"
#include "role/shuffle.h"

#define N_MAX    36u
#define LOAD_MAX 4u
#define STEPS    1000u
#define PSS      0.8
#define PNS      0.01

// ---- The two distributions of the number of steps that miss a part.

/* P(M = m) of a binomial. */
static double binomial(unsigned n, unsigned m, double q)
{
    if (q <= 0) {
        return m == 0;
    }
    return exp(lgamma(n + 1.0) - lgamma(m + 1.0) - lgamma(n - m + 1.0) +
               m * log(q) + (n - m) * log1p(-q));
}

/* P(M = m), the holders' classes drawn once for all steps. */
static double unshuffled(unsigned steps, unsigned m, unsigned holders,
                         double p_hat)
{
    double sum = 0;
    for (unsigned i = 0; i <= holders; i++) {
        double q = pow(PSS, i) * pow(PNS, holders - i);
        sum += binomial(holders, i, p_hat) * binomial(steps, m, q);
    }
    return sum;
}

/* P(M = m), drawn anew in each step. */
static double shuffled(unsigned steps, unsigned m, unsigned holders,
                       double p_hat)
{
    double q = pow(p_hat * PSS + (1 - p_hat) * PNS, holders);
    return binomial(steps, m, q);
}

typedef struct moments {
    double mean, variance, half; // half: P(M >= steps / 2)
} moments;

typedef double (*distribution)(unsigned steps, unsigned m, unsigned holders,
                               double p_hat);

static moments moments_of(distribution p, unsigned holders, double p_hat)
{
    moments out = {0};
    double square = 0;
    double total = 0;
    for (unsigned m = 0; m <= 100; m++) {
        double share = p(100, m, holders, p_hat);
        total += share;
        out.mean += share * m;
        square += share * m * m;
        out.half += m >= 50 ? share : 0;
    }
    assert_true(fabs(total - 1) < 1e-9);
    out.variance = square - out.mean * out.mean;
    return out;
}

static const struct {
    double p_hat;
    unsigned holders;
    double mean, variance[2];
    double half[2]; // 0: not given
} published[] = {
    {0.33, 2, 7.328, {395.5, 6.79}, {0.109, 4e-30}},
    {0.33, 3, 1.984, {91.4, 1.94}, {0, 0}},
    {0.5, 2, 16.40, {761, 13.7}, {0.25, 9e-15}},
};

static void is_about(double value, double expected, double relative)
{
    if (!(fabs(value - expected) <= relative * expected)) {
        fail_msg("%g is not %g within %g", value, expected, relative);
    }
}

static void the_distributions_have_the_published_moments(void **state)
{
    (void)state;
    const distribution both[2] = {unshuffled, shuffled};
    for (size_t row = 0; row < 3; row++) {
        for (size_t k = 0; k < 2; k++) {
            moments is = moments_of(both[k], published[row].holders,
                                    published[row].p_hat);
            is_about(is.mean, published[row].mean, 1e-3);
            is_about(is.variance, published[row].variance[k], 3e-3);
            if (published[row].half[k] > 0) {
                is_about(is.half, published[row].half[k], 0.2);
            }
        }
    }
}

static unsigned draw_misses(unsigned holders, double p_hat, bool shuffle,
                            muster_rng *rng)
{
    bool slow[8] = {false};
    unsigned misses = 0;
    for (unsigned step = 0; step < 100; step++) {
        bool missed = true;
        for (unsigned i = 0; i < holders; i++) {
            if (shuffle || step == 0) {
                slow[i] = muster_rng_uniform(rng) < p_hat;
            }
            bool late = muster_rng_uniform(rng) < (slow[i] ? PSS : PNS);
            missed = missed && late;
        }
        misses += missed;
    }
    return misses;
}

static void drawing_the_model_gives_the_distributions(void **state)
{
    (void)state;
    const unsigned runs = 8000;
    for (size_t row = 0; row < 3; row++) {
        for (unsigned k = 0; k < 2; k++) {
            muster_rng rng = muster_rng_make(21 + row, k);
            double sum = 0;
            double square = 0;
            for (unsigned run = 0; run < runs; run++) {
                double m = draw_misses(published[row].holders,
                                       published[row].p_hat, k == 1, &rng);
                sum += m;
                square += m * m;
            }
            double mean = sum / runs;
            double error = sqrt(published[row].variance[k] / runs);
            assert_true(fabs(mean - published[row].mean) < 4 * error);
            is_about(square / runs - mean * mean, published[row].variance[k],
                     k == 0 ? 0.12 : 0.08);
        }
    }
}

// ---- A run of steps over a layout, with a shuffle and online classes.

typedef struct layout {
    uint32_t first[N_MAX + 1];
    uint32_t held[N_MAX * LOAD_MAX];
    muster_shuffle_layout table;
} layout;

/* Fractional repetition: groups of k workers hold the same k parts. */
static void lay_frc(layout *out, uint32_t n, uint32_t k)
{
    for (uint32_t slot = 0; slot < n; slot++) {
        out->first[slot] = slot * k;
        for (uint32_t i = 0; i < k; i++) {
            out->held[slot * k + i] = slot / k * k + i;
        }
    }
    out->first[n] = n * k;
    out->table = (muster_shuffle_layout){n, n, out->first, out->held};
}

/* Cyclic repetition: worker i holds parts i .. i + k - 1 mod n. */
static void lay_crc(layout *out, uint32_t n, uint32_t k)
{
    for (uint32_t slot = 0; slot < n; slot++) {
        out->first[slot] = slot * k;
        uint32_t wrapped = slot + k > n ? slot + k - n : 0;
        for (uint32_t i = 0; i < k; i++) { // ascending
            out->held[slot * k + i] = i < wrapped ? i : slot + (i - wrapped);
        }
    }
    out->first[n] = n * k;
    out->table = (muster_shuffle_layout){n, n, out->first, out->held};
}

/* Who straggles; arrival as muster_classes_observe takes it, or 0. */
typedef struct source {
    bool (*late)(const struct source *source, uint32_t worker, uint64_t step,
                 double *arrival_out);
    uint32_t workers;
    uint64_t seed;
    bool slow[N_MAX];
    const muster_trace *trace;
    double median[512];
    muster_delay *delay;
} source;

static bool late_by_class(const source *from, uint32_t worker, uint64_t step,
                          double *arrival_out)
{
    double u =
        (double)(muster_rng_at(from->seed, worker, step) >> 11) * 0x1p-53;
    *arrival_out = 0;
    return u < (from->slow[worker] ? PSS : PNS);
}

static source make_classes(uint32_t n, uint32_t slow, uint64_t seed)
{
    source made = {.late = late_by_class, .workers = n, .seed = seed};
    muster_perm order = muster_perm_make(seed, 0, n);
    for (uint32_t i = 0; i < slow; i++) {
        made.slow[muster_perm_at(&order, i)] = true;
    }
    return made;
}

typedef struct outcome {
    uint32_t received[N_MAX]; // steps, per part
    uint32_t least, most;
    double mean;
    uint32_t moved; // parts
    uint32_t plans;
} outcome;

typedef struct study {
    const source *from;
    muster_classes *classes;
    muster_shuffle *shuffle;
    uint32_t slot_of[N_MAX];
    outcome out;
} study;

static void study_open(study *s, const source *from, const layout *parts,
                       const char *policy)
{
    *s = (study){.from = from};
    muster_classes_opts class_opts = {.workers = from->workers};
    assert_int_equal(muster_classes_create(&class_opts, &s->classes),
                     MUSTER_OK);
    muster_shuffle_opts opts = {.policy = policy, .layout = &parts->table};
    assert_int_equal(muster_shuffle_create(&opts, NULL, &s->shuffle),
                     MUSTER_OK);
    for (uint32_t i = 0; i < from->workers; i++) {
        s->slot_of[i] = i;
    }
}

/* One step under the present map, then the map of the next. `missed`, if not
 * NULL, says which parts this step lost. */
static void study_step(study *s, uint64_t step, bool *missed)
{
    uint32_t n = s->from->workers;
    muster_shuffle_seen seen[N_MAX] = {{0}};
    for (uint32_t i = 0; i < n; i++) {
        double arrival;
        bool late = s->from->late(s->from, i, step, &arrival);
        muster_classes_observe(s->classes, i, late, arrival);
        seen[i].late = late;
    }
    for (uint32_t i = 0; i < n; i++) {
        muster_class class = muster_classes_of(s->classes, i);
        seen[i].slow = class.slow && class.lasting;
        seen[i].straggle_rate = class.straggle_rate;
    }
    uint64_t before[N_MAX];
    for (uint32_t part = 0; part < n; part++) {
        before[part] = muster_shuffle_misses(s->shuffle, part);
    }
    muster_shuffle_observe(s->shuffle, s->slot_of, seen);
    for (uint32_t part = 0; part < n; part++) {
        bool lost = muster_shuffle_misses(s->shuffle, part) > before[part];
        s->out.received[part] += !lost;
        if (missed != NULL) {
            missed[part] = lost;
        }
    }
    uint32_t next[N_MAX];
    if (muster_shuffle_next(s->shuffle, step + 1, s->slot_of, next)) {
        for (uint32_t i = 0; i < n; i++) {
            s->out.moved +=
                muster_shuffle_moves(s->shuffle, s->slot_of[i], next[i], NULL);
        }
        s->out.plans++;
        memcpy(s->slot_of, next, sizeof(next));
    }
}

static outcome study_close(study *s)
{
    outcome out = s->out;
    out.least = UINT32_MAX;
    for (uint32_t part = 0; part < s->from->workers; part++) {
        uint32_t r = out.received[part];
        out.least = r < out.least ? r : out.least;
        out.most = r > out.most ? r : out.most;
        out.mean += (double)r / s->from->workers;
    }
    muster_classes_free(s->classes);
    muster_shuffle_free(s->shuffle);
    return out;
}

static outcome run_study(const source *from, const layout *parts,
                         const char *policy, uint64_t steps)
{
    study s;
    study_open(&s, from, parts, policy);
    for (uint64_t step = 0; step < steps; step++) {
        study_step(&s, step, NULL);
    }
    return study_close(&s);
}

// ---- Bars of received parts.

static void rotation_evens_out_the_received_parts(void **state)
{
    (void)state;
    // With 19 of 36 slow: the unlucky part of k slow holders is received
    // 1 - 0.8^k of the time, others nearly always; rotated, all alike.
    for (uint32_t k = 2; k <= 4; k++) {
        for (int crc = 0; crc < 2; crc++) {
            layout parts;
            (crc ? lay_crc : lay_frc)(&parts, 36, k);
            source from = make_classes(36, 19, 1);
            outcome still = run_study(&from, &parts, "none", STEPS);
            outcome turned = run_study(&from, &parts, "rotate:1", STEPS);
            double unlucky = STEPS * (1 - pow(PSS, k));
            print_message("%s k=%u received min/mean/max of 1000: "
                          "%u/%.0f/%u, rotate:1 %u/%.0f/%u\n",
                          crc ? "crc" : "frc", k, still.least, still.mean,
                          still.most, turned.least, turned.mean, turned.most);
            assert_true(fabs(still.least - unlucky) < 60);
            assert_true(still.most >= 998);
            assert_true(turned.most - turned.least < 50);
            assert_true(fabs(turned.mean - still.mean) < 60);
            assert_int_equal(still.moved, 0);
            assert_int_equal(turned.moved, 36 * STEPS);
        }
    }
}

static void equal_workers_gain_nothing_from_rotation(void **state)
{
    (void)state;
    layout parts;
    lay_frc(&parts, 36, 2);
    source from = make_classes(36, 36, 3); // one class: all straggle at 0.8
    outcome still = run_study(&from, &parts, "none", STEPS);
    outcome turned = run_study(&from, &parts, "rotate:1", STEPS);
    outcome targeted = run_study(&from, &parts, "targeted", STEPS);
    assert_true(fabs(still.mean - turned.mean) < 15);
    assert_true(fabs(still.mean - 360) < 15);
    assert_true(still.most - still.least < 110);
    assert_int_equal(targeted.moved, 0); // no classes, no moves
}

// ---- Loss: least squares on 8 workers in 4 groups of 2, 4 of them slow.

#define SAMPLES  400u
#define FEATURES 4u // the last is the bias
#define BUCKETS  4u

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

/* Gram matrix and moment of each quarter of the samples: its gradient
 * is gram w - moment. */
typedef struct buckets {
    double gram[BUCKETS][FEATURES][FEATURES];
    double moment[BUCKETS][FEATURES];
} buckets;

static void gather_buckets(const sample *train, buckets *out)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint32_t b = i * BUCKETS / SAMPLES;
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

/* Mean squared error over all samples after 1000 steps; a NULL policy loses
 * nothing. Lost buckets count 0, with no rescaling. */
static double train(const sample *samples, bool sorted, const source *from,
                    const char *policy)
{
    static sample copy[SAMPLES];
    memcpy(copy, samples, sizeof(copy));
    if (sorted) {
        qsort(copy, SAMPLES, sizeof(sample), by_label);
    }
    static buckets data;
    gather_buckets(copy, &data);
    layout parts;
    lay_frc(&parts, 8, 2);
    study s;
    study_open(&s, from, &parts, policy != NULL ? policy : "none");
    double w[FEATURES] = {0};
    for (uint64_t step = 0; step < STEPS; step++) {
        bool missed[N_MAX];
        study_step(&s, step, missed);
        double at[FEATURES];
        memcpy(at, w, sizeof(at));
        for (uint32_t b = 0; b < BUCKETS; b++) {
            if (policy == NULL || !missed[(size_t)2 * b]) {
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
    // Excess over the ideal run: [sorted][none, rotate:1, targeted].
    static const char *const policies[] = {"none", "rotate:1", "targeted"};
    double excess[2][3] = {{0}};
    double worst[2][3] = {{0}};
    for (unsigned draw = 0; draw < draws; draw++) {
        draw_samples(draw, samples);
        source from = make_classes(8, 4, draw);
        for (int sorted = 0; sorted < 2; sorted++) {
            double ideal = train(samples, sorted, &from, NULL);
            for (int p = 0; p < 3; p++) {
                double more =
                    train(samples, sorted, &from, policies[p]) - ideal;
                excess[sorted][p] += more / draws;
                worst[sorted][p] = fmax(worst[sorted][p], more);
            }
        }
    }
    for (int sorted = 0; sorted < 2; sorted++) {
        print_message("%s layout: loss above ideal, mean (worst): frc %.4f "
                      "(%.4f), rotate:1 %.4f (%.4f), targeted %.4f (%.4f)\n",
                      sorted ? "label-sorted" : "random", excess[sorted][0],
                      worst[sorted][0], excess[sorted][1], worst[sorted][1],
                      excess[sorted][2], worst[sorted][2]);
    }
    for (int p = 1; p < 3; p++) {
        assert_true(excess[1][p] < excess[1][0] / 20);
        assert_true(worst[1][p] < worst[1][0] / 20);
    }
    assert_true(excess[0][0] < excess[1][0] / 2);
    assert_true(worst[0][0] < worst[1][0] / 2);
}

// ---- Measured traces.

static bool late_by_trace(const source *from, uint32_t worker, uint64_t step,
                          double *arrival_out)
{
    const muster_trace *trace = from->trace;
    *arrival_out =
        trace->seconds[step * trace->workers + worker] / from->median[step];
    return *arrival_out > 2;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void open_trace(const char *name, muster_trace *trace, source *from)
{
    const char *folder = getenv("MUSTER_DATA");
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/ec2-traces/%s",
                   folder != NULL ? folder : "../shared/data", name);
    if (access(path, R_OK) != 0) {
        print_message("skipped: %s is not there (set MUSTER_DATA)\n", path);
        skip();
    }
    assert_int_equal(muster_trace_load(path, NULL, trace), MUSTER_OK);
    assert_true(trace->workers <= N_MAX && trace->iterations <= 512);
    *from = (source){
        .late = late_by_trace, .workers = trace->workers, .trace = trace};
    for (uint32_t t = 0; t < trace->iterations; t++) {
        double sorted[N_MAX];
        memcpy(sorted, &trace->seconds[(size_t)t * trace->workers],
               trace->workers * sizeof(double));
        qsort(sorted, trace->workers, sizeof(double), compare_doubles);
        from->median[t] = sorted[trace->workers / 2];
    }
}

static void shuffling_spares_the_parts_of_measured_slow_machines(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t k;
        double still_most;   // worst part received at most this, unshuffled
        double turned_least; // and at least this with rotate:1
        double target_least; // and with targeted
    } cases[] = {
        {"trace2.csv", 1, 0.25, 0.85, 0.8},
        {"trace3.csv", 1, 0.9, 0.8, 0.8},
        {"trace4.csv", 1, 0.5, 0.8, 0.8},
        {"trace4.csv", 2, 0.9, 0.9, 0.9},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        muster_trace trace;
        source from;
        open_trace(cases[c].name, &trace, &from);
        layout parts;
        lay_frc(&parts, trace.workers, cases[c].k);
        uint32_t steps = trace.iterations;
        outcome still = run_study(&from, &parts, "none", steps);
        outcome turned = run_study(&from, &parts, "rotate:1", steps);
        outcome target = run_study(&from, &parts, "targeted", steps);
        print_message(
            "%s k=%u: worst part received %.3f, rotate:1 %.3f (%u parts "
            "moved), targeted %.3f (%u)\n",
            cases[c].name, cases[c].k, (double)still.least / steps,
            (double)turned.least / steps, turned.moved,
            (double)target.least / steps, target.moved);
        assert_true(still.least <= cases[c].still_most * steps);
        assert_true(turned.least >= cases[c].turned_least * steps);
        assert_true(target.least >= cases[c].target_least * steps);
        assert_true(target.moved * 10 <= turned.moved);
        muster_trace_fini(&trace);
    }
}

// ---- The targeted shuffle against rotation.

static void targeted_beats_rotation_for_a_fraction_of_the_moves(void **state)
{
    (void)state;
    static const uint32_t slows[] = {12, 19, 24};
    print_message("worst part's share of lost steps (data sets moved)\n");
    for (int i = 0; i < 18; i++) {
        bool crc = i >= 9;
        uint32_t k = 2 + (uint32_t)i % 9 / 3;
        uint32_t slow = slows[i % 3];
        layout parts;
        (crc ? lay_crc : lay_frc)(&parts, 36, k);
        source from = make_classes(36, slow, 1);
        outcome each = run_study(&from, &parts, "rotate:1", STEPS);
        outcome some = run_study(&from, &parts, "rotate:30", STEPS);
        outcome ours = run_study(&from, &parts, "targeted", STEPS);
        print_message("%s k=%u, %u slow: rotate:1 %.3f (%.0f), rotate:30 %.3f "
                      "(%.0f), targeted %.3f (%.1f)\n",
                      crc ? "crc" : "frc", k, slow,
                      1 - each.least / (double)STEPS, each.moved / 36.0,
                      1 - some.least / (double)STEPS, some.moved / 36.0,
                      1 - ours.least / (double)STEPS, ours.moved / 36.0);
        assert_true(ours.least >= each.least);
        assert_true(ours.moved * 20 <= each.moved);
        assert_true(ours.moved <= some.moved);
    }
}

// ---- Workers that are now slow, now active.

static bool late_by_chain(const source *from, uint32_t worker, uint64_t step,
                          double *arrival_out)
{
    *arrival_out = 0;
    return muster_delay_ns(from->delay, worker, step) > 0;
}

static void a_chain_is_not_chased(void **state)
{
    (void)state;
    source from = {.late = late_by_chain, .workers = 36};
    assert_int_equal(
        muster_delay_create("markov:delay=1ms", 36, 4, NULL, &from.delay),
        MUSTER_OK);
    layout parts;
    lay_frc(&parts, 36, 2);
    outcome still = run_study(&from, &parts, "none", STEPS);
    outcome turned = run_study(&from, &parts, "rotate:1", STEPS);
    outcome target = run_study(&from, &parts, "targeted", STEPS);
    print_message("markov frc k=2 received min/mean/max of 1000: %u/%.0f/%u, "
                  "rotate:1 %u/%.0f/%u, targeted %u/%.0f/%u (%.1f data sets)\n",
                  still.least, still.mean, still.most, turned.least,
                  turned.mean, turned.most, target.least, target.mean,
                  target.most, target.moved / 36.0);
    // Half of the time slow, so a quarter is lost, whoever holds it.
    assert_true(fabs(still.mean - 750) < 40);
    assert_true(turned.most - turned.least < still.most - still.least);
    assert_true(target.moved < 36 * 3);
    muster_delay_free(from.delay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_distributions_have_the_published_moments),
        cmocka_unit_test(drawing_the_model_gives_the_distributions),
        cmocka_unit_test(rotation_evens_out_the_received_parts),
        cmocka_unit_test(equal_workers_gain_nothing_from_rotation),
        cmocka_unit_test(a_sorted_layout_needs_shuffling_and_a_random_one_less),
        cmocka_unit_test(shuffling_spares_the_parts_of_measured_slow_machines),
        cmocka_unit_test(a_chain_is_not_chased),
        cmocka_unit_test(targeted_beats_rotation_for_a_fraction_of_the_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
