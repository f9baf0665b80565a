/*
 * delta_test.c -- the kernels of replicas against plain loops, for every width
 * up to a few blocks.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "ps/store/delta.h"

enum { FLOATS_MAX = 80 };

static void fill(float *values, uint32_t count, uint64_t stream)
{
    muster_rng rng = muster_rng_make(5, stream);
    for (uint32_t i = 0; i < count; i++) {
        values[i] = (float)muster_rng_normal(&rng);
    }
}

static void assert_near(double seen, double wanted)
{
    assert_true(fabs(seen - wanted) <= 1e-5 * (1 + fabs(wanted)));
}

static void a_delta_is_the_difference_and_its_product_with_others(void **state)
{
    (void)state;
    for (uint32_t floats = 1; floats <= FLOATS_MAX; floats++) {
        for (uint32_t width = 1; width <= floats; width++) {
            float row[FLOATS_MAX];
            float base[FLOATS_MAX];
            float before[FLOATS_MAX];
            float delta[FLOATS_MAX];
            float others[FLOATS_MAX];
            muster_delta_shape shape = {width, floats};
            double norm2 = 0;
            double along = 0;
            fill(row, floats, floats);
            fill(base, floats, 1000 + width);
            fill(others, floats, 2000 + width);
            for (uint32_t i = 0; i < floats; i++) {
                before[i] = base[i];
                double change = (double)row[i] - (double)base[i];
                norm2 += i < width ? change * change : 0;
                along += i < width ? change * (double)others[i] : 0;
            }
            muster_delta_taken taken =
                muster_delta_take(row, base, delta, others, shape);
            assert_near((double)taken.along, along);
            assert_near((double)taken.norm2, norm2);
            for (uint32_t i = 0; i < floats; i++) {
                assert_true(delta[i] == row[i] - before[i]);
                assert_true(base[i] == row[i]);
                base[i] = before[i];
            }
            // Nobody wants to know it.
            taken = muster_delta_take(row, base, base, others, shape);
            assert_near((double)taken.along, along);
            for (uint32_t i = 0; i < floats; i++) {
                assert_true(base[i] == row[i]);
            }
        }
    }
}

static void a_delta_is_applied_to_the_row_that_is_sent(void **state)
{
    (void)state;
    for (uint32_t floats = 1; floats <= FLOATS_MAX; floats++) {
        float row[FLOATS_MAX];
        float before[FLOATS_MAX];
        float delta[FLOATS_MAX];
        float told[FLOATS_MAX];
        fill(row, floats, floats);
        fill(delta, floats, 1000 + floats);
        for (uint32_t i = 0; i < floats; i++) {
            before[i] = row[i];
        }
        muster_delta_apply(row, delta, told, floats);
        for (uint32_t i = 0; i < floats; i++) {
            assert_true(row[i] == before[i] + delta[i] && told[i] == row[i]);
        }
        muster_delta_apply(row, delta, row, floats); // nobody is told
        for (uint32_t i = 0; i < floats; i++) {
            assert_true(row[i] == told[i] + delta[i]);
        }
    }
}

static void a_merge_keeps_the_delta_of_the_replica(void **state)
{
    (void)state;
    for (uint32_t floats = 1; floats <= FLOATS_MAX; floats++) {
        for (uint32_t width = 1; width <= floats; width++) {
            float row[FLOATS_MAX];
            float base[FLOATS_MAX];
            float owner[FLOATS_MAX];
            float wanted[FLOATS_MAX];
            float others[FLOATS_MAX];
            double norm2 = 0;
            double along = 0;
            fill(row, floats, floats);
            fill(base, floats, 1000 + width);
            fill(owner, floats, 2000 + width);
            for (uint32_t i = 0; i < floats; i++) {
                double moved = (double)owner[i] - (double)base[i];
                double changed = (double)row[i] - (double)base[i];
                norm2 += i < width ? moved * moved : 0;
                along += i < width ? moved * changed : 0;
                wanted[i] = owner[i] + (row[i] - base[i]);
            }
            float before[FLOATS_MAX];
            memcpy(before, base, sizeof(before));
            muster_delta_merged merged = muster_delta_merge(
                row, base, others, owner, (muster_delta_shape){width, floats});
            assert_near((double)merged.others_norm2, norm2);
            assert_near((double)merged.along, along);
            for (uint32_t i = 0; i < width; i++) {
                assert_true(others[i] == owner[i] - before[i]);
            }
            for (uint32_t i = 0; i < floats; i++) {
                assert_true(row[i] == wanted[i] && base[i] == owner[i]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_delta_is_the_difference_and_its_product_with_others),
        cmocka_unit_test(a_delta_is_applied_to_the_row_that_is_sent),
        cmocka_unit_test(a_merge_keeps_the_delta_of_the_replica),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
