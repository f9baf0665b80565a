/*
 * distribution_test.c -- draws follow their distribution (chi-square with a
 * fixed seed), stay in range, and impossible weights are refused.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "ps/store/distribution.h"

enum { KEYS = 50, DRAWS = 200000 };

/* Chi-square of counts against probabilities; empty cells must stay empty. */
static double chi_square(const double *probabilities, const uint64_t *counts,
                         uint32_t cells, double total)
{
    double sum = 0;
    for (uint32_t i = 0; i < cells; i++) {
        double expected = probabilities[i] * total;
        if (expected == 0) {
            assert_int_equal(counts[i], 0);
            continue;
        }
        double off = (double)counts[i] - expected;
        sum += off * off / expected;
    }
    return sum;
}

static void check_draws(uint32_t kind, const double *weights,
                        const double *probabilities)
{
    muster_key_distribution *target = NULL;
    assert_int_equal(
        muster_key_distribution_create(kind, 7, KEYS, weights, &target),
        MUSTER_OK);
    uint64_t counts[KEYS] = {0};
    muster_draws draws = muster_draws_make(3, 1);
    for (int i = 0; i < DRAWS; i++) {
        uint32_t key = muster_key_distribution_draw(target, &draws);
        assert_in_range(key, 7, 7 + KEYS - 1);
        counts[key - 7]++;
    }
    muster_key_distribution_free(target);
    // 49 degrees of freedom: 99.9999 % of true samples stay below 110.
    assert_true(chi_square(probabilities, counts, KEYS, DRAWS) < 110);
}

static void uniform_draws_are_uniform(void **state)
{
    (void)state;
    double p[KEYS];
    for (int i = 0; i < KEYS; i++) {
        p[i] = 1.0 / KEYS;
    }
    check_draws(MUSTER_PS_TARGET_UNIFORM, NULL, p);
}

static void uniform_draws_of_very_many_keys_are_uniform(void **state)
{
    (void)state;
    // 2^32 divided by this is 8/3: shares of 2^-32 cannot be even.
    enum { MANY = 3 << 29 };
    const double p[3] = {1.0 / 3, 1.0 / 3, 1.0 / 3};
    muster_key_distribution *target = NULL;
    assert_int_equal(muster_key_distribution_create(MUSTER_PS_TARGET_UNIFORM, 0,
                                                    MANY, NULL, &target),
                     MUSTER_OK);
    uint64_t counts[3] = {0};
    muster_draws draws = muster_draws_make(3, 1);
    for (int i = 0; i < DRAWS; i++) {
        counts[muster_key_distribution_draw(target, &draws) % 3]++;
    }
    muster_key_distribution_free(target);
    assert_true(chi_square(p, counts, 3, DRAWS) < 28); // 2 d.o.f.
}

static void alias_draws_follow_their_weights(void **state)
{
    (void)state;
    double weights[KEYS];
    double p[KEYS];
    double sum = 0;
    muster_key_distribution_zipf(KEYS, 1.1, weights);
    weights[3] = 0;
    for (int i = 0; i < KEYS; i++) {
        sum += weights[i];
    }
    for (int i = 0; i < KEYS; i++) {
        p[i] = weights[i] / sum;
    }
    check_draws(MUSTER_PS_TARGET_WEIGHTS, weights, p);
}

static void log_uniform_draws_follow_the_formula(void **state)
{
    (void)state;
    double p[KEYS];
    for (int i = 0; i < KEYS; i++) {
        p[i] = log((i + 2.0) / (i + 1.0)) / log(KEYS + 1.0);
    }
    check_draws(MUSTER_PS_TARGET_LOG_UNIFORM, NULL, p);
}

static void many_draws_are_those_of_one_after_the_other(void **state)
{
    (void)state;
    double weights[KEYS];
    muster_key_distribution_zipf(KEYS, 1, weights);
    for (uint32_t kind = 0; kind <= MUSTER_PS_TARGET_LOG_UNIFORM; kind++) {
        muster_key_distribution *target = NULL;
        uint32_t keys[100];
        muster_draws many = muster_draws_make(3, 1);
        muster_draws one = many;
        assert_int_equal(
            muster_key_distribution_create(kind, 7, KEYS, weights, &target),
            MUSTER_OK);
        muster_key_distribution_draw_many(target, &many, keys, 100);
        for (int i = 0; i < 100; i++) {
            assert_int_equal(keys[i],
                             muster_key_distribution_draw(target, &one));
        }
        assert_true(one.state == many.state);
        muster_key_distribution_free(target);
    }
}

static void one_key_is_always_drawn(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind <= MUSTER_PS_TARGET_LOG_UNIFORM; kind++) {
        double weight = 5;
        muster_key_distribution *target = NULL;
        assert_int_equal(
            muster_key_distribution_create(kind, 9, 1, &weight, &target),
            MUSTER_OK);
        muster_draws draws = muster_draws_make(1, kind);
        for (int i = 0; i < 100; i++) {
            assert_int_equal(muster_key_distribution_draw(target, &draws), 9);
        }
        muster_key_distribution_free(target);
    }
}

static void impossible_weights_are_refused(void **state)
{
    (void)state;
    muster_key_distribution *target = NULL;
    double bad[4][2] = {{0, 0}, {-1, 2}, {NAN, 1}, {INFINITY, 1}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(muster_key_distribution_create(
                             MUSTER_PS_TARGET_WEIGHTS, 0, 2, bad[i], &target),
                         MUSTER_ERR_INVALID);
    }
    assert_int_equal(muster_key_distribution_create(MUSTER_PS_TARGET_WEIGHTS, 0,
                                                    2, NULL, &target),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_key_distribution_create(MUSTER_PS_TARGET_UNIFORM, 0,
                                                    0, NULL, &target),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_key_distribution_create(3, 0, 2, NULL, &target),
                     MUSTER_ERR_INVALID);
    assert_null(target);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    double weights[3] = {1, 2, 3};
    muster_status status = MUSTER_ERR_NO_MEMORY;
    for (uint64_t n = 0; status == MUSTER_ERR_NO_MEMORY && n < 20; n++) {
        muster_key_distribution *target = NULL;
        muster_mem_fail_after(n);
        status = muster_key_distribution_create(MUSTER_PS_TARGET_WEIGHTS, 0, 3,
                                                weights, &target);
        muster_mem_fail_after(UINT64_MAX);
        assert_true(n > 0 || status == MUSTER_ERR_NO_MEMORY);
        muster_key_distribution_free(target);
    }
    assert_int_equal(status, MUSTER_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_draws_are_uniform),
        cmocka_unit_test(uniform_draws_of_very_many_keys_are_uniform),
        cmocka_unit_test(alias_draws_follow_their_weights),
        cmocka_unit_test(log_uniform_draws_follow_the_formula),
        cmocka_unit_test(many_draws_are_those_of_one_after_the_other),
        cmocka_unit_test(one_key_is_always_drawn),
        cmocka_unit_test(impossible_weights_are_refused),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
