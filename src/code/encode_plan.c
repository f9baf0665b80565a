/*
 * encode_plan.c -- groups parts into lanes and mixes lanes into a message.
 */
#include "code/encode_plan.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "linalg/combine.h"

/* Coefficients that differ by less, relative to the largest, are the same. */
#define LANE_TOLERANCE 1e-12

static size_t cell_count(const muster_encode_plan *plan)
{
    return (size_t)plan->gradient_blocks * plan->message_blocks;
}

static bool terms_are_legal(const muster_code_encode_term *terms,
                            uint32_t count, uint32_t gradient_blocks,
                            uint32_t message_blocks, uint32_t *parts_out)
{
    *parts_out = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (terms[i].gradient_block >= gradient_blocks ||
            terms[i].message_block >= message_blocks ||
            !isfinite(terms[i].coef) ||
            (i > 0 && terms[i].part < terms[i - 1].part)) {
            return false;
        }
        *parts_out += i == 0 || terms[i].part != terms[i - 1].part;
    }
    return gradient_blocks > 0 && message_blocks > 0;
}

/* Scale cells so that the largest becomes 1; returns the factor taken out. */
static double normalise(double *cells, size_t count)
{
    double lead = 0.0;
    for (size_t i = 0; i < count; i++) {
        if (fabs(cells[i]) > fabs(lead)) {
            lead = cells[i];
        }
    }
    for (size_t i = 0; lead != 0.0 && i < count; i++) {
        cells[i] /= lead;
    }
    return lead;
}

static bool same_lane(const double *one, const double *two, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!(fabs(one[i] - two[i]) <= LANE_TOLERANCE)) {
            return false;
        }
    }
    return true;
}

/* Put the part whose normalised cells stand after the last lane into a lane. */
static uint32_t lane_for(muster_encode_plan *plan)
{
    size_t cells = cell_count(plan);
    const double *fresh = plan->coefs + plan->lane_count * cells;
    for (uint32_t lane = 0; lane < plan->lane_count; lane++) {
        if (same_lane(plan->coefs + lane * cells, fresh, cells)) {
            return lane;
        }
    }
    return plan->lane_count++;
}

static void fill_parts(muster_encode_plan *plan,
                       const muster_code_encode_term *terms, uint32_t count)
{
    size_t cells = cell_count(plan);
    uint32_t at = 0;
    while (at < count) {
        double *fresh = plan->coefs + plan->lane_count * cells;
        uint32_t part = terms[at].part;
        memset(fresh, 0, cells * sizeof(double));
        for (; at < count && terms[at].part == part; at++) {
            fresh[(size_t)terms[at].message_block * plan->gradient_blocks +
                  terms[at].gradient_block] += terms[at].coef;
        }
        muster_encode_plan_part *entry = &plan->parts[plan->part_count++];
        entry->part = part;
        entry->weight = normalise(fresh, cells);
        entry->lane = lane_for(plan);
    }
}

/* What apply needs: a message block is a sum of at most all lanes' blocks. */
static bool make_scratch(muster_encode_plan *plan)
{
    size_t rows = (size_t)plan->lane_count * plan->gradient_blocks;
    plan->rows = muster_mem_array(rows, sizeof(*plan->rows));
    plan->weights = muster_mem_array(rows, sizeof(*plan->weights));
    if (rows > MUSTER_COMBINE_TOGETHER) {
        plan->sums = muster_mem_raw_aligned(MUSTER_COMBINE_RUN, sizeof(double));
    }
    return plan->rows != NULL && plan->weights != NULL &&
           (plan->sums != NULL || rows <= MUSTER_COMBINE_TOGETHER);
}

muster_status muster_encode_plan_create(const muster_code_encode_term *terms,
                                        uint32_t term_count,
                                        uint32_t gradient_blocks,
                                        uint32_t message_blocks,
                                        muster_encode_plan **plan_out)
{
    uint32_t parts;
    if (!terms_are_legal(terms, term_count, gradient_blocks, message_blocks,
                         &parts)) {
        return MUSTER_ERR_INVALID;
    }
    muster_encode_plan *plan = muster_mem_array(1, sizeof(*plan));
    if (plan == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    plan->gradient_blocks = gradient_blocks;
    plan->message_blocks = message_blocks;
    plan->parts = muster_mem_array(parts, sizeof(*plan->parts));
    plan->coefs =
        muster_mem_array(parts, cell_count(plan) * sizeof(*plan->coefs));
    if (plan->parts == NULL || plan->coefs == NULL) {
        muster_encode_plan_free(plan);
        return MUSTER_ERR_NO_MEMORY;
    }
    fill_parts(plan, terms, term_count);
    if (!make_scratch(plan)) {
        muster_encode_plan_free(plan);
        return MUSTER_ERR_NO_MEMORY;
    }
    *plan_out = plan;
    return MUSTER_OK;
}

void muster_encode_plan_free(muster_encode_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    muster_mem_free(plan->parts);
    muster_mem_free(plan->coefs);
    muster_mem_free(plan->rows);
    muster_mem_free(plan->weights);
    muster_mem_free(plan->sums);
    muster_mem_free(plan);
}

muster_status muster_encode_plan_spread(muster_encode_plan *plan,
                                        const uint32_t *parts, uint32_t count)
{
    muster_encode_plan_part *spread = muster_mem_array(count, sizeof(*spread));
    if (spread == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        spread[i] = (muster_encode_plan_part){parts[i], MUSTER_NO_LANE, 0};
        if (at < plan->part_count && plan->parts[at].part == parts[i]) {
            spread[i] = plan->parts[at++];
        }
    }
    if (at < plan->part_count) {
        muster_mem_free(spread);
        return MUSTER_ERR_INVALID;
    }
    muster_mem_free(plan->parts);
    plan->parts = spread;
    plan->part_count = count;
    return MUSTER_OK;
}

size_t muster_encode_plan_block(const muster_encode_plan *plan, size_t dim)
{
    return dim / plan->gradient_blocks + (dim % plan->gradient_blocks != 0);
}

size_t muster_encode_plan_message(const muster_encode_plan *plan, size_t dim)
{
    return muster_encode_plan_block(plan, dim) * plan->message_blocks;
}

/* Coordinates offset .. offset + length - 1 of message block b, for gradients
 * of dim floats. */
typedef struct message_range {
    size_t dim;
    size_t b;
    size_t offset;
    size_t length;
} message_range;

/* A lane is shorter than the padded gradient, so rows of the last blocks end
 * early; range_end() has cut the range so that each is inside or outside. */
static void apply_range(muster_encode_plan *plan, const float *const *lanes,
                        message_range range, float *out)
{
    size_t block = muster_encode_plan_block(plan, range.dim);
    uint32_t count = 0;
    for (uint32_t lane = 0; lane < plan->lane_count; lane++) {
        const double *coefs = plan->coefs + lane * cell_count(plan) +
                              range.b * plan->gradient_blocks;
        for (uint32_t u = 0; u < plan->gradient_blocks; u++) {
            size_t start = u * block + range.offset;
            if (coefs[u] != 0.0 && start + range.length <= range.dim) {
                plan->rows[count] = lanes[lane] + start;
                plan->weights[count++] = coefs[u];
            }
        }
    }
    const muster_combine_rows input = {plan->rows, plan->weights, NULL, count};
    muster_combine(&input, 0, range.length, plan->sums, out);
}

/* The range from `offset` may not straddle the end of the gradient in any of
 * its blocks: the first such end after offset, or `stop`. */
static size_t range_end(const muster_encode_plan *plan, size_t dim,
                        size_t offset, size_t stop)
{
    size_t block = muster_encode_plan_block(plan, dim);
    size_t end = stop;
    for (uint32_t u = 0; u < plan->gradient_blocks; u++) {
        size_t start = u * block;
        if (start + offset < dim && start + end > dim) {
            end = dim - start;
        }
    }
    return end;
}

void muster_encode_plan_apply(muster_encode_plan *plan,
                              const float *const *lanes, size_t dim,
                              size_t begin, size_t end, float *message)
{
    size_t block = muster_encode_plan_block(plan, dim);
    while (begin < end) {
        size_t b = begin / block;
        size_t base = b * block;
        size_t stop = end - base < block ? end - base : block;
        size_t offset = begin - base;
        size_t next = range_end(plan, dim, offset, stop);
        message_range range = {dim, b, offset, next - offset};
        apply_range(plan, lanes, range, message + begin);
        begin = base + next;
    }
}
