/*
 * delta.c -- see delta.h.
 */
#include "ps/store/delta.h"

#include <math.h>
#include <stdbool.h>

#include "base/simd.h"

enum { LANES = sizeof(muster_f8) / sizeof(float) };

/* The state of the optimiser, from `i` on. */
MUSTER_SIMD static void take_rest(const float *row, float *base, float *delta,
                                  uint32_t i, uint32_t floats)
{
    for (; i + LANES <= floats; i += LANES) {
        muster_f8 r;
        muster_f8 b;
        MUSTER_F8_LOAD(r, row + i);
        MUSTER_F8_LOAD(b, base + i);
        b = r - b;
        MUSTER_F8_STORE(delta + i, b);
        MUSTER_F8_STORE(base + i, r);
    }
    for (; i < floats; i++) {
        float change = row[i] - base[i];
        delta[i] = change;
        base[i] = row[i];
    }
}

MUSTER_SIMD muster_delta_taken muster_delta_take(const float *row, float *base,
                                                 float *delta,
                                                 const float *others,
                                                 muster_delta_shape shape)
{
    muster_f8 squares = {0};
    muster_f8 products = {0};
    uint32_t i = 0;
    for (; i + LANES <= shape.width; i += LANES) {
        muster_f8 r;
        muster_f8 b;
        muster_f8 o;
        MUSTER_F8_LOAD(r, row + i);
        MUSTER_F8_LOAD(b, base + i);
        MUSTER_F8_LOAD(o, others + i);
        b = r - b;
        squares += b * b;
        products += b * o;
        MUSTER_F8_STORE(delta + i, b);
        MUSTER_F8_STORE(base + i, r);
    }
    muster_delta_taken taken = {.norm2 = MUSTER_F8_SUM(squares),
                                .along = MUSTER_F8_SUM(products)};
    for (; i < shape.width; i++) {
        float change = row[i] - base[i];
        taken.norm2 += change * change;
        taken.along += change * others[i];
        delta[i] = change;
        base[i] = row[i];
    }
    take_rest(row, base, delta, i, shape.floats);
    return taken;
}

MUSTER_SIMD void muster_delta_damp(float *row, float *base, float *delta,
                                   uint32_t width, float share)
{
    for (uint32_t i = 0; i < width; i++) {
        float counts = share * delta[i];
        row[i] -= delta[i] - counts;
        base[i] = row[i];
        delta[i] = counts;
    }
}

/* What the step of a weight was divided by, if a gradient changed its sum of
 * squares. Without branches, so that loops become vector code. */
static inline float root_of(float squares, float sum)
{
    bool changed = (squares > 0) & (sum > 0);
    return sqrtf(changed ? sum : 1);
}

MUSTER_SIMD void muster_delta_take_gradients(const float *restrict row,
                                             float *restrict base,
                                             float *restrict delta,
                                             uint32_t width)
{
    const float *restrict sums = row + width;
    float *restrict base_sums = base + width;
    float *restrict squares = delta + width;
    for (uint32_t i = 0; i < width; i++) {
        float more = sums[i] - base_sums[i];
        delta[i] = (row[i] - base[i]) * root_of(more, sums[i]);
        squares[i] = more;
        base[i] = row[i];
        base_sums[i] = sums[i];
    }
}

MUSTER_SIMD void muster_delta_apply_gradients(float *restrict row,
                                              const float *restrict delta,
                                              uint32_t width)
{
    float *restrict sums = row + width;
    const float *restrict squares = delta + width;
    for (uint32_t i = 0; i < width; i++) {
        float sum = sums[i] + squares[i];
        row[i] += delta[i] / root_of(squares[i], sum);
        sums[i] = sum;
    }
}

MUSTER_SIMD void muster_delta_apply(float *row, const float *delta, float *sent,
                                    uint32_t floats)
{
    uint32_t i = 0;
    for (; i + LANES <= floats; i += LANES) {
        muster_f8 r;
        muster_f8 d;
        MUSTER_F8_LOAD(r, row + i);
        MUSTER_F8_LOAD(d, delta + i);
        r += d;
        MUSTER_F8_STORE(row + i, r);
        MUSTER_F8_STORE(sent + i, r);
    }
    for (; i < floats; i++) {
        row[i] += delta[i];
        sent[i] = row[i];
    }
}

MUSTER_SIMD muster_delta_merged muster_delta_merge(float *restrict row,
                                                   float *restrict base,
                                                   float *restrict others,
                                                   const float *restrict owner,
                                                   muster_delta_shape shape)
{
    muster_f8 norm2 = {0};
    muster_f8 along = {0};
    uint32_t i = 0;
    for (; i + LANES <= shape.width; i += LANES) {
        muster_f8 r;
        muster_f8 b;
        muster_f8 o;
        MUSTER_F8_LOAD(r, row + i);
        MUSTER_F8_LOAD(b, base + i);
        MUSTER_F8_LOAD(o, owner + i);
        MUSTER_F8_STORE(base + i, o);
        r -= b;
        b = o - b;
        norm2 += b * b;
        along += b * r;
        r = o + r;
        MUSTER_F8_STORE(row + i, r);
        MUSTER_F8_STORE(others + i, b);
    }
    muster_delta_merged merged = {.others_norm2 = MUSTER_F8_SUM(norm2),
                                  .along = MUSTER_F8_SUM(along)};
    for (; i < shape.width; i++) {
        float changed = row[i] - base[i];
        others[i] = owner[i] - base[i];
        merged.others_norm2 += others[i] * others[i];
        merged.along += others[i] * changed;
        row[i] = owner[i] + changed;
        base[i] = owner[i];
    }
    for (; i < shape.floats; i++) {
        row[i] = owner[i] + (row[i] - base[i]);
        base[i] = owner[i];
    }
    return merged;
}

MUSTER_SIMD void muster_delta_add_owner(float *restrict row,
                                        float *restrict base,
                                        const float *restrict owner,
                                        uint32_t floats)
{
    for (uint32_t i = 0; i < floats; i++) {
        row[i] = owner[i] + (row[i] - base[i]);
        base[i] = owner[i];
    }
}
