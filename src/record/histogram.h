/*
 * record/histogram.h -- quantiles of times in fixed memory.
 *
 * A run may have millions of steps: times go into buckets, 32 to an octave from
 * a microsecond to a day, so that a quantile is right to about 1 %. Count, sum,
 * least and most are exact.
 *
 *   Allocation   None: 4.7 KB, embedded where it is used.
 */
#ifndef MUSTER_RECORD_HISTOGRAM_H
#define MUSTER_RECORD_HISTOGRAM_H

#include <stdint.h>

#define MUSTER_HISTOGRAM_OCTAVES 37u // 2^-10 ms .. 2^27 ms
#define MUSTER_HISTOGRAM_STEPS   32u // buckets of an octave

typedef struct muster_histogram {
    uint64_t count;
    double sum;
    double min;
    double max;
    uint32_t buckets[MUSTER_HISTOGRAM_OCTAVES * MUSTER_HISTOGRAM_STEPS];
} muster_histogram;

/* Start from zeroed memory. Values that are not finite are left out; negative
 * ones count as 0. */
void muster_histogram_add(muster_histogram *histogram, double ms);

/* Add all that `other` holds. */
void muster_histogram_merge(muster_histogram *histogram,
                            const muster_histogram *other);

/* The value below which a share `q` in 0..1 lies; NAN when empty. */
double muster_histogram_quantile(const muster_histogram *histogram, double q);

double muster_histogram_mean(const muster_histogram *histogram);

#endif // MUSTER_RECORD_HISTOGRAM_H
