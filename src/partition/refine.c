/*
 * refine.c -- swaps against the drift of class means.
 *
 * For block j the running sum D_j = (sum of its rows) - q_j mean is kept, and
 * |D_j|^2. Swapping i of a with k of b adds x = x_k - x_i to D_a and takes it
 * from D_b, so that a trial needs three inner products and changes
 *
 *     sum_j |D_j|^2 / q_j   by   (2 D_a.x + x.x) / q_a + (x.x - 2 D_b.x) / q_b.
 *
 * Invariants: 1. counts of blocks never change; 2. the sum above never grows;
 * 3. samples of the pool stay in the pool, whichever block owns them.
 */
#include "partition/refine.h"

#include <stdbool.h>

#include "base/mem.h"
#include "base/simd.h"

typedef struct refine_run {
    const muster_refine_input *input;
    uint32_t *owners;
    float *sums;         // D_j: blocks x columns
    double *squares;     // |D_j|^2
    double *allowed;     // |D_j|^2 at which block j is good enough
    uint32_t *pool;      // samples that may be swapped, by block
    uint32_t *starts;    // blocks + 1 places in `pool`
    uint32_t *next;      // scratch: blocks
    uint32_t pool_count; // == starts[blocks]
    muster_rng rng;
} refine_run;

typedef struct swap_terms {
    double da_x; // D_a . x
    double db_x;
    double x_x;
} swap_terms;

#define RUN 256u

/* x = to - from; sums of runs in float lanes, of all in double. */
MUSTER_SIMD static swap_terms find_terms(const float *const sums[2],
                                         const float *from, const float *to,
                                         uint32_t columns)
{
    swap_terms all = {0.0, 0.0, 0.0};
    uint32_t t = 0;
    while (columns - t >= 8) {
        uint32_t left = (columns - t) / 8 * 8;
        uint32_t end = t + (left < RUN ? left : RUN);
        muster_f8 terms[3] = {{0}, {0}, {0}};
        for (; t < end; t += 8) {
            muster_f8 x;
            muster_f8 other;
            MUSTER_F8_LOAD(x, to + t);
            MUSTER_F8_LOAD(other, from + t);
            x -= other;
            terms[2] += x * x;
            MUSTER_F8_LOAD(other, sums[0] + t);
            terms[0] += other * x;
            MUSTER_F8_LOAD(other, sums[1] + t);
            terms[1] += other * x;
        }
        all.da_x += (double)MUSTER_F8_SUM(terms[0]);
        all.db_x += (double)MUSTER_F8_SUM(terms[1]);
        all.x_x += (double)MUSTER_F8_SUM(terms[2]);
    }
    for (; t < columns; t++) {
        float x = to[t] - from[t];
        all.da_x += (double)(sums[0][t] * x);
        all.db_x += (double)(sums[1][t] * x);
        all.x_x += (double)(x * x);
    }
    return all;
}

static const float *row_of(const refine_run *run, uint32_t sample)
{
    return run->input->rows + (size_t)sample * run->input->columns;
}

static float *sum_of(const refine_run *run, uint32_t block)
{
    return run->sums + (size_t)block * run->input->columns;
}

/* The block that is worst beside what is allowed; false when none is above. */
static bool find_worst(const refine_run *run, uint32_t *worst_out)
{
    double worst = 1.0;
    for (uint32_t j = 0; j < run->input->blocks; j++) {
        bool movable = run->starts[j + 1] > run->starts[j];
        if (movable && run->squares[j] > worst * run->allowed[j]) {
            worst = run->squares[j] / run->allowed[j];
            *worst_out = j;
        }
    }
    return worst > 1.0;
}

/* A place in the pool inside or outside of a block's range. */
static uint32_t draw_inside(refine_run *run, uint32_t block)
{
    uint32_t size = run->starts[block + 1] - run->starts[block];
    return run->starts[block] + (uint32_t)muster_rng_below(&run->rng, size);
}

static uint32_t draw_outside(refine_run *run, uint32_t block)
{
    uint32_t size = run->starts[block + 1] - run->starts[block];
    uint32_t at = (uint32_t)muster_rng_below(&run->rng, run->pool_count - size);
    return at < run->starts[block] ? at : at + size;
}

static void apply(refine_run *run, uint32_t at_a, uint32_t at_b,
                  const swap_terms *terms)
{
    uint32_t i = run->pool[at_a];
    uint32_t k = run->pool[at_b];
    uint32_t a = run->owners[i];
    uint32_t b = run->owners[k];
    float *sum_a = sum_of(run, a);
    float *sum_b = sum_of(run, b);
    const float *from = row_of(run, i);
    const float *to = row_of(run, k);
    for (uint32_t t = 0; t < run->input->columns; t++) {
        float x = to[t] - from[t];
        sum_a[t] += x;
        sum_b[t] -= x;
    }
    run->squares[a] += 2.0 * terms->da_x + terms->x_x;
    run->squares[b] += terms->x_x - 2.0 * terms->db_x;
    run->owners[i] = b;
    run->owners[k] = a;
    run->pool[at_a] = k;
    run->pool[at_b] = i;
}

static bool try_swap(refine_run *run, uint32_t a)
{
    uint32_t at_a = draw_inside(run, a);
    uint32_t at_b = draw_outside(run, a);
    uint32_t b = run->owners[run->pool[at_b]];
    const float *const sums[2] = {sum_of(run, a), sum_of(run, b)};
    swap_terms terms =
        find_terms(sums, row_of(run, run->pool[at_a]),
                   row_of(run, run->pool[at_b]), run->input->columns);
    const uint32_t *quotas = run->input->quotas;
    double change = (2.0 * terms.da_x + terms.x_x) / quotas[a] +
                    (terms.x_x - 2.0 * terms.db_x) / quotas[b];
    if (change >= 0.0) {
        return false;
    }
    apply(run, at_a, at_b, &terms);
    return true;
}

static bool in_pool(const refine_run *run, uint32_t sample, bool late_only)
{
    uint32_t quota = run->input->quotas[run->owners[sample]];
    return !late_only || run->input->places[sample] >= quota / 2;
}

/* All samples, or the later half of each block's picks; block by block. */
static void fill_pool(refine_run *run, bool late_only)
{
    const muster_refine_input *in = run->input;
    for (uint32_t j = 0; j <= in->blocks; j++) {
        run->starts[j] = 0;
    }
    for (uint32_t i = 0; i < in->count; i++) {
        run->starts[run->owners[i] + 1] += in_pool(run, i, late_only);
    }
    for (uint32_t j = 0; j < in->blocks; j++) {
        run->next[j] = run->starts[j];
        run->starts[j + 1] += run->starts[j];
    }
    run->pool_count = run->starts[in->blocks];
    for (uint32_t i = 0; i < in->count; i++) {
        if (in_pool(run, i, late_only)) {
            run->pool[run->next[run->owners[i]]++] = i;
        }
    }
}

/* The mean of the class in `mean`; the variance around it. */
static double find_mean(const refine_run *run, double *mean)
{
    const muster_refine_input *in = run->input;
    double squares = 0.0;
    for (uint32_t i = 0; i < in->count; i++) {
        const float *x = row_of(run, i);
        for (uint32_t t = 0; t < in->columns; t++) {
            mean[t] += (double)x[t];
            squares += (double)x[t] * (double)x[t];
        }
    }
    double of_mean = 0.0;
    for (uint32_t t = 0; t < in->columns; t++) {
        mean[t] /= in->count;
        of_mean += mean[t] * mean[t];
    }
    double variance = squares / in->count - of_mean;
    return variance > 0.0 ? variance : 0.0;
}

/* D_j in double, row by row of each block, then rounded. */
static void find_sums(refine_run *run, const double *mean, double *scratch)
{
    const muster_refine_input *in = run->input;
    for (uint32_t j = 0; j < in->blocks; j++) {
        for (uint32_t t = 0; t < in->columns; t++) {
            scratch[(size_t)j * in->columns + t] = -mean[t] * in->quotas[j];
        }
    }
    for (uint32_t i = 0; i < in->count; i++) {
        double *sum = scratch + (size_t)run->owners[i] * in->columns;
        const float *x = row_of(run, i);
        for (uint32_t t = 0; t < in->columns; t++) {
            sum[t] += (double)x[t];
        }
    }
    for (uint32_t j = 0; j < in->blocks; j++) {
        for (uint32_t t = 0; t < in->columns; t++) {
            double d = scratch[(size_t)j * in->columns + t];
            sum_of(run, j)[t] = (float)d;
            run->squares[j] += d * d;
        }
    }
}

static void set_allowed(refine_run *run, double variance)
{
    const muster_refine_input *in = run->input;
    double others = in->count > 1 ? in->count - 1.0 : 1.0;
    for (uint32_t j = 0; j < in->blocks; j++) {
        double q = in->quotas[j];
        // q^2 times the squared drift of a random set.
        double random = variance * q * (in->count - q) / others;
        // What is left of rounding is no drift.
        run->allowed[j] = in->share * in->share * random + 1e-9 * q;
    }
}

/* Up to `trials` swaps of samples in the pool; whether it needs no more. */
static bool swap_pool(refine_run *run, uint64_t trials, uint64_t *tried_out,
                      uint64_t *done_out)
{
    uint32_t worst = 0;
    for (uint64_t trial = 0; trial < trials; trial++) {
        if (!find_worst(run, &worst)) {
            return true;
        }
        uint32_t own = run->starts[worst + 1] - run->starts[worst];
        if (own == run->pool_count) {
            return false; // nobody to swap with
        }
        *tried_out += 1;
        *done_out += try_swap(run, worst);
    }
    return false;
}

static void swap_all(refine_run *run, uint64_t *tried_out, uint64_t *done_out)
{
    uint64_t half = run->input->trials / 2;
    fill_pool(run, true);
    if (!swap_pool(run, half, tried_out, done_out)) {
        fill_pool(run, false);
        swap_pool(run, run->input->trials - half, tried_out, done_out);
    }
}

muster_status muster_refine_run(const muster_refine_input *input,
                                uint32_t *owners, uint64_t *tried_out,
                                uint64_t *done_out)
{
    refine_run run = {.input = input, .owners = owners, .rng = input->rng};
    size_t table = (size_t)input->blocks * input->columns;
    run.sums = muster_mem_array(table, sizeof(*run.sums));
    run.squares = muster_mem_array(input->blocks, sizeof(*run.squares));
    run.allowed = muster_mem_array(input->blocks, sizeof(*run.allowed));
    run.pool = muster_mem_array(input->count, sizeof(*run.pool));
    run.starts =
        muster_mem_array((size_t)input->blocks + 1, sizeof(*run.starts));
    double *mean = muster_mem_array(input->columns, sizeof(*mean));
    double *scratch = muster_mem_array(table, sizeof(*scratch));
    run.next = muster_mem_array(input->blocks, sizeof(*run.next));
    bool ready = run.sums != NULL && run.squares != NULL &&
                 run.allowed != NULL && run.pool != NULL &&
                 run.starts != NULL && mean != NULL && scratch != NULL &&
                 run.next != NULL;
    if (ready) {
        set_allowed(&run, find_mean(&run, mean));
        find_sums(&run, mean, scratch);
        swap_all(&run, tried_out, done_out);
    }
    muster_mem_free(run.sums);
    muster_mem_free(run.squares);
    muster_mem_free(run.allowed);
    muster_mem_free(run.pool);
    muster_mem_free(run.starts);
    muster_mem_free(mean);
    muster_mem_free(scratch);
    muster_mem_free(run.next);
    return ready ? MUSTER_OK : MUSTER_ERR_NO_MEMORY;
}
