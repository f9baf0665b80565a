/*
 * single_test.c -- single rows take a way of their own (rows.c), a
 * line at a time and then what is left: every width is whole, and no more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "ps/node/alone_test.h"

enum { KEYS = 3, WIDEST = 70, GUARD = 4 };

static const uint32_t keys[KEYS] = {0, 1, 2};

/* Key 1 is pulled and pushed; `all` has the rows as they were set. */
static void double_one(muster_ps_worker *worker, uint32_t width,
                       const float *all)
{
    float seen[WIDEST + GUARD];
    for (uint32_t i = 0; i < WIDEST + GUARD; i++) {
        seen[i] = -1;
    }
    assert_int_equal(muster_ps_pull(worker, 0, &keys[1], 1, seen), MUSTER_OK);
    for (uint32_t i = 0; i < WIDEST + GUARD; i++) {
        assert_true(seen[i] == (i < width ? all[width + i] : -1));
    }
    assert_int_equal(muster_ps_push(worker, 0, &keys[1], 1, seen), MUSTER_OK);
}

static void single_rows_of_every_width_are_whole(void **state)
{
    (void)state;
    for (uint32_t width = 1; width <= WIDEST; width++) {
        const test_tables one = {.count = 1, .keys = KEYS, .width = width};
        muster_ps *ps = test_alone_open(&one);
        muster_ps_worker *worker = test_alone_worker(ps);
        float all[KEYS * WIDEST];
        for (uint32_t i = 0; i < KEYS * width; i++) {
            all[i] = (float)i + 1;
        }
        assert_int_equal(muster_ps_set(worker, 0, keys, KEYS, all), MUSTER_OK);
        double_one(worker, width, all);
        assert_int_equal(muster_ps_pull(worker, 0, keys, KEYS, all), MUSTER_OK);
        for (uint32_t i = 0; i < KEYS * width; i++) {
            bool doubled = i >= width && i < 2 * width;
            assert_true(all[i] == (float)(i + 1) * (doubled ? 2 : 1));
        }
        muster_ps_worker_free(worker);
        muster_ps_free(ps);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_rows_of_every_width_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
