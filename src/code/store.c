/*
 * store.c -- fills in the encode terms of a code while it is being built, and
 * measures decodings against them.
 *
 * Workers that hold the same thing share one list (spans into common arrays),
 * so that a group of g workers costs g and not g^2 entries.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "code/family.h"

bool muster_code_reserve(muster_code *code, size_t terms)
{
    uint32_t n = muster_code_answers(code);
    size_t rows = (size_t)n * code->info.message_blocks;
    code->part_spans = muster_mem_array(n, sizeof(muster_code_span));
    code->term_spans = muster_mem_array(n, sizeof(muster_code_span));
    code->row_squares = muster_mem_array(rows, sizeof(double));
    if (code->info.stages > 1) {
        code->held_spans =
            muster_mem_array(code->info.workers, sizeof(muster_code_span));
        if (code->held_spans == NULL) {
            return false;
        }
    }
    return code->part_spans != NULL && code->term_spans != NULL &&
           code->row_squares != NULL && muster_vec_reserve(&code->terms, terms);
}

void muster_code_open_worker(muster_code *code, uint32_t answer)
{
    code->part_spans[answer].first = code->parts.count;
    code->term_spans[answer].first = code->terms.count;
}

bool muster_code_add_term(muster_code *code, muster_code_encode_term term)
{
    return muster_vec_append(&code->terms, &term, 1);
}

static void count_load(muster_code *code, uint32_t count)
{
    if (count > code->info.load) {
        code->info.load = count;
    }
}

static int by_number(const void *one, const void *two)
{
    uint32_t a = *(const uint32_t *)one;
    uint32_t b = *(const uint32_t *)two;
    return (a > b) - (a < b);
}

/* All answers of `worker` are there, one after the other: list the parts of all
 * of them, each once. */
static bool close_stages(muster_code *code, uint32_t worker)
{
    size_t from = code->part_spans[(size_t)worker * code->info.stages].first;
    size_t first = code->parts.count;
    size_t count = first - from;
    if (!muster_vec_reserve(&code->parts, first + count)) {
        return false;
    }
    uint32_t *held = (uint32_t *)code->parts.data + first;
    if (count > 0) {
        memcpy(held, held - count, count * sizeof(*held));
        qsort(held, count, sizeof(*held), by_number);
    }
    uint32_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || held[kept - 1] != held[i]) {
            held[kept++] = held[i];
        }
    }
    code->parts.count += kept;
    code->held_spans[worker] = (muster_code_span){first, kept};
    count_load(code, kept);
    return true;
}

bool muster_code_close_worker(muster_code *code, uint32_t answer)
{
    muster_code_span *terms = &code->term_spans[answer];
    muster_code_span *parts = &code->part_spans[answer];
    const muster_code_encode_term *all = code->terms.data;
    double *squares =
        code->row_squares + (size_t)answer * code->info.message_blocks;

    terms->count = (uint32_t)(code->terms.count - terms->first);
    for (uint32_t i = 0; i < terms->count; i++) {
        const muster_code_encode_term *term = &all[terms->first + i];
        MUSTER_ASSERT(term->message_block < code->info.message_blocks &&
                      term->gradient_block < code->info.gradient_blocks &&
                      term->part < code->info.parts && isfinite(term->coef));
        MUSTER_ASSERT(i == 0 || term[-1].part < term->part ||
                      (term[-1].part == term->part &&
                       term[-1].message_block <= term->message_block));
        squares[term->message_block] += term->coef * term->coef;
        if (i > 0 && term[-1].part == term->part) {
            continue;
        }
        if (!muster_vec_append(&code->parts, &term->part, 1)) {
            return false;
        }
        parts->count++;
    }
    uint32_t stages = code->info.stages;
    if (stages > 1) {
        return answer % stages + 1 < stages ||
               close_stages(code, answer / stages);
    }
    count_load(code, parts->count);
    return true;
}

void muster_code_share_worker(muster_code *code, uint32_t worker,
                              uint32_t earlier)
{
    uint32_t blocks = code->info.message_blocks;
    code->part_spans[worker] = code->part_spans[earlier];
    code->term_spans[worker] = code->term_spans[earlier];
    memcpy(code->row_squares + (size_t)worker * blocks,
           code->row_squares + (size_t)earlier * blocks,
           blocks * sizeof(double));
    count_load(code, code->part_spans[worker].count);
}

/* Add what one decode term makes of the parts' blocks to its output block:
 * product[part][u] += weight * coef. */
static void add_product(const muster_code *code,
                        const muster_code_decode_term *decode, double *product)
{
    const muster_code_encode_term *all = code->terms.data;
    muster_code_span span = code->term_spans[decode->worker];
    for (uint32_t i = 0; i < span.count; i++) {
        const muster_code_encode_term *term = &all[span.first + i];
        if (term->message_block == decode->message_block) {
            product[(size_t)term->part * code->info.gradient_blocks +
                    term->gradient_block] += decode->weight * term->coef;
        }
    }
}

static double residual_square(const muster_code *code,
                              const muster_code_query *query, double *product)
{
    uint32_t blocks = code->info.gradient_blocks;
    size_t entries = (size_t)code->info.parts * blocks;
    double total = 0.0;
    size_t at = 0;
    for (uint32_t output = 0; output < blocks; output++) {
        memset(product, 0, entries * sizeof(double));
        while (at < query->term_count &&
               query->terms[at].output_block == output) {
            add_product(code, &query->terms[at], product);
            at++;
        }
        for (size_t i = 0; i < entries; i++) {
            double off = product[i] - (i % blocks == output ? 1.0 : 0.0);
            total += off * off;
        }
    }
    return total;
}

static uint32_t missing_parts(const muster_code *code,
                              const muster_code_query *query, double *seen)
{
    const uint32_t *parts = code->parts.data;
    memset(seen, 0, code->info.parts * sizeof(double));
    for (uint32_t r = 0; r < query->count; r++) {
        muster_code_span span = code->part_spans[query->responders[r]];
        for (uint32_t i = 0; i < span.count; i++) {
            seen[parts[span.first + i]] = 1.0;
        }
    }
    uint32_t missing = 0;
    for (uint32_t part = 0; part < code->info.parts; part++) {
        missing += seen[part] == 0.0;
    }
    return missing;
}

muster_status muster_code_measure(const muster_code *code,
                                  muster_code_query *query)
{
    uint32_t blocks = code->info.gradient_blocks;
    size_t entries = (size_t)code->info.parts * blocks;
    double *scratch = muster_mem_array(entries, sizeof(double));
    if (scratch == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    double noise = 0.0;
    double norm = 0.0;
    for (size_t i = 0; i < query->term_count; i++) {
        const muster_code_decode_term *term = &query->terms[i];
        double square = term->weight * term->weight;
        norm += square;
        noise +=
            square *
            code->row_squares[(size_t)term->worker * code->info.message_blocks +
                              term->message_block];
    }
    double residual = residual_square(code, query, scratch);
    query->fit.residual = sqrt(residual / (double)entries);
    query->fit.weight_norm = sqrt(norm);
    query->fit.error_f32 = MUSTER_CODE_ROUNDING * sqrt(noise / (double)entries);
    query->fit.parts_missing = missing_parts(code, query, scratch);
    muster_mem_free(scratch);
    return MUSTER_OK;
}

double muster_code_mean_share(const muster_code *code,
                              const muster_code_query *query)
{
    const muster_code_encode_term *all = code->terms.data;
    double sum = 0.0;
    for (size_t i = 0; i < query->term_count; i++) {
        const muster_code_decode_term *decode = &query->terms[i];
        muster_code_span span = code->term_spans[decode->worker];
        for (uint32_t j = 0; j < span.count; j++) {
            const muster_code_encode_term *term = &all[span.first + j];
            if (term->message_block == decode->message_block &&
                term->gradient_block == decode->output_block) {
                sum += decode->weight * term->coef;
            }
        }
    }
    return sum / ((double)code->info.parts * code->info.gradient_blocks);
}
