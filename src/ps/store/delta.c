/*
 * delta.c -- see delta.h.
 */
#include "ps/store/delta.h"

#include "base/simd.h"

enum { LANES = sizeof(muster_f8) / sizeof(float) };

MUSTER_SIMD float muster_delta_take(const float *row, float *base, float *delta,
                                    uint32_t width, uint32_t floats)
{
    muster_f8 sums = {0};
    uint32_t i = 0;
    for (; i + LANES <= width; i += LANES) {
        muster_f8 r;
        muster_f8 b;
        MUSTER_F8_LOAD(r, row + i);
        MUSTER_F8_LOAD(b, base + i);
        b = r - b;
        sums += b * b;
        MUSTER_F8_STORE(delta + i, b);
        MUSTER_F8_STORE(base + i, r);
    }
    float square = MUSTER_F8_SUM(sums);
    for (; i < width; i++) {
        float change = row[i] - base[i];
        square += change * change;
        delta[i] = change;
        base[i] = row[i];
    }
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
    return square;
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

MUSTER_SIMD muster_delta_norms muster_delta_merge(float *restrict row,
                                                  float *restrict base,
                                                  const float *restrict owner,
                                                  uint32_t width,
                                                  uint32_t floats)
{
    muster_f8 others = {0};
    muster_f8 owners = {0};
    uint32_t i = 0;
    for (; i + LANES <= width; i += LANES) {
        muster_f8 r;
        muster_f8 b;
        muster_f8 o;
        MUSTER_F8_LOAD(r, row + i);
        MUSTER_F8_LOAD(b, base + i);
        MUSTER_F8_LOAD(o, owner + i);
        others += (o - b) * (o - b);
        owners += o * o;
        r = o + (r - b);
        MUSTER_F8_STORE(row + i, r);
        MUSTER_F8_STORE(base + i, o);
    }
    muster_delta_norms norms = {.others = MUSTER_F8_SUM(others),
                                .owner = MUSTER_F8_SUM(owners)};
    for (; i < width; i++) {
        norms.others += (owner[i] - base[i]) * (owner[i] - base[i]);
        norms.owner += owner[i] * owner[i];
        row[i] = owner[i] + (row[i] - base[i]);
        base[i] = owner[i];
    }
    for (; i < floats; i++) {
        row[i] = owner[i] + (row[i] - base[i]);
        base[i] = owner[i];
    }
    return norms;
}
