/*
 * quota_test.c -- quotas add up, stay within one of the exact share, in each
 * class and in all; tried on worked examples and thousands of random shapes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "partition/quota.h"

#define WORKERS_MAX 40u
#define CLASSES_MAX 30u

typedef struct quota_case {
    double speeds[WORKERS_MAX];
    uint32_t starts[CLASSES_MAX + 1];
    uint32_t quotas[WORKERS_MAX * CLASSES_MAX];
    muster_quota_input input;
} quota_case;

static void make(quota_case *q)
{
    q->input.speeds = q->speeds;
    q->input.starts = q->starts;
    assert_int_equal(muster_quota_make(&q->input, q->quotas), MUSTER_OK);
}

static void leftovers_go_to_the_largest_remainders(void **state)
{
    (void)state;
    // 10 samples for 1 : 2 : 4 are 1.43, 2.86 and 5.71: the two leftovers go
    // to the workers with .86 and .71.
    quota_case q = {.speeds = {1, 2, 4}, .starts = {0, 10}};
    q.input.workers = 3;
    q.input.classes = 1;
    make(&q);
    assert_int_equal(q.quotas[0], 1);
    assert_int_equal(q.quotas[1], 3);
    assert_int_equal(q.quotas[2], 6);
}

static void a_small_class_leaves_the_slow_workers_out(void **state)
{
    (void)state;
    quota_case q = {.speeds = {1, 4, 4, 1}, .starts = {0, 2}};
    q.input.workers = 4;
    q.input.classes = 1;
    make(&q);
    assert_int_equal(q.quotas[0], 0);
    assert_int_equal(q.quotas[1], 1);
    assert_int_equal(q.quotas[2], 1);
    assert_int_equal(q.quotas[3], 0);
}

static void what_one_class_refuses_the_next_gives(void **state)
{
    (void)state;
    // One sample in each of four classes, four equal workers: one each.
    quota_case q = {.starts = {0, 1, 2, 3, 4}};
    q.input.workers = 4;
    q.input.classes = 4;
    q.input.speeds = NULL;
    q.input.starts = q.starts;
    assert_int_equal(muster_quota_make(&q.input, q.quotas), MUSTER_OK);
    for (uint32_t c = 0; c < 4; c++) {
        for (uint32_t j = 0; j < 4; j++) {
            assert_int_equal(q.quotas[c * 4 + j], c == j);
        }
    }
}

static void check_promises(const quota_case *q)
{
    double sum = 0.0;
    double totals[WORKERS_MAX] = {0};
    for (uint32_t j = 0; j < q->input.workers; j++) {
        sum += q->speeds[j];
    }
    for (uint32_t c = 0; c < q->input.classes; c++) {
        uint32_t size = q->starts[c + 1] - q->starts[c];
        uint32_t given = 0;
        for (uint32_t j = 0; j < q->input.workers; j++) {
            uint32_t quota = q->quotas[c * q->input.workers + j];
            double exact = q->speeds[j] / sum * size;
            assert_true(fabs(quota - exact) < 1.0 + 1e-6);
            given += quota;
            totals[j] += quota;
        }
        assert_int_equal(given, size);
    }
    uint32_t all = q->starts[q->input.classes];
    for (uint32_t j = 0; j < q->input.workers; j++) {
        assert_true(fabs(totals[j] - q->speeds[j] / sum * all) < 1.0 + 1e-6);
    }
}

static void random_shapes_keep_every_promise(void **state)
{
    (void)state;
    muster_rng rng = muster_rng_make(19, 1);
    static quota_case q;
    for (int turn = 0; turn < 3000; turn++) {
        q.input.workers = 1 + (uint32_t)muster_rng_below(&rng, WORKERS_MAX);
        q.input.classes = 1 + (uint32_t)muster_rng_below(&rng, CLASSES_MAX);
        uint64_t largest = 1 + muster_rng_below(&rng, 60);
        for (uint32_t j = 0; j < q.input.workers; j++) {
            q.speeds[j] = turn % 2 == 0 ? 0.01 + muster_rng_uniform(&rng)
                                        : 1.0 + (double)(j % 4);
        }
        for (uint32_t c = 0; c < q.input.classes; c++) {
            q.starts[c + 1] =
                q.starts[c] + (uint32_t)muster_rng_below(&rng, largest);
        }
        make(&q);
        check_promises(&q);
    }
}

static void far_apart_speeds_do_not_overflow(void **state)
{
    (void)state;
    quota_case q = {.speeds = {1e308, 1e308, 1e-300}, .starts = {0, 100}};
    q.input.workers = 3;
    q.input.classes = 1;
    make(&q);
    assert_int_equal(q.quotas[0], 50);
    assert_int_equal(q.quotas[1], 50);
    assert_int_equal(q.quotas[2], 0);
}

static void no_memory_is_a_status(void **state)
{
    (void)state;
    quota_case q = {.speeds = {1, 1}, .starts = {0, 3}};
    q.input = (muster_quota_input){q.speeds, 2, q.starts, 1};
    for (uint64_t allowed = 0; allowed < 6; allowed++) {
        muster_mem_fail_after(allowed);
        muster_status status = muster_quota_make(&q.input, q.quotas);
        muster_mem_fail_after(UINT64_MAX);
        assert_int_equal(status, MUSTER_ERR_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leftovers_go_to_the_largest_remainders),
        cmocka_unit_test(a_small_class_leaves_the_slow_workers_out),
        cmocka_unit_test(what_one_class_refuses_the_next_gives),
        cmocka_unit_test(random_shapes_keep_every_promise),
        cmocka_unit_test(far_apart_speeds_do_not_overflow),
        cmocka_unit_test(no_memory_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
