/*
 * Layer norm. Sums along a row are in double: a mean that is off shows in all
 * units of the row.
 */
#include "model/norm.h"

#include <math.h>

#include "base/simd.h"

#define EPSILON 1e-5
#define LANES   8u
#define STRIP   512u // columns: 4 KiB of doubles

/* Sums of a and of a b, in a fixed order. */
MUSTER_SIMD static void two_sums(const float *a, const float *b, size_t count,
                                 double sums_out[2])
{
    double plain[LANES] = {0};
    double mixed[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            plain[l] += (double)a[i + l];
            mixed[l] += (double)a[i + l] * (double)b[i + l];
        }
    }
    for (size_t l = 0; i + l < count; l++) {
        plain[l] += (double)a[i + l];
        mixed[l] += (double)a[i + l] * (double)b[i + l];
    }
    sums_out[0] = 0;
    sums_out[1] = 0;
    for (size_t l = 0; l < LANES; l++) {
        sums_out[0] += plain[l];
        sums_out[1] += mixed[l];
    }
}

MUSTER_SIMD float muster_norm_row(const float *gain, const float *shift,
                                  size_t count, float *x, float *normed_out)
{
    double sums[2];
    two_sums(x, x, count, sums);
    const float mean = (float)(sums[0] / (double)count);
    for (size_t i = 0; i < count; i++) {
        normed_out[i] = x[i] - mean;
    }
    two_sums(normed_out, normed_out, count, sums);
    const double variance = sums[1] / (double)count;
    const float inverse = (float)(1 / sqrt(variance + EPSILON));
    for (size_t i = 0; i < count; i++) {
        normed_out[i] *= inverse;
        x[i] = gain[i] * normed_out[i] + shift[i];
    }
    return inverse;
}

/* With s = slope gain: inverse (s - mean(s) - normed mean(s normed)). */
MUSTER_SIMD void muster_norm_row_back(const float *gain, const float *normed,
                                      float inverse, size_t count,
                                      float *slopes)
{
    double sums[2];
    for (size_t i = 0; i < count; i++) {
        slopes[i] *= gain[i];
    }
    two_sums(slopes, normed, count, sums);
    const float mean = (float)(sums[0] / (double)count);
    const float along = (float)(sums[1] / (double)count);
    for (size_t i = 0; i < count; i++) {
        slopes[i] = inverse * (slopes[i] - mean - normed[i] * along);
    }
}

MUSTER_SIMD static void add_products(double *restrict sums,
                                     const float *restrict a,
                                     const float *restrict b, uint32_t count)
{
    for (uint32_t c = 0; c < count; c++) {
        sums[c] += (double)a[c] * (double)b[c];
    }
}

void muster_norm_product_sums(const muster_matrix *a, const muster_matrix *b,
                              muster_layer_sums sums)
{
    for (uint32_t at = 0; at < a->columns; at += STRIP) {
        double strip[STRIP] = {0};
        uint32_t left = a->columns - at;
        uint32_t count = left < STRIP ? left : STRIP;
        for (uint32_t r = 0; r < a->rows; r++) {
            add_products(strip, a->data + r * a->stride + at,
                         b->data + r * b->stride + at, count);
        }
        muster_layer_put_sums(strip, count, sums, at);
    }
}
