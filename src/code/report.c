/*
 * report.c -- measures a code: errors over straggler sets, and times.
 *
 * The one file of src/code that looks at a clock: a report says how long
 * weights and decoding take here.
 */
#include "muster/code_report.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/sized.h"
#include "code/decode.h"
#include "code/family.h"
#include "code/hier.h"
#include "code/sets.h"

#define SETS_DEFAULT  2000u
#define ENTRIES       (1u << 21) // products of one encoding, about
#define MULTIPLIED    400000000u // terms of iterated solves, in all
#define DECODE_DIM    100000u
#define DECODE_FLOATS (16u << 20) // of all messages together, for times
#define STREAM_REPORT 0x4e90
#define BOUND_RISK    0.01

/* The fields of the first release: no caller has fewer. */
#define REPORT_MIN (offsetof(muster_code_report, decode_us) + sizeof(double))

/* Random gradients, their messages in double, and their sum. */
typedef struct trial {
    const muster_code *code;
    muster_code_info info;
    size_t block; // floats of one block: the fewer, the larger the code
    size_t dim;
    size_t message; // floats of one
    double *sum;
    double *messages; // answers x message
    double *out;
    uint32_t *missing;
    uint32_t *responders;
    muster_code_decode_term *terms;
    double *times;      // a set
    double *conditions; // a set
} trial;

static void trial_fini(trial *t)
{
    muster_mem_free(t->sum);
    muster_mem_free(t->messages);
    muster_mem_free(t->out);
    muster_mem_free(t->missing);
    muster_mem_free(t->responders);
    muster_mem_free(t->terms);
    muster_mem_free(t->times);
    muster_mem_free(t->conditions);
}

/* Coordinate t of part j: a function of both, so nothing is stored. */
static double gradient_at(uint32_t part, size_t at)
{
    muster_rng rng = muster_rng_make(part, STREAM_REPORT);
    rng.index = 2 * at;
    return (double)(float)muster_rng_normal(&rng);
}

static void encode_all(const trial *t)
{
    const muster_code *code = t->code;
    const muster_code_encode_term *all = code->terms.data;
    for (uint32_t part = 0; part < t->info.parts; part++) {
        for (size_t at = 0; at < t->dim; at++) {
            t->sum[at] += gradient_at(part, at);
        }
    }
    for (uint32_t a = 0; a < muster_code_answers(code); a++) {
        muster_code_span span = code->term_spans[a];
        double *message = t->messages + a * t->message;
        for (uint32_t i = 0; i < span.count; i++) {
            const muster_code_encode_term *term = &all[span.first + i];
            for (size_t at = 0; at < t->block; at++) {
                message[term->message_block * t->block + at] +=
                    term->coef *
                    gradient_at(term->part,
                                term->gradient_block * t->block + at);
            }
        }
    }
}

static muster_status trial_init(trial *t, const muster_code *code,
                                uint64_t sets)
{
    memset(t, 0, sizeof(*t));
    t->code = code;
    t->info = *muster_code_numbers(code);
    t->block = ENTRIES / (code->terms.count + 1);
    t->block = t->block < 16 ? 16 : t->block > 512 ? 512 : t->block;
    t->dim = t->block * t->info.gradient_blocks;
    t->message = t->block * t->info.message_blocks;
    t->sum = muster_mem_array(t->dim, sizeof(double));
    t->messages = muster_mem_array(muster_code_answers(code),
                                   t->message * sizeof(double));
    t->out = muster_mem_array(t->dim, sizeof(double));
    t->missing =
        muster_mem_array((size_t)t->info.stragglers + 1, sizeof(uint32_t));
    t->responders =
        muster_mem_array(muster_code_answers(code), sizeof(uint32_t));
    t->terms = muster_mem_array(muster_code_decode_terms_max(code),
                                sizeof(muster_code_decode_term));
    t->times = muster_mem_array(sets, sizeof(double));
    t->conditions = muster_mem_array(sets, sizeof(double));
    if (t->sum == NULL || t->messages == NULL || t->out == NULL ||
        t->missing == NULL || t->responders == NULL || t->terms == NULL ||
        t->times == NULL || t->conditions == NULL) {
        trial_fini(t);
        return MUSTER_ERR_NO_MEMORY;
    }
    encode_all(t);
    return MUSTER_OK;
}

/* Relative error of a decoding; messages rounded to float32 or as they are. */
static double error_of(const trial *t, size_t term_count, bool rounded)
{
    memset(t->out, 0, t->dim * sizeof(double));
    for (size_t i = 0; i < term_count; i++) {
        const muster_code_decode_term *term = &t->terms[i];
        const double *from = t->messages + term->worker * t->message +
                             term->message_block * t->block;
        double *to = t->out + term->output_block * t->block;
        for (size_t at = 0; at < t->block; at++) {
            double value = rounded ? (double)(float)from[at] : from[at];
            to[at] += term->weight * value;
        }
    }
    double off = 0.0;
    double size = 0.0;
    for (size_t at = 0; at < t->dim; at++) {
        double got = rounded ? (double)(float)t->out[at] : t->out[at];
        off += (got - t->sum[at]) * (got - t->sum[at]);
        size += t->sum[at] * t->sum[at];
    }
    double error = sqrt(off / size);
    return isnan(error) ? INFINITY : error;
}

static int compare(const void *one, const void *two)
{
    double a = *(const double *)one;
    double b = *(const double *)two;
    return (a > b) - (a < b);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(double), compare);
    return count > 0 ? values[count / 2] : 0.0;
}

/* Everybody but `missing`, with all stages, to `responders`. */
static uint32_t respond(const trial *t)
{
    uint32_t stages = t->info.stages;
    uint32_t count = muster_code_sets_responders(
        t->info.workers, t->missing, t->info.stragglers, t->responders);
    for (uint32_t i = count * stages; stages > 1 && i-- > 0;) {
        t->responders[i] = t->responders[i / stages] * stages + i % stages;
    }
    return count * stages;
}

/* Tries sets until there are no more, or iterated solves took long enough. */
static muster_status try_sets(const trial *t, muster_code_sets *sets,
                              muster_code_report *report)
{
    size_t count = 0;
    uint64_t multiplied = 0;
    while (multiplied < MULTIPLIED && muster_code_sets_next(sets, t->missing)) {
        muster_code_query query = {.responders = t->responders,
                                   .terms = t->terms};
        query.count = respond(t);
        int64_t before = muster_clock_ns();
        muster_status status = muster_code_solve(t->code, &query);
        t->times[count] = (double)(muster_clock_ns() - before) / 1000.0;
        if (status < 0) {
            return status;
        }
        t->conditions[count++] = query.fit.condition;
        multiplied += query.multiplied;
        report->rel_err_f32_worst = fmax(report->rel_err_f32_worst,
                                         error_of(t, query.term_count, true));
        report->rel_err_f64_worst = fmax(report->rel_err_f64_worst,
                                         error_of(t, query.term_count, false));
        report->rel_err_f32_predicted =
            fmax(report->rel_err_f32_predicted,
                 hypot(query.fit.error_f32, query.fit.residual));
    }
    report->sets_checked = count;
    report->weights_us = median(t->times, count);
    report->cond_median = median(t->conditions, count);
    report->cond_worst = t->conditions[count - 1]; // sorted by now
    return MUSTER_OK;
}

static muster_status time_ranges(const muster_decode_input *input, float *out,
                                 muster_code_report *report)
{
    muster_decoder *decoder = NULL;
    muster_status status = muster_decoder_create(input->term_count, &decoder);
    if (status == MUSTER_OK) {
        status = muster_decoder_begin(decoder, input);
    }
    double times[9];
    for (int i = 0; status == MUSTER_OK && i < 9; i++) {
        int64_t before = muster_clock_ns();
        muster_decoder_range(decoder, 0, DECODE_DIM, out);
        times[i] = (double)(muster_clock_ns() - before) / 1000.0;
    }
    if (status == MUSTER_OK) {
        report->decode_us = median(times, 9);
    }
    muster_decoder_free(decoder);
    return status;
}

/* Time decodings of DECODE_DIM floats with the terms of the last set. Messages
 * share memory when all of them would not fit. */
static muster_status time_decoding(const trial *t, uint32_t heard,
                                   muster_code_report *report)
{
    size_t block = muster_code_block_length(t->code, DECODE_DIM);
    size_t message = block * t->info.message_blocks;
    size_t distinct = DECODE_FLOATS / message;
    distinct = distinct < 1 ? 1 : distinct;
    uint32_t answers = muster_code_answers(t->code);
    distinct = distinct < answers ? distinct : answers;
    float *memory = muster_mem_array(distinct, message * sizeof(float));
    float *out = muster_mem_array(DECODE_DIM, sizeof(float));
    const float **rows = muster_mem_array(answers, sizeof(const float *));
    muster_status status = MUSTER_ERR_NO_MEMORY;
    if (memory == NULL || out == NULL || rows == NULL) {
        goto out;
    }
    for (size_t i = 0; i < distinct * message; i++) {
        memory[i] = 1.0f;
    }
    for (uint32_t a = 0; a < answers; a++) {
        rows[a] = memory + a % distinct * message;
    }
    size_t terms;
    muster_code_fit fit = MUSTER_CODE_FIT_INIT;
    status = muster_code_weights(t->code, t->responders, heard, t->terms,
                                 &terms, &fit);
    if (status >= 0) {
        const muster_decode_input input = {t->terms, terms, rows, block, 0};
        status = time_ranges(&input, out, report);
    }
out:
    muster_mem_free(rows);
    muster_mem_free(out);
    muster_mem_free(memory);
    return status;
}

static muster_status fill(const muster_code *code, const muster_code_opts *opts,
                          uint64_t sets_max, muster_code_report *report)
{
    muster_code_info info = *muster_code_numbers(code);
    // Fewer sets where one of them is long work.
    uint64_t afford = 1 + UINT64_C(40000000) /
                              ((uint64_t)info.workers * (info.stragglers + 8));
    uint64_t limit = sets_max > 0 ? sets_max : SETS_DEFAULT;
    limit = limit < afford ? limit : afford;
    muster_code_sets sets =
        muster_code_sets_make(info.workers, info.stragglers, limit, opts->seed);
    trial t;
    muster_status status = trial_init(&t, code, sets.total);
    if (status == MUSTER_OK) {
        status = try_sets(&t, &sets, report);
        if (status == MUSTER_OK) {
            uint32_t heard = info.workers - info.stragglers;
            status = time_decoding(&t, heard * info.stages, report);
        }
        trial_fini(&t);
    }
    return status;
}

static void take_hier(const muster_code *code, muster_code_report *report)
{
    muster_hier_numbers numbers = muster_hier_numbers_of(code);
    report->edges = numbers.edges;
    report->edge_stragglers = numbers.edge_stragglers;
    report->worker_stragglers = numbers.worker_stragglers;
    report->flat_stragglers = numbers.flat_stragglers;
    report->load_bound = numbers.load_bound;
    report->flat_load = numbers.flat_load;
}

muster_status muster_code_report_make(const muster_code_opts *opts,
                                      uint64_t sets_max,
                                      muster_error *error_out,
                                      muster_code_report *report_out)
{
    if (report_out == NULL || !muster_sized_is_legal(report_out, REPORT_MIN)) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "muster_code_report: start from "
                                "MUSTER_CODE_REPORT_INIT");
    }
    muster_code *code = NULL;
    muster_status status = muster_code_create(opts, error_out, &code);
    if (status != MUSTER_OK) {
        return status;
    }
    const muster_code_info *info = muster_code_numbers(code);
    muster_code_report report = {.struct_size = sizeof(report),
                                 .exact = info->exact,
                                 .workers = info->workers,
                                 .parts = info->parts,
                                 .stragglers = info->stragglers,
                                 .comm = info->comm,
                                 .parts_per_worker_max = info->load};
    memcpy(report.name, code->name, sizeof(report.name));
    memcpy(report.warning, code->warning, sizeof(report.warning));
    report.load = (double)info->load / info->parts;
    report.message_fraction =
        (double)info->message_blocks / (double)info->gradient_blocks;
    report.cond_bound = code->ops->condition_bound != NULL
                            ? code->ops->condition_bound(code, BOUND_RISK)
                            : NAN;
    if (muster_code_is_hier(code)) {
        take_hier(code, &report);
    }
    status = fill(code, opts, sets_max, &report);
    if (status == MUSTER_OK) {
        muster_sized_fill(report_out, &report, sizeof(report));
    }
    muster_code_free(code);
    return status;
}
