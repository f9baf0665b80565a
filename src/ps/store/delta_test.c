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

static void what_does_not_count_is_taken_back(void **state)
{
    (void)state;
    for (uint32_t width = 1; width <= FLOATS_MAX; width++) {
        float row[FLOATS_MAX];
        float base[FLOATS_MAX];
        float before[FLOATS_MAX];
        float delta[FLOATS_MAX];
        float others[FLOATS_MAX] = {0};
        fill(row, width, width);
        fill(before, width, 1000 + width);
        memcpy(base, before, sizeof(base));
        (void)muster_delta_take(row, base, delta, others,
                                (muster_delta_shape){width, width});
        muster_delta_damp(row, base, delta, width, 0.25f);
        for (uint32_t i = 0; i < width; i++) {
            assert_true(row[i] == base[i]);
            assert_near((double)row[i], (double)(before[i] + delta[i]));
        }
    }
}

/* Steps of 0.1 g / sqrt(sum of g^2) by two nodes: the second one's counts as if
 * it had known the squares of the first. */
static void deltas_of_adagrad_are_sums_of_gradients(void **state)
{
    (void)state;
    for (uint32_t width = 1; 2 * width <= FLOATS_MAX; width++) {
        float own[FLOATS_MAX] = {0};
        float row[FLOATS_MAX] = {0};
        float base[FLOATS_MAX] = {0};
        float gradient[FLOATS_MAX];
        fill(gradient, width, width);
        for (uint32_t i = 0; i < width; i++) {
            own[width + i] = gradient[i] * gradient[i];
            own[i] = gradient[i] > 0 ? -0.1f : 0.1f;
            row[width + i] = 3 * own[width + i];
        }
        own[0] = 7; // a push: its sum did not change
        own[width] = 0;
        row[width] = 5;
        float delta[FLOATS_MAX];
        muster_delta_take_gradients(own, base, delta, width);
        muster_delta_apply_gradients(row, delta, width);
        assert_memory_equal(base, own, sizeof(float) * 2 * width);
        assert_true(row[0] == 7 && row[width] == 5);
        for (uint32_t i = 1; i < width; i++) {
            assert_near((double)row[i], (double)own[i] / 2);
            assert_near((double)row[width + i], 4 * (double)own[width + i]);
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
            float row_too[FLOATS_MAX];
            float base_too[FLOATS_MAX];
            memcpy(row_too, row, sizeof(row));
            memcpy(base_too, base, sizeof(base));
            muster_delta_add_owner(row_too, base_too, owner, floats);
            muster_delta_merged merged = muster_delta_merge(
                row, base, others, owner, (muster_delta_shape){width, floats});
            assert_near((double)merged.others_norm2, norm2);
            assert_near((double)merged.along, along);
            for (uint32_t i = 0; i < width; i++) {
                assert_true(others[i] == owner[i] - before[i]);
            }
            for (uint32_t i = 0; i < floats; i++) {
                assert_true(row[i] == wanted[i] && base[i] == owner[i]);
                assert_true(row_too[i] == row[i] && base_too[i] == base[i]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_delta_is_the_difference_and_its_product_with_others),
        cmocka_unit_test(a_delta_is_applied_to_the_row_that_is_sent),
        cmocka_unit_test(what_does_not_count_is_taken_back),
        cmocka_unit_test(deltas_of_adagrad_are_sums_of_gradients),
        cmocka_unit_test(a_merge_keeps_the_delta_of_the_replica),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
