/*
 * combine.c -- tiled weighted sums.
 *
 * Four rows share one read and write of the tile, so that the loop is bound by
 * the rows' bytes and not by the sums. The compiler vectorises the plain loops;
 * they are compiled twice on x86-64, for the baseline and for AVX2, because
 * the wider conversion float -> double is what reaches memory speed. Neither
 * version may fuse a product with a sum (no FMA): the bits stay the same.
 */
#include "linalg/combine.h"

#include <stdbool.h>

#include "base/assert.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define COMBINE_AVX2 1
#endif

#define COMBINE_BODY                                  \
    uint32_t i = 0;                                   \
    for (; i + 4 <= count; i += 4) {                  \
        const float *a = rows[i];                     \
        const float *b = rows[i + 1];                 \
        const float *c = rows[i + 2];                 \
        const float *d = rows[i + 3];                 \
        double wa = weights[i];                       \
        double wb = weights[i + 1];                   \
        double wc = weights[i + 2];                   \
        double wd = weights[i + 3];                   \
        for (size_t t = 0; t < length; t++) {         \
            double sum = sums[t] + wa * (double)a[t]; \
            sum = sum + wb * (double)b[t];            \
            sum = sum + wc * (double)c[t];            \
            sums[t] = sum + wd * (double)d[t];        \
        }                                             \
    }                                                 \
    for (; i < count; i++) {                          \
        const float *a = rows[i];                     \
        double wa = weights[i];                       \
        for (size_t t = 0; t < length; t++) {         \
            sums[t] = sums[t] + wa * (double)a[t];    \
        }                                             \
    }

static void add_plain(double *restrict sums, const float *const *rows,
                      const double *weights, uint32_t count, size_t length)
{
    COMBINE_BODY
}

#ifdef COMBINE_AVX2
__attribute__((target("avx2"))) static void
add_avx2(double *restrict sums, const float *const *rows, const double *weights,
         uint32_t count, size_t length)
{
    COMBINE_BODY
}
#endif

void muster_combine_tile_add(double *sums, const float *const *rows,
                             const double *weights, uint32_t count,
                             size_t length)
{
    MUSTER_ASSERT(length <= MUSTER_COMBINE_TILE);
#ifdef COMBINE_AVX2
    if (__builtin_cpu_supports("avx2")) {
        add_avx2(sums, rows, weights, count, length);
        return;
    }
#endif
    add_plain(sums, rows, weights, count, length);
}

void muster_combine_tile_store(const double *sums, size_t length, float *out)
{
    for (size_t t = 0; t < length; t++) {
        out[t] = (float)sums[t];
    }
}

void muster_combine(const float *const *rows, const double *weights,
                    uint32_t count, size_t begin, size_t end, float *out)
{
    double sums[MUSTER_COMBINE_TILE];
    const float *moved[128];

    for (size_t at = begin; at < end; at += MUSTER_COMBINE_TILE) {
        size_t left = end - at;
        size_t length = left < MUSTER_COMBINE_TILE ? left : MUSTER_COMBINE_TILE;
        for (size_t t = 0; t < length; t++) {
            sums[t] = 0.0;
        }
        for (uint32_t first = 0; first < count; first += 128) {
            uint32_t some = count - first < 128 ? count - first : 128;
            for (uint32_t i = 0; i < some; i++) {
                moved[i] = rows[first + i] + at;
            }
            muster_combine_tile_add(sums, moved, weights + first, some, length);
        }
        muster_combine_tile_store(sums, length, out + at);
    }
}
