/*
 * Codes in stages: whatever was received, the sum is exact if and only if every
 * part came from somebody.
 */
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "muster/code.h"
#include "muster/code_report.h"

#define ANSWERS_MAX 256u
#define PARTS_MAX   64u
#define DIM         3u

typedef struct fixture {
    muster_code *code;
    muster_code_info info;
    uint32_t answers;
    float messages[ANSWERS_MAX][DIM];
    float sum[DIM];
    muster_code_progress *progress;
    muster_code_decode_term *terms;
} fixture;

static muster_status make(const char *name, uint32_t workers,
                          const double *speeds, muster_code **code_out)
{
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    opts.name = name;
    opts.workers = workers;
    opts.speeds = speeds;
    muster_error error = {0};
    return muster_code_create(&opts, &error, code_out);
}

/* The gradient of a part. */
static void gradient_of(uint32_t part, float *out)
{
    for (uint32_t t = 0; t < DIM; t++) {
        out[t] = (float)((int)((part + 1) * (t + 3) % 17) - 8);
    }
}

static void encode_all(fixture *f)
{
    for (uint32_t a = 0; a < f->answers; a++) {
        const uint32_t *parts;
        uint32_t count;
        assert_int_equal(muster_code_answer_parts(f->code, a, &parts, &count),
                         MUSTER_OK);
        assert_true(count <= 1);
        float gradient[DIM] = {0};
        const float *grads[1] = {gradient};
        if (count > 0) {
            gradient_of(parts[0], gradient);
        }
        assert_int_equal(
            muster_code_encode(f->code, a, grads, DIM, NULL, f->messages[a]),
            MUSTER_OK);
    }
}

static void set_up(fixture *f, const char *name, uint32_t workers,
                   const double *speeds)
{
    memset(f, 0, sizeof(*f));
    assert_int_equal(make(name, workers, speeds, &f->code), MUSTER_OK);
    f->info = (muster_code_info)MUSTER_CODE_INFO_INIT;
    assert_int_equal(muster_code_describe(f->code, &f->info), MUSTER_OK);
    f->answers = muster_code_answers(f->code);
    assert_true(f->answers <= ANSWERS_MAX && f->info.parts <= PARTS_MAX);
    for (uint32_t part = 0; part < f->info.parts; part++) {
        float gradient[DIM];
        gradient_of(part, gradient);
        for (uint32_t t = 0; t < DIM; t++) {
            f->sum[t] += gradient[t];
        }
    }
    encode_all(f);
    f->terms = muster_mem_array(muster_code_decode_terms_max(f->code),
                                sizeof(*f->terms));
    assert_non_null(f->terms);
    assert_int_equal(muster_code_progress_create(f->code, &f->progress),
                     MUSTER_OK);
}

static void tear_down(fixture *f)
{
    muster_code_progress_free(f->progress);
    muster_mem_free(f->terms);
    muster_code_free(f->code);
}

/* How many parts nobody of the responders has. */
static uint32_t count_missing(const fixture *f, const uint32_t *responders,
                              uint32_t count)
{
    bool has[PARTS_MAX] = {false};
    uint32_t missing = f->info.parts;
    for (uint32_t r = 0; r < count; r++) {
        const uint32_t *parts;
        uint32_t held;
        assert_int_equal(
            muster_code_answer_parts(f->code, responders[r], &parts, &held),
            MUSTER_OK);
        if (held > 0 && !has[parts[0]]) {
            has[parts[0]] = true;
            missing--;
        }
    }
    return missing;
}

static void check_sum(const fixture *f, size_t term_count)
{
    const float *messages[ANSWERS_MAX];
    float sum[DIM];
    for (uint32_t a = 0; a < f->answers; a++) {
        messages[a] = f->messages[a];
    }
    const muster_code_decode_input input = {f->terms, term_count, messages};
    assert_int_equal(muster_code_decode(f->code, &input, DIM, NULL, sum),
                     MUSTER_OK);
    for (uint32_t t = 0; t < DIM; t++) {
        assert_float_equal(sum[t], f->sum[t], 0);
    }
}

/* Exact, ready and right if and only if all parts are there. */
static void check_set(fixture *f, const uint32_t *responders, uint32_t count)
{
    uint32_t missing = count_missing(f, responders, count);
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    size_t term_count = 0;
    muster_status status = muster_code_weights(f->code, responders, count,
                                               f->terms, &term_count, &fit);
    assert_int_equal(status, missing == 0 ? MUSTER_OK : MUSTER_INEXACT);
    assert_int_equal(fit.parts_missing, missing);
    assert_int_equal(term_count, f->info.parts - missing);
    // The parts that are there count for the missing ones, within limits.
    double lacking = (double)missing / (double)f->info.parts;
    double lengthened = fmin(lacking / (1 - lacking), fmax(lacking, 0.5));
    assert_float_equal(fit.residual, sqrt(lengthened), 1e-6);
    muster_code_progress_reset(f->progress);
    for (uint32_t r = 0; r < count; r++) {
        (void)muster_code_progress_add(f->progress, responders[r]);
    }
    assert_int_equal(muster_code_progress_ready(f->progress), missing == 0);
    if (missing == 0) {
        check_sum(f, term_count);
    }
}

static void check_every_pattern(const char *name, uint32_t workers,
                                const double *speeds)
{
    fixture f;
    set_up(&f, name, workers, speeds);
    assert_true(f.answers <= 16);
    for (uint32_t mask = 0; mask < 1u << f.answers; mask++) {
        uint32_t responders[16];
        uint32_t count = 0;
        for (uint32_t a = 0; a < f.answers; a++) {
            if ((mask >> a & 1) != 0) {
                responders[count++] = a;
            }
        }
        check_set(&f, responders, count);
    }
    tear_down(&f);
}

static void
every_pattern_of_stages_is_exact_iff_all_parts_are_covered(void **state)
{
    (void)state;
    check_every_pattern("scheduled", 1, NULL);
    check_every_pattern("scheduled:s=0", 3, NULL);
    check_every_pattern("scheduled:s=1", 2, NULL);
    check_every_pattern("scheduled:s=1", 5, NULL);
    check_every_pattern("scheduled:s=2", 3, NULL);
    check_every_pattern("scheduled:s=2", 5, NULL);
    check_every_pattern("scheduled:s=2,order=staircase", 4, NULL);
    check_every_pattern("scheduled:s=1,order=staircase", 6, NULL);
    check_every_pattern("scheduled:s=1,pieces=2", 4, NULL);
    check_every_pattern("scheduled:s=1,order=speeds", 4,
                        (const double[]){4, 2, 1, 1});
}

/* Some answers or many. */
static void check_seed(fixture *f, uint64_t seed, uint64_t stream)
{
    muster_rng rng = muster_rng_make(seed, stream);
    uint32_t responders[ANSWERS_MAX];
    uint32_t count = 0;
    double chance = muster_rng_uniform(&rng);
    for (uint32_t a = 0; a < f->answers; a++) {
        if (muster_rng_uniform(&rng) < chance) {
            responders[count++] = a;
        }
    }
    check_set(f, responders, count);
}

static void patterns_of_many_workers_are_exact_iff_covered(void **state)
{
    static const char *const names[] = {
        "scheduled:s=2", "scheduled:s=2,order=staircase",
        "scheduled:s=3,pieces=4", "scheduled:s=2,order=speeds"};
    static const double speeds[12] = {1, 1, 3, 3, 1, 1, 2, 2, 1, 1, 1, 9};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        fixture f;
        set_up(&f, names[i], 12, i == 3 ? speeds : NULL);
        for (uint64_t seed = 0; seed < 2000; seed++) {
            check_seed(&f, seed, i);
        }
        tear_down(&f);
    }
}

static void first_parts_are_all_different(void **state)
{
    static const char *const orders[] = {"cyclic", "staircase", "speeds"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof(name), "scheduled:s=3,order=%s", orders[i]);
        fixture f;
        set_up(&f, name, 10, NULL);
        uint32_t responders[10];
        for (uint32_t w = 0; w < 10; w++) {
            responders[w] = w * f.info.stages;
        }
        assert_int_equal(f.info.own_stages, 1);
        assert_int_equal(count_missing(&f, responders, 10), 0);
        tear_down(&f);
    }
}

/* The report tries sets of s missing workers: every one must decode. */
static void any_s_silent_workers_are_tolerated(void **state)
{
    static const char *const names[] = {
        "scheduled:s=2", "scheduled:s=3,order=staircase",
        "scheduled:s=2,pieces=3", "scheduled:s=3,order=speeds"};
    static const double speeds[10] = {5, 1, 1, 2, 2, 9, 1, 3, 3, 1};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
        opts.name = names[i];
        opts.workers = 10;
        opts.speeds = i == 3 ? speeds : NULL;
        muster_code_report report = MUSTER_CODE_REPORT_INIT;
        muster_error error;
        assert_int_equal(muster_code_report_make(&opts, 0, &error, &report),
                         MUSTER_OK);
        assert_true(report.sets_checked >= 45);
        assert_true(report.rel_err_f64_worst < 1e-12);
        assert_true(report.exact);
    }
}

static uint32_t parts_of(const fixture *f, uint32_t worker)
{
    const uint32_t *parts;
    uint32_t count;
    assert_int_equal(muster_code_parts(f->code, worker, &parts, &count),
                     MUSTER_OK);
    for (uint32_t i = 1; i < count; i++) {
        assert_true(parts[i - 1] < parts[i]);
    }
    return count;
}

static void fast_workers_get_more_parts_and_slow_ones_help_first(void **state)
{
    static const double speeds[6] = {1, 4, 4, 4, 4, 0.5};
    fixture f;
    (void)state;
    set_up(&f, "scheduled:s=2,order=speeds", 6, speeds);
    uint32_t total = 0;
    for (uint32_t w = 0; w < 6; w++) {
        total += parts_of(&f, w);
    }
    assert_int_equal(total, 18);
    assert_true(parts_of(&f, 1) > parts_of(&f, 0));
    assert_int_equal(parts_of(&f, 5), 1);
    // The share of the slowest comes second with one of the fast.
    bool found = false;
    for (uint32_t w = 1; w < 5; w++) {
        const uint32_t *parts;
        uint32_t count;
        assert_int_equal(muster_code_answer_parts(f.code, w * f.info.stages + 1,
                                                  &parts, &count),
                         MUSTER_OK);
        found = found || (count == 1 && parts[0] == 5);
    }
    assert_true(found);
    tear_down(&f);
}

static void pieces_of_others_come_from_the_other_end(void **state)
{
    fixture f;
    (void)state;
    set_up(&f, "scheduled:s=1,pieces=4", 3, NULL);
    static const uint32_t order[8] = {0, 1, 2, 3, 7, 6, 5, 4};
    assert_int_equal(f.info.stages, 8);
    assert_int_equal(f.info.own_stages, 4);
    assert_int_equal(f.info.parts, 12);
    for (uint32_t stage = 0; stage < 8; stage++) {
        const uint32_t *parts;
        uint32_t count;
        assert_int_equal(
            muster_code_answer_parts(f.code, stage, &parts, &count), MUSTER_OK);
        assert_int_equal(count, 1);
        assert_int_equal(parts[0], order[stage]);
    }
    tear_down(&f);
}

static void what_cannot_be_served_is_refused(void **state)
{
    muster_code *code = NULL;
    (void)state;
    assert_int_equal(make("scheduled:order=up", 4, NULL, &code),
                     MUSTER_ERR_INVALID);
    assert_int_equal(make("scheduled:start=later", 4, NULL, &code),
                     MUSTER_ERR_INVALID);
    assert_int_equal(make("scheduled:s=2,order=staircase", 5, NULL, &code),
                     MUSTER_ERR_UNSUPPORTED);
    assert_int_equal(make("scheduled:s=1,pieces=33", 4, NULL, &code),
                     MUSTER_ERR_UNSUPPORTED);
    assert_int_equal(make("scheduled:s=4", 4, NULL, &code),
                     MUSTER_ERR_UNSUPPORTED);
    assert_int_equal(make("scheduled:s=1,m=2", 4, NULL, &code),
                     MUSTER_ERR_UNSUPPORTED);
    assert_null(code);
}

/* A program built against the first release knows no stages. */
static void describe_fills_the_fields_that_a_caller_knows(void **state)
{
    muster_code *code = NULL;
    (void)state;
    assert_int_equal(make("scheduled:s=1", 4, NULL, &code), MUSTER_OK);
    muster_code_info info = MUSTER_CODE_INFO_INIT;
    info.struct_size = offsetof(muster_code_info, stages);
    info.stages = 77;
    assert_int_equal(muster_code_describe(code, &info), MUSTER_OK);
    assert_int_equal(info.stages, 77);
    assert_int_equal(info.parts, 4);
    muster_code_free(code);
    assert_int_equal(make("frc:s=1", 4, NULL, &code), MUSTER_OK);
    info = (muster_code_info)MUSTER_CODE_INFO_INIT;
    assert_int_equal(muster_code_describe(code, &info), MUSTER_OK);
    assert_int_equal(info.stages, 1);
    assert_int_equal(muster_code_answers(code), 4);
    muster_code_free(code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            every_pattern_of_stages_is_exact_iff_all_parts_are_covered),
        cmocka_unit_test(patterns_of_many_workers_are_exact_iff_covered),
        cmocka_unit_test(first_parts_are_all_different),
        cmocka_unit_test(any_s_silent_workers_are_tolerated),
        cmocka_unit_test(fast_workers_get_more_parts_and_slow_ones_help_first),
        cmocka_unit_test(pieces_of_others_come_from_the_other_end),
        cmocka_unit_test(what_cannot_be_served_is_refused),
        cmocka_unit_test(describe_fills_the_fields_that_a_caller_knows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
