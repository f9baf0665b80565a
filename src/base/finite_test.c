/*
 * finite_test.c -- one number that is not finite is found at every place.
 */
#include "base/finite.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT 37

static void one_that_is_not_finite_is_found_wherever_it_is(void **state)
{
    (void)state;
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    float numbers[COUNT];
    for (size_t count = 0; count <= COUNT; count++) {
        for (size_t i = 0; i < COUNT; i++) {
            numbers[i] = i % 3 == 0 ? 3.4e38f : -1e-42f;
        }
        assert_true(muster_floats_are_finite(numbers, count));
        for (size_t at = 0; at < COUNT; at++) {
            float was = numbers[at];
            numbers[at] = bad[at % 4];
            assert_int_equal(muster_floats_are_finite(numbers, count),
                             at >= count);
            numbers[at] = was;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_not_finite_is_found_wherever_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
