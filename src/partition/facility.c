/*
 * facility.c -- gains: the hot loops of the room.
 *
 * A dense gain reads one row and `best` front to back. Runs of 512 floats are
 * added up in 32 float lanes, runs are added in double: exact to about 1e-6 of
 * a gain, at the speed of memory. The loops are compiled for the baseline and
 * for AVX2; neither fuses or reorders sums, so that the bits are the same.
 */
#include "partition/facility.h"

#include <math.h>

#include "base/mem.h"
#include "base/simd.h"

#define RUN 512u

typedef int32_t lane_bits __attribute__((vector_size(32)));

/* max(0, v), lane by lane. */
#define POSITIVE(v) ((muster_f8)((lane_bits)(v) & (lane_bits)((v) > 0.0f)))

MUSTER_SIMD static double dense_gain(const float *row, const float *best,
                                     size_t count)
{
    double sum = 0.0;
    size_t u = 0;
    while (count - u >= 32) {
        size_t left = (count - u) / 32 * 32;
        size_t end = u + (left < RUN ? left : RUN);
        muster_f8 lanes[4] = {{0}, {0}, {0}, {0}};
        for (; u < end; u += 32) {
            for (size_t l = 0; l < 4; l++) {
                muster_f8 more;
                muster_f8 now;
                MUSTER_F8_LOAD(more, row + u + 8 * l);
                MUSTER_F8_LOAD(now, best + u + 8 * l);
                more -= now;
                lanes[l] += POSITIVE(more);
            }
        }
        muster_f8 all = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
        sum += (double)MUSTER_F8_SUM(all);
    }
    for (; u < count; u++) {
        float more = row[u] - best[u];
        sum += (double)(more > 0.0f ? more : 0.0f);
    }
    return sum;
}

MUSTER_SIMD static void dense_take(const float *row, float *best, size_t count)
{
    for (size_t u = 0; u < count; u++) {
        best[u] = row[u] > best[u] ? row[u] : best[u];
    }
}

static double sparse_gain(const muster_facility *f, const float *best,
                          uint32_t item)
{
    double sum = 0.0;
    uint64_t end = f->offsets[item + 1];
    for (uint64_t e = f->offsets[item]; e < end; e++) {
        float more = f->values[e] - best[f->columns[e]];
        sum += (double)(more > 0.0f ? more : 0.0f);
    }
    return sum;
}

double muster_facility_gain(const muster_facility *facility, const float *best,
                            uint32_t item)
{
    if (facility->dense == NULL) {
        return sparse_gain(facility, best, item);
    }
    return dense_gain(facility->dense + item * facility->stride, best,
                      facility->clients);
}

void muster_facility_take(const muster_facility *facility, float *best,
                          uint32_t item)
{
    if (facility->dense != NULL) {
        dense_take(facility->dense + item * facility->stride, best,
                   facility->clients);
        return;
    }
    uint64_t end = facility->offsets[item + 1];
    for (uint64_t e = facility->offsets[item]; e < end; e++) {
        float *now = &best[facility->columns[e]];
        *now = facility->values[e] > *now ? facility->values[e] : *now;
    }
}

double muster_facility_value(const muster_facility *facility, const float *best)
{
    double sum = 0.0;
    for (uint32_t u = 0; u < facility->clients; u++) {
        sum += (double)best[u];
    }
    return sum;
}

/* 0 x is 0 for a finite x and NaN for any other. */
MUSTER_SIMD static bool all_finite(const float *row, size_t count)
{
    muster_f8 lanes = {0};
    size_t u = 0;
    for (; count - u >= 8; u += 8) {
        muster_f8 x;
        MUSTER_F8_LOAD(x, row + u);
        lanes += x * 0.0f;
    }
    float sum = MUSTER_F8_SUM(lanes);
    for (; u < count; u++) {
        sum += row[u] * 0.0f;
    }
    return isfinite(sum);
}

bool muster_facility_row_is_finite(const muster_facility *facility,
                                   uint32_t item)
{
    return all_finite(facility->dense + item * facility->stride,
                      facility->clients);
}

double muster_facility_gain_bytes(const muster_facility *facility)
{
    if (facility->dense != NULL) {
        return 4.0 * facility->clients;
    }
    return 8.0 * (double)facility->offsets[facility->items] /
           (facility->items > 0 ? facility->items : 1);
}

void muster_facility_fini(muster_facility *facility)
{
    muster_mem_free(facility->offsets);
    muster_mem_free(facility->columns);
    muster_mem_free(facility->values);
    muster_mem_free(facility->own);
    *facility = (muster_facility){0};
}
