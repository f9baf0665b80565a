/*
 * synthetic.c -- data made on the spot: class clusters that overlap and that no
 * linear model separates, or a noisy linear target.
 *
 * Class c has a direction v_c (orthonormal to the others where there is room).
 * Most of its samples are Gaussian around r v_c, the others around -r v_c: a
 * linear score that grows along v_c loses those, a small network finds them.
 * The radius r makes neighbours overlap as much for any number of classes.
 * Features are standardised by the mean and deviation of the distribution (not
 * of the samples), so that the held-out samples get the same treatment.
 *
 * Every sample has its own stream of random numbers: the first thousand are
 * the same whether a thousand or a million are asked for.
 */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/dot.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/spec.h"
#include "base/suggest.h"
#include "data/readers.h"

#define SPEC_NAME        "synthetic"
#define CLASSES_MAX      1000u
#define ORTHOGONAL_MAX   64u
#define OVERLAP          0.025 // chance that a nearer centre is another class's
#define OPPOSITE_SHARE   0.09  // samples of a class around -r v_c
#define NOISE_CLASSES    1.0
#define NOISE_REGRESSION 0.1
#define NOISE_MAX        1000.0
#define INTERCEPT        0.5

// Streams of the seed; samples are added to the last two.
#define STREAM_SHAPE ((uint64_t)0xda7a << 40)
#define STREAM_TRAIN ((uint64_t)0xda7b << 40)
#define STREAM_TEST  ((uint64_t)0xda7c << 40)

typedef struct synthetic_options {
    uint64_t samples;
    uint64_t features;
    uint64_t classes;
    uint64_t seed;
    uint64_t test;
    double noise;
} synthetic_options;

#define COUNT(member)                                                        \
    {                                                                        \
#member, MUSTER_SPEC_UINT64, offsetof(synthetic_options, member), 0, \
            MUSTER_SPEC_NO_LIMIT, NULL, false                                \
    }
static const muster_spec_field fields[] = {
    COUNT(samples),
    COUNT(features),
    COUNT(classes),
    COUNT(seed),
    COUNT(test),
    {"noise", MUSTER_SPEC_DOUBLE, offsetof(synthetic_options, noise), 0,
     NOISE_MAX, NULL, false},
    {.name = NULL},
};
#define GIVEN_TEST  (1u << 4) // by their places in the table
#define GIVEN_NOISE (1u << 5)

// The distribution that samples are drawn from.
typedef struct synthetic_shape {
    uint64_t features;
    uint64_t classes;
    double noise;
    double radius;
    float *directions; // classes x features; regression: one row of weights
    float *shift;      // features, subtracted
    float *scale;      // features, then multiplied by
} synthetic_shape;

bool muster_synthetic_is(const char *spec)
{
    return muster_spec_is(spec, SPEC_NAME);
}

muster_status muster_generator_check(const char *spec, muster_error *error_out)
{
    const char *params;
    size_t length = muster_spec_name(spec, &params);
    muster_suggestion meant = muster_suggestion_make(spec, length);
    muster_suggestion_add_list(&meant, SPEC_NAME ",zipf", ',');
    return strchr(params, '=') == NULL || meant.nearest[0] == '\0'
               ? MUSTER_OK
               : muster_suggestion_fail(&meant, "--data ", error_out);
}

static muster_status check_options(synthetic_options *options, uint64_t given,
                                   muster_error *error_out)
{
    if ((given & GIVEN_TEST) == 0) {
        options->test = options->samples / 5;
    }
    if ((given & GIVEN_NOISE) == 0) {
        options->noise =
            options->classes > 0 ? NOISE_CLASSES : NOISE_REGRESSION;
    }
    // Data sets are known by their seed: the noise has always been a float.
    options->noise = (double)(float)options->noise;
    const char *wrong = NULL;
    if (options->samples < 2 || options->samples > MUSTER_TABLE_SAMPLES_MAX ||
        options->test > MUSTER_TABLE_SAMPLES_MAX) {
        wrong = "samples must be 2 to 2^32-1, test at most that";
    } else if (options->features < 1 ||
               options->features > MUSTER_TABLE_FEATURES_MAX) {
        wrong = "features must be 1 to 2^28";
    } else if (options->classes == 1 || options->classes > CLASSES_MAX) {
        wrong = "classes must be 0 (real targets) or 2 to 1000";
    }
    return wrong == NULL ? MUSTER_OK
                         : muster_error_set(error_out, MUSTER_ERR_INVALID,
                                            "--data " SPEC_NAME ": %s", wrong);
}

static muster_status parse_spec(const char *spec, synthetic_options *options,
                                muster_error *error_out)
{
    *options = (synthetic_options){
        .samples = 10000, .features = 20, .classes = 10, .seed = 1};
    const char *params;
    uint64_t given = 0;
    (void)muster_spec_name(spec, &params);
    muster_status status = muster_spec_read("--data " SPEC_NAME, params, fields,
                                            options, &given, error_out);
    return status == MUSTER_OK ? check_options(options, given, error_out)
                               : status;
}

// Where (classes - 1) Q(r / sqrt 2) is OVERLAP: centres are r sqrt 2 apart.
static double solve_radius(uint64_t classes)
{
    double low = 0.0;
    double high = 20.0;
    for (int i = 0; i < 60; i++) {
        double r = (low + high) / 2;
        double overlap = (double)(classes - 1) * 0.5 * erfc(r / 2);
        if (overlap > OVERLAP) {
            low = r;
        } else {
            high = r;
        }
    }
    return low;
}

// Random unit vectors; the first ones are orthogonal to each other.
static void draw_directions(synthetic_shape *shape, uint64_t rows,
                            muster_rng *rng)
{
    uint64_t features = shape->features;
    for (uint64_t c = 0; c < rows; c++) {
        float *v = shape->directions + c * features;
        for (uint64_t j = 0; j < features; j++) {
            v[j] = (float)muster_rng_normal(rng);
        }
        uint64_t before = c < features && c < ORTHOGONAL_MAX ? c : 0;
        for (uint64_t p = 0; p < before; p++) {
            const float *other = shape->directions + p * features;
            double along = muster_dot_wide(v, other, features);
            for (uint64_t j = 0; j < features; j++) {
                v[j] -= (float)along * other[j];
            }
        }
        double norm = sqrt(muster_dot_wide(v, v, features));
        for (uint64_t j = 0; j < features; j++) {
            v[j] = (float)(v[j] / (norm > 1e-12 ? norm : 1.0));
        }
    }
}

// Mean and variance of the mixture, feature by feature.
static void standardise(synthetic_shape *shape)
{
    double r = shape->radius;
    for (uint64_t j = 0; j < shape->features; j++) {
        double sum = 0.0;
        double squares = 0.0;
        for (uint64_t c = 0; c < shape->classes; c++) {
            double v = shape->directions[c * shape->features + j];
            sum += v;
            squares += v * v;
        }
        double n = (double)shape->classes;
        double mean = r * (1.0 - 2.0 * OPPOSITE_SHARE) * sum / n;
        double variance =
            shape->noise * shape->noise + r * r * squares / n - mean * mean;
        shape->shift[j] = (float)mean;
        shape->scale[j] =
            (float)(variance > 1e-12 ? 1.0 / sqrt(variance) : 1.0);
    }
}

static void shape_fini(synthetic_shape *shape)
{
    muster_mem_free(shape->directions);
    muster_mem_free(shape->shift);
    muster_mem_free(shape->scale);
}

static muster_status shape_init(synthetic_shape *shape,
                                const synthetic_options *options,
                                muster_error *error_out)
{
    uint64_t rows = options->classes > 0 ? options->classes : 1;
    *shape = (synthetic_shape){
        .features = options->features,
        .classes = options->classes,
        .noise = options->noise,
        .directions = muster_mem_array(rows * options->features, sizeof(float)),
        .shift = muster_mem_array(options->features, sizeof(float)),
        .scale = muster_mem_array(options->features, sizeof(float)),
    };
    if (shape->directions == NULL || shape->shift == NULL ||
        shape->scale == NULL) {
        shape_fini(shape);
        return muster_table_fail_memory(SPEC_NAME, error_out);
    }
    muster_rng rng = muster_rng_make(options->seed, STREAM_SHAPE);
    draw_directions(shape, rows, &rng);
    if (options->classes > 0) {
        shape->radius = solve_radius(options->classes);
        standardise(shape);
    }
    return MUSTER_OK;
}

// One sample of a class; returns its label.
static float draw_member(const synthetic_shape *shape, muster_rng *rng,
                         float *row)
{
    uint64_t label = muster_rng_below(rng, shape->classes);
    bool opposite = muster_rng_uniform(rng) < OPPOSITE_SHARE;
    float radius = (float)(opposite ? -shape->radius : shape->radius);
    float noise = (float)shape->noise;
    const float *v = shape->directions + label * shape->features;
    for (uint64_t j = 0; j < shape->features; j++) {
        float x = radius * v[j] + noise * (float)muster_rng_normal(rng);
        row[j] = (x - shape->shift[j]) * shape->scale[j];
    }
    return (float)label;
}

// One sample of the regression; returns its target.
static float draw_target(const synthetic_shape *shape, muster_rng *rng,
                         float *row)
{
    for (uint64_t j = 0; j < shape->features; j++) {
        row[j] = (float)muster_rng_normal(rng);
    }
    double signal = muster_dot_wide(row, shape->directions, shape->features);
    return (float)(INTERCEPT + signal + shape->noise * muster_rng_normal(rng));
}

static void draw_samples(const synthetic_shape *shape, uint64_t seed,
                         uint64_t stream, muster_table *table)
{
    for (uint64_t i = 0; i < table->samples; i++) {
        muster_rng rng = muster_rng_make(seed, stream + i);
        float *row = table->dense + i * shape->features;
        table->labels[i] = shape->classes > 0 ? draw_member(shape, &rng, row)
                                              : draw_target(shape, &rng, row);
    }
}

muster_status muster_synthetic_make(const char *spec, bool held_out,
                                    muster_error *error_out,
                                    muster_table *table)
{
    synthetic_options options;
    muster_status status = parse_spec(spec, &options, error_out);
    uint64_t samples = held_out ? options.test : options.samples;
    if (status != MUSTER_OK || samples == 0) {
        return status;
    }
    status = muster_table_make_dense(table, samples, options.features,
                                     SPEC_NAME, error_out);
    if (status != MUSTER_OK) {
        return status;
    }
    synthetic_shape shape;
    status = shape_init(&shape, &options, error_out);
    if (status != MUSTER_OK) {
        muster_table_fini(table);
        return status;
    }
    draw_samples(&shape, options.seed, held_out ? STREAM_TEST : STREAM_TRAIN,
                 table);
    shape_fini(&shape);
    return MUSTER_OK;
}
