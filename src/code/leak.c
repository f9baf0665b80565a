/*
 * leak.c -- mixes the weights of output blocks, so that they leak less.
 *
 * Design: all of the problem is in the m x m matrix M of shares, M_uv what
 * output block u has of block v on average over parts. It is read off the
 * terms; one solve of size m - 1 an output block gives the mix.
 *
 * Tried and left, on mnist under deadlines (docs/design/code.md): a weight on
 * the sum of the block's own coefficients changes the length of x_u alone;
 * one length for each block, or the leak into single parts weighed more, end
 * further off; the best for parts that share a mean (all sums weighed) is far
 * too long where a few messages do not tell the blocks apart.
 */
#include "code/leak.h"

#include <string.h>

#include "base/mem.h"
#include "linalg/dense.h"

/* How many times the leak counts that is common to all parts. With less
 * ye-abbe-random ends further off, with more linear:hamming and all codes on
 * sorted data do. */
#define LEAK 12.0

typedef struct leak_scratch {
    double *shares;  // m x m: M
    double *mix;     // m x m: row u is 1 at u and -b_v at v
    double *system;  // (m - 1) x (m - 1)
    double *right;   // m - 1
    double *weights; // m x rows: x, by (responder, message block)
    uint32_t *place; // by answer: its number among the responders
} leak_scratch;

static void scratch_fini(leak_scratch *scratch)
{
    muster_mem_free(scratch->place);
    muster_mem_free(scratch->weights);
    muster_mem_free(scratch->shares);
}

static muster_status scratch_init(leak_scratch *scratch, uint32_t m,
                                  size_t rows, uint32_t answers)
{
    size_t square = (size_t)m * m;
    scratch->shares = muster_mem_array(3 * square + m, sizeof(double));
    scratch->weights = muster_mem_array(rows, m * sizeof(double));
    scratch->place = muster_mem_array(answers, sizeof(uint32_t));
    if (scratch->shares == NULL || scratch->weights == NULL ||
        scratch->place == NULL) {
        scratch_fini(scratch);
        return MUSTER_ERR_NO_MEMORY;
    }
    scratch->mix = scratch->shares + square;
    scratch->system = scratch->mix + square;
    scratch->right = scratch->system + square;
    return MUSTER_OK;
}

/* Row u of the mix. */
static muster_status solve_row(leak_scratch *scratch, uint32_t m, uint32_t u)
{
    const double *shares = scratch->shares;
    double *mix = scratch->mix + (size_t)u * m;
    uint32_t others = m - 1;
    for (uint32_t i = 0; i < others; i++) {
        uint32_t v = i + (i >= u);
        for (uint32_t j = 0; j < others; j++) {
            scratch->system[(size_t)i * others + j] =
                shares[(size_t)(j + (j >= u)) * m + v];
        }
        scratch->system[(size_t)i * others + i] += 1.0 / LEAK;
        scratch->right[i] = shares[(size_t)u * m + v];
    }
    muster_status status =
        muster_dense_solve(scratch->system, others, scratch->right, 1);
    mix[u] = 1.0;
    for (uint32_t i = 0; status == MUSTER_OK && i < others; i++) {
        mix[i + (i >= u)] = -scratch->right[i];
    }
    return status;
}

/* The weights by (output block, responder, message block), zeros and all. */
static void spread(const muster_code_query *query, uint32_t blocks,
                   leak_scratch *scratch)
{
    size_t rows = (size_t)query->count * blocks;
    for (uint32_t i = 0; i < query->count; i++) {
        scratch->place[query->responders[i]] = i;
    }
    for (size_t t = 0; t < query->term_count; t++) {
        const muster_code_decode_term *term = &query->terms[t];
        scratch->weights[term->output_block * rows +
                         (size_t)scratch->place[term->worker] * blocks +
                         term->message_block] = term->weight;
    }
}

static void put_terms(const leak_scratch *scratch, uint32_t m, uint32_t blocks,
                      muster_code_query *query)
{
    size_t rows = (size_t)query->count * blocks;
    query->term_count = 0;
    for (uint32_t u = 0; u < m; u++) {
        for (size_t row = 0; row < rows; row++) {
            double weight = 0.0;
            for (uint32_t v = 0; v < m; v++) {
                weight += scratch->mix[(size_t)u * m + v] *
                          scratch->weights[v * rows + row];
            }
            if (weight != 0.0) {
                query->terms[query->term_count++] = (muster_code_decode_term){
                    u, query->responders[row / blocks],
                    (uint32_t)(row % blocks), weight};
            }
        }
    }
}

muster_status muster_code_leak_less(const muster_code *code,
                                    muster_code_query *query)
{
    uint32_t m = code->info.gradient_blocks;
    uint32_t blocks = code->info.message_blocks;
    leak_scratch scratch;
    muster_status status = scratch_init(
        &scratch, m, (size_t)query->count * blocks, muster_code_answers(code));
    if (status != MUSTER_OK) {
        return status;
    }
    muster_code_shares(code, query, scratch.shares);
    for (uint32_t u = 0; status == MUSTER_OK && u < m; u++) {
        status = solve_row(&scratch, m, u);
    }
    if (status == MUSTER_OK) {
        spread(query, blocks, &scratch);
        put_terms(&scratch, m, blocks, query);
        status = muster_code_measure(code, query);
    } else if (status == MUSTER_ERR_INVALID) {
        status = MUSTER_OK; // singular: of no projections; left as it was
    }
    scratch_fini(&scratch);
    return status;
}
