/*
 * kernel_test.c -- every kernel against its formula in double, for lengths that
 * do and do not fill whole vectors.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "task/kernel.h"

enum { LONGEST = 77, ROWS = 4 };

typedef struct floats {
    float v[ROWS][2 * LONGEST];
} floats;

static floats make(uint64_t seed)
{
    floats f;
    muster_rng rng = muster_rng_make(seed, 0);
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < 2 * LONGEST; i++) {
            double draw = muster_rng_uniform(&rng);
            // The second half stands for sums of squares where there are any.
            f.v[r][i] = (float)(i < LONGEST ? 2 * draw - 1 : draw);
        }
    }
    return f;
}

static void close_to(double a, float b)
{
    assert_true(fabs(a - (double)b) <= 2e-5 * (1 + fabs(a)));
}

static void sums_and_distances_are_right_at_every_length(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= LONGEST; n++) {
        floats f = make(n);
        double dot = 0;
        double square = 0;
        double distance = 0;
        for (uint32_t i = 0; i < n; i++) {
            double a = (double)f.v[0][i];
            double b = (double)f.v[1][i];
            dot += a * b;
            square += a * a;
            distance += fabs(a - b);
        }
        close_to(dot, muster_kernel_dot(f.v[0], f.v[1], n));
        close_to(square, muster_kernel_square(f.v[0], n));
        close_to(distance, muster_kernel_distance(f.v[0], f.v[1], n));
    }
}

static void mf_moves_both_factors_along_the_gradient(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= LONGEST; n += 19) {
        floats f = make(n);
        floats before = f;
        double error = 0.7;
        for (uint32_t i = 0; i < n; i++) {
            error -= (double)f.v[0][i] * (double)f.v[1][i];
        }
        close_to(error, muster_kernel_mf(f.v[0], f.v[1], n, 0.7f, 0.1f, 0.03f));
        for (uint32_t i = 0; i < n; i++) {
            double w = (double)before.v[0][i];
            double h = (double)before.v[1][i];
            close_to(w + 0.1 * (error * h - 0.03 * w), f.v[0][i]);
            close_to(h + 0.1 * (error * w - 0.03 * h), f.v[1][i]);
        }
    }
}

static double adagrad(double w, double g, double sum)
{
    return w - 0.1 * g / (sqrt(sum + g * g) + 1e-8);
}

static void adagrad_forms_agree_with_the_formula(void **state)
{
    (void)state;
    const uint32_t n = 37;
    floats f = make(5);
    floats before = f;
    double error = 0.7;
    for (uint32_t i = 0; i < n; i++) {
        error -= (double)f.v[0][i] * (double)f.v[1][i];
    }
    for (int r = 0; r < ROWS; r++) {
        for (uint32_t i = 0; i < n; i++) {
            f.v[r][n + i] = 0.5f;
        }
    }
    (void)muster_kernel_mf_adagrad(f.v[0], f.v[1], n, 0.7f, 0.1f, 0.03f);
    muster_kernel_adagrad(f.v[2], before.v[3], n, 0.1f, 0.2f);
    for (uint32_t i = 0; i < n; i++) {
        double w = (double)before.v[0][i];
        double h = (double)before.v[1][i];
        close_to(adagrad(w, 0.03 * w - error * h, 0.5), f.v[0][i]);
        close_to(adagrad(h, 0.03 * h - error * w, 0.5), f.v[1][i]);
        double r = (double)before.v[2][i];
        double g = (double)before.v[3][i] + 0.2 * fabs(r) * r;
        close_to(adagrad(r, g, 0.5), f.v[2][i]);
        close_to(0.5 + g * g, f.v[2][n + i]);
    }
}

/* (x - prediction)^2 / 2 + l2/2 (|w|^2 + |h|^2), in double, rows of n + 1. */
static double bias_loss(const double *w, const double *h, uint32_t n)
{
    double error = 0.7 - 1.5 * (w[n] + h[n]);
    double norm = 0;
    for (uint32_t i = 0; i <= n; i++) {
        error -= i < n ? w[i] * h[i] : 0;
        norm += w[i] * w[i] + h[i] * h[i];
    }
    return error * error / 2 + 0.03 / 2 * norm;
}

/* The slope of the loss by float `i` of row `r`, by differences. */
static double bias_slope(const floats *at, uint32_t n, int r, uint32_t i)
{
    double rows[2][LONGEST + 1];
    double loss[2];
    for (int side = 0; side < 2; side++) {
        for (uint32_t j = 0; j <= n; j++) {
            rows[0][j] = (double)at->v[0][j];
            rows[1][j] = (double)at->v[1][j];
        }
        rows[r][i] += side == 0 ? -1e-5 : 1e-5;
        loss[side] = bias_loss(rows[0], rows[1], n);
    }
    return (loss[1] - loss[0]) / 2e-5;
}

static void factors_and_biases_move_along_the_slope_of_the_loss(void **state)
{
    (void)state;
    const muster_kernel_mf_step step = {
        .rate = 0.1f, .l2 = 0.03f, .unit = 1.5f};
    for (uint32_t n = 1; n < LONGEST; n += 9) {
        floats plain = make(n);
        for (uint32_t i = 0; i <= n; i++) {
            plain.v[0][n + 1 + i] = 0.5f;
            plain.v[1][n + 1 + i] = 0.5f;
        }
        floats before = plain;
        floats ada = plain;
        float error =
            muster_kernel_mf_bias(plain.v[0], plain.v[1], n, 0.7f, &step);
        float same =
            muster_kernel_mf_bias_adagrad(ada.v[0], ada.v[1], n, 0.7f, &step);
        close_to((double)error, same);
        for (uint32_t i = 0; i <= n; i++) {
            for (int r = 0; r < 2; r++) {
                double slope = bias_slope(&before, n, r, i);
                double from = (double)before.v[r][i];
                close_to(from - 0.1 * slope, plain.v[r][i]);
                close_to(adagrad(from, slope, 0.5), ada.v[r][i]);
                close_to(0.5 + slope * slope, ada.v[r][n + 1 + i]);
            }
        }
    }
}

/* Seven rows: some are taken four at a time, some alone. */
static void many_distances_and_their_gradients_are_those_of_pairs(void **state)
{
    (void)state;
    enum { COUNT = 7 };
    float rows[COUNT * LONGEST];
    float by_rows[COUNT * LONGEST];
    float found[COUNT];
    const float g[COUNT] = {0.5f, 0.1f, 0, 0.25f, 1, 0.75f, 0.125f};
    for (uint32_t n = 1; n <= LONGEST; n++) {
        floats f = make(n);
        floats more = make(n + 1000);
        float by_query[LONGEST] = {0};
        double expected[LONGEST] = {0};
        for (uint32_t i = 0; i < COUNT * n; i++) {
            rows[i] = more.v[i % 3][i % LONGEST];
            by_rows[i] = 1;
        }
        float *const both[2] = {by_query, by_rows};
        muster_kernel_distances(f.v[0], rows, COUNT, n, found);
        muster_kernel_distances_back(f.v[0], rows, g, both, COUNT, n);
        for (uint32_t j = 0; j < COUNT; j++) {
            double distance = 0;
            for (uint32_t i = 0; i < n; i++) {
                double off = (double)f.v[0][i] - (double)rows[j * n + i];
                double part = (double)g[j] * (off > 0 ? 1 : -1);
                distance += fabs(off);
                expected[i] -= part;
                close_to(1 + part, by_rows[j * n + i]);
            }
            close_to(distance, found[j]);
        }
        for (uint32_t i = 0; i < n; i++) {
            close_to(expected[i], by_query[i]);
        }
    }
}

static void lengths_come_from_products(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= LONGEST; n++) {
        floats f = make(n);
        float products[2] = {muster_kernel_dot(f.v[0], f.v[1], n),
                             muster_kernel_dot(f.v[0], f.v[2], n)};
        const float squares[2] = {muster_kernel_square(f.v[1], n),
                                  muster_kernel_square(f.v[2], n)};
        double length = 0;
        for (uint32_t i = 0; i < n; i++) {
            length += pow((double)f.v[0][i] - (double)f.v[2][i], 2);
        }
        close_to(sqrt(length), muster_kernel_length(f.v[0], f.v[2], n));
        muster_kernel_lengths(products, squares, 2,
                              muster_kernel_square(f.v[0], n));
        close_to((double)muster_kernel_length(f.v[0], f.v[1], n), products[0]);
        close_to(sqrt(length), products[1]);
    }
}

static void candidates_move_and_pass_the_gradient_on(void **state)
{
    (void)state;
    const uint32_t n = 21;
    const float rate_n3[2] = {0.1f, 0.2f};
    for (int l1 = 0; l1 < 2; l1++) {
        floats f = make(9);
        for (uint32_t i = 0; i < n; i++) {
            f.v[0][n + i] = 0.5f;
        }
        floats before = f;
        void (*kernel)(float *, const float *, float *, uint32_t, float,
                       const float *) =
            l1 ? muster_kernel_candidate_l1 : muster_kernel_candidate;
        kernel(f.v[0], f.v[1], f.v[2], n, -0.6f, rate_n3);
        for (uint32_t i = 0; i < n; i++) {
            double w = (double)before.v[0][i];
            double q = (double)before.v[1][i];
            double sign = q > w ? 1 : q < w ? -1 : 0;
            double by_score = l1 ? sign : q;
            double g = -0.6 * by_score + 0.2 * fabs(w) * w;
            close_to(adagrad(w, g, 0.5), f.v[0][i]);
            close_to((double)before.v[2][i] + -0.6 * (l1 ? -sign : w),
                     f.v[2][i]);
        }
    }
}

static void complex_products_have_the_right_gradients(void **state)
{
    (void)state;
    const uint32_t n = 14;
    floats f = make(3);
    float q[14];
    float da[14];
    muster_kernel_complex(f.v[0], f.v[1], q, n);
    muster_kernel_complex_back(f.v[2], f.v[1], da, n);
    for (uint32_t i = 0; i < n / 2; i++) {
        double ar = (double)f.v[0][i];
        double ai = (double)f.v[0][n / 2 + i];
        double br = (double)f.v[1][i];
        double bi = (double)f.v[1][n / 2 + i];
        double gr = (double)f.v[2][i];
        double gi = (double)f.v[2][n / 2 + i];
        close_to(ar * br - ai * bi, q[i]);
        close_to(ar * bi + ai * br, q[n / 2 + i]);
        // d(gr qr + gi qi) / da
        close_to(gr * br + gi * bi, da[i]);
        close_to(gi * br - gr * bi, da[n / 2 + i]);
    }
}

static void skipgram_learns_a_pair_and_unlearns_a_negative(void **state)
{
    (void)state;
    const uint32_t n = 30;
    for (int label = 0; label < 2; label++) {
        floats f = make(4);
        floats before = f;
        const float label_rate[2] = {(float)label, 0.25f};
        float loss =
            muster_kernel_skipgram(f.v[0], f.v[1], f.v[2], n, label_rate);
        double score = 0;
        for (uint32_t i = 0; i < n; i++) {
            score += (double)before.v[0][i] * (double)before.v[2][i];
        }
        double p = 1 / (1 + exp(-score));
        double g = (label - p) * 0.25;
        close_to(label ? -log(p) : 0, loss);
        for (uint32_t i = 0; i < n; i++) {
            close_to((double)before.v[1][i] + g * (double)before.v[2][i],
                     f.v[1][i]);
            close_to((double)before.v[2][i] + g * (double)before.v[0][i],
                     f.v[2][i]);
        }
    }
}

static void
exponentials_and_the_greatest_are_right_at_every_length(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= LONGEST; n++) {
        floats f = make(n);
        double sum = 0;
        double max = -INFINITY;
        for (uint32_t i = 0; i < n; i++) {
            f.v[0][i] *= 40;
            max = fmax(max, (double)f.v[0][i]);
        }
        assert_true((double)muster_kernel_max(f.v[0], n) == max);
        memcpy(f.v[1], f.v[0], sizeof(f.v[0]));
        memcpy(f.v[2], f.v[0], sizeof(f.v[0]));
        float total = muster_kernel_exp(f.v[1], n, 0.5f, 1.5f);
        muster_kernel_sigmoids(f.v[2], n);
        for (uint32_t i = 0; i < n; i++) {
            double x = (double)f.v[0][i];
            float shifted = f.v[0][i] - 1.5f; // as rounded there
            double e = exp(0.5 * (double)shifted);
            sum += e;
            assert_true(fabs((double)f.v[1][i] - e) <= 1e-6 * e);
            assert_true(fabs((double)f.v[2][i] - 1 / (1 + exp(-x))) <= 1e-6);
        }
        assert_true(fabs((double)total - sum) <= 1e-5 * sum);
        assert_true(f.v[1][n] == f.v[0][n] && f.v[2][n] == f.v[0][n]);
    }
}

static void exponentials_stay_finite_far_out(void **state)
{
    (void)state;
    float x[4] = {-1e30f, 1e30f, -87.0f, 0.0f};
    float p[2] = {-1e30f, 1e30f};
    (void)muster_kernel_exp(x, 4, 1, 0);
    muster_kernel_sigmoids(p, 2);
    assert_true(x[0] >= 0 && x[0] < 1e-37f && isfinite(x[1]) && x[3] == 1.0f);
    assert_true(x[2] > 1e-38f && p[0] < 1e-37f && p[1] == 1.0f);
}

static void replace_touches_only_its_key(void **state)
{
    (void)state;
    const uint32_t keys[11] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 1};
    float x[11] = {0};
    muster_kernel_replace(x, keys, 11, 1, -7);
    for (int i = 0; i < 11; i++) {
        assert_true(x[i] == (keys[i] == 1 ? -7.0f : 0.0f));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_distances_are_right_at_every_length),
        cmocka_unit_test(
            exponentials_and_the_greatest_are_right_at_every_length),
        cmocka_unit_test(exponentials_stay_finite_far_out),
        cmocka_unit_test(replace_touches_only_its_key),
        cmocka_unit_test(mf_moves_both_factors_along_the_gradient),
        cmocka_unit_test(factors_and_biases_move_along_the_slope_of_the_loss),
        cmocka_unit_test(adagrad_forms_agree_with_the_formula),
        cmocka_unit_test(many_distances_and_their_gradients_are_those_of_pairs),
        cmocka_unit_test(lengths_come_from_products),
        cmocka_unit_test(candidates_move_and_pass_the_gradient_on),
        cmocka_unit_test(complex_products_have_the_right_gradients),
        cmocka_unit_test(skipgram_learns_a_pair_and_unlearns_a_negative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
