/*
 * group_test.c -- how groups are formed: the least load where their size does
 * not divide n, and by speed, fast workers in every group and parts by the
 * group's speed; decodings of every set, and every allocation failed in turn.
 */
#include "code/code_test.h"
#include "code/family.h"
#include "code/sets.h"

static muster_code *build_at(const char *name, uint32_t n, const double *speeds)
{
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_error error = {MUSTER_OK, ""};
    muster_code *code = NULL;
    opts.name = name;
    opts.workers = n;
    opts.speeds = speeds;
    if (muster_code_create(&opts, &error, &code) != MUSTER_OK) {
        fail_msg("%s n=%u: %s", name, n, error.text);
    }
    return code;
}

static uint32_t load_of(const muster_code *code, uint32_t worker)
{
    const uint32_t *parts;
    uint32_t count;
    assert_int_equal(muster_code_parts(code, worker, &parts, &count),
                     MUSTER_OK);
    return count;
}

/* ---- the rest ------------------------------------------------------------ */

static void every_worker_has_the_least_load(void **state)
{
    (void)state;
    static const char *const names[] = {"linear:tuned", "linear:gaussian"};
    for (size_t c = 0; c < 2; c++) {
        for (uint32_t n = 4; n <= 23; n++) {
            muster_code *code = build_code(names[c], n, 2, 2);
            muster_code_info info = *muster_code_numbers(code);
            assert_int_equal(info.parts, n);
            assert_int_equal(info.stragglers, 2);
            for (uint32_t i = 0; i < n; i++) {
                assert_int_equal(load_of(code, i), 4); // s + m of n
            }
            muster_code_free(code);
        }
    }
}

static void larger_groups_say_what_they_tolerate(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t n, tolerates;
    } cases[] = {{"linear:tuned:s=2,m=2,rest=groups", 10, 3},
                 {"linear:tuned:s=2,m=2,rest=groups", 9, 2},
                 {"linear:tuned:s=2,m=2,rest=cyclic", 10, 2},
                 {"linear:repetition:s=2", 8, 3},
                 {"linear:repetition:s=2", 7, 2},
                 {"linear:spc", 5, 2},
                 {"linear:spc", 4, 1},
                 {"frc:s=1", 8, 1}};
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        muster_code *code = build_code(cases[c].name, cases[c].n, 0, 0);
        assert_int_equal(muster_code_numbers(code)->stragglers,
                         cases[c].tolerates);
        muster_code_free(code);
    }
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_error error = {MUSTER_OK, ""};
    muster_code *code = NULL;
    opts.name = "linear:tuned:rest=ring";
    opts.workers = 8;
    assert_int_equal(muster_code_create(&opts, &error, &code),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "cyclic"));
}

/* ---- speeds -------------------------------------------------------------- */

static const double three_kinds[12] = {1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4};

/* Of workers that hold the same parts, some are among the fastest third. */
static void no_group_is_all_slow(void **state)
{
    (void)state;
    static const char *const names[] = {"frc:s=2", "erasurehead:d=3",
                                        "linear:repetition:s=2", "linear:spc",
                                        "linear:tuned:s=1,m=2"};
    for (size_t c = 0; c < sizeof(names) / sizeof(names[0]); c++) {
        muster_code *code = build_at(names[c], 12, three_kinds);
        uint32_t fast[12] = {0};
        assert_int_equal(muster_code_numbers(code)->parts, 12);
        for (uint32_t i = 8; i < 12; i++) {
            const uint32_t *parts;
            uint32_t count;
            assert_int_equal(muster_code_parts(code, i, &parts, &count),
                             MUSTER_OK);
            for (uint32_t j = 0; j < count; j++) {
                fast[parts[j]]++;
            }
        }
        for (uint32_t part = 0; part < 12; part++) {
            assert_int_equal(fast[part], 1);
        }
        muster_code_free(code);
    }
}

/* Groups {10, 1}, {1, 1}, {1, 1}: 24 parts, one each and 21 by speed 11:2:2. */
static void a_fast_group_owns_more_parts(void **state)
{
    (void)state;
    static const double speeds[6] = {1, 1, 10, 1, 1, 1};
    muster_code *code = build_at("frc:s=1", 6, speeds);
    assert_int_equal(muster_code_numbers(code)->parts, 24);
    assert_int_equal(load_of(code, 2), 16);
    assert_int_equal(muster_code_numbers(code)->load, 16);
    uint32_t four = 0;
    for (uint32_t i = 0; i < 6; i++) {
        four += load_of(code, i) == 4;
    }
    assert_int_equal(four, 4);
    muster_code_free(code);
    // Equal speeds change nothing.
    static const double equal[6] = {3, 3, 3, 3, 3, 3};
    code = build_at("frc:s=1", 6, equal);
    const uint32_t *parts;
    uint32_t count;
    assert_int_equal(muster_code_parts(code, 3, &parts, &count), MUSTER_OK);
    assert_true(count == 2 && parts[0] == 2);
    muster_code_free(code);
}

/* A set decodes exactly if and only if `ready` says so. */
static void check_every_set(muster_code *code)
{
    code_bench bench;
    bench_init(&bench, code, 24, 7);
    uint32_t n = bench.info.workers;
    for (set_walk at = walk_from(&bench, 1); walk_on(&at);) {
        assert_int_equal(at.status, at.ready ? MUSTER_OK : MUSTER_INEXACT);
        assert_true(!at.ready || at.error < 1e-5);
        assert_true(at.ready || !bench.info.exact ||
                    at.count + bench.info.stragglers < n);
        for (size_t i = 1; i < 4 && at.ready; i++) { // sorted
            assert_true(bench.terms[i - 1].output_block <=
                        bench.terms[i].output_block);
        }
        if (!at.ready) { // the missing share is that of least squares
            muster_code_query query = {.responders = at.responders,
                                       .count = at.count,
                                       .terms = bench.terms};
            assert_int_equal(code->ops->weights(code, &query), MUSTER_OK);
            double residual = query.fit.residual;
            uint32_t missing = query.fit.parts_missing;
            assert_int_equal(muster_code_measure(code, &query), MUSTER_OK);
            assert_true(fabs(residual - query.fit.residual) < 1e-9);
            assert_int_equal(missing, query.fit.parts_missing);
        }
    }
    bench_fini(&bench);
}

static void groups_by_speed_decode_every_set(void **state)
{
    (void)state;
    static const double speeds[][9] = {{1, 2, 3, 4, 1, 2, 3, 4, 5},
                                       {1, 1, 1, 1, 1, 1, 1, 50, 1},
                                       {5, 1, 0, 1, 2, 9, 1, 3, 0}};
    static const char *const names[] = {
        "frc:s=2",           "erasurehead:d=2,s=2",  "linear:repetition:s=1",
        "linear:spc",        "linear:tuned:s=2,m=2", "linear:gaussian:s=1,m=2",
        "linear:hamming:m=1"};
    for (size_t c = 0; c < sizeof(names) / sizeof(names[0]); c++) {
        for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
            check_every_set(build_at(names[c], 9, speeds[i]));
        }
        check_every_set(build_at(names[c], 9, NULL));
    }
}

static void bad_speeds_are_refused(void **state)
{
    (void)state;
    const double speeds[4] = {1, 2, -1, 1};
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_error error = {MUSTER_OK, ""};
    muster_code *code = NULL;
    opts.name = "frc:s=1";
    opts.workers = 4;
    opts.speeds = speeds;
    assert_int_equal(muster_code_create(&opts, &error, &code),
                     MUSTER_ERR_INVALID);
    assert_non_null(strstr(error.text, "worker 2"));
}

static muster_status life_with_failure(const char *name, const double *speeds,
                                       uint64_t allowed)
{
    static const uint32_t heard[6] = {0, 2, 3, 4, 5, 6};
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_code_decode_term terms[64];
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    muster_code *code = NULL;
    size_t count;
    opts.name = name;
    opts.workers = 7;
    opts.speeds = speeds;
    muster_mem_fail_after(allowed);
    muster_status status = muster_code_create(&opts, NULL, &code);
    if (status == MUSTER_OK) {
        status = muster_code_weights(code, heard, 6, terms, &count, &fit);
    }
    muster_mem_fail_after(UINT64_MAX);
    muster_code_free(code);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int by_speed = 0; by_speed < 2; by_speed++) {
        uint64_t allowed = 0;
        muster_status status = MUSTER_ERR_NO_MEMORY;
        for (; status < 0; allowed += allowed < 300 ? 1 : 37) {
            status =
                life_with_failure("linear:tuned:s=1,m=2",
                                  by_speed ? three_kinds + 3 : NULL, allowed);
            assert_true(status >= 0 || status == MUSTER_ERR_NO_MEMORY);
        }
        assert_true(allowed > 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_worker_has_the_least_load),
        cmocka_unit_test(larger_groups_say_what_they_tolerate),
        cmocka_unit_test(no_group_is_all_slow),
        cmocka_unit_test(a_fast_group_owns_more_parts),
        cmocka_unit_test(groups_by_speed_decode_every_set),
        cmocka_unit_test(bad_speeds_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
