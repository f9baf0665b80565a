/*
 * staged_test.c -- steps of codes in stages: cases done by hand, and a slow
 * twin on random workers.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "plan/staged.h"
#include "plan/staged_test.h"

static muster_code *make_code(const char *name, uint32_t workers,
                              const double *speeds)
{
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    muster_code *code = NULL;
    opts.name = name;
    opts.workers = workers;
    opts.speeds = speeds;
    assert_int_equal(muster_code_create(&opts, NULL, &code), MUSTER_OK);
    return code;
}

static double step_s(const char *name, const double *each, uint32_t workers,
                     double alone)
{
    muster_staged_pace paces[TWIN_WORKERS];
    muster_code *code = make_code(name, workers, NULL);
    muster_staged staged;
    assert_true(muster_staged_init(&staged, code));
    for (uint32_t w = 0; w < workers; w++) {
        paces[w] = (muster_staged_pace){0, (float)each[w]};
    }
    double step = muster_staged_step_s(&staged, paces, alone);
    muster_staged_fini(&staged);
    muster_code_free(code);
    return step;
}

static void
while_nobody_is_late_a_step_is_as_long_as_an_uncoded_one(void **state)
{
    (void)state;
    const double each[] = {1, 1, 1, 1.25, 1, 1};
    assert_true(fabs(step_s("scheduled:s=2", each, 6, 0) - 1.25) < 1e-6);
    // Six messages share a NIC: five from 1 on, one more from 1.25 on.
    assert_true(fabs(step_s("scheduled:s=2", each, 6, 0.2) - 2.2) < 1e-6);
}

static void a_share_that_is_late_comes_from_the_next_holder(void **state)
{
    (void)state;
    // Worker 2 has share 3 as its second.
    const double one[] = {1, 1, 1, 100, 1, 1};
    assert_true(fabs(step_s("scheduled:s=1", one, 6, 0) - 2) < 1e-6);
    // Shares 3 and 4: worker 2 has both, the second as its third. Worker 1 goes
    // over to share 3 when it is asked, too late to help.
    const double two[] = {1, 1, 1, 100, 100, 1};
    assert_true(fabs(step_s("scheduled:s=2", two, 6, 0) - 3) < 1e-6);
    // With the staircase workers 0 and 5 have shares 2 and 3 as their third:
    // they go over to it when they are asked.
    const double eight[] = {1, 1, 100, 100, 1, 1, 1, 1};
    assert_true(fabs(step_s("scheduled:s=2,order=staircase", eight, 8, 0) -
                     2.25) < 1e-6);
}

static void storage_is_what_a_worker_holds(void **state)
{
    (void)state;
    muster_code *code = make_code("scheduled:s=2,pieces=2", 6, NULL);
    muster_staged staged;
    assert_true(muster_staged_init(&staged, code));
    assert_true(fabs(muster_staged_storage(&staged, 3) - 0.5) < 1e-12);
    muster_staged_fini(&staged);
    muster_code_free(code);
}

static void steps_end_when_those_of_a_slow_twin_do(void **state)
{
    (void)state;
    static const char *const names[] = {
        "scheduled:s=1", "scheduled:s=2,order=staircase", "scheduled:s=3",
        "scheduled:s=2,order=speeds", "scheduled:s=2,pieces=3"};
    for (uint64_t seed = 0; seed < 400; seed++) {
        muster_rng rng = muster_rng_make(seed, 5);
        uint32_t n = 4 + 2 * (uint32_t)muster_rng_below(&rng, 6);
        double begin[TWIN_WORKERS], each[TWIN_WORKERS], speeds[TWIN_WORKERS];
        muster_staged_pace paces[TWIN_WORKERS];
        for (uint32_t w = 0; w < n; w++) {
            bool slow = muster_rng_uniform(&rng) < 0.3;
            speeds[w] = slow ? 0.2 : 1;
            paces[w] = (muster_staged_pace){
                (float)(0.1 * muster_rng_uniform(&rng)),
                (float)((1 + muster_rng_uniform(&rng)) / speeds[w])};
            begin[w] = (double)paces[w].begin;
            each[w] = (double)paces[w].each;
        }
        double alone = seed % 2 == 0 ? 0 : 0.3 * muster_rng_uniform(&rng);
        muster_code *code = make_code(names[seed % 5], n, speeds);
        muster_staged staged;
        assert_true(muster_staged_init(&staged, code));
        double mine = muster_staged_step_s(&staged, paces, alone);
        double his = twin_step_s(code, begin, each, alone);
        if (fabs(mine - his) > 1e-4 * his) {
            fail_msg("seed %u: %g, not %g", (unsigned)seed, mine, his);
        }
        muster_staged_fini(&staged);
        muster_code_free(code);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            while_nobody_is_late_a_step_is_as_long_as_an_uncoded_one),
        cmocka_unit_test(a_share_that_is_late_comes_from_the_next_holder),
        cmocka_unit_test(storage_is_what_a_worker_holds),
        cmocka_unit_test(steps_end_when_those_of_a_slow_twin_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
