/*
 * star_work.h -- the work of one star step, the same in every variant.
 *
 * A step: the coordinator sends a model of `count` floats to all workers; each
 * worker reads all of it and writes `count` floats back; the coordinator adds
 * up the answers and writes the next model from the sum: here in one pass over
 * all of them, as it decodes them in training; MPI as each of them arrives.
 * The constants keep the model as it was, so that the end can be checked.
 *
 * Used by bench_star.c and mpi_star.c.
 */
#ifndef MUSTER_BENCH_STAR_WORK_H
#define MUSTER_BENCH_STAR_WORK_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define STAR_FACTOR 0.5f
#define STAR_WARM   5 // steps before timing

/* Vector lengths, and timed steps of one measurement at each. */
static const size_t star_counts[] = {10000, 100000, 1000000, 10000000};
static const int star_steps[] = {200, 150, 40, 10};
static const char *const star_names[] = {"1e4", "1e5", "1e6", "1e7"};
#define STAR_SIZES     (sizeof(star_counts) / sizeof(star_counts[0]))
#define STAR_STEPS_MAX 200
#define STAR_DEFAULT   "1e5,1e6"
#define STAR_LARGE     "1e7"

/* The sizes of a list such as "1e5,1e6", a bit each; 0: one has no meaning. */
static inline unsigned star_sizes(const char *list)
{
    unsigned sizes = 0;
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        unsigned one = 0;
        at += at != list; // the comma
        for (unsigned i = 0; i < STAR_SIZES; i++) {
            one |= strcspn(at, ",") == 3 && strncmp(at, star_names[i], 3) == 0
                       ? 1u << i
                       : 0;
        }
        if (one == 0) {
            return 0;
        }
        sizes |= one;
    }
    return sizes;
}

static inline bool star_has(unsigned sizes, size_t size)
{
    return (sizes >> size & 1u) != 0;
}

static inline void star_start(float *model, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        model[i] = 1.0f + (float)(i % 7);
    }
}

static inline void star_answer(const float *restrict model,
                               float *restrict answer, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        answer[i] = model[i] * STAR_FACTOR;
    }
}

static inline void star_add(float *restrict sum, const float *restrict answer,
                            size_t count, bool first)
{
    for (size_t i = 0; first && i < count; i++) {
        sum[i] = answer[i];
    }
    for (size_t i = 0; !first && i < count; i++) {
        sum[i] += answer[i];
    }
}

static inline void star_next(const float *restrict sum, float *restrict model,
                             size_t count, int workers)
{
    float scale = 1.0f / (STAR_FACTOR * (float)workers);
    for (size_t i = 0; i < count; i++) {
        model[i] = sum[i] * scale;
    }
}

/* Whether the model is still what star_start() made it, up to rounding. */
static inline bool star_check(const float *model, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!(fabsf(model[i] - (1.0f + (float)(i % 7))) < 1e-2f)) {
            return false;
        }
    }
    return true;
}

#endif // MUSTER_BENCH_STAR_WORK_H
