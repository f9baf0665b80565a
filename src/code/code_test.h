/*
 * code/code_test.h -- helpers of the tests of codes: build a code or fail, walk
 * responder sets, and compare a decoded gradient with the plain sum.
 */
#ifndef MUSTER_CODE_CODE_TEST_H
#define MUSTER_CODE_CODE_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "code/decode.h"
#include "code/encode_plan.h"
#include "code/numbers.h"
#include "muster/code.h"

/* A code with random gradients of every part, their messages and their sum. */
typedef struct code_bench {
    muster_code *code;
    muster_code_info info;
    size_t dim;
    size_t block;
    float *gradients;       // parts x dim
    double *sum;            // dim, in double
    float *messages;        // answers x message length
    const float **pointers; // per answer
    muster_code_decode_term *terms;
    float *out;
    muster_decoder *decoder;
} code_bench;

static inline muster_code *build_code(const char *name, uint32_t n, uint32_t s,
                                      uint32_t m)
{
    muster_code_opts opts = MUSTER_CODE_OPTS_INIT;
    opts.name = name;
    opts.workers = n;
    opts.stragglers = s;
    opts.comm = m;
    muster_error error = {MUSTER_OK, ""};
    muster_code *code = NULL;
    muster_status status = muster_code_create(&opts, &error, &code);
    if (status != MUSTER_OK) {
        fail_msg("%s n=%u s=%u m=%u: %s", name, n, s, m, error.text);
    }
    return code;
}

/* Is the code ready once these have answered? */
static inline bool ready_after(muster_code_progress *progress,
                               const uint32_t *responders, uint32_t count)
{
    muster_code_progress_reset(progress);
    for (uint32_t i = 0; i < count; i++) {
        muster_code_progress_add(progress, responders[i]);
    }
    return muster_code_progress_ready(progress);
}

/* Encode the slow way: one term at a time, in double, rounded once. */
static inline void slow_encode(const code_bench *bench, uint32_t worker,
                               float *out)
{
    const muster_code_encode_term *terms;
    uint32_t count;
    size_t length = bench->block * bench->info.message_blocks;
    double *sums = muster_mem_array(length, sizeof(double));
    assert_int_equal(
        muster_code_encode_terms(bench->code, worker, &terms, &count),
        MUSTER_OK);
    for (uint32_t i = 0; i < count; i++) {
        for (size_t t = 0; t < bench->block; t++) {
            size_t from = terms[i].gradient_block * bench->block + t;
            if (from < bench->dim) {
                sums[terms[i].message_block * bench->block + t] +=
                    terms[i].coef *
                    (double)bench->gradients[terms[i].part * bench->dim + from];
            }
        }
    }
    for (size_t t = 0; t < length; t++) {
        out[t] = (float)sums[t];
    }
    muster_mem_free(sums);
}

static inline void bench_init(code_bench *bench, muster_code *code, size_t dim,
                              uint64_t seed)
{
    muster_rng rng = muster_rng_make(seed, 99);
    bench->code = code;
    bench->info = *muster_code_numbers(code);
    bench->dim = dim;
    bench->block = muster_code_block_length(code, dim);
    uint32_t n = muster_code_answers(code);
    uint32_t k = bench->info.parts;
    size_t length = bench->block * bench->info.message_blocks;
    bench->gradients = muster_mem_array(k * dim, sizeof(float));
    bench->sum = muster_mem_array(dim, sizeof(double));
    bench->messages = muster_mem_array(n * length, sizeof(float));
    bench->pointers = muster_mem_array(n, sizeof(float *));
    bench->terms = muster_mem_array(muster_code_decode_terms_max(code),
                                    sizeof(*bench->terms));
    bench->out = muster_mem_array(dim, sizeof(float));
    assert_int_equal(muster_decoder_create(0, &bench->decoder), MUSTER_OK);
    for (uint32_t part = 0; part < k; part++) {
        for (size_t t = 0; t < dim; t++) {
            float g = (float)muster_rng_normal(&rng);
            bench->gradients[part * dim + t] = g;
            bench->sum[t] += (double)g;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        bench->pointers[i] = bench->messages + i * length;
        slow_encode(bench, i, bench->messages + i * length);
    }
}

static inline void bench_fini(code_bench *bench)
{
    muster_code_free(bench->code);
    muster_mem_free(bench->gradients);
    muster_mem_free(bench->sum);
    muster_mem_free(bench->messages);
    muster_mem_free(bench->pointers);
    muster_mem_free(bench->terms);
    muster_mem_free(bench->out);
    muster_decoder_free(bench->decoder);
}

/* Decode from these responders; returns the relative error. */
static inline double bench_decode(code_bench *bench, const uint32_t *responders,
                                  uint32_t count, muster_status *status_out,
                                  muster_code_fit *fit_out)
{
    muster_decode_input input = {bench->terms, 0, bench->pointers, bench->block,
                                 0};
    *status_out = muster_code_weights(bench->code, responders, count,
                                      bench->terms, &input.term_count, fit_out);
    assert_true(*status_out >= 0);
    assert_true(input.term_count <= muster_code_decode_terms_max(bench->code));
    assert_int_equal(muster_decoder_begin(bench->decoder, &input), MUSTER_OK);
    muster_decoder_range(bench->decoder, 0, bench->dim, bench->out);
    double off = 0.0;
    double size = 0.0;
    for (size_t t = 0; t < bench->dim; t++) {
        double e = (double)bench->out[t] - bench->sum[t];
        off += e * e;
        size += bench->sum[t] * bench->sum[t];
    }
    return sqrt(off / size);
}

static inline uint32_t members(uint32_t mask, uint32_t n, uint32_t *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        if ((mask >> i) & 1u) {
            out[count++] = i;
        }
    }
    return count;
}

/* One set of responders after the other, and what is decoded of each. */
typedef struct set_walk {
    code_bench *bench;
    muster_code_progress *progress;
    uint32_t mask; // of the set
    uint32_t responders[32];
    uint32_t count;
    bool ready; // by the progress of the code
    muster_status status;
    muster_code_fit fit;
    double error; // of the decoded gradient
} set_walk;

/* Before the set `first`; 0 is the empty one. */
static inline set_walk walk_from(code_bench *bench, uint32_t first)
{
    set_walk walk = {.bench = bench, .mask = first - 1};
    assert_int_equal(muster_code_progress_create(bench->code, &walk.progress),
                     MUSTER_OK);
    return walk;
}

/* The next set; false after the last one, and the walk is over. */
static inline bool walk_on(set_walk *walk)
{
    uint32_t n = walk->bench->info.workers;
    walk->mask++;
    if (walk->mask == 1u << n) {
        muster_code_progress_free(walk->progress);
        return false;
    }
    walk->count = members(walk->mask, n, walk->responders);
    walk->fit = (muster_code_fit)MUSTER_CODE_FIT_INIT;
    walk->error = bench_decode(walk->bench, walk->responders, walk->count,
                               &walk->status, &walk->fit);
    walk->ready = ready_after(walk->progress, walk->responders, walk->count);
    return true;
}

#endif // MUSTER_CODE_CODE_TEST_H
