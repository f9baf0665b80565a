/*
 * kernel.c -- see kernel.h. Loops without sums are left to the compiler's
 * vectoriser; sums go through blocks of eight lanes, written out, because the
 * order of a sum is not the compiler's to change. Functions are compiled for
 * the baseline and for AVX2, chosen at load; without the sanitizer's early
 * start-up, see TASK_SIMD.
 */
#include "task/kernel.h"

#include <math.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-math-errno")
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__)
#define TASK_SIMD __attribute__((target_clones("default", "avx2")))
#else
#define TASK_SIMD
#endif

#define LANES   8u
#define EPSILON 1e-8f

typedef float f8 __attribute__((vector_size(32)));

#define LOAD(to, from)  memcpy(&(to), (from), sizeof(f8))
#define STORE(to, from) memcpy((to), &(from), sizeof(f8))

/* The lanes in a fixed order: pairs, then pairs of pairs. */
#define SUM_LANES(v)                           \
    ((((v)[0] + (v)[4]) + ((v)[2] + (v)[6])) + \
     (((v)[1] + (v)[5]) + ((v)[3] + (v)[7])))

TASK_SIMD float muster_kernel_dot(const float *a, const float *b, uint32_t n)
{
    f8 one = {0};
    f8 two = {0};
    uint32_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        f8 x;
        f8 y;
        LOAD(x, a + i);
        LOAD(y, b + i);
        one += x * y;
        LOAD(x, a + i + LANES);
        LOAD(y, b + i + LANES);
        two += x * y;
    }
    one += two;
    float sum = SUM_LANES(one);
    for (; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

TASK_SIMD void muster_kernel_axpy(float scale, const float *restrict x,
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

TASK_SIMD float muster_kernel_distance(const float *a, const float *b,
                                       uint32_t n)
{
    f8 total = {0};
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        f8 x;
        f8 y;
        LOAD(x, a + i);
        LOAD(y, b + i);
        f8 off = x - y;
        for (uint32_t j = 0; j < LANES; j++) {
            total[j] += fabsf(off[j]);
        }
    }
    float sum = SUM_LANES(total);
    for (; i < n; i++) {
        sum += fabsf(a[i] - b[i]);
    }
    return sum;
}

float muster_kernel_sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

TASK_SIMD float muster_kernel_mf(float *restrict w, float *restrict h,
                                 uint32_t n, float x, float rate, float l2)
{
    float error = x - muster_kernel_dot(w, h, n);
    float step = rate * error;
    float keep = 1 - rate * l2;
    for (uint32_t i = 0; i < n; i++) {
        float before = w[i];
        w[i] = keep * before + step * h[i];
        h[i] = keep * h[i] + step * before;
    }
    return error;
}

TASK_SIMD float muster_kernel_mf_adagrad(float *restrict w, float *restrict h,
                                         uint32_t n, float x, float rate,
                                         float l2)
{
    float error = x - muster_kernel_dot(w, h, n);
    float *restrict w_sums = w + n;
    float *restrict h_sums = h + n;
    for (uint32_t i = 0; i < n; i++) {
        float by_w = l2 * w[i] - error * h[i];
        float by_h = l2 * h[i] - error * w[i];
        w_sums[i] += by_w * by_w;
        h_sums[i] += by_h * by_h;
        w[i] -= rate * by_w / (sqrtf(w_sums[i]) + EPSILON);
        h[i] -= rate * by_h / (sqrtf(h_sums[i]) + EPSILON);
    }
    return error;
}

TASK_SIMD void muster_kernel_adagrad(float *restrict row,
                                     const float *restrict gradient, uint32_t n,
                                     float rate, float n3)
{
    float *restrict sums = row + n;
    for (uint32_t i = 0; i < n; i++) {
        float g = gradient[i] + n3 * fabsf(row[i]) * row[i];
        float sum = sums[i] + g * g;
        sums[i] = sum;
        row[i] -= rate * g / (sqrtf(sum) + EPSILON);
    }
}

TASK_SIMD void muster_kernel_candidate(float *restrict row,
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

TASK_SIMD void muster_kernel_candidate_l1(float *restrict row,
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

TASK_SIMD void muster_kernel_complex(const float *restrict a,
                                     const float *restrict b, float *restrict q,
                                     uint32_t n)
{
    uint32_t half = n / 2;
    for (uint32_t i = 0; i < half; i++) {
        q[i] = a[i] * b[i] - a[half + i] * b[half + i];
        q[half + i] = a[i] * b[half + i] + a[half + i] * b[i];
    }
}

TASK_SIMD void muster_kernel_complex_back(const float *restrict dq,
                                          const float *restrict b,
                                          float *restrict da, uint32_t n)
{
    uint32_t half = n / 2;
    for (uint32_t i = 0; i < half; i++) {
        da[i] = dq[i] * b[i] + dq[half + i] * b[half + i];
        da[half + i] = dq[half + i] * b[i] - dq[i] * b[half + i];
    }
}

TASK_SIMD float muster_kernel_skipgram(const float *restrict in,
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
