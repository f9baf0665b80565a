/*
 * finite.c -- 0 x is 0 where x is finite, and else NaN, which stays in a sum.
 */
#include "base/finite.h"

#include "base/simd.h"

#define LANES 8u

MUSTER_SIMD bool muster_floats_are_finite(const float *numbers, size_t count)
{
    muster_f8 sums = {0};
    const muster_f8 nothing = {0};
    float rest = 0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        muster_f8 block;
        MUSTER_F8_LOAD(block, numbers + i);
        sums += block * nothing;
    }
    for (; i < count; i++) {
        rest += numbers[i] * 0;
    }
    return MUSTER_F8_SUM(sums) + rest == 0;
}
