/*
 * exact_test.c -- the exact families that solve: every responder set of small
 * clusters decodes to the plain sum, closed forms agree with the papers' own
 * decoders and golden numbers, and what is stated about float32 holds.
 */
#include <complex.h>

#include "code/code_test.h"
#include "code/family.h"
#include "code/numbers.h"

/* One set: within the tolerance it must decode, beyond it say so or be right.
 * Returns the relative error of what had to decode, else 0. */
static double check_set(code_bench *bench, bool ready,
                        const uint32_t *responders, uint32_t count,
                        double allowed)
{
    const muster_code_info *info = &bench->info;
    muster_status status;
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    double error = bench_decode(bench, responders, count, &status, &fit);
    if (count + info->stragglers >= info->workers) {
        if (!ready || status != MUSTER_OK || !(error < allowed) ||
            !(error <= 30 * fit.error_f32)) {
            fail_msg("%s n=%u s=%u m=%u, %u responders: ready %d, %s, error %g "
                     "of %g, predicted %g, residual %g",
                     info->name, info->workers, info->stragglers, info->comm,
                     count, ready, muster_status_name(status), error, allowed,
                     fit.error_f32, fit.residual);
        }
        return error;
    }
    if (status == MUSTER_OK) {
        assert_true(error < allowed);
    } else {
        assert_true(error > 1e-5);
        assert_true(fit.residual > 1e-6);
    }
    return 0.0;
}

/* All sets that must decode and all with one worker more missing; of up to
 * seven workers all there are. Returns the worst relative error within the
 * tolerance. */
static double check_code(muster_code *code, double allowed)
{
    code_bench bench;
    bench_init(&bench, code, 24, 11);
    uint32_t n = bench.info.workers;
    muster_code_progress *progress = NULL;
    assert_int_equal(muster_code_progress_create(bench.code, &progress),
                     MUSTER_OK);
    double worst = 0.0;
    for (uint32_t mask = 1; mask < 1u << n; mask++) {
        uint32_t responders[32];
        uint32_t count = members(mask, n, responders);
        if (n > 7 && count + bench.info.stragglers + 1 < n) {
            continue;
        }
        bool ready = ready_after(progress, responders, count);
        worst =
            fmax(worst, check_set(&bench, ready, responders, count, allowed));
    }
    muster_code_progress_free(progress);
    bench_fini(&bench);
    return worst;
}

static double check_sets(const char *name, uint32_t n, uint32_t s, uint32_t m,
                         double allowed)
{
    muster_code *code = build_code(name, n, s, m);
    assert_true(muster_code_numbers(code)->stragglers >= s);
    return check_code(code, allowed);
}

static void cyclic_mds_decodes_every_set(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 10; n++) {
        for (uint32_t s = 0; s < n; s++) {
            check_sets("cyclic-mds", n, s, 0, 1e-4);
        }
    }
}

static void rs_decodes_every_set(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 10; n++) {
        for (uint32_t s = 0; s < n; s++) {
            check_sets("rs", n, s, 0, 1e-4);
        }
    }
}

static void crc_decodes_every_set(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 10; n++) {
        for (uint32_t s = 0; s < n; s++) {
            check_sets("crc", n, s, 0, 1e-3);
        }
    }
}

static void heter_decodes_every_set(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 10; n++) {
        for (uint32_t s = 0; s < n; s++) {
            check_sets("heter", n, s, 0, 2e-5);
        }
    }
}

static void heter_group_decodes_every_set(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 10; n++) {
        for (uint32_t s = 0; s < n; s++) {
            check_sets("heter-group", n, s, 0, 2e-5);
        }
    }
}

static void unequal_speeds_decode_every_set(void **state)
{
    (void)state;
    static const double speeds[][8] = {{1, 2, 3, 4, 1, 2, 3, 4},
                                       {1, 1, 1, 1, 1, 1, 1, 50},
                                       {5, 1, 0, 1, 2, 9, 1, 3},
                                       {1, 1.7, 2.9, 3.1, 0.2, 1, 1, 0.01}};
    static const char *const names[] = {"heter", "heter-group"};
    for (size_t c = 0; c < 2 * sizeof(speeds) / sizeof(speeds[0]); c++) {
        for (uint32_t s = 0; s < 6; s++) {
            muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
            muster_error error = {MUSTER_OK, ""};
            muster_code *code = NULL;
            opts.name = names[c % 2];
            opts.workers = 8;
            opts.stragglers = s;
            opts.speeds = speeds[c / 2];
            assert_int_equal(muster_code_create(&opts, &error, &code),
                             MUSTER_OK);
            check_code(code, 2e-4);
        }
    }
}

static void ye_abbe_decodes_every_set(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 10; n++) {
        for (uint32_t s = 0; s < n; s++) {
            for (uint32_t m = 1; m + s <= n; m++) {
                check_sets("ye-abbe", n, s, m, 1e-2);
                check_sets("ye-abbe-tuned", n, s, m, 2e-5);
                check_sets("ye-abbe-random", n, s, m, 2e-3);
            }
        }
    }
}

static void check_window(uint32_t n, uint32_t s, const double *g)
{
    muster_code *code = build_code("cyclic-mds", n, s, 0);
    for (uint32_t i = 0; i + s < n; i++) {
        const muster_code_encode_term *terms;
        uint32_t count;
        assert_int_equal(muster_code_encode_terms(code, i, &terms, &count),
                         MUSTER_OK);
        assert_int_equal(count, s + 1);
        for (uint32_t t = 0; t <= s; t++) {
            assert_int_equal(terms[t].part, i + t);
            assert_true(fabs(terms[t].coef - g[t]) < 1e-6);
        }
    }
    muster_code_free(code);
}

static void cyclic_mds_has_the_golden_coefficients(void **state)
{
    (void)state;
    check_window(5, 2, (const double[]){1, 1.618034, 1});
    check_window(7, 2, (const double[]){1, 1.801938, 1});
    check_window(10, 3, (const double[]){1, 2.618034, 2.618034, 1});
}

/* Halbawi's own decoder: Lagrange at 0 over exactly n - s responders. */
static void rs_weights_are_lagranges(void **state)
{
    (void)state;
    enum { N = 9, S = 3, F = N - S };
    muster_code *code = build_code("rs", N, S, 0);
    const uint32_t responders[F] = {0, 2, 3, 5, 6, 8};
    muster_code_decode_term terms[4 * N];
    size_t count;
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    assert_int_equal(
        muster_code_weights(code, responders, F, terms, &count, &fit),
        MUSTER_OK);
    assert_int_equal(count, 4 * F);
    for (uint32_t r = 0; r < F; r++) {
        double complex weight = 1.0;
        double turn = 2.0 * acos(-1.0) / N;
        double complex at = cexp(turn * responders[r] * (double complex)I);
        for (uint32_t l = 0; l < F; l++) {
            double complex other =
                cexp(turn * responders[l] * (double complex)I);
            if (l != r) {
                weight *= -other / (at - other);
            }
        }
        // Sorted by output block, then worker: output 0 first.
        const muster_code_decode_term *low = terms + 2 * (size_t)r;
        const muster_code_decode_term *high = low + 2 * (size_t)F;
        assert_int_equal(low[0].worker, responders[r]);
        assert_true(fabs(low[0].weight - creal(weight)) < 1e-9);
        assert_true(fabs(low[1].weight + cimag(weight)) < 1e-9);
        assert_true(fabs(high[0].weight - cimag(weight)) < 1e-9);
    }
    muster_code_free(code);
}

static void ye_abbe_has_the_golden_integers(void **state)
{
    (void)state;
    static const int golden[10][5] = {{2, 0, 0, 2, 6},    {-6, 0, 0, 0, 6},
                                      {6, 2, 0, 0, 2},    {-6, 0, 0, 0, 6},
                                      {12, 6, 2, 0, 0},   {12, 12, 6, 0, 0},
                                      {0, -3, -4, -3, 0}, {0, 3, 0, -3, 0},
                                      {0, 0, 2, 6, 12},   {0, 0, -6, -12, -12}};
    muster_code *code = build_code("ye-abbe:theta=integers", 5, 1, 2);
    double seen[10][5] = {{0}};
    for (uint32_t w = 0; w < 5; w++) {
        const muster_code_encode_term *terms;
        uint32_t count;
        assert_int_equal(muster_code_encode_terms(code, w, &terms, &count),
                         MUSTER_OK);
        for (uint32_t i = 0; i < count; i++) {
            seen[2 * (size_t)terms[i].part + terms[i].gradient_block][w] =
                terms[i].coef;
        }
    }
    for (int row = 0; row < 10; row++) {
        for (int w = 0; w < 5; w++) {
            assert_true(seen[row][w] == golden[row][w]);
        }
    }
    muster_code_free(code);
}

/* Each of n workers answers with a chance of all but one of `odds`. Returns how
 * many do. */
static uint32_t hear_some(muster_rng *rng, uint32_t n, uint64_t odds,
                          uint32_t *heard_out)
{
    uint32_t count = 0;
    for (uint32_t w = 0; w < n; w++) {
        heard_out[count] = w;
        count += muster_rng_below(rng, odds) > 0;
    }
    return count;
}

/* Too few answers, at random: their step is of full length, or not shorter
 * than the least-squares best and not too far off, and the residual is that of
 * this step. */
static void check_full_length(const char *name, uint32_t n, uint64_t seed)
{
    muster_code *code = build_code(name, n, 0, 0);
    double allowed = sqrt(code->info.comm > 2 ? 0.87 : 0.5);
    muster_code_decode_term *terms =
        muster_mem_array(muster_code_decode_terms_max(code), sizeof(*terms));
    assert_non_null(terms);
    muster_rng rng = muster_rng_make(seed, 17);
    uint32_t short_sets = 0;
    uint32_t full_sets = 0;
    for (int round = 0; round < 100; round++) {
        uint32_t heard[32];
        uint32_t count = hear_some(&rng, n, 3, heard);
        muster_code_query query = {
            .responders = heard, .count = count, .terms = terms};
        assert_int_equal(code->ops->weights(code, &query), MUSTER_OK);
        double share = muster_code_mean_share(code, &query);
        double residual = query.fit.residual;
        if (muster_code_solve(code, &query) == MUSTER_OK) {
            continue;
        }
        short_sets++;
        // ||l c - 1||^2 where ||c - 1||^2 = k r^2 and the mean of c is `share`.
        double square = residual * residual - 1.0 + 2.0 * share;
        double longer =
            share > 0 ? muster_code_mean_share(code, &query) / share : 1.0;
        square = longer * longer * square - 2.0 * longer * share + 1.0;
        assert_true(fabs(query.fit.residual - sqrt(square)) < 1e-9);
        assert_true(longer > 1.0 - 1e-9);
        bool is_full = fabs(longer * share - 1.0) < 1e-9;
        bool is_far = query.fit.residual > allowed - 1e-9;
        assert_true(is_full || is_far || share > 1.0);
        assert_true(query.fit.residual < fmax(allowed, residual) + 1e-9);
        full_sets += is_full;
    }
    assert_true(full_sets > 0);
    assert_true(short_sets > 10);
    muster_mem_free(terms);
    muster_code_free(code);
}

static void too_few_answers_give_a_step_of_full_length(void **state)
{
    (void)state;
    static const char *const names[] = {"uncoded",
                                        "frc:s=1",
                                        "crc:s=1",
                                        "cyclic-mds:s=1",
                                        "rs:s=1",
                                        "ye-abbe:s=1,m=2",
                                        "heter:s=1",
                                        "heter-group:s=1",
                                        "ye-abbe-tuned:s=1,m=2",
                                        "linear:spc",
                                        "linear:tuned:s=1,m=2",
                                        "linear:gaussian:s=1,m=2",
                                        "ye-abbe:s=1,m=3",
                                        "ye-abbe:s=3,m=3",
                                        "ye-abbe-random:s=2,m=3",
                                        "ye-abbe-tuned:s=1,m=4",
                                        "linear:spc:m=3",
                                        "linear:vandermonde:s=1,m=3",
                                        "linear:hamming"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        check_full_length(names[i], 8, i + 1);
    }
    check_full_length("linear:vandermonde:s=1,m=3", 10, 1); // with a rest
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cyclic_mds_decodes_every_set),
        cmocka_unit_test(rs_decodes_every_set),
        cmocka_unit_test(crc_decodes_every_set),
        cmocka_unit_test(heter_decodes_every_set),
        cmocka_unit_test(heter_group_decodes_every_set),
        cmocka_unit_test(unequal_speeds_decode_every_set),
        cmocka_unit_test(ye_abbe_decodes_every_set),
        cmocka_unit_test(ye_abbe_has_the_golden_integers),
        cmocka_unit_test(cyclic_mds_has_the_golden_coefficients),
        cmocka_unit_test(rs_weights_are_lagranges),
        cmocka_unit_test(too_few_answers_give_a_step_of_full_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
