/*
 * heavy_test.c -- estimates are within the bound of Misra and Gries, and the
 * 100x rule finds exactly the keys that stand out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "ps/store/distribution.h"
#include "ps/store/heavy.h"

enum { KEYS = 100000, NOTES = 300000 };

static void estimates_are_low_by_at_most_the_bound(void **state)
{
    (void)state;
    muster_heavy *heavy = NULL;
    assert_int_equal(muster_heavy_create(KEYS, &heavy), MUSTER_OK);
    double *weights = calloc(KEYS, sizeof(*weights));
    uint32_t *truth = calloc(KEYS, sizeof(*truth));
    assert_true(weights != NULL && truth != NULL);
    muster_key_distribution_zipf(KEYS, 1.1, weights);
    muster_key_distribution *zipf = NULL;
    assert_int_equal(muster_key_distribution_create(MUSTER_PS_TARGET_WEIGHTS, 0,
                                                    KEYS, weights, &zipf),
                     MUSTER_OK);
    muster_draws draws = muster_draws_make(5, 0);
    for (int i = 0; i < NOTES; i++) {
        uint32_t key = muster_key_distribution_draw(zipf, &draws);
        truth[key]++;
        muster_heavy_note(heavy, key);
    }
    uint64_t bound = NOTES / (KEYS / MUSTER_HEAVY_FACTOR * 2 + 1) + 1;
    size_t must = 0;
    for (uint32_t k = 0; k < KEYS; k++) {
        uint64_t estimate = muster_heavy_estimate(heavy, k);
        assert_true(estimate <= truth[k] && truth[k] <= estimate + bound);
        must += (uint64_t)truth[k] * KEYS >
                (uint64_t)MUSTER_HEAVY_FACTOR * NOTES + bound * KEYS;
    }
    uint32_t hot[4096];
    size_t found = muster_heavy_hot(heavy, MUSTER_HEAVY_FACTOR, hot, 4096);
    assert_true(must > 10 && found >= must);
    for (size_t i = 0; i < found; i++) {
        assert_true((uint64_t)truth[hot[i]] * KEYS >
                    (uint64_t)MUSTER_HEAVY_FACTOR * NOTES);
    }
    muster_key_distribution_free(zipf);
    muster_heavy_free(heavy);
    free(weights);
    free(truth);
}

static void even_access_makes_nothing_hot(void **state)
{
    (void)state;
    muster_heavy *heavy = NULL;
    assert_int_equal(muster_heavy_create(1000, &heavy), MUSTER_OK);
    for (uint32_t i = 0; i < 20000; i++) {
        muster_heavy_note(heavy, i * 7 % 1000);
    }
    uint32_t hot[4];
    assert_int_equal(muster_heavy_hot(heavy, MUSTER_HEAVY_FACTOR, hot, 4), 0);
    muster_heavy_free(heavy);
}

static void ageing_forgets_what_was_hot(void **state)
{
    (void)state;
    muster_heavy *heavy = NULL;
    assert_int_equal(muster_heavy_create(10000, &heavy), MUSTER_OK);
    for (uint32_t i = 0; i < 1000; i++) {
        muster_heavy_note(heavy, 42);
    }
    uint32_t hot[4];
    assert_int_equal(muster_heavy_hot(heavy, MUSTER_HEAVY_FACTOR, hot, 4), 1);
    assert_int_equal(hot[0], 42);
    assert_true(muster_heavy_is_hot(heavy, MUSTER_HEAVY_FACTOR, 42));
    assert_false(muster_heavy_is_hot(heavy, MUSTER_HEAVY_FACTOR, 41));
    for (int i = 0; i < 8; i++) {
        muster_heavy_age(heavy);
    }
    assert_int_equal(muster_heavy_hot(heavy, MUSTER_HEAVY_FACTOR, hot, 4), 0);
    muster_heavy_free(heavy);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    muster_status status = MUSTER_ERR_NO_MEMORY;
    for (uint64_t n = 0; status == MUSTER_ERR_NO_MEMORY && n < 20; n++) {
        muster_heavy *heavy = NULL;
        muster_mem_fail_after(n);
        status = muster_heavy_create(100, &heavy);
        muster_mem_fail_after(UINT64_MAX);
        assert_true(n > 0 || status == MUSTER_ERR_NO_MEMORY);
        muster_heavy_free(heavy);
    }
    assert_int_equal(status, MUSTER_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(estimates_are_low_by_at_most_the_bound),
        cmocka_unit_test(even_access_makes_nothing_hot),
        cmocka_unit_test(ageing_forgets_what_was_hot),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
