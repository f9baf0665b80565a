/*
 * tuned.c -- candidates of tuned duals.
 */
#include "code/tuned.h"

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "code/frame.h"

#define STREAM_MIX 0x317

#define STEPS_MAX 10u
#define MIXES     4u // of odd m, for each step

static uint32_t divisor(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Steps from 1 to n / 2 without a common divisor with n; a step and its
 * negative give mirror images. */
static uint32_t count_steps(uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t step = 1; step <= n / 2; step++) {
        count += divisor(n, step) == 1;
    }
    return count > 0 ? count : 1;
}

/* The index-th of `used` steps spread evenly over all, from the middle of the
 * good region (about 0.38 n) on. */
static uint32_t pick_step(uint32_t n, uint32_t index, uint32_t used)
{
    uint32_t count = count_steps(n);
    uint64_t offset = (uint64_t)index * count / used;
    uint32_t wanted = (uint32_t)((offset + count * UINT64_C(3) / 4) % count);
    for (uint32_t step = 1; step <= n / 2; step++) {
        if (divisor(n, step) == 1 && wanted-- == 0) {
            return step;
        }
    }
    return 1;
}

static uint32_t steps_used(uint32_t n)
{
    uint32_t count = count_steps(n);
    return count < STEPS_MAX ? count : STEPS_MAX;
}

uint32_t muster_tuned_candidates(uint32_t workers, uint32_t stragglers,
                                 uint32_t comm)
{
    uint32_t all = 1 + steps_used(workers) * (comm % 2 == 1 ? MIXES : 1);
    // One costs about n d^3.
    double load = (double)stragglers + comm;
    double afford = 3.0 + 3e8 / (workers * load * load * load);
    return afford < all ? (uint32_t)afford : all;
}

/* Candidate 0, by targets. The circle has n + m places; target u stands at the
 * end of the u-th of m arcs, the workers in order between. */
static muster_status from_targets(muster_dual *dual)
{
    uint32_t n = dual->workers;
    uint32_t m = dual->outputs;
    uint32_t rows = dual->stragglers + m;
    uint32_t places = n + m;
    double *frame = muster_mem_array((size_t)rows * places, sizeof(double));
    if (frame == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    uint32_t target = 0;
    for (uint32_t t = 0; t < places; t++) {
        uint64_t end = (uint64_t)(target + 1) * places / m - 1;
        uint32_t column = target < m && t == end ? target++ : m + t - target;
        for (uint32_t row = 0; row < rows; row++) {
            frame[(size_t)row * places + column] =
                muster_frame_entry(rows, places, row, t);
        }
    }
    muster_dual_from_frame(dual, frame);
    muster_mem_free(frame);
    return MUSTER_OK;
}

/* m orthonormal rows of length m + 1, m odd; Gram-Schmidt on normal draws. */
static void draw_mix(double *mix, uint32_t m, uint32_t number)
{
    muster_rng rng = muster_rng_make(number, STREAM_MIX);
    uint32_t width = m + 1;
    for (uint32_t u = 0; u < m; u++) {
        double *row = mix + (size_t)u * width;
        for (uint32_t v = 0; v < width; v++) {
            row[v] = muster_rng_normal(&rng);
        }
        for (uint32_t w = 0; w <= u; w++) {
            const double *other = mix + (size_t)w * width;
            double along = 0.0;
            for (uint32_t v = 0; v < width; v++) {
                along += row[v] * other[v];
            }
            // The last pass, against itself, is the scaling.
            double factor = w == u ? 1.0 - 1.0 / sqrt(along) : along;
            for (uint32_t v = 0; v < width; v++) {
                row[v] -= factor * other[v];
            }
        }
    }
}

/* The rows of one frame, cut into those that decode nothing and those that,
 * mixed or not, decode. */
static muster_status from_rows(muster_dual *dual, uint32_t step,
                               uint32_t number)
{
    uint32_t n = dual->workers;
    uint32_t m = dual->outputs;
    uint32_t s = dual->stragglers;
    uint32_t extra = m % 2;
    uint32_t rows = s + m + extra;
    double *mix = muster_mem_array((size_t)m * (m + 1), sizeof(double));
    if (mix == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    if (extra == 1) {
        draw_mix(mix, m, number);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t t = (uint32_t)((uint64_t)i * step % n);
        for (uint32_t row = 0; row < s; row++) {
            dual->null[(size_t)i * s + row] =
                muster_frame_entry(rows, n, row, t);
        }
        for (uint32_t v = 0; v < m + extra; v++) {
            double entry = muster_frame_entry(rows, n, s + v, t);
            for (uint32_t u = 0; u < m; u++) {
                double factor = extra == 1 ? mix[(size_t)u * (m + 1) + v]
                                           : (u == v ? 1.0 : 0.0);
                dual->affine[(size_t)u * n + i] += factor * entry;
            }
        }
    }
    muster_mem_free(mix);
    return MUSTER_OK;
}

muster_status muster_tuned_create(uint32_t workers, uint32_t stragglers,
                                  uint32_t comm, uint32_t candidate,
                                  muster_dual **dual_out)
{
    muster_dual *dual = muster_dual_create(workers, comm, 1, stragglers);
    if (dual == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    // A frame has no more independent rows than vectors.
    bool possible = stragglers + comm + comm % 2 <= workers;
    muster_status status = MUSTER_ERR_INVALID;
    if (candidate == 0) {
        status = from_targets(dual);
    } else if (possible) {
        uint32_t used = steps_used(workers);
        uint32_t step = pick_step(workers, (candidate - 1) % used, used);
        status = from_rows(dual, step, (candidate - 1) / used);
    }
    if (status == MUSTER_OK) {
        status = muster_dual_orthonormalise(dual);
    }
    if (status != MUSTER_OK) {
        muster_dual_free(dual);
        return status;
    }
    *dual_out = dual;
    return MUSTER_OK;
}
