/*
 * partition_test.h -- what the tests of the room share: made-up rows, and a
 * meter that nobody listens to.
 */
#ifndef MUSTER_PARTITION_PARTITION_TEST_H
#define MUSTER_PARTITION_PARTITION_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "muster/partition.h"
#include "partition/meter.h"

static inline void *test_room(size_t count, size_t size)
{
    void *memory = muster_mem_array(count, size);
    assert_non_null(memory);
    return memory;
}

/* Rows around a few centres, all features positive, of unit length when
 * wanted. */
static inline float *test_rows(uint32_t count, uint32_t columns, uint64_t seed,
                               bool unit)
{
    muster_rng rng = muster_rng_make(seed, 7);
    float *rows = test_room((size_t)count * columns, sizeof(*rows));
    float *centres = test_room((size_t)5 * columns, sizeof(*centres));
    for (uint32_t t = 0; t < 5 * columns; t++) {
        centres[t] = (float)muster_rng_uniform(&rng);
    }
    for (uint32_t i = 0; i < count; i++) {
        const float *centre = centres + muster_rng_below(&rng, 5) * columns;
        float *x = rows + (size_t)i * columns;
        double squares = 0.0;
        for (uint32_t t = 0; t < columns; t++) {
            x[t] = centre[t] + 0.5f * (float)muster_rng_uniform(&rng);
            squares += (double)x[t] * (double)x[t];
        }
        for (uint32_t t = 0; unit && t < columns; t++) {
            x[t] = (float)((double)x[t] / sqrt(squares));
        }
    }
    muster_mem_free(centres);
    return rows;
}

/* Class numbers 0..classes-1 in no order. */
static inline float *test_labels(uint32_t count, uint32_t classes,
                                 uint64_t seed)
{
    muster_rng rng = muster_rng_make(seed, 8);
    float *labels = test_room(count, sizeof(*labels));
    for (uint32_t i = 0; i < count; i++) {
        labels[i] = (float)muster_rng_below(&rng, classes);
    }
    return labels;
}

static inline void test_meter(muster_meter *meter)
{
    muster_partition_opts opts = MUSTER_PARTITION_OPTS_INIT;
    assert_int_equal(muster_meter_init(meter, &opts), MUSTER_OK);
}

#endif // MUSTER_PARTITION_PARTITION_TEST_H
