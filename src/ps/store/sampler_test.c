/*
 * sampler_test.c -- each scheme against the definition of its level.
 *
 * Rows are "here" by a rule of the test, which also records what was asked for.
 * L1: chi-square of single samples and of neighbouring pairs. L2: every sample
 * has the target's distribution at each position of a group, each draw is used
 * exactly U times within its window. L3: a handle's samples are a permutation
 * of what L2 gives, those here come first, and long-run frequencies pass the
 * chi-square. L4: only rows that are here; local samples have the target's
 * distribution among those, repurposed ones that of the accesses kept. The same
 * statistic refuses samples of another level.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "ps/store/sampler.h"

enum { KEYS = 20, HANDLE = 100 };

typedef struct place {
    uint32_t here_below; // rows 0..here_below-1 are here
    size_t brought;
    size_t asked;
} place;

static bool is_here(void *context, uint32_t key)
{
    place *p = context;
    p->asked++;
    return key < p->here_below;
}

static void bring(void *context, const uint32_t *keys, size_t count)
{
    place *p = context;
    (void)keys;
    p->brought += count;
}

static double target_p(uint32_t key)
{
    double sum = 0;
    for (int k = 1; k <= KEYS; k++) {
        sum += 1.0 / k;
    }
    return 1.0 / (key + 1) / sum;
}

static muster_key_distribution *make_target(void)
{
    double weights[KEYS];
    muster_key_distribution *target = NULL;
    for (int k = 0; k < KEYS; k++) {
        weights[k] = 1.0 / (k + 1);
    }
    assert_int_equal(muster_key_distribution_create(MUSTER_PS_TARGET_WEIGHTS, 0,
                                                    KEYS, weights, &target),
                     MUSTER_OK);
    return target;
}

static muster_sampler *make_sampler(const muster_key_distribution *target,
                                    uint32_t scheme, place *p, uint64_t seed)
{
    muster_sampler_opts opts = {
        .scheme = scheme, .reuse = 4, .group = 25, .seed = seed, .stream = 1};
    muster_nearby nearby = {.here = is_here, .bring = bring, .context = p};
    muster_sampler *sampler = NULL;
    assert_int_equal(muster_sampler_create(target, &opts, &nearby, &sampler),
                     MUSTER_OK);
    return sampler;
}

static void take(muster_sampler *sampler, uint32_t *keys, size_t count)
{
    uint32_t handle;
    assert_int_equal(muster_sampler_prepare(sampler, count, &handle),
                     MUSTER_OK);
    assert_int_equal(muster_sampler_pull(sampler, handle, count, keys),
                     MUSTER_OK);
}

static double chi_square(const uint64_t *counts, double total)
{
    double sum = 0;
    for (uint32_t k = 0; k < KEYS; k++) {
        double off = (double)counts[k] - target_p(k) * total;
        sum += off * off / (target_p(k) * total);
    }
    return sum;
}

/* Against any expectation; keys with none must not occur. */
static double chi_square_of(const uint64_t *counts, const double *expected)
{
    double sum = 0;
    for (uint32_t k = 0; k < KEYS; k++) {
        double off = (double)counts[k] - expected[k];
        assert_true(expected[k] > 0 || counts[k] == 0);
        sum += expected[k] > 0 ? off * off / expected[k] : 0;
    }
    return sum;
}

/* Pairs whose two are independent: 399 degrees of freedom. */
static void check_pairs(uint64_t (*pairs)[KEYS], double total)
{
    double sum = 0;
    for (uint32_t a = 0; a < KEYS; a++) {
        for (uint32_t b = 0; b < KEYS; b++) {
            double expected = target_p(a) * target_p(b) * total;
            double off = (double)pairs[a][b] - expected;
            sum += off * off / expected;
        }
    }
    assert_true(sum < 550);
}

static void independent_samples_and_their_pairs_fit_the_target(void **state)
{
    (void)state;
    place p = {0};
    muster_key_distribution *target = make_target();
    muster_sampler *sampler =
        make_sampler(target, MUSTER_PS_INDEPENDENT, &p, 1);
    enum { ROUNDS = 2000 };
    uint64_t counts[KEYS] = {0};
    uint64_t pairs[KEYS][KEYS] = {0};
    uint32_t keys[HANDLE];
    for (int r = 0; r < ROUNDS; r++) {
        take(sampler, keys, HANDLE);
        for (int i = 0; i < HANDLE; i++) {
            counts[keys[i]]++;
            if (i % 2 == 1) {
                pairs[keys[i - 1]][keys[i]]++;
            }
        }
    }
    assert_int_equal(p.brought, ROUNDS * HANDLE);
    assert_true(chi_square(counts, ROUNDS * HANDLE) < 65); // 19 d.o.f.
    check_pairs(pairs, ROUNDS * HANDLE / 2.0);
    muster_sampler_free(sampler);
    muster_key_distribution_free(target);
}

/* The last sample of a position and the first of the next one. */
static void samples_of_positions_are_independent(void **state)
{
    (void)state;
    place p = {0};
    muster_key_distribution *target = make_target();
    muster_sampler *sampler =
        make_sampler(target, MUSTER_PS_INDEPENDENT, &p, 1);
    enum { POSITIONS = 100000 };
    uint64_t counts[KEYS] = {0};
    uint64_t pairs[KEYS][KEYS] = {0};
    uint32_t last = 0;
    for (uint64_t at = 0; at < POSITIONS; at++) {
        uint32_t keys[2];
        muster_sampler_seek(sampler, muster_draws_at(1, 0, at));
        take(sampler, keys, 2);
        counts[keys[0]]++;
        pairs[last][keys[0]] += at > 0;
        last = keys[1];
    }
    assert_true(chi_square(counts, POSITIONS) < 65); // 19 d.o.f.
    check_pairs(pairs, POSITIONS - 1);
    muster_sampler_free(sampler);
    muster_key_distribution_free(target);
}

static void reused_draws_occur_exactly_u_times_in_their_window(void **state)
{
    (void)state;
    place p = {0};
    muster_key_distribution *target = make_target();
    muster_sampler *sampler = make_sampler(target, MUSTER_PS_REUSE, &p, 2);
    for (int window = 0; window < 50; window++) {
        uint32_t keys[HANDLE]; // group 25 times reuse 4
        uint32_t first[KEYS] = {0};
        uint32_t all[KEYS] = {0};
        take(sampler, keys, HANDLE);
        for (int i = 0; i < HANDLE; i++) {
            first[keys[i]] += i < 25;
            all[keys[i]]++;
        }
        for (int k = 0; k < KEYS; k++) {
            assert_int_equal(all[k], 4 * first[k]);
        }
    }
    assert_int_equal(p.brought, 50 * 25);
    muster_sampler_free(sampler);
    muster_key_distribution_free(target);
}

static void every_position_of_a_reuse_window_has_the_target(void **state)
{
    (void)state;
    muster_key_distribution *target = make_target();
    static uint64_t counts[4][KEYS]; // positions 0, 30, 60, 99
    static const int positions[4] = {0, 30, 60, 99};
    enum { RUNS = 20000 };
    place p = {0};
    muster_sampler *sampler = make_sampler(target, MUSTER_PS_REUSE, &p, 3);
    for (int r = 0; r < RUNS; r++) {
        uint32_t keys[HANDLE];
        take(sampler, keys, HANDLE);
        for (int i = 0; i < 4; i++) {
            counts[i][keys[positions[i]]]++;
        }
    }
    for (int i = 0; i < 4; i++) {
        assert_true(chi_square(counts[i], RUNS) < 65);
    }
    muster_sampler_free(sampler);
    muster_key_distribution_free(target);
}

/* Dependence is bounded by the group: neighbours across its end are
 * independent, neighbours within it are not. */
static void reuse_windows_are_independent_of_each_other(void **state)
{
    (void)state;
    enum { RUNS = 40000 };
    static uint64_t pairs[2][KEYS][KEYS];
    muster_key_distribution *target = make_target();
    place p = {0};
    muster_sampler *sampler = make_sampler(target, MUSTER_PS_REUSE, &p, 8);
    uint32_t last = KEYS;
    for (int r = 0; r < RUNS; r++) {
        uint32_t keys[HANDLE];
        take(sampler, keys, HANDLE);
        if (last < KEYS) {
            pairs[0][last][keys[0]]++;
        }
        pairs[1][keys[24]][keys[25]]++; // a draw and one of its group again
        last = keys[HANDLE - 1];
    }
    double sums[2] = {0};
    for (int kind = 0; kind < 2; kind++) {
        for (uint32_t a = 0; a < KEYS; a++) {
            for (uint32_t b = 0; b < KEYS; b++) {
                double expected = target_p(a) * target_p(b) * RUNS;
                double off = (double)pairs[kind][a][b] - expected;
                sums[kind] += off * off / expected;
            }
        }
    }
    assert_true(sums[0] < 550); // 399 d.o.f.
    assert_true(sums[1] > 550);
    muster_sampler_free(sampler);
    muster_key_distribution_free(target);
}

static void postponing_permutes_a_handle_and_puts_off_once(void **state)
{
    (void)state;
    muster_key_distribution *target = make_target();
    place half = {.here_below = 3};
    place none = {0};
    muster_sampler *reuse = make_sampler(target, MUSTER_PS_REUSE, &none, 4);
    muster_sampler *later = make_sampler(target, MUSTER_PS_POSTPONE, &half, 4);
    enum { RUNS = 2000 };
    uint64_t counts[KEYS] = {0};
    size_t early_here[2] = {0};
    for (int r = 0; r < RUNS; r++) {
        uint32_t keys[2][HANDLE];
        int balance[KEYS] = {0};
        take(reuse, keys[0], HANDLE);
        take(later, keys[1], HANDLE);
        for (int i = 0; i < HANDLE; i++) {
            balance[keys[0][i]]++;
            balance[keys[1][i]]--;
            counts[keys[1][i]]++;
            for (int s = 0; s < 2; s++) {
                early_here[s] += i < HANDLE / 2 && keys[s][i] < 3;
            }
        }
        for (int k = 0; k < KEYS; k++) {
            assert_int_equal(balance[k], 0);
        }
    }
    assert_true(early_here[1] > early_here[0] * 11 / 10);
    // Draws are used four times, which multiplies the statistic by four.
    assert_true(chi_square(counts, RUNS * HANDLE) < 4 * 65);
    muster_sampler_free(reuse);
    muster_sampler_free(later);
    muster_key_distribution_free(target);
}

static void local_samples_are_always_here(void **state)
{
    (void)state;
    muster_key_distribution *target = make_target();
    place p = {.here_below = 2};
    muster_sampler *sampler = make_sampler(target, MUSTER_PS_LOCAL, &p, 5);
    uint64_t counts[KEYS] = {0};
    for (int r = 0; r < 200; r++) {
        uint32_t keys[HANDLE];
        take(sampler, keys, HANDLE);
        for (int i = 0; i < HANDLE; i++) {
            assert_true(keys[i] < 2);
            counts[keys[i]]++;
        }
    }
    assert_true(counts[0] > 0 && counts[1] > 0);
    assert_int_equal(p.brought, 0);
    muster_sampler_free(sampler);
    muster_key_distribution_free(target);
}

static void local_samples_never_have_weight_0(void **state)
{
    (void)state;
    double weights[KEYS];
    muster_key_distribution *target = NULL;
    for (int k = 0; k < KEYS; k++) {
        weights[k] = k < 3 ? 0 : 1;
    }
    weights[1] = 1e-12; // drawn hardly ever, but possible
    assert_int_equal(muster_key_distribution_create(MUSTER_PS_TARGET_WEIGHTS, 0,
                                                    KEYS, weights, &target),
                     MUSTER_OK);
    place p = {.here_below = 3};
    muster_sampler *sampler = make_sampler(target, MUSTER_PS_LOCAL, &p, 11);
    uint32_t keys[HANDLE];
    take(sampler, keys, HANDLE);
    for (int i = 0; i < HANDLE; i++) {
        assert_int_equal(keys[i], 1);
    }
    muster_sampler_free(sampler);
    muster_key_distribution_free(target);
}

static void a_local_sample_looks_at_few_keys(void **state)
{
    (void)state;
    enum { MANY = 1000000 };
    muster_key_distribution *target = NULL;
    place p = {.here_below = 0};
    assert_int_equal(muster_key_distribution_create(MUSTER_PS_TARGET_UNIFORM, 0,
                                                    MANY, NULL, &target),
                     MUSTER_OK);
    muster_sampler *sampler = make_sampler(target, MUSTER_PS_LOCAL, &p, 12);
    uint32_t keys[HANDLE];
    take(sampler, keys, HANDLE);
    assert_true(p.asked <= (size_t)HANDLE * (16 + 4096));
    for (int i = 1; i < HANDLE; i++) {
        assert_true(keys[i] < MANY && keys[i] != keys[i - 1]);
    }
    muster_sampler_free(sampler);
    muster_key_distribution_free(target);
}

static void local_samples_have_the_target_among_what_is_here(void **state)
{
    (void)state;
    enum { ROUNDS = 500, HERE = 10 };
    muster_key_distribution *target = make_target();
    place p = {.here_below = HERE};
    muster_sampler *sampler = make_sampler(target, MUSTER_PS_LOCAL, &p, 9);
    uint64_t counts[KEYS] = {0};
    double expected[KEYS] = {0};
    double mass = 0;
    for (int r = 0; r < ROUNDS; r++) {
        uint32_t keys[HANDLE];
        take(sampler, keys, HANDLE);
        for (int i = 0; i < HANDLE; i++) {
            counts[keys[i]]++;
        }
    }
    for (uint32_t k = 0; k < HERE; k++) {
        mass += target_p(k);
    }
    // Sixteen draws miss all that is here less than once in 10^11 times.
    for (uint32_t k = 0; k < HERE; k++) {
        expected[k] = target_p(k) / mass * ROUNDS * HANDLE;
    }
    assert_true(chi_square_of(counts, expected) < 40); // 9 d.o.f.
    assert_true(chi_square(counts, ROUNDS * HANDLE) > 65);
    muster_sampler_free(sampler);
    muster_key_distribution_free(target);
}

static void repurposed_samples_have_the_frequencies_of_accesses(void **state)
{
    (void)state;
    enum { ROUNDS = 500, KEPT = 256 };
    muster_key_distribution *target = make_target();
    place p = {.here_below = KEYS};
    muster_sampler *sampler = make_sampler(target, MUSTER_PS_REPURPOSE, &p, 10);
    uint64_t counts[KEYS] = {0};
    double expected[KEYS] = {0};
    // Accesses before the last 256 are forgotten.
    for (int i = 0; i < KEPT; i++) {
        muster_sampler_note(sampler, 19);
    }
    for (int i = 0; i < KEPT; i++) {
        uint32_t key = (uint32_t)(i % 8 < 5 ? 3 : i % 8);
        muster_sampler_note(sampler, key);
        expected[key] += (double)ROUNDS * HANDLE / KEPT;
    }
    for (int r = 0; r < ROUNDS; r++) {
        uint32_t keys[HANDLE];
        take(sampler, keys, HANDLE);
        for (int i = 0; i < HANDLE; i++) {
            counts[keys[i]]++;
        }
    }
    assert_true(chi_square_of(counts, expected) < 30); // 3 d.o.f.
    assert_true(chi_square(counts, ROUNDS * HANDLE) > 65);
    muster_sampler_free(sampler);
    muster_key_distribution_free(target);
}

static void repurposed_samples_are_keys_lately_accessed(void **state)
{
    (void)state;
    muster_key_distribution *target = make_target();
    place p = {.here_below = KEYS};
    muster_sampler *sampler = make_sampler(target, MUSTER_PS_REPURPOSE, &p, 6);
    muster_sampler_note(sampler, 3);
    muster_sampler_note(sampler, 7);
    muster_sampler_note(sampler, KEYS); // out of range: ignored
    uint64_t counts[KEYS] = {0};
    uint32_t keys[HANDLE];
    take(sampler, keys, HANDLE);
    for (int i = 0; i < HANDLE; i++) {
        assert_true(keys[i] == 3 || keys[i] == 7);
        counts[keys[i]]++;
    }
    assert_true(counts[3] > 20 && counts[7] > 20);
    p.here_below = 3; // what was accessed has left: local sampling instead
    take(sampler, keys, HANDLE);
    for (int i = 0; i < HANDLE; i++) {
        assert_true(keys[i] < 3);
    }
    muster_sampler_free(sampler);
    muster_key_distribution_free(target);
}

static void handles_are_bounded_and_checked(void **state)
{
    (void)state;
    muster_key_distribution *target = make_target();
    place p = {0};
    muster_sampler *sampler =
        make_sampler(target, MUSTER_PS_INDEPENDENT, &p, 7);
    uint32_t handles[MUSTER_PS_SAMPLE_HANDLES_MAX];
    uint32_t keys[8];
    for (uint32_t i = 0; i < MUSTER_PS_SAMPLE_HANDLES_MAX; i++) {
        assert_int_equal(muster_sampler_prepare(sampler, 4, &handles[i]),
                         MUSTER_OK);
    }
    uint32_t more;
    assert_int_equal(muster_sampler_prepare(sampler, 4, &more),
                     MUSTER_ERR_AGAIN);
    assert_int_equal(muster_sampler_pull(sampler, handles[0], 5, keys),
                     MUSTER_ERR_INVALID);
    assert_int_equal(muster_sampler_pull(sampler, handles[0], 4, keys),
                     MUSTER_OK);
    assert_int_equal(muster_sampler_pull(sampler, handles[0], 1, keys),
                     MUSTER_ERR_INVALID);
    for (uint32_t i = 1; i < MUSTER_PS_SAMPLE_HANDLES_MAX; i++) {
        assert_int_equal(muster_sampler_finish(sampler, handles[i]), MUSTER_OK);
        assert_int_equal(muster_sampler_finish(sampler, handles[i]),
                         MUSTER_ERR_INVALID);
    }
    assert_int_equal(
        muster_sampler_prepare(sampler, MUSTER_PS_SAMPLES_MAX + 1, &more),
        MUSTER_ERR_AGAIN);
    assert_int_equal(
        muster_sampler_prepare(sampler, MUSTER_PS_SAMPLES_MAX, &more),
        MUSTER_OK);
    assert_int_equal(muster_sampler_prepare(sampler, 1, &handles[0]),
                     MUSTER_ERR_AGAIN);
    muster_sampler_free(sampler);
    muster_key_distribution_free(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(independent_samples_and_their_pairs_fit_the_target),
        cmocka_unit_test(samples_of_positions_are_independent),
        cmocka_unit_test(reused_draws_occur_exactly_u_times_in_their_window),
        cmocka_unit_test(every_position_of_a_reuse_window_has_the_target),
        cmocka_unit_test(reuse_windows_are_independent_of_each_other),
        cmocka_unit_test(postponing_permutes_a_handle_and_puts_off_once),
        cmocka_unit_test(local_samples_are_always_here),
        cmocka_unit_test(local_samples_never_have_weight_0),
        cmocka_unit_test(a_local_sample_looks_at_few_keys),
        cmocka_unit_test(local_samples_have_the_target_among_what_is_here),
        cmocka_unit_test(repurposed_samples_have_the_frequencies_of_accesses),
        cmocka_unit_test(repurposed_samples_are_keys_lately_accessed),
        cmocka_unit_test(handles_are_bounded_and_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
