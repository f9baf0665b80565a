/*
 * combine.c -- tiled weighted sums.
 *
 * Four rows share one read and write of the tile, so that the loop is bound by
 * the rows' bytes and not by the sums. Jumping from row to row defeats the
 * processor's own prefetching, so every row's next tile is asked for while this
 * one is added: twice the speed from memory. The compiler vectorises the plain loops;
 * they are compiled twice on x86-64, for the baseline and for AVX2, because
 * the wider conversion float -> double is what reaches memory speed. Neither
 * version may fuse a product with a sum (no FMA): the bits stay the same.
 */
#include "linalg/combine.h"

#include "base/assert.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define COMBINE_AVX2 1
#endif

/* Floats between two looks ahead: two cache lines of each row. */
#define STRIDE 32u

/* Ask for the part of a row that the next tile will need. Its place is computed
 * as a number, because it may lie beyond the end of the row: this is a hint and
 * never faults. */
static inline void fetch(const float *row, size_t at)
{
#if defined(__GNUC__)
    uintptr_t place =
        (uintptr_t)row + (at + MUSTER_COMBINE_TILE) * sizeof(float);
    __builtin_prefetch((const void *)place, 0, 2);
    __builtin_prefetch((const void *)(place + 64), 0, 2);
#else
    (void)row;
    (void)at;
#endif
}

#define COMBINE_BODY                                                     \
    uint32_t i = 0;                                                      \
    for (; i + 4 <= count; i += 4) {                                     \
        const float *a = rows[i];                                        \
        const float *b = rows[i + 1];                                    \
        const float *c = rows[i + 2];                                    \
        const float *d = rows[i + 3];                                    \
        double wa = weights[i];                                          \
        double wb = weights[i + 1];                                      \
        double wc = weights[i + 2];                                      \
        double wd = weights[i + 3];                                      \
        for (size_t from = 0; from < length; from += STRIDE) {           \
            size_t to = from + STRIDE < length ? from + STRIDE : length; \
            fetch(a, from);                                              \
            fetch(b, from);                                              \
            fetch(c, from);                                              \
            fetch(d, from);                                              \
            for (size_t t = from; t < to; t++) {                         \
                double sum = sums[t] + wa * (double)a[t];                \
                sum = sum + wb * (double)b[t];                           \
                sum = sum + wc * (double)c[t];                           \
                sums[t] = sum + wd * (double)d[t];                       \
            }                                                            \
        }                                                                \
    }                                                                    \
    for (; i < count; i++) {                                             \
        const float *a = rows[i];                                        \
        double wa = weights[i];                                          \
        for (size_t t = 0; t < length; t++) {                            \
            sums[t] = sums[t] + wa * (double)a[t];                       \
        }                                                                \
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
    const float *moved[64];

    for (size_t at = begin; at < end; at += MUSTER_COMBINE_TILE) {
        size_t left = end - at;
        size_t length = left < MUSTER_COMBINE_TILE ? left : MUSTER_COMBINE_TILE;
        for (size_t t = 0; t < length; t++) {
            sums[t] = 0.0;
        }
        for (uint32_t first = 0; first < count; first += 64) {
            uint32_t some = count - first < 64 ? count - first : 64;
            for (uint32_t i = 0; i < some; i++) {
                moved[i] = rows[first + i] + at;
            }
            muster_combine_tile_add(sums, moved, weights + first, some, length);
        }
        muster_combine_tile_store(sums, length, out + at);
    }
}
