/*
 * Images to columns and back, and pooling. The loops along a row of pixels are
 * made once for one channel, where the compiler knows their length, and once
 * for any number.
 */
#include "model/conv_kernel.h"

#include <stdbool.h>
#include <string.h>

#include "base/simd.h"

#define TAPS_WIDE 3u // taps of a row of the filter

/* One row of pixels for one row of the filter: `to` has 3 channels of each
 * pixel's columns, whose rows are `stride` floats apart. */
static inline void unfold_row(const float *from, uint32_t width,
                              uint32_t channels, float *to, size_t stride)
{
    const uint32_t run = TAPS_WIDE * channels;
    for (uint32_t x = 0; x < width; x++) {
        float *columns = to + x * stride;
        uint32_t begin = x == 0 ? channels : 0;
        uint32_t end = x + 1 == width ? run - channels : run;
        for (uint32_t i = 0; i < begin; i++) {
            columns[i] = 0;
        }
        for (uint32_t i = begin; i < end; i++) {
            columns[i] = from[x * channels + i - channels];
        }
        for (uint32_t i = end; i < run; i++) {
            columns[i] = 0;
        }
    }
}

static void clear_row(uint32_t width, uint32_t run, float *to, size_t stride)
{
    for (uint32_t x = 0; x < width; x++) {
        memset(to + x * stride, 0, run * sizeof(float));
    }
}

/* The row of the image that tap row `tap` sees from row y; false: none. */
static bool tap_row(const muster_image *shape, uint32_t y, uint32_t tap,
                    uint32_t *row_out)
{
    uint32_t row = y + tap; // one below what it is
    *row_out = row - 1;
    return row >= 1 && row <= shape->height;
}

MUSTER_SIMD void muster_conv_unfold(const muster_image *shape,
                                    const float *image, float *columns)
{
    const uint32_t channels = shape->channels;
    const size_t stride = (size_t)MUSTER_CONV_TAPS * channels;
    const size_t line = (size_t)shape->width * channels;
    for (uint32_t y = 0; y < shape->height; y++) {
        for (uint32_t tap = 0; tap < TAPS_WIDE; tap++) {
            float *to = columns + (size_t)y * shape->width * stride +
                        (size_t)tap * TAPS_WIDE * channels;
            uint32_t row = 0;
            if (!tap_row(shape, y, tap, &row)) {
                clear_row(shape->width, TAPS_WIDE * channels, to, stride);
            } else if (channels == 1) {
                unfold_row(image + row * line, shape->width, 1, to,
                           MUSTER_CONV_TAPS);
            } else {
                unfold_row(image + row * line, shape->width, channels, to,
                           stride);
            }
        }
    }
}

static inline void fold_row(const float *from, uint32_t width,
                            uint32_t channels, size_t stride, float *to)
{
    const uint32_t run = TAPS_WIDE * channels;
    for (uint32_t x = 0; x < width; x++) {
        const float *columns = from + x * stride;
        uint32_t begin = x == 0 ? channels : 0;
        uint32_t end = x + 1 == width ? run - channels : run;
        for (uint32_t i = begin; i < end; i++) {
            to[x * channels + i - channels] += columns[i];
        }
    }
}

MUSTER_SIMD void muster_conv_fold(const muster_image *shape,
                                  const float *columns, float *image)
{
    const uint32_t channels = shape->channels;
    const size_t stride = (size_t)MUSTER_CONV_TAPS * channels;
    const size_t line = (size_t)shape->width * channels;
    for (uint32_t y = 0; y < shape->height; y++) {
        for (uint32_t tap = 0; tap < TAPS_WIDE; tap++) {
            const float *from = columns + (size_t)y * shape->width * stride +
                                (size_t)tap * TAPS_WIDE * channels;
            uint32_t row = 0;
            if (tap_row(shape, y, tap, &row)) {
                fold_row(from, shape->width, channels, stride,
                         image + row * line);
            }
        }
    }
}

/* One pooled pixel: `at` and `under` are its upper and lower two. */
static inline void pool_pixel(const float *at, const float *under,
                              uint32_t channels, const float *biases,
                              float *restrict out, uint8_t *restrict picks)
{
    for (uint32_t c = 0; c < channels; c++) {
        const float four[] = {at[c], at[channels + c], under[c],
                              under[channels + c]};
        float upper = four[1] > four[0] ? four[1] : four[0];
        float lower = four[3] > four[2] ? four[3] : four[2];
        float best = (lower > upper ? lower : upper) + biases[c];
        uint8_t upper_pick = four[1] > four[0];
        uint8_t lower_pick = (uint8_t)(2 + (four[3] > four[2]));
        picks[c] = lower > upper ? lower_pick : upper_pick;
        out[c] = best > 0 ? best : 0;
    }
}

MUSTER_SIMD void muster_conv_pool(const muster_image *shape, const float *maps,
                                  const float *biases, float *out,
                                  uint8_t *picks_out)
{
    const uint32_t channels = shape->channels;
    const size_t line = (size_t)shape->width * channels;
    for (uint32_t y = 0; y < shape->height / 2; y++) {
        const float *at = maps + (size_t)2 * y * line;
        for (uint32_t x = 0; x < shape->width / 2; x++) {
            pool_pixel(at, at + line, channels, biases, out, picks_out);
            at += 2 * (size_t)channels;
            out += channels;
            picks_out += channels;
        }
    }
}

static inline void unpool_pixel(const float *slopes, const uint8_t *picks,
                                uint32_t channels, float *restrict at,
                                float *restrict under)
{
    for (uint32_t c = 0; c < channels; c++) {
        float slope = slopes[c];
        uint8_t pick = picks[c];
        at[c] = pick == 0 ? slope : 0;
        at[channels + c] = pick == 1 ? slope : 0;
        under[c] = pick == 2 ? slope : 0;
        under[channels + c] = pick == 3 ? slope : 0;
    }
}

MUSTER_SIMD void muster_conv_unpool(const muster_image *shape,
                                    const float *slopes, const uint8_t *picks,
                                    float *maps)
{
    const uint32_t channels = shape->channels;
    const size_t line = (size_t)shape->width * channels;
    if (shape->height % 2 != 0 || shape->width % 2 != 0) {
        memset(maps, 0, shape->height * line * sizeof(float));
    }
    for (uint32_t y = 0; y < shape->height / 2; y++) {
        float *at = maps + (size_t)2 * y * line;
        for (uint32_t x = 0; x < shape->width / 2; x++) {
            unpool_pixel(slopes, picks, channels, at, at + line);
            at += 2 * (size_t)channels;
            slopes += channels;
            picks += channels;
        }
    }
}
