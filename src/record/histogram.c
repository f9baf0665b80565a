/*
 * histogram.c -- buckets by frexp: the exponent is the octave, the mantissa the
 * place within it.
 */
#include "record/histogram.h"

#include <math.h>
#include <stdbool.h>

#define FIRST_EXPONENT (-10)
#define BUCKET_COUNT   (MUSTER_HISTOGRAM_OCTAVES * MUSTER_HISTOGRAM_STEPS)

static unsigned bucket_of(double ms)
{
    int exponent = 0;
    double mantissa = frexp(ms, &exponent); // in [0.5, 1)
    int octave = exponent - 1 - FIRST_EXPONENT;
    if (ms <= 0 || octave < 0) {
        return 0;
    }
    if (octave >= (int)MUSTER_HISTOGRAM_OCTAVES) {
        return BUCKET_COUNT - 1;
    }
    unsigned step =
        (unsigned)((mantissa - 0.5) * 2 * (double)MUSTER_HISTOGRAM_STEPS);
    return (unsigned)octave * MUSTER_HISTOGRAM_STEPS + step;
}

/* Where a bucket begins; `bucket` may be BUCKET_COUNT. */
static double edge(unsigned bucket)
{
    unsigned octave = bucket / MUSTER_HISTOGRAM_STEPS;
    unsigned step = bucket % MUSTER_HISTOGRAM_STEPS;
    return ldexp(1 + (double)step / (double)MUSTER_HISTOGRAM_STEPS,
                 (int)octave + FIRST_EXPONENT);
}

void muster_histogram_add(muster_histogram *histogram, double ms)
{
    if (!isfinite(ms)) {
        return;
    }
    double value = ms > 0 ? ms : 0;
    uint32_t *bucket = &histogram->buckets[bucket_of(value)];
    *bucket += *bucket < UINT32_MAX;
    if (histogram->count == 0 || value < histogram->min) {
        histogram->min = value;
    }
    if (histogram->count == 0 || value > histogram->max) {
        histogram->max = value;
    }
    histogram->sum += value;
    histogram->count++;
}

void muster_histogram_merge(muster_histogram *histogram,
                            const muster_histogram *other)
{
    if (other->count == 0) {
        return;
    }
    bool empty = histogram->count == 0;
    histogram->min = empty ? other->min : fmin(histogram->min, other->min);
    histogram->max = empty ? other->max : fmax(histogram->max, other->max);
    histogram->sum += other->sum;
    histogram->count += other->count;
    for (unsigned i = 0; i < BUCKET_COUNT; i++) {
        uint64_t both = (uint64_t)histogram->buckets[i] + other->buckets[i];
        histogram->buckets[i] = both < UINT32_MAX ? (uint32_t)both : UINT32_MAX;
    }
}

double muster_histogram_quantile(const muster_histogram *histogram, double q)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < BUCKET_COUNT; i++) {
        total += histogram->buckets[i];
    }
    double rank = q * (double)total;
    double below = 0;
    for (unsigned i = 0; i < BUCKET_COUNT && total > 0; i++) {
        double here = histogram->buckets[i];
        if (here > 0 && below + here >= rank) {
            // The outermost buckets hold whatever lies beyond them, too.
            double from =
                i == 0 ? histogram->min : fmax(edge(i), histogram->min);
            double to = i == BUCKET_COUNT - 1
                            ? histogram->max
                            : fmin(edge(i + 1), histogram->max);
            return from + (to - from) * (rank - below) / here;
        }
        below += here;
    }
    return NAN;
}

double muster_histogram_mean(const muster_histogram *histogram)
{
    return histogram->count > 0 ? histogram->sum / (double)histogram->count
                                : NAN;
}
