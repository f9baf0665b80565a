/*
 * paper_b_test.c -- slow and active workers with and without shuffling: the
 * published distributions, computed and drawn, and the bars of received parts
 * from the shuffle and the estimates that the coordinator uses.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "study.h"

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

/* Chance that `part` is lost in a step, the workers turned by `turn`. */
static double lost_chance(const source *from, const layout *parts,
                          uint32_t part, uint32_t turn)
{
    double chance = 1;
    uint32_t n = from->workers;
    for (uint32_t slot = 0; slot < n; slot++) {
        for (uint32_t i = parts->first[slot]; i < parts->first[slot + 1]; i++) {
            bool slow = from->slow[(slot + n - turn) % n];
            chance *= parts->held[i] == part ? (slow ? PSS : PNS) : 1;
        }
    }
    return chance;
}

/* Every bar, with and without rotation, is what its holders say it must be. */
static void every_bar_is_as_high_as_its_holders_say(void **state)
{
    (void)state;
    for (int setting = 0; setting < 6; setting++) {
        layout parts;
        uint32_t k = 2 + (uint32_t)setting % 3;
        (setting < 3 ? lay_frc : lay_crc)(&parts, 36, k);
        source from = make_classes(36, 19, 5);
        outcome still = run_study(&from, &parts, "none", STEPS);
        outcome turned = run_study(&from, &parts, "rotate:1", STEPS);
        for (uint32_t part = 0; part < 36; part++) {
            double stays = lost_chance(&from, &parts, part, 0);
            double turns = 0;
            for (uint32_t turn = 0; turn < 36; turn++) {
                turns += lost_chance(&from, &parts, part, turn) / 36;
            }
            // Five deviations of a binomial, or of a sum of such.
            assert_true(fabs(still.received[part] - STEPS * (1 - stays)) <
                        2 + 5 * sqrt(STEPS * stays * (1 - stays)));
            assert_true(fabs(turned.received[part] - STEPS * (1 - turns)) <
                        3 + 5 * sqrt(STEPS * turns * (1 - turns)));
        }
    }
}

/* The least and the most of 40 draws: received parts without rotation (least,
 * mean, most of them), and with it. */
static void draw_bars(const layout *parts, double *low, double *high)
{
    for (uint64_t draw = 0; draw < 40; draw++) {
        source from = make_classes(36, 19, 100 + draw);
        outcome still = run_study(&from, parts, "none", STEPS);
        outcome turned = run_study(&from, parts, "rotate:1", STEPS);
        const double is[6] = {still.least,  still.mean,  still.most,
                              turned.least, turned.mean, turned.most};
        for (int i = 0; i < 6; i++) {
            low[i] = fmin(low[i], is[i]);
            high[i] = fmax(high[i], is[i]);
        }
    }
}

/* The published bars are one draw of the classes: they lie among ours. */
static void the_published_bars_are_among_those_drawn(void **state)
{
    (void)state;
    static const struct {
        bool crc;
        uint32_t k;
        double still[3], turned[3]; // least, mean, most
    } bars[] = {
        {false, 2, {345, 852, 1000}, {823, 834, 841}},
        {false, 3, {498, 955, 1000}, {929, 939, 948}},
        {true, 2, {335, 833, 1000}, {816, 833, 850}},
    };
    for (size_t b = 0; b < 3; b++) {
        layout parts;
        (bars[b].crc ? lay_crc : lay_frc)(&parts, 36, bars[b].k);
        double low[6] = {1e9, 1e9, 1e9, 1e9, 1e9, 1e9};
        double high[6] = {0};
        draw_bars(&parts, low, high);
        for (int i = 0; i < 6; i++) {
            double bar = i < 3 ? bars[b].still[i] : bars[b].turned[i - 3];
            if (bar < low[i] || bar > high[i]) {
                fail_msg("bar %d of setting %zu: %g is not in %g .. %g", i, b,
                         bar, low[i], high[i]);
            }
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

// ---- Workers that are now slow, now active.

static void auto_alone_follows_a_chain(void **state)
{
    (void)state;
    source from = make_chains(36, 4);
    layout parts;
    lay_frc(&parts, 36, 2);
    outcome still = run_study(&from, &parts, "none", STEPS);
    outcome turned = run_study(&from, &parts, "rotate:1", STEPS);
    outcome target = run_study(&from, &parts, "targeted", STEPS);
    outcome follow = run_study(&from, &parts, "auto", STEPS);
    print_message("markov frc k=2 received min/mean/max of 1000: %u/%.0f/%u, "
                  "rotate:1 %u/%.0f/%u (%.1f data sets), targeted %u/%.0f/%u "
                  "(%.1f), auto %u/%.0f/%u (%.1f)\n",
                  still.least, still.mean, still.most, turned.least,
                  turned.mean, turned.most, turned.moved / 36.0, target.least,
                  target.mean, target.most, target.moved / 36.0, follow.least,
                  follow.mean, follow.most, follow.moved / 36.0);
    // Half of the time slow, so a quarter is lost, whoever holds it.
    assert_true(fabs(still.mean - 750) < 40);
    assert_true(turned.most - turned.least < still.most - still.least);
    assert_true(target.moved < 36 * 3);
    assert_true(follow.mean > turned.mean + 100);
    assert_true(follow.least > turned.most);
    assert_true(follow.moved < turned.moved);
    muster_delay_free(from.delay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_distributions_have_the_published_moments),
        cmocka_unit_test(drawing_the_model_gives_the_distributions),
        cmocka_unit_test(rotation_evens_out_the_received_parts),
        cmocka_unit_test(every_bar_is_as_high_as_its_holders_say),
        cmocka_unit_test(the_published_bars_are_among_those_drawn),
        cmocka_unit_test(equal_workers_gain_nothing_from_rotation),
        cmocka_unit_test(auto_alone_follows_a_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
