/*
 * kge_score.c -- scores of queries against rows, and their gradients; one pair
 * or a whole block of them.
 *
 *   complex, distmult   s = q . e          ds/dq = e
 *   transe, norm=l1     s = m - |q - e|_1  ds/dq = -sign(q - e)
 *   transe, norm=l2     s = m - |q - e|_2  ds/dq = -(q - e) / |q - e|_2
 *
 * and ds/de = q, or the opposite of ds/dq. A block of products is a matrix
 * product, and so is one of norm=l2, whose squared lengths are |q|^2 + |e|^2 -
 * 2 q . e. A block of norm=l1 is a loop over pairs, a few rows at a time, so
 * that they and their gradients stay in the cache for all queries.
 */
#include <cblas.h>

#include "task/kernel.h"
#include "task/kge.h"

#define TILE 16u // rows of norm=l1 that all queries visit together

static bool by_length(const muster_kge *k)
{
    return k->model == MUSTER_KGE_TRANSE && k->options.norm == MUSTER_KGE_L2;
}

static bool by_distance(const muster_kge *k)
{
    return k->model == MUSTER_KGE_TRANSE && k->options.norm == MUSTER_KGE_L1;
}

float muster_kge_score(const muster_kge *k, const float *query,
                       const float *row)
{
    uint32_t dim = k->options.dim;
    float margin = (float)k->options.margin;
    if (by_distance(k)) {
        return margin - muster_kernel_distance(query, row, dim);
    }
    return by_length(k) ? margin - muster_kernel_length(query, row, dim)
                        : muster_kernel_dot(query, row, dim);
}

void muster_kge_score_back(const muster_kge *k, const float *query,
                           const float *row, float g, float *const *gradients)
{
    uint32_t dim = k->options.dim;
    float *by_query = gradients[0];
    float *by_row = gradients[1];
    if (k->model != MUSTER_KGE_TRANSE) {
        for (uint32_t i = 0; i < dim; i++) {
            by_query[i] = g * row[i];
            by_row[i] = g * query[i];
        }
        return;
    }
    float weight = by_length(k) ? g / muster_kernel_length(query, row, dim) : g;
    for (uint32_t i = 0; i < dim; i++) {
        float off = query[i] - row[i];
        float sign = (float)(off > 0) - (float)(off < 0);
        by_row[i] = weight * (by_length(k) ? off : sign);
        by_query[i] = -by_row[i];
    }
}

/* scores = queries rows^T */
static void multiply(const muster_kge_block *b, uint32_t dim, float *scores)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)b->asked,
                (int)b->count, (int)dim, 1, b->queries, (int)dim, b->rows,
                (int)dim, 0, scores, (int)b->count);
}

/* What a score falls with: its distance or length. */
static void measure_lengths(const muster_kge_block *b, uint32_t dim,
                            float *lengths)
{
    multiply(b, dim, lengths);
    for (uint32_t j = 0; j < b->count; j++) {
        b->scratch[j] = muster_kernel_square(b->rows + (size_t)j * dim, dim);
    }
    for (uint32_t q = 0; q < b->asked; q++) {
        muster_kernel_lengths(
            lengths + (size_t)q * b->count, b->scratch, b->count,
            muster_kernel_square(b->queries + (size_t)q * dim, dim));
    }
}

static void measure_distances(const muster_kge_block *b, uint32_t dim,
                              float *distances)
{
    for (uint32_t tile = 0; tile < b->count; tile += TILE) {
        uint32_t count = b->count - tile < TILE ? b->count - tile : TILE;
        for (uint32_t q = 0; q < b->asked; q++) {
            muster_kernel_distances(b->queries + (size_t)q * dim,
                                    b->rows + (size_t)tile * dim, count, dim,
                                    distances + (size_t)q * b->count + tile);
        }
    }
}

void muster_kge_scores(const muster_kge *k, const muster_kge_block *b)
{
    uint32_t dim = k->options.dim;
    size_t all = (size_t)b->asked * b->count;
    if (k->model != MUSTER_KGE_TRANSE) {
        multiply(b, dim, b->scores);
        return;
    }
    float *measured = b->lengths != NULL ? b->lengths : b->scores;
    if (by_length(k)) {
        measure_lengths(b, dim, measured);
    } else {
        measure_distances(b, dim, measured);
    }
    float margin = (float)k->options.margin;
    for (size_t i = 0; i < all; i++) {
        b->scores[i] = margin - measured[i];
    }
}

/* d queries += g rows; then d rows = g^T queries + keep * rows. */
static void multiply_back(const muster_kge_block *b, uint32_t dim, float keep)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)b->asked,
                (int)dim, (int)b->count, 1, b->scores, (int)b->count, b->rows,
                (int)dim, 1, b->query_gradients, (int)dim);
    for (uint32_t j = 0; keep != 0 && j < b->count; j++) {
        muster_kernel_scale(-b->scratch[j], b->rows + (size_t)j * dim, dim);
    }
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)b->count,
                (int)dim, (int)b->asked, 1, b->scores, (int)b->count,
                b->queries, (int)dim, keep, b->rows, (int)dim);
}

/* Gradients by scores become weights a = g / length: then d q = a (e - q) and
 * d e = a (q - e), of which the parts of other rows are products and the part
 * of the row itself is its sum of weights. */
static void lengths_back(const muster_kge_block *b, uint32_t dim)
{
    for (uint32_t j = 0; j < b->count; j++) {
        b->scratch[j] = 0;
    }
    for (uint32_t q = 0; q < b->asked; q++) {
        float *weights = b->scores + (size_t)q * b->count;
        muster_kernel_quotient(b->lengths + (size_t)q * b->count, weights,
                               b->count);
        muster_kernel_axpy(1, weights, b->scratch, b->count);
        muster_kernel_axpy(-muster_kernel_sum(weights, b->count),
                           b->queries + (size_t)q * dim,
                           b->query_gradients + (size_t)q * dim, dim);
    }
    multiply_back(b, dim, 1);
}

static void distances_back(const muster_kge_block *b, uint32_t dim)
{
    for (uint32_t tile = 0; tile < b->count; tile += TILE) {
        uint32_t count = b->count - tile < TILE ? b->count - tile : TILE;
        const float *rows = b->rows + (size_t)tile * dim;
        float *by_rows = b->row_gradients + (size_t)tile * dim;
        for (uint32_t q = 0; q < b->asked; q++) {
            const float *g = b->scores + (size_t)q * b->count + tile;
            float *both[2] = {b->query_gradients + (size_t)q * dim, by_rows};
            muster_kernel_distances_back(b->queries + (size_t)q * dim, rows, g,
                                         both, count, dim);
        }
    }
}

float *muster_kge_scores_back(const muster_kge *k, const muster_kge_block *b)
{
    uint32_t dim = k->options.dim;
    if (by_distance(k)) {
        for (size_t i = 0; i < (size_t)b->count * dim; i++) {
            b->row_gradients[i] = 0;
        }
        distances_back(b, dim);
        return b->row_gradients;
    }
    if (by_length(k)) {
        lengths_back(b, dim);
    } else {
        multiply_back(b, dim, 0);
    }
    return b->rows;
}
