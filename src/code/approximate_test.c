/*
 * approximate_test.c -- approximate codes: what they decode is never better nor
 * worse than they say, least squares is the best there is, and the published
 * error tables come out.
 */
#include "code/code_test.h"
#include "code/family.h"
#include "code/lsq.h"
#include "code/sets.h"

/* The decoded gradient must be as far off as the fit says, set by set. */
static void check_honesty(const char *name, uint32_t n)
{
    code_bench bench;
    bench_init(&bench, build_code(name, n, 0, 0), 400, 21);
    assert_false(bench.info.exact);
    for (set_walk at = walk_from(&bench, 1); walk_on(&at);) {
        double residual = at.fit.residual;
        if (at.status == MUSTER_OK) {
            assert_true(at.error < 1e-5);
            assert_int_equal(at.fit.parts_missing, 0);
        } else {
            // Parts are independent normals: the error is the residual.
            assert_true(fabs(at.error - residual) < 0.35 * residual);
            assert_true(!at.ready || at.count == n); // all there is
        }
    }
    bench_fini(&bench);
}

static void errors_are_what_the_fit_says(void **state)
{
    (void)state;
    check_honesty("ignore:s=2", 8);
    check_honesty("ignore:s=2,decode=sum", 8);
    check_honesty("bgc:d=3", 8);
    check_honesty("bgc:d=3,decode=one-step", 8);
    check_honesty("rbgc:d=2", 8);
    check_honesty("sgc:s=2,d=3", 8);
    check_honesty("sgc:s=2,d=3,decode=optimal", 8);
    check_honesty("erasurehead:d=3,s=4", 9);
    check_honesty("erasurehead", 7);
    check_honesty("graph", 9);
    check_honesty("graph:degree=2", 8);
    check_honesty("graph:degree=4", 10);
}

/* Same set, any decoder: least squares has the least residual. */
static void graph_decoding_equals_least_squares(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t n;
    } cases[] = {{"graph", 12}, {"graph:degree=4", 14}, {"graph:degree=2", 10}};
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        uint32_t n = cases[c].n;
        muster_code *code = build_code(cases[c].name, n, 0, 0);
        muster_code_decode_term terms[64];
        for (uint32_t mask = 0; mask < 1u << n; mask += 3) {
            uint32_t responders[32];
            uint32_t count = members(mask, n, responders);
            muster_code_query query = {
                .responders = responders, .count = count, .terms = terms};
            assert_int_equal(code->ops->weights(code, &query), MUSTER_OK);
            double own = query.fit.residual;
            assert_int_equal(muster_code_least_squares(code, &query),
                             MUSTER_OK);
            assert_true(fabs(own - query.fit.residual) < 1e-12);
        }
        muster_code_free(code);
    }
}

/* What aB - 1 leaves, part by part. */
static void residual_of(const muster_code *code, const muster_code_query *query,
                        double *left)
{
    uint32_t parts = muster_code_numbers(code)->parts;
    for (uint32_t j = 0; j < parts; j++) {
        left[j] = -1.0;
    }
    for (size_t i = 0; i < query->term_count; i++) {
        const muster_code_encode_term *row;
        uint32_t count;
        assert_int_equal(muster_code_encode_terms(code, query->terms[i].worker,
                                                  &row, &count),
                         MUSTER_OK);
        for (uint32_t t = 0; t < count; t++) {
            left[row[t].part] += query->terms[i].weight * row[t].coef;
        }
    }
}

/* At the best weights the residual is orthogonal to every responder's row. */
static void check_optimal(const muster_code *code,
                          const muster_code_query *query, const double *left)
{
    for (uint32_t r = 0; r < query->count; r++) {
        const muster_code_encode_term *row;
        uint32_t count;
        double along = 0.0;
        assert_int_equal(
            muster_code_encode_terms(code, query->responders[r], &row, &count),
            MUSTER_OK);
        for (uint32_t t = 0; t < count; t++) {
            along += left[row[t].part] * row[t].coef;
        }
        assert_true(fabs(along) < 1e-8);
    }
}

/* Dense (160 x 400 = 64,000 entries) and iterative (170 x 400) solves. */
static void large_problems_are_solved_alike(void **state)
{
    (void)state;
    enum { N = 400 };
    muster_code *code = build_code("bgc:d=4,draws=1", N, 0, 0);
    static muster_code_decode_term terms[N];
    static double left[N];
    static uint32_t heard[N];
    for (uint32_t count = 160; count <= 170; count += 10) {
        muster_code_sets sets = muster_code_sets_make(N, count, 3, 9);
        while (muster_code_sets_next(&sets, heard)) {
            muster_code_query query = {
                .responders = heard, .count = count, .terms = terms};
            assert_int_equal(muster_code_least_squares(code, &query),
                             MUSTER_OK);
            residual_of(code, &query, left);
            check_optimal(code, &query, left);
        }
    }
    muster_code_free(code);
}

static void a_settled_solve_is_shorter_and_nearly_the_best(void **state)
{
    (void)state;
    enum { N = 1000 };
    muster_code *code = build_code("bgc:d=3,draws=1", N, 0, 0);
    static muster_code_decode_term terms[N];
    static uint32_t heard[N];
    muster_code_sets sets = muster_code_sets_make(N, N - 1, 3, 9);
    while (muster_code_sets_next(&sets, heard)) {
        muster_code_query best = {
            .responders = heard, .count = N - 1, .terms = terms};
        muster_code_query rough = best;
        rough.improvement_min = 1e-4;
        assert_int_equal(muster_code_solve(code, &best), MUSTER_INEXACT);
        assert_int_equal(muster_code_solve(code, &rough), MUSTER_INEXACT);
        assert_true(rough.multiplied > 0);
        assert_true(rough.multiplied < best.multiplied / 4);
        assert_true(rough.fit.residual >= best.fit.residual);
        assert_true(rough.fit.residual < 1.02 * best.fit.residual);
    }
    muster_code_free(code);
}

/* ---- published tables ---------------------------------------------------- */

/* Sum of residual^2 over random sets of n - lost responders. */
static double sum_errors(const muster_code *code, uint32_t lost, uint32_t sets,
                         uint64_t seed)
{
    uint32_t n = muster_code_numbers(code)->workers;
    muster_rng rng = muster_rng_make(seed, 6);
    muster_code_decode_term terms[128];
    double sum = 0.0;
    assert_true(n <= 128);
    for (uint32_t i = 0; i < sets; i++) {
        // Selection sampling: n - lost of n, in order.
        uint32_t picked[128];
        uint32_t count = 0;
        for (uint32_t w = 0; w < n; w++) {
            if (muster_rng_below(&rng, n - w) < n - lost - count) {
                picked[count++] = w;
            }
        }
        size_t term_count;
        muster_code_fit fit = MUSTER_CODE_FIT_INIT;
        assert_true(muster_code_weights(code, picked, count, terms, &term_count,
                                        &fit) >= 0);
        sum += fit.residual * fit.residual;
    }
    return sum;
}

static double mean_error(const char *format, uint32_t n, uint32_t lost,
                         uint32_t codes, uint32_t sets_each)
{
    double sum = 0.0;
    for (uint32_t c = 0; c < codes; c++) {
        char name[128];
        snprintf(name, sizeof(name), "%s,seed=%u", format, c + 1);
        muster_code *code = build_code(name, n, 0, 0);
        sum += sum_errors(code, lost, sets_each, c);
        muster_code_free(code);
    }
    return sum / codes / sets_each;
}

static void near(double found, double wanted, double share)
{
    if (!(fabs(found - wanted) <= share * wanted)) {
        fail_msg("%g is not within %g of %g", found, share, wanted);
    }
}

static void bgc_and_frc_have_the_published_errors(void **state)
{
    (void)state;
    static const struct {
        uint32_t d, lost;
        double one_step, optimal, frc;
    } table[] = {{3, 6, .351, .085, .0006},
                 {3, 30, .630, .277, .119},
                 {5, 18, .261, .086, .0016},
                 {5, 30, .363, .167, .026}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char name[64];
        snprintf(name, sizeof(name), "bgc:draws=1,decode=one-step,d=%u",
                 table[i].d);
        near(mean_error(name, 60, table[i].lost, 40, 10), table[i].one_step,
             0.07);
        snprintf(name, sizeof(name), "bgc:draws=1,d=%u", table[i].d);
        near(mean_error(name, 60, table[i].lost, 40, 4), table[i].optimal, 0.1);
        snprintf(name, sizeof(name), "erasurehead:d=%u", table[i].d);
        near(mean_error(name, 60, table[i].lost, 1, 20000), table[i].frc, 0.15);
    }
}

/* Every edge lost with probability p, by itself. */
static double mean_error_iid(const char *name, uint32_t n, double p,
                             uint32_t rounds)
{
    muster_code *code = build_code(name, n, 0, 0);
    muster_rng rng = muster_rng_make(2, 2);
    muster_code_decode_term terms[128];
    double sum = 0.0;
    for (uint32_t i = 0; i < rounds; i++) {
        uint32_t picked[128];
        uint32_t count = 0;
        for (uint32_t w = 0; w < n; w++) {
            if (muster_rng_uniform(&rng) >= p) {
                picked[count++] = w;
            }
        }
        size_t term_count;
        muster_code_fit fit = MUSTER_CODE_FIT_INIT;
        assert_true(muster_code_weights(code, picked, count, terms, &term_count,
                                        &fit) >= 0);
        sum += fit.residual * fit.residual;
    }
    muster_code_free(code);
    return sum / rounds;
}

static void graph_codes_have_the_published_errors(void **state)
{
    (void)state;
    near(mean_error_iid("graph:degree=3", 24, .2, 20000), 8.9e-3, 0.12);
    near(mean_error_iid("graph:degree=6", 120, .2, 20000), 6.3e-5, 0.4);
}

static void the_sum_of_sgc_is_unbiased(void **state)
{
    (void)state;
    enum { N = 20, S = 5 };
    muster_code *code = build_code("sgc:s=5,d=3", N, 0, 0);
    double mean[N] = {0};
    muster_rng rng = muster_rng_make(4, 4);
    muster_code_decode_term terms[N];
    const uint32_t rounds = 20000;
    for (uint32_t i = 0; i < rounds; i++) {
        uint32_t picked[N];
        uint32_t count = 0;
        for (uint32_t w = 0; w < N; w++) {
            if (muster_rng_uniform(&rng) >= (double)S / N) {
                picked[count++] = w;
            }
        }
        size_t term_count;
        muster_code_fit fit = MUSTER_CODE_FIT_INIT;
        assert_true(muster_code_weights(code, picked, count, terms, &term_count,
                                        &fit) >= 0);
        for (size_t t = 0; t < term_count; t++) {
            const muster_code_encode_term *row;
            uint32_t row_count;
            assert_int_equal(muster_code_encode_terms(code, terms[t].worker,
                                                      &row, &row_count),
                             MUSTER_OK);
            for (uint32_t e = 0; e < row_count; e++) {
                mean[row[e].part] += terms[t].weight * row[e].coef / rounds;
            }
        }
    }
    for (uint32_t part = 0; part < N; part++) {
        assert_true(fabs(mean[part] - 1.0) < 0.02);
    }
    muster_code_free(code);
}

static void illegal_numbers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *says;
    } cases[] = {{"graph:degree=5", "divide 2 n = 16"},
                 {"graph:degree=4", "below"},
                 {"graph:d=3", "degree="},
                 {"bgc:d=9", "at most 8"},
                 {"bgc:decode=sum", "optimal or one-step"},
                 {"sgc:decode=one-step", "optimal or sum"},
                 {"ignore:d=2", "bgc"},
                 {"ignore:decode=x", "mean"},
                 {"bgc:m=2", "linear:tuned"},
                 {"erasurehead:d=9", "9 workers"}};
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
        muster_error error = {MUSTER_OK, ""};
        muster_code *code = NULL;
        opts.name = cases[c].name;
        opts.workers = 8;
        assert_true(muster_code_create(&opts, &error, &code) < 0);
        if (strstr(error.text, cases[c].says) == NULL) {
            fail_msg("%s: '%s' does not say '%s'", cases[c].name, error.text,
                     cases[c].says);
        }
    }
}

static void approximate_codes_reach_their_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t n;
    } cases[] = {{"graph:degree=4", 65536},
                 {"erasurehead:d=4", 65536},
                 {"ignore", 65536},
                 {"bgc:d=12,draws=1", 4096},
                 {"sgc:d=12,s=100,draws=1", 4096}};
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        uint32_t n = cases[c].n;
        muster_code *code = build_code(cases[c].name, n, 0, 0);
        uint32_t *all = muster_mem_array(n, sizeof(uint32_t));
        muster_code_decode_term *terms = muster_mem_array(
            muster_code_decode_terms_max(code), sizeof(*terms));
        size_t count;
        muster_code_fit fit = MUSTER_CODE_FIT_INIT;
        for (uint32_t i = 0; i < n; i++) {
            all[i] = i;
        }
        assert_true(muster_code_weights(code, all, n - n / 16, terms, &count,
                                        &fit) >= 0);
        assert_true(fit.residual < 0.7);
        muster_mem_free(terms);
        muster_mem_free(all);
        muster_code_free(code);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_what_the_fit_says),
        cmocka_unit_test(graph_decoding_equals_least_squares),
        cmocka_unit_test(large_problems_are_solved_alike),
        cmocka_unit_test(a_settled_solve_is_shorter_and_nearly_the_best),
        cmocka_unit_test(bgc_and_frc_have_the_published_errors),
        cmocka_unit_test(graph_codes_have_the_published_errors),
        cmocka_unit_test(the_sum_of_sgc_is_unbiased),
        cmocka_unit_test(illegal_numbers_are_refused),
        cmocka_unit_test(approximate_codes_reach_their_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
