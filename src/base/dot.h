/*
 * base/dot.h -- the inner product, in the three precisions that rooms need.
 *
 * Each sums in one fixed order, so that a result does not depend on the
 * machine. They are inline: a caller marked MUSTER_SIMD gets them in its own
 * instruction set.
 */
#ifndef MUSTER_BASE_DOT_H
#define MUSTER_BASE_DOT_H

#include <stdint.h>

#include "base/simd.h"

/* Doubles, first to last. */
static inline double muster_dot_f64(const double *x, const double *y,
                                    uint64_t n)
{
    double sum = 0.0;
    for (uint64_t i = 0; i < n; i++) {
        sum += x[i] * y[i];
    }
    return sum;
}

/* Floats summed in double, first to last: where accuracy counts. */
static inline double muster_dot_wide(const float *x, const float *y, uint64_t n)
{
    double sum = 0.0;
    for (uint64_t i = 0; i < n; i++) {
        sum += (double)x[i] * (double)y[i];
    }
    return sum;
}

/* Floats over two blocks of eight lanes: where speed counts. */
__attribute__((always_inline)) static inline float
muster_dot_f32(const float *x, const float *y, uint32_t n)
{
    muster_f8 one = {0};
    muster_f8 two = {0};
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        muster_f8 a;
        muster_f8 b;
        MUSTER_F8_LOAD(a, x + i);
        MUSTER_F8_LOAD(b, y + i);
        one += a * b;
        MUSTER_F8_LOAD(a, x + i + 8);
        MUSTER_F8_LOAD(b, y + i + 8);
        two += a * b;
    }
    one += two;
    float sum = MUSTER_F8_SUM(one);
    for (; i < n; i++) {
        sum += x[i] * y[i];
    }
    return sum;
}

#endif // MUSTER_BASE_DOT_H
