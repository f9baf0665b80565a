/*
 * Loops over rows. Dense ones go by strips of STRIP columns, whose sums in
 * double stay in the first-level cache while the rows stream through.
 */
#include "model/layers_kernel.h"

#include <string.h>

#include "base/simd.h"

#define STRIP          512u // columns: 4 KiB of doubles
#define LANES          8u
#define SQUARES_FLOATS ((size_t)4096)

/* Lane i takes the terms i, i + 8, ..; the compiler keeps lanes in registers
 * and the order of the sum is the same for every width of them. */
MUSTER_SIMD static double dot(const float *a, const float *b, uint32_t count)
{
    double lanes[LANES] = {0};
    uint32_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (uint32_t l = 0; l < LANES; l++) {
            lanes[l] += (double)a[i + l] * (double)b[i + l];
        }
    }
    double sum = 0;
    for (; i < count; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    for (uint32_t l = 0; l < LANES; l++) {
        sum += lanes[l];
    }
    return sum;
}

void muster_layer_dot(const muster_matrix *x, const float *w, float bias,
                      float *out)
{
    for (uint32_t r = 0; r < x->rows; r++) {
        const float *row = x->data + r * x->stride;
        out[r] = (float)((double)bias + dot(row, w, x->columns));
    }
}

MUSTER_SIMD static void add_scaled(double *restrict sums,
                                   const float *restrict x, double scale,
                                   uint32_t count)
{
    for (uint32_t c = 0; c < count; c++) {
        sums[c] += scale * (double)x[c];
    }
}

/* Two rows at a time: half the traffic of the sums. */
MUSTER_SIMD static void add_two(double *restrict sums, const float *restrict x,
                                const float *restrict y, const double scales[2],
                                uint32_t count)
{
    const double by_x = scales[0];
    const double by_y = scales[1];
    for (uint32_t c = 0; c < count; c++) {
        sums[c] += by_x * (double)x[c] + by_y * (double)y[c];
    }
}

void muster_layer_put_sums(const double *strip, uint32_t count,
                           muster_layer_sums sums, size_t at)
{
    for (uint32_t c = 0; c < count; c++) {
        if (sums.wide != NULL) {
            sums.wide[at + c] += strip[c];
        } else {
            sums.narrow[at + c] += (float)strip[c];
        }
    }
}

static double slope_of(const float *slopes, uint32_t r)
{
    return slopes != NULL ? (double)slopes[r] : 1;
}

/* sums += x' slopes; without slopes each is 1. */
static void add_rows(const muster_matrix *x, const float *slopes,
                     muster_layer_sums sums)
{
    for (uint32_t at = 0; at < x->columns; at += STRIP) {
        double strip[STRIP] = {0};
        uint32_t left = x->columns - at;
        uint32_t count = left < STRIP ? left : STRIP;
        const float *from = x->data + at;
        uint32_t r = 0;
        for (; r + 2 <= x->rows; r += 2) {
            const double scales[2] = {slope_of(slopes, r),
                                      slope_of(slopes, r + 1)};
            add_two(strip, from + r * x->stride, from + (r + 1) * x->stride,
                    scales, count);
        }
        if (r < x->rows) {
            add_scaled(strip, from + r * x->stride, slope_of(slopes, r), count);
        }
        muster_layer_put_sums(strip, count, sums, at);
    }
}

void muster_layer_dot_back(const muster_matrix *x, const float *slopes,
                           muster_layer_sums sums)
{
    add_rows(x, slopes, sums);
}

void muster_layer_column_sums(const muster_matrix *x, muster_layer_sums sums)
{
    add_rows(x, NULL, sums);
}

/* One output: sums in double, as they cost no more. */
static void sparse_dot(const muster_rows *rows, uint32_t begin, uint32_t end,
                       const float *w, float *out)
{
    for (uint32_t r = begin; r < end; r++) {
        double z = (double)out[r];
        for (uint64_t e = rows->offsets[r]; e < rows->offsets[r + 1]; e++) {
            z += (double)rows->values[e] * (double)w[rows->columns[e]];
        }
        out[r] = (float)z;
    }
}

MUSTER_SIMD static void sparse_product(const muster_rows *rows, uint32_t begin,
                                       uint32_t end, const float *w,
                                       uint32_t width, float *out)
{
    for (uint32_t r = begin; r < end; r++) {
        float *z = out + (size_t)r * width;
        for (uint64_t e = rows->offsets[r]; e < rows->offsets[r + 1]; e++) {
            const float *from = w + (size_t)rows->columns[e] * width;
            const float value = rows->values[e];
            for (uint32_t c = 0; c < width; c++) {
                z[c] += value * from[c];
            }
        }
    }
}

void muster_layer_sparse(const muster_rows *rows, uint32_t begin, uint32_t end,
                         const float *w, uint32_t width, float *out)
{
    if (width == 1) {
        sparse_dot(rows, begin, end, w, out);
    } else {
        sparse_product(rows, begin, end, w, width, out);
    }
}

MUSTER_SIMD static void sparse_back_wide(const muster_rows *rows,
                                         uint32_t begin, uint32_t end,
                                         const float *slopes, uint32_t width,
                                         double *sums)
{
    for (uint32_t r = begin; r < end; r++) {
        const float *slope = slopes + (size_t)r * width;
        for (uint64_t e = rows->offsets[r]; e < rows->offsets[r + 1]; e++) {
            double *to = sums + (size_t)rows->columns[e] * width;
            const double value = (double)rows->values[e];
            for (uint32_t c = 0; c < width; c++) {
                to[c] += value * (double)slope[c];
            }
        }
    }
}

MUSTER_SIMD static void sparse_back_narrow(const muster_rows *rows,
                                           uint32_t begin, uint32_t end,
                                           const float *slopes, uint32_t width,
                                           float *sums)
{
    for (uint32_t r = begin; r < end; r++) {
        const float *slope = slopes + (size_t)r * width;
        for (uint64_t e = rows->offsets[r]; e < rows->offsets[r + 1]; e++) {
            float *to = sums + (size_t)rows->columns[e] * width;
            const float value = rows->values[e];
            for (uint32_t c = 0; c < width; c++) {
                to[c] += value * slope[c];
            }
        }
    }
}

void muster_layer_sparse_back(const muster_rows *rows, uint32_t begin,
                              uint32_t end, const float *slopes, uint32_t width,
                              muster_layer_sums sums)
{
    if (sums.wide != NULL) {
        sparse_back_wide(rows, begin, end, slopes, width, sums.wide);
    } else {
        sparse_back_narrow(rows, begin, end, slopes, width, sums.narrow);
    }
}

MUSTER_SIMD void muster_layer_relu(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        x[i] = x[i] > 0 ? x[i] : 0;
    }
}

MUSTER_SIMD void muster_layer_mask(float *restrict out,
                                   const float *restrict slopes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float slope = slopes[i];
        out[i] = out[i] > 0 ? slope : 0;
    }
}

MUSTER_SIMD void muster_layer_scale(float *x, float scale, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        x[i] *= scale;
    }
}

MUSTER_SIMD static float squares_some(const float *x, size_t count)
{
    float lanes[2 * LANES] = {0};
    size_t i = 0;
    for (; i + (size_t)2 * LANES <= count; i += (size_t)2 * LANES) {
        for (uint32_t l = 0; l < 2 * LANES; l++) {
            lanes[l] += x[i + l] * x[i + l];
        }
    }
    float sum = 0;
    for (; i < count; i++) {
        sum += x[i] * x[i];
    }
    for (uint32_t l = 0; l < 2 * LANES; l++) {
        sum += lanes[l];
    }
    return sum;
}

double muster_layer_squares(const float *x, size_t count)
{
    double sum = 0;
    for (size_t at = 0; at < count; at += SQUARES_FLOATS) {
        size_t left = count - at;
        sum += (double)squares_some(
            x + at, left < SQUARES_FLOATS ? left : SQUARES_FLOATS);
    }
    return sum;
}
