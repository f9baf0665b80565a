/*
 * apply.c -- encode and decode over a user's buffers.
 *
 * Design. Both walk one output block at a time, in tiles whose sums fit the
 * stack, and bring the terms of the block to linalg/combine.h in groups. So
 * nothing is allocated and nothing is kept, whatever the number of terms.
 * Terms are added in their order and rounded once: a tile's length changes no
 * bit.
 *
 * Training does not come this way: a worker sums gradients before it encodes
 * (encode_plan.h), and the coordinator decodes in ranges (decode.h). Both have
 * scratch for long runs, which is faster from 16 terms a block on.
 */
#include <string.h>

#include "code/family.h"
#include "linalg/combine.h"

#define TILE 512u // coordinates whose sums wait on the stack

/* Sums of weighted rows, over one tile of one output block. */
typedef struct tile {
    muster_combine_group group;
    uint32_t count; // rows that wait
    const float *rows[MUSTER_COMBINE_TOGETHER];
    double weights[MUSTER_COMBINE_TOGETHER];
    double sums[TILE];
} tile;

static void tile_begin(tile *t, size_t begin, size_t length)
{
    t->group = (muster_combine_group){
        .begin = begin, .length = length, .sums = t->sums, .is_first = true};
    t->count = 0;
}

static void tile_flush(tile *t, float *out)
{
    const muster_combine_rows rows = {t->rows, t->weights, NULL, t->count};
    t->group.out = out;
    muster_combine_add(&rows, &t->group);
    t->group.is_first = false;
    t->count = 0;
}

static inline void tile_add(tile *t, const float *row, double weight)
{
    if (t->count == MUSTER_COMBINE_TOGETHER) {
        tile_flush(t, NULL);
    }
    t->rows[t->count] = row;
    t->weights[t->count++] = weight;
}

/* The last rows are still there: their sums go straight to `out`. */
static void tile_end(tile *t, float *out)
{
    if (t->count == 0) {
        memset(out, 0, t->group.length * sizeof(*out));
        return;
    }
    tile_flush(t, out);
}

size_t muster_code_block_length(const muster_code *code, size_t dim)
{
    size_t blocks = code->info.gradient_blocks;
    return dim / blocks + (dim % blocks != 0);
}

size_t muster_code_message_length(const muster_code *code, size_t dim)
{
    return muster_code_block_length(code, dim) * code->info.message_blocks;
}

/* What one worker encodes. */
typedef struct encoding {
    const muster_code_encode_term *terms;
    uint32_t term_count;
    const float *const *grads;
    size_t dim;
    size_t block;
} encoding;

/* Coordinates begin .. begin + length - 1 of message block b. The range lies
 * before the gradient's end in its last block or behind it, never across. */
static void encode_tile(const encoding *e, uint32_t b, size_t begin,
                        size_t length, float *out)
{
    tile t;
    uint32_t part = 0; // index into grads
    tile_begin(&t, begin, length);
    for (uint32_t i = 0; i < e->term_count; i++) {
        const muster_code_encode_term *term = &e->terms[i];
        part += i > 0 && term->part != term[-1].part;
        size_t start = term->gradient_block * e->block;
        if (term->message_block == b && start + begin < e->dim) {
            tile_add(&t, e->grads[part] + start, term->coef);
        }
    }
    tile_end(&t, out);
}

static void encode_range(const encoding *e, uint32_t b, size_t begin,
                         size_t end, float *block_out)
{
    for (size_t at = begin; at < end; at += TILE) {
        size_t length = end - at < TILE ? end - at : TILE;
        encode_tile(e, b, at, length, block_out + at);
    }
}

muster_status muster_code_encode(const muster_code *code, uint32_t worker,
                                 const float *const *grads, size_t dim,
                                 float *message_out)
{
    if (worker >= code->info.workers || dim == 0 || message_out == NULL) {
        return MUSTER_ERR_INVALID;
    }
    for (uint32_t i = 0; i < code->part_spans[worker].count; i++) {
        if (grads == NULL || grads[i] == NULL) {
            return MUSTER_ERR_INVALID;
        }
    }
    const muster_code_encode_term *all = code->terms.data;
    const muster_code_span span = code->term_spans[worker];
    const encoding e = {.terms = all + span.first,
                        .term_count = span.count,
                        .grads = grads,
                        .dim = dim,
                        .block = muster_code_block_length(code, dim)};
    size_t cut = dim % e.block; // where the gradient ends within a block
    for (uint32_t b = 0; b < code->info.message_blocks; b++) {
        float *block_out = message_out + b * e.block;
        encode_range(&e, b, 0, cut, block_out);
        encode_range(&e, b, cut, e.block, block_out);
    }
    return MUSTER_OK;
}

/* Sorted by output block, in range, and each with its message. */
static bool terms_are_legal(const muster_code *code,
                            const muster_code_decode_term *terms, size_t count,
                            const float *const *messages)
{
    for (size_t i = 0; i < count; i++) {
        const muster_code_decode_term *term = &terms[i];
        if (term->worker >= code->info.workers ||
            term->output_block >= code->info.gradient_blocks ||
            term->message_block >= code->info.message_blocks ||
            messages[term->worker] == NULL ||
            (i > 0 && term->output_block < term[-1].output_block)) {
            return false;
        }
    }
    return true;
}

/* One output block, `length` coordinates of it, from its own terms. */
static void decode_block(const muster_code_decode_term *terms, size_t count,
                         const float *const *messages, size_t block,
                         size_t length, float *out)
{
    for (size_t at = 0; at < length; at += TILE) {
        tile t;
        tile_begin(&t, at, length - at < TILE ? length - at : TILE);
        for (size_t i = 0; i < count; i++) {
            tile_add(&t,
                     messages[terms[i].worker] + terms[i].message_block * block,
                     terms[i].weight);
        }
        tile_end(&t, out + at);
    }
}

muster_status muster_code_decode(const muster_code *code,
                                 const muster_code_decode_term *terms,
                                 size_t term_count,
                                 const float *const *messages, size_t dim,
                                 float *sum_out)
{
    if (dim == 0 || sum_out == NULL || terms == NULL || messages == NULL ||
        !terms_are_legal(code, terms, term_count, messages)) {
        return MUSTER_ERR_INVALID;
    }
    size_t block = muster_code_block_length(code, dim);
    size_t at = 0;
    for (uint32_t u = 0; u * block < dim; u++) {
        size_t first = at;
        while (at < term_count && terms[at].output_block == u) {
            at++;
        }
        size_t left = dim - u * block;
        decode_block(terms + first, at - first, messages, block,
                     left < block ? left : block, sum_out + u * block);
    }
    return MUSTER_OK;
}
