/*
 * kernel.c -- see kernel.h. Loops without sums are left to the compiler's
 * vectoriser; sums go through blocks of eight lanes, written out, because the
 * order of a sum is not the compiler's to change. See base/simd.h for the
 * instruction sets.
 */
#include "task/kernel.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/dot.h"

#define LANES   8u
#define EPSILON 1e-8f
#define ROWS    4u // that distances are taken of at once

typedef muster_f8 f8;
typedef int32_t i8 __attribute__((vector_size(32)));

#define SIGN        INT32_MIN // of a float, as an integer
#define ABSOLUTE(x) ((f8)((i8)(x)&INT32_MAX))

MUSTER_SIMD float muster_kernel_dot(const float *a, const float *b, uint32_t n)
{
    return muster_dot_f32(a, b, n);
}

MUSTER_SIMD void muster_kernel_axpy(float scale, const float *restrict x,
                                    float *restrict y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        y[i] += scale * x[i];
    }
}

float muster_kernel_square(const float *a, uint32_t n)
{
    return muster_kernel_dot(a, a, n);
}

/* The sum of all |a - b|, or of their squares; a caller marked MUSTER_SIMD gets
 * it in its own instructions. */
__attribute__((always_inline)) static inline float
sum_differences(const float *a, const float *b, uint32_t n, bool squares)
{
    f8 total = {0};
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        f8 x;
        f8 y;
        MUSTER_F8_LOAD(x, a + i);
        MUSTER_F8_LOAD(y, b + i);
        x -= y;
        total += squares ? x * x : ABSOLUTE(x);
    }
    float sum = MUSTER_F8_SUM(total);
    for (; i < n; i++) {
        float x = a[i] - b[i];
        sum += squares ? x * x : fabsf(x);
    }
    return sum;
}

MUSTER_SIMD float muster_kernel_distance(const float *a, const float *b,
                                         uint32_t n)
{
    return sum_differences(a, b, n, false);
}

MUSTER_SIMD float muster_kernel_length(const float *a, const float *b,
                                       uint32_t n)
{
    float length = sqrtf(sum_differences(a, b, n, true));
    return length > 1e-12f ? length : 1e-12f;
}

MUSTER_SIMD float muster_kernel_sum(const float *a, uint32_t n)
{
    f8 total = {0};
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        f8 x;
        MUSTER_F8_LOAD(x, a + i);
        total += x;
    }
    float sum = MUSTER_F8_SUM(total);
    for (; i < n; i++) {
        sum += a[i];
    }
    return sum;
}

float muster_kernel_sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* Lane by lane yes where `mask` is all ones, no where it is 0. */
#define CHOOSE(mask, yes, no) \
    ((f8)(((i8)(yes) & (mask)) | ((i8)(no) & ~(mask))))

/*
 * EXP(x): e^x of eight lanes. x = k ln 2 + r with |r| <= ln 2 / 2: a power of
 * two and a polynomial. Adding 1.5 * 2^23 rounds k to an integer, which then
 * stands in the lowest bits.
 */
#define EXP_ROUND 12582912.0f
#define EXP(x)                                                      \
    do {                                                            \
        (x) = CHOOSE((x) > 88.0f, (f8){0} + 88.0f, (x));            \
        (x) = CHOOSE((x) > -87.0f, (x), (f8){0} - 87.0f);           \
        f8 magic_ = (x)*1.44269504f + EXP_ROUND;                    \
        i8 power_ = ((i8)magic_ - (i8)((f8){0} + EXP_ROUND)) << 23; \
        f8 k_ = magic_ - EXP_ROUND;                                 \
        f8 r_ = ((x)-k_ * 0.693359375f) + k_ * 2.12194440e-4f;      \
        f8 p_ = r_ * 1.9875691500e-4f + 1.3981999507e-3f;           \
        p_ = p_ * r_ + 8.3334519073e-3f;                            \
        p_ = p_ * r_ + 4.1665795894e-2f;                            \
        p_ = p_ * r_ + 1.6666665459e-1f;                            \
        p_ = p_ * r_ + 5.0000001201e-1f;                            \
        p_ = p_ * r_ * r_ + r_ + 1.0f;                              \
        (x) = (f8)((i8)p_ + power_);                                \
    } while (0)

/* The last lanes, fewer than eight, and `fill` in the others. */
#define LOAD_LAST(to, from, count, fill)                \
    do {                                                \
        (to) = (f8){0} + (fill);                        \
        memcpy(&(to), (from), (count) * sizeof(float)); \
    } while (0)

MUSTER_SIMD void muster_kernel_sigmoids(float *x, uint32_t n)
{
    uint32_t i = 0;
    f8 v;
    for (; i + LANES <= n; i += LANES) {
        MUSTER_F8_LOAD(v, x + i);
        v = -v;
        EXP(v);
        v = 1.0f / (1.0f + v);
        MUSTER_F8_STORE(x + i, v);
    }
    if (i < n) {
        LOAD_LAST(v, x + i, n - i, 0.0f);
        v = -v;
        EXP(v);
        v = 1.0f / (1.0f + v);
        memcpy(x + i, &v, (n - i) * sizeof(float));
    }
}

MUSTER_SIMD float muster_kernel_max(const float *x, uint32_t n)
{
    f8 max = (f8){0} - INFINITY;
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        f8 v;
        MUSTER_F8_LOAD(v, x + i);
        max = CHOOSE(v > max, v, max);
    }
    float found = -INFINITY;
    for (uint32_t j = 0; j < LANES; j++) {
        found = max[j] > found ? max[j] : found;
    }
    for (; i < n; i++) {
        found = x[i] > found ? x[i] : found;
    }
    return found;
}

MUSTER_SIMD float muster_kernel_exp(float *x, uint32_t n, float scale,
                                    float from)
{
    f8 sum = {0};
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        f8 v;
        MUSTER_F8_LOAD(v, x + i);
        v = (v - from) * scale;
        EXP(v);
        MUSTER_F8_STORE(x + i, v);
        sum += v;
    }
    float total = MUSTER_F8_SUM(sum);
    if (i < n) {
        f8 v;
        LOAD_LAST(v, x + i, n - i, from);
        v = (v - from) * scale;
        EXP(v);
        memcpy(x + i, &v, (n - i) * sizeof(float));
        for (uint32_t j = 0; i + j < n; j++) {
            total += v[j];
        }
    }
    return total;
}

MUSTER_SIMD void muster_kernel_scale(float scale, float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        x[i] *= scale;
    }
}

MUSTER_SIMD void muster_kernel_product(const float *restrict by,
                                       float *restrict x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        x[i] *= by[i];
    }
}

MUSTER_SIMD void muster_kernel_quotient(const float *restrict by,
                                        float *restrict x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        x[i] /= by[i];
    }
}

MUSTER_SIMD void muster_kernel_replace(float *restrict x,
                                       const uint32_t *restrict keys,
                                       uint32_t n, uint32_t key, float value)
{
    for (uint32_t i = 0; i < n; i++) {
        x[i] = keys[i] == key ? value : x[i];
    }
}

/* Both factors along the gradient, given the error of the cell. Inlined, so
 * that each kernel below is compiled for all instruction sets. */
static inline __attribute__((always_inline)) void
move_factors(float *restrict w, float *restrict h, uint32_t n, float error,
             float rate, float l2)
{
    float step = rate * error;
    float keep = 1 - rate * l2;
    for (uint32_t i = 0; i < n; i++) {
        float before = w[i];
        w[i] = keep * before + step * h[i];
        h[i] = keep * h[i] + step * before;
    }
}

/* The same by AdaGrad; the sums of squares lie `sums` floats behind. */
static inline __attribute__((always_inline)) void
move_factors_adagrad(float *restrict w, float *restrict h, uint32_t n,
                     uint32_t sums, float error, const float *rate_l2)
{
    float rate = rate_l2[0];
    float l2 = rate_l2[1];
    float *restrict w_sums = w + sums;
    float *restrict h_sums = h + sums;
    for (uint32_t i = 0; i < n; i++) {
        float by_w = l2 * w[i] - error * h[i];
        float by_h = l2 * h[i] - error * w[i];
        w_sums[i] += by_w * by_w;
        h_sums[i] += by_h * by_h;
        w[i] -= rate * by_w / (sqrtf(w_sums[i]) + EPSILON);
        h[i] -= rate * by_h / (sqrtf(h_sums[i]) + EPSILON);
    }
}

MUSTER_SIMD float muster_kernel_mf(float *restrict w, float *restrict h,
                                   uint32_t n, float x, float rate, float l2)
{
    float error = x - muster_kernel_dot(w, h, n);
    move_factors(w, h, n, error, rate, l2);
    return error;
}

MUSTER_SIMD float muster_kernel_mf_adagrad(float *restrict w, float *restrict h,
                                           uint32_t n, float x, float rate,
                                           float l2)
{
    const float rate_l2[2] = {rate, l2};
    float error = x - muster_kernel_dot(w, h, n);
    move_factors_adagrad(w, h, n, n, error, rate_l2);
    return error;
}

static inline float error_with_bias(const float *w, const float *h, uint32_t n,
                                    float x, float unit)
{
    return x - unit * (w[n] + h[n]) - muster_kernel_dot(w, h, n);
}

MUSTER_SIMD float muster_kernel_mf_bias(float *restrict w, float *restrict h,
                                        uint32_t n, float x,
                                        const muster_kernel_mf_step *step)
{
    float error = error_with_bias(w, h, n, x, step->unit);
    float keep = 1 - step->rate * step->l2;
    float by_bias = step->rate * error * step->unit;
    move_factors(w, h, n, error, step->rate, step->l2);
    w[n] = keep * w[n] + by_bias;
    h[n] = keep * h[n] + by_bias;
    return error;
}

static inline void move_bias_adagrad(float *bias, uint32_t sum, float error,
                                     const float *rate_l2)
{
    float by_bias = rate_l2[1] * *bias - error;
    bias[sum] += by_bias * by_bias;
    *bias -= rate_l2[0] * by_bias / (sqrtf(bias[sum]) + EPSILON);
}

MUSTER_SIMD float
muster_kernel_mf_bias_adagrad(float *restrict w, float *restrict h, uint32_t n,
                              float x, const muster_kernel_mf_step *step)
{
    const float rate_l2[2] = {step->rate, step->l2};
    float error = error_with_bias(w, h, n, x, step->unit);
    move_factors_adagrad(w, h, n, n + 1, error, rate_l2);
    move_bias_adagrad(w + n, n + 1, error * step->unit, rate_l2);
    move_bias_adagrad(h + n, n + 1, error * step->unit, rate_l2);
    return error;
}

MUSTER_SIMD void muster_kernel_adagrad(float *restrict row,
                                       const float *restrict gradient,
                                       uint32_t n, float rate, float n3)
{
    float *restrict sums = row + n;
    for (uint32_t i = 0; i < n; i++) {
        float g = gradient[i] + n3 * fabsf(row[i]) * row[i];
        float sum = sums[i] + g * g;
        sums[i] = sum;
        row[i] -= rate * g / (sqrtf(sum) + EPSILON);
    }
}

MUSTER_SIMD void muster_kernel_candidate(float *restrict row,
                                         const float *restrict query,
                                         float *restrict query_gradient,
                                         uint32_t n, float g,
                                         const float *restrict rate_n3)
{
    float rate = rate_n3[0];
    float n3 = rate_n3[1];
    float *restrict sums = row + n;
    for (uint32_t i = 0; i < n; i++) {
        float w = row[i];
        float by_w = g * query[i] + n3 * fabsf(w) * w;
        float sum = sums[i] + by_w * by_w;
        query_gradient[i] += g * w;
        sums[i] = sum;
        row[i] = w - rate * by_w / (sqrtf(sum) + EPSILON);
    }
}

MUSTER_SIMD void muster_kernel_candidate_l1(float *restrict row,
                                            const float *restrict query,
                                            float *restrict query_gradient,
                                            uint32_t n, float g,
                                            const float *restrict rate_n3)
{
    float rate = rate_n3[0];
    float n3 = rate_n3[1];
    float *restrict sums = row + n;
    for (uint32_t i = 0; i < n; i++) {
        float w = row[i];
        float off = query[i] - w;
        float sign = (float)(off > 0) - (float)(off < 0);
        float by_w = g * sign + n3 * fabsf(w) * w;
        float sum = sums[i] + by_w * by_w;
        query_gradient[i] -= g * sign;
        sums[i] = sum;
        row[i] = w - rate * by_w / (sqrtf(sum) + EPSILON);
    }
}

MUSTER_SIMD void muster_kernel_candidate_l2(float *restrict row,
                                            const float *restrict query,
                                            float *restrict query_gradient,
                                            uint32_t n, float g,
                                            const float *restrict rate_n3)
{
    float rate = rate_n3[0];
    float n3 = rate_n3[1];
    float weight = g / muster_kernel_length(query, row, n);
    float *restrict sums = row + n;
    for (uint32_t i = 0; i < n; i++) {
        float w = row[i];
        float by_score = weight * (query[i] - w);
        float by_w = by_score + n3 * fabsf(w) * w;
        float sum = sums[i] + by_w * by_w;
        query_gradient[i] -= by_score;
        sums[i] = sum;
        row[i] = w - rate * by_w / (sqrtf(sum) + EPSILON);
    }
}

/* Four rows for each load of the query; sums run over eight lanes, as those of
 * one row do. */
MUSTER_SIMD static void distances_of_4(const float *restrict query,
                                       const float *restrict rows, uint32_t n,
                                       float *restrict distances_out)
{
    f8 total[ROWS] = {{0}};
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        f8 q;
        MUSTER_F8_LOAD(q, query + i);
        for (uint32_t r = 0; r < ROWS; r++) {
            f8 row;
            MUSTER_F8_LOAD(row, rows + (size_t)r * n + i);
            total[r] += ABSOLUTE(q - row);
        }
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        distances_out[r] = MUSTER_F8_SUM(total[r]);
        for (uint32_t k = i; k < n; k++) {
            distances_out[r] += fabsf(query[k] - rows[(size_t)r * n + k]);
        }
    }
}

void muster_kernel_distances(const float *query, const float *rows,
                             uint32_t count, uint32_t n, float *distances_out)
{
    uint32_t j = 0;
    for (; j + ROWS <= count; j += ROWS) {
        distances_of_4(query, rows + (size_t)j * n, n, distances_out + j);
    }
    for (; j < count; j++) {
        distances_out[j] =
            muster_kernel_distance(query, rows + (size_t)j * n, n);
    }
}

/* `rows` rows at once, each with g: the query's gradient is loaded and stored
 * once for all of them. */
static inline __attribute__((always_inline)) void
distances_back_of(const float *restrict query, const float *restrict row,
                  const float *restrict g, float *const *both, uint32_t rows,
                  uint32_t n)
{
    float *restrict by_query = both[0];
    float *restrict by_row = both[1];
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        f8 q;
        f8 sum;
        MUSTER_F8_LOAD(q, query + i);
        MUSTER_F8_LOAD(sum, by_query + i);
        for (uint32_t r = 0; r < rows; r++) {
            f8 w;
            f8 by;
            MUSTER_F8_LOAD(w, row + (size_t)r * n + i);
            MUSTER_F8_LOAD(by, by_row + (size_t)r * n + i);
            f8 weight = (f8){0} + g[r];
            f8 part = (f8)((i8)weight ^ ((i8)(q - w) & SIGN));
            sum -= part;
            by += part;
            MUSTER_F8_STORE(by_row + (size_t)r * n + i, by);
        }
        MUSTER_F8_STORE(by_query + i, sum);
    }
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t k = i; k < n; k++) {
            size_t at = (size_t)r * n + k;
            float part = g[r] * copysignf(1, query[k] - row[at]);
            by_query[k] -= part;
            by_row[at] += part;
        }
    }
}

MUSTER_SIMD void muster_kernel_distances_back(const float *restrict query,
                                              const float *restrict rows,
                                              const float *restrict g,
                                              float *const *both,
                                              uint32_t count, uint32_t n)
{
    uint32_t j = 0;
    for (; j + ROWS <= count; j += ROWS) {
        float *const four[2] = {both[0], both[1] + (size_t)j * n};
        distances_back_of(query, rows + (size_t)j * n, g + j, four, ROWS, n);
    }
    for (; j < count; j++) {
        float *const one[2] = {both[0], both[1] + (size_t)j * n};
        distances_back_of(query, rows + (size_t)j * n, g + j, one, 1, n);
    }
}

MUSTER_SIMD void muster_kernel_lengths(float *restrict x,
                                       const float *restrict squares,
                                       uint32_t count, float square)
{
    for (uint32_t i = 0; i < count; i++) {
        float length = square + squares[i] - 2 * x[i];
        x[i] = sqrtf(length > 1e-12f ? length : 1e-12f);
    }
}

MUSTER_SIMD void muster_kernel_complex(const float *restrict a,
                                       const float *restrict b,
                                       float *restrict q, uint32_t n)
{
    uint32_t half = n / 2;
    for (uint32_t i = 0; i < half; i++) {
        q[i] = a[i] * b[i] - a[half + i] * b[half + i];
        q[half + i] = a[i] * b[half + i] + a[half + i] * b[i];
    }
}

MUSTER_SIMD void muster_kernel_complex_back(const float *restrict dq,
                                            const float *restrict b,
                                            float *restrict da, uint32_t n)
{
    uint32_t half = n / 2;
    for (uint32_t i = 0; i < half; i++) {
        da[i] = dq[i] * b[i] + dq[half + i] * b[half + i];
        da[half + i] = dq[half + i] * b[i] - dq[i] * b[half + i];
    }
}

MUSTER_SIMD float muster_kernel_skipgram(const float *restrict in,
                                         float *restrict in_gradient,
                                         float *restrict out, uint32_t n,
                                         const float *restrict label_rate)
{
    float label = label_rate[0];
    float score = muster_kernel_dot(in, out, n);
    float p = muster_kernel_sigmoid(score);
    float g = (label - p) * label_rate[1];
    for (uint32_t i = 0; i < n; i++) {
        float o = out[i];
        in_gradient[i] += g * o;
        out[i] = o + g * in[i];
    }
    return label > 0 ? -logf(p > 1e-7f ? p : 1e-7f) : 0;
}
