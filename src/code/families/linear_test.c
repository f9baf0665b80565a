/*
 * linear_test.c -- linear codes as gradient codes: every responder set, the
 * minimum distances and conditions of the reference, peeling against least
 * squares, matrices from files, and groups never later than cyclic codes.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <unistd.h>

#include "code/code_test.h"
#include "code/families/linear.h"
#include "code/family.h"
#include "code/frame.h"
#include "code/generator.h"
#include "code/matrix_text.h"
#include "code/sets.h"

/* A set decodes exactly if and only if `ready` says so; any s may be missing,
 * and not any s + 1. */
static void check_all_sets(muster_code *code, double allowed)
{
    code_bench bench;
    bench_init(&bench, code, 26, 4);
    uint32_t n = bench.info.workers;
    bool is_true = false; // the tolerance is no more than it says
    // What a cyclic rest lacks may be little.
    double residual_min = n % bench.info.load == 0 ? 0.05 : 1e-4;
    for (set_walk at = walk_from(&bench, 0); walk_on(&at);) {
        assert_int_equal(at.status, at.ready ? MUSTER_OK : MUSTER_INEXACT);
        assert_true(at.ready || at.count + bench.info.stragglers < n);
        if (at.ready) {
            assert_true(at.error < allowed && at.error < 30 * at.fit.error_f32);
        } else {
            assert_true(at.fit.residual > residual_min);
            is_true |= at.count + bench.info.stragglers + 1 == n;
        }
    }
    assert_true(is_true);
    bench_fini(&bench);
}

static void mds_kinds_decode_every_set(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 10; n++) {
        for (uint32_t s = 0; s < n; s++) {
            for (uint32_t m = 1; m + s <= n; m++) {
                check_all_sets(build_code("linear:tuned", n, s, m), 1e-5);
                check_all_sets(build_code("linear:vandermonde", n, s, m), 1e-2);
                check_all_sets(build_code("linear:gaussian", n, s, m), 1e-3);
            }
        }
    }
}

static void plain_kinds_decode_every_set(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 10; n++) {
        for (uint32_t s = 0; s < n; s++) {
            check_all_sets(build_code("linear:repetition", n, s, 0), 1e-6);
        }
    }
    for (uint32_t n = 3; n <= 10; n++) {
        check_all_sets(build_code("linear:hamming:m=1", n, 0, 0), 1e-6);
    }
    for (uint32_t n = 7; n <= 10; n++) {
        check_all_sets(build_code("linear:hamming", n, 2, 0), 1e-5);
    }
    for (uint32_t a = 1; a <= 4; a++) {
        for (uint32_t b = 1; (a + 1) * (b + 1) <= 10; b++) {
            char name[64];
            snprintf(name, sizeof(name), "linear:product:a=%u,b=%u", a, b);
            for (uint32_t n = (a + 1) * (b + 1); n <= 10; n++) {
                check_all_sets(build_code(name, n, 3, 0), 1e-5);
            }
        }
    }
    check_all_sets(build_code("linear:product:m=3", 8, 0, 0), 1e-5);
}

/* ---- conditions and distances -------------------------------------------- */

static muster_generator generator_of(const char *name, uint32_t n)
{
    muster_code *code = build_code(name, n, 0, 0);
    muster_code_info info = *muster_code_numbers(code);
    muster_generator g = {
        info.comm, n, muster_mem_array((size_t)info.comm * n, sizeof(double))};
    for (uint32_t i = 0; i < n; i++) {
        const muster_code_encode_term *terms;
        uint32_t count;
        assert_int_equal(muster_code_encode_terms(code, i, &terms, &count),
                         MUSTER_OK);
        for (uint32_t t = 0; t < count && terms[t].part == 0; t++) {
            g.entries[(size_t)terms[t].gradient_block * n + i] = terms[t].coef;
        }
    }
    muster_code_free(code);
    return g;
}

static void check_structured(const char *name, uint32_t n, uint32_t distance,
                             double condition)
{
    muster_generator g = generator_of(name, n);
    uint32_t found = 0;
    muster_generator_survey survey;
    assert_int_equal(muster_generator_distance(&g, 1000000, &found), MUSTER_OK);
    assert_int_equal(found, distance);
    assert_int_equal(
        muster_generator_survey_run(&g, n - distance + 1, 100000, &survey),
        MUSTER_OK);
    if (fabs(survey.cond_worst - condition) > 0.01 * condition) {
        fail_msg("%s: condition %g, not %g", name, survey.cond_worst,
                 condition);
    }
    muster_mem_free(g.entries);
}

static void structured_codes_have_the_reference_figures(void **state)
{
    (void)state;
    check_structured("linear:spc", 3, 2, 2.618);
    check_structured("linear:spc:m=3", 4, 2, 3.732);
    check_structured("linear:hamming", 7, 3, 6.18);
    check_structured("linear:product", 9, 4, 6.58);
    check_structured("linear:repetition:s=4", 5, 5, 1.0);
}

static double harmonic_condition(uint32_t columns, uint32_t rows)
{
    muster_generator g = {
        rows, columns,
        muster_mem_array((size_t)rows * columns, sizeof(double))};
    muster_generator_survey survey;
    muster_frame_fill(rows, columns, g.entries);
    assert_int_equal(muster_generator_survey_run(&g, rows, 100000, &survey),
                     MUSTER_OK);
    muster_mem_free(g.entries);
    return survey.cond_worst;
}

static double tuned_condition(uint32_t columns, uint32_t rows)
{
    muster_generator g = {
        rows, columns,
        muster_mem_array((size_t)rows * columns, sizeof(double))};
    muster_generator_survey survey;
    muster_linear_tuned_generator(rows, columns, g.entries);
    assert_int_equal(muster_generator_survey_run(&g, rows, 100000, &survey),
                     MUSTER_OK);
    muster_mem_free(g.entries);
    return survey.cond_worst;
}

static void harmonic_frames_have_the_reference_conditions(void **state)
{
    (void)state;
    static const struct {
        uint32_t columns, rows;
        double condition;
    } table[] = {{4, 2, 2.4},   {5, 3, 3.6},   {6, 3, 5.8},   {8, 4, 15.3},
                 {10, 5, 42.3}, {12, 4, 69.2}, {10, 7, 22.8}, {16, 8, 1060}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        double found = harmonic_condition(table[i].columns, table[i].rows);
        assert_true(fabs(found - table[i].condition) <
                    0.02 * table[i].condition);
    }
}

static void tuned_is_never_worse_than_harmonic(void **state)
{
    (void)state;
    uint32_t better = 0;
    for (uint32_t columns = 2; columns <= 16; columns++) {
        for (uint32_t rows = 1; rows <= columns; rows++) {
            double harmonic = harmonic_condition(columns, rows);
            double tuned = tuned_condition(columns, rows);
            assert_true(tuned <= harmonic * (1.0 + 1e-9));
            better += tuned < 0.98 * harmonic;
        }
    }
    assert_true(better >= 25);
    assert_true(tuned_condition(6, 3) < 3.71);
}

static void hadamard_rows_have_distance_two_over_the_reals(void **state)
{
    (void)state;
    double entries[32];
    for (uint32_t u = 0; u < 4; u++) {
        for (uint32_t c = 0; c < 8; c++) {
            uint32_t overlap = u & c;
            uint32_t ones = (overlap & 1u) + ((overlap >> 1) & 1u);
            entries[u * 8 + c] = ones % 2 == 1 ? -1.0 : 1.0;
        }
    }
    muster_generator g = {4, 8, entries};
    uint32_t distance = 0;
    assert_int_equal(muster_generator_distance(&g, 1000000, &distance),
                     MUSTER_OK);
    assert_int_equal(distance, 2);
    // A repeated row: the rank falls.
    memcpy(entries, entries + 8, 8 * sizeof(double));
    assert_int_equal(muster_generator_distance(&g, 1000000, &distance),
                     MUSTER_ERR_UNSUPPORTED);
    assert_int_equal(distance, 0);
}

/* ---- files --------------------------------------------------------------- */

typedef struct temporary {
    char path[64];
    char name[96]; // linear:file=PATH
} temporary;

static temporary write_matrix(const char *text)
{
    temporary t = {"/tmp/muster_matrix_XXXXXX", ""};
    int file = mkstemp(t.path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (long)strlen(text));
    close(file);
    snprintf(t.name, sizeof(t.name), "linear:file=%s", t.path);
    return t;
}

static void a_file_makes_a_code(void **state)
{
    (void)state;
    temporary t = write_matrix("# [5, 2, 4]\n1 0 1, 1 1\n\n0,1,1 2 3 # end\n");
    for (uint32_t n = 5; n <= 9; n++) {
        muster_code *code = build_code(t.name, n, 0, 0);
        muster_code_info info = *muster_code_numbers(code);
        assert_int_equal(info.stragglers, n == 5 ? 3 : n - 3);
        assert_int_equal(info.comm, 2);
        assert_int_equal(info.load, 5);
        check_all_sets(code, 1e-4);
    }
    unlink(t.path);
}

static void refuses_at(uint32_t n, const char *text, const char *stated,
                       uint32_t s, muster_status want, const char *says)
{
    temporary t = write_matrix(text);
    char name[128];
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_error error = {MUSTER_OK, ""};
    muster_code *code = NULL;
    snprintf(name, sizeof(name), "%s%s", t.name, stated);
    opts.name = name;
    opts.workers = n;
    opts.stragglers = s;
    assert_int_equal(muster_code_create(&opts, &error, &code), want);
    if (strstr(error.text, says) == NULL) {
        fail_msg("'%s' does not say '%s'", error.text, says);
    }
    unlink(t.path);
}

static void refuses(const char *text, uint32_t s, muster_status want,
                    const char *says)
{
    refuses_at(8, text, "", s, want, says);
}

static void bad_files_are_refused_with_their_place(void **state)
{
    (void)state;
    refuses("1 2 3\n2 4 6\n", 0, MUSTER_ERR_UNSUPPORTED, "rank below 2");
    refuses("1 2\n1 3\n1 5\n", 0, MUSTER_ERR_UNSUPPORTED, "rank below 3");
    refuses("1 0 1\n0 1 1\n", 2, MUSTER_ERR_UNSUPPORTED, "[3, 2, 2]");
    refuses("1 0 1\n0 1\n", 0, MUSTER_ERR_INPUT, ":2: this row");
    refuses("1 0 x\n", 0, MUSTER_ERR_INPUT, ":1: not a number");
    refuses("1 0\n1 0 1e999\n", 0, MUSTER_ERR_INPUT, ":2: a number is not");
    refuses("# nothing\n", 0, MUSTER_ERR_INPUT, "no row");
    refuses("", 0, MUSTER_ERR_INPUT, "no row");
    refuses("1 2 3 4 5 6 7 8 9\n", 0, MUSTER_ERR_UNSUPPORTED, "needs 9");
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_error error = {MUSTER_OK, ""};
    muster_code *code = NULL;
    opts.workers = 8;
    opts.name = "linear:file=/nowhere/matrix";
    assert_int_equal(muster_code_create(&opts, &error, &code),
                     MUSTER_ERR_INPUT);
    assert_non_null(strstr(error.text, "/nowhere/matrix"));
    opts.name = "linear:file";
    assert_int_equal(muster_code_create(&opts, &error, &code),
                     MUSTER_ERR_INVALID);
}

/* The extended binary Golay code [24, 12, 8]: the identity beside the circulant
 * of the quadratic residues modulo 11, bordered by ones. Columns independent
 * over two elements are so over the reals, where the distance is 8 or more. */
static void write_golay(char *text, size_t room)
{
    size_t at = 0;
    for (uint32_t i = 0; i < 12; i++) {
        for (uint32_t j = 0; j < 24; j++) {
            uint32_t residue = j >= 12 ? (j - 12 + 11 - i) % 11 : 0;
            bool square = residue == 0 || residue == 1 || residue == 3 ||
                          residue == 4 || residue == 5 || residue == 9;
            bool one = j < 12 ? j == i : (i == 11) != (j == 23);
            if (i < 11 && j >= 12 && j < 23) {
                one = !square || residue == 0;
            }
            at += (size_t)snprintf(text + at, room - at, "%d%c", one,
                                   j == 23 ? '\n' : ' ');
        }
    }
}

/* The same code, of rows with few zeros: each is a sum of all. */
static void write_mixed(const char *golay, char *text, size_t room)
{
    size_t at = 0;
    for (uint32_t i = 0; i < 12; i++) {
        for (uint32_t j = 0; j < 24; j++) {
            uint32_t sum = 0;
            for (uint32_t r = 0; r < 12; r++) {
                uint32_t times =
                    (r == i ? 8 : 1) + ((i + 1) * (r + 3) * (r + i)) % 13;
                sum += golay[2 * (24 * r + j)] == '1' ? times : 0;
            }
            at += (size_t)snprintf(text + at, room - at, "%u%c", sum,
                                   j == 23 ? '\n' : ' ');
        }
    }
}

/* The smallest weight of the 4,096 words over two elements. */
static uint32_t binary_distance(const char *text)
{
    uint32_t rows[12] = {0};
    for (uint32_t i = 0; i < 12 * 24; i++) {
        rows[i / 24] |= (uint32_t)(text[2 * i] - '0') << (i % 24);
    }
    uint32_t weight_min = 24;
    for (uint32_t choice = 1; choice < 4096; choice++) {
        uint32_t word = 0;
        for (uint32_t i = 0; i < 12; i++) {
            word ^= (choice >> i) & 1u ? rows[i] : 0;
        }
        uint32_t weight = (uint32_t)__builtin_popcount(word);
        weight_min = weight < weight_min ? weight : weight_min;
    }
    return weight_min;
}

static void a_stated_distance_is_checked_on_some_sets(void **state)
{
    (void)state;
    char text[12 * 48 + 1];
    write_golay(text, sizeof(text));
    assert_int_equal(binary_distance(text), 8);
    refuses_at(24, text, "", 0, MUSTER_ERR_UNSUPPORTED, "state it");
    refuses_at(24, text, ":d=14", 0, MUSTER_ERR_UNSUPPORTED, "at most 13");
    char mixed[12 * 24 * 4];
    write_mixed(text, mixed, sizeof(mixed));
    refuses_at(24, mixed, ":d=12", 0, MUSTER_ERR_UNSUPPORTED, "rank falls");
    refuses_at(24, text, ":d=8", 8, MUSTER_ERR_UNSUPPORTED, "[24, 12, 8]");
    refuses_at(24, text, ":d=9", 0, MUSTER_ERR_UNSUPPORTED,
               "row 0 has a weight of 8");
    refuses_at(24, text, ",d=8", 0, MUSTER_ERR_INPUT, "after a colon");
    refuses_at(24, text, ":d=x", 0, MUSTER_ERR_INVALID, "whole number");
    temporary t = write_matrix(text);
    char name[128];
    snprintf(name, sizeof(name), "%s:d=8", t.name);
    muster_code *code = build_code(name, 24, 7, 0);
    muster_code_info info = *muster_code_numbers(code);
    assert_int_equal(info.stragglers, 7);
    assert_int_equal(info.comm, 12);
    assert_non_null(strstr(info.warning, "as stated, checked on 2000 sets"));
    muster_code_survey survey;
    assert_int_equal(muster_code_survey_run(code, 500, 3, 0.0, &survey),
                     MUSTER_OK);
    assert_true(survey.residual_worst < 1e-10);
    muster_code_free(code);
    unlink(t.path);
    // Found where that is quick: what is stated must not be more.
    refuses_at(5, "1 0 1 1 1\n0 1 1 2 3\n", ":d=5", 0, MUSTER_ERR_UNSUPPORTED,
               "[5, 2, 4]");
}

/* ---- peeling ------------------------------------------------------------- */

static void peeling_only_adds_and_subtracts(void **state)
{
    (void)state;
    muster_code *code = build_code("linear:product", 9, 3, 0);
    muster_code_decode_term terms[36];
    uint32_t whole = 0;
    uint32_t all = 0;
    for (uint32_t mask = 0; mask < 512; mask++) {
        uint32_t responders[9];
        uint32_t count = members(mask, 9, responders);
        size_t term_count;
        muster_code_fit fit = MUSTER_CODE_FIT_INIT;
        if (muster_code_weights(code, responders, count, terms, &term_count,
                                &fit) != MUSTER_OK) {
            continue;
        }
        all++;
        bool integers = true;
        for (size_t i = 0; i < term_count; i++) {
            integers = integers && terms[i].weight == rint(terms[i].weight);
        }
        whole += integers;
        assert_true(count < 6 || integers); // three lost cells always peel
    }
    assert_true(all > 100 && whole > all * 8 / 10);
    muster_code_free(code);
}

/* ---- groups against cyclic ----------------------------------------------- */

static void a_group_code_is_never_later_than_a_cyclic_one(void **state)
{
    (void)state;
    static const uint32_t cases[][3] = {
        {12, 2, 2}, {12, 1, 3}, {20, 3, 2}, {30, 3, 3}, {24, 5, 1}};
    muster_rng rng = muster_rng_make(17, 3);
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        uint32_t n = cases[c][0];
        muster_code *group =
            build_code("linear:tuned", n, cases[c][1], cases[c][2]);
        muster_code *cyclic =
            build_code("ye-abbe-tuned", n, cases[c][1], cases[c][2]);
        muster_code_progress *one = NULL;
        muster_code_progress *two = NULL;
        assert_int_equal(muster_code_progress_create(group, &one), MUSTER_OK);
        assert_int_equal(muster_code_progress_create(cyclic, &two), MUSTER_OK);
        uint32_t earlier = 0;
        for (int round = 0; round < 300; round++) {
            uint32_t order[32];
            for (uint32_t i = 0; i < n; i++) {
                uint32_t j = (uint32_t)muster_rng_below(&rng, i + 1);
                order[i] = order[j];
                order[j] = i;
            }
            muster_code_progress_reset(one);
            muster_code_progress_reset(two);
            for (uint32_t i = 0; i < n; i++) {
                bool group_ready = muster_code_progress_add(one, order[i]);
                bool cyclic_ready = muster_code_progress_add(two, order[i]);
                assert_true(group_ready || !cyclic_ready);
                earlier += group_ready && !cyclic_ready;
            }
        }
        assert_true(earlier > 0);
        muster_code_progress_free(one);
        muster_code_progress_free(two);
        muster_code_free(group);
        muster_code_free(cyclic);
    }
}

static void unequal_groups_serve_any_number(void **state)
{
    (void)state;
    static const char *const names[] = {
        "linear:tuned:s=2,m=2", "linear:gaussian:s=2,m=2",
        "linear:repetition:s=3", "linear:hamming", "linear:product"};
    for (size_t c = 0; c < sizeof(names) / sizeof(names[0]); c++) {
        for (uint32_t n = 19; n <= 23; n++) {
            muster_code *code = build_code(names[c], n, 0, 0);
            muster_code_survey survey;
            assert_int_equal(
                muster_code_survey_run(code, 2000, 5, 0.0, &survey), MUSTER_OK);
            assert_true(survey.residual_worst < 1e-10);
            assert_true(survey.error_worst < 2e-5);
            muster_code_free(code);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mds_kinds_decode_every_set),
        cmocka_unit_test(plain_kinds_decode_every_set),
        cmocka_unit_test(structured_codes_have_the_reference_figures),
        cmocka_unit_test(harmonic_frames_have_the_reference_conditions),
        cmocka_unit_test(tuned_is_never_worse_than_harmonic),
        cmocka_unit_test(hadamard_rows_have_distance_two_over_the_reals),
        cmocka_unit_test(a_file_makes_a_code),
        cmocka_unit_test(bad_files_are_refused_with_their_place),
        cmocka_unit_test(a_stated_distance_is_checked_on_some_sets),
        cmocka_unit_test(peeling_only_adds_and_subtracts),
        cmocka_unit_test(a_group_code_is_never_later_than_a_cyclic_one),
        cmocka_unit_test(unequal_groups_serve_any_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
