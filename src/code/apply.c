/*
 * apply.c -- encode and decode over a user's buffers.
 *
 * Design. Both walk one output block at a time, in tiles, and bring the terms
 * of the block to linalg/combine.h in groups. The sums of a tile wait in the
 * caller's scratch, or on the stack where tiles are short. So nothing is
 * allocated and nothing is kept, whatever the number of terms. Terms are added
 * in their order and rounded once: a tile's length changes no bit.
 *
 * Short tiles cost the processor's prefetchers many new starts: with 16 terms
 * and more they were 2.5 times slower than long ones (measured, 1e6 floats).
 *
 * Training does not come this way: a worker sums gradients before it encodes
 * (encode_plan.h), and the coordinator decodes in pieces (decode.h).
 */
#include <string.h>

#include "code/family.h"
#include "linalg/combine.h"

#define TILE_SHORT 384u // coordinates whose sums wait on the stack

/* Where the sums of a tile wait, and how many fit. */
typedef struct tile_sums {
    double *sums;
    size_t length_max;
    double own[TILE_SHORT];
} tile_sums;

static void sums_init(tile_sums *sums, double *scratch)
{
    sums->sums = scratch != NULL ? scratch : sums->own;
    sums->length_max = scratch != NULL ? MUSTER_COMBINE_RUN : TILE_SHORT;
}

/* Sums of weighted rows, over one tile of one output block. */
typedef struct tile {
    muster_combine_group group;
    uint32_t count; // rows that wait
    const float *rows[MUSTER_COMBINE_TOGETHER];
    double weights[MUSTER_COMBINE_TOGETHER];
} tile;

/* From `begin` on, up to `end` or as far as the sums reach. */
static void tile_begin(tile *t, const tile_sums *sums, size_t begin, size_t end)
{
    size_t left = end - begin;
    t->group = (muster_combine_group){
        .begin = begin,
        .length = left < sums->length_max ? left : sums->length_max,
        .sums = sums->sums,
        .is_first = true};
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

size_t muster_code_scratch_length(void)
{
    return MUSTER_COMBINE_RUN;
}

/* What one worker encodes. */
typedef struct encoding {
    const muster_code_encode_term *terms;
    uint32_t term_count;
    const float *const *grads;
    size_t dim;
    size_t block;
    tile_sums sums;
} encoding;

/* The rows of message block b for a tile, which lies before the gradient's end
 * in its last block or behind it, never across. */
static void add_gradients(const encoding *e, uint32_t b, tile *t)
{
    uint32_t part = 0; // index into grads
    for (uint32_t i = 0; i < e->term_count; i++) {
        const muster_code_encode_term *term = &e->terms[i];
        part += i > 0 && term->part != term[-1].part;
        size_t start = term->gradient_block * e->block;
        if (term->message_block == b && start + t->group.begin < e->dim) {
            tile_add(t, e->grads[part] + start, term->coef);
        }
    }
}

static void encode_range(const encoding *e, uint32_t b, size_t begin,
                         size_t end, float *block_out)
{
    while (begin < end) {
        tile t;
        tile_begin(&t, &e->sums, begin, end);
        add_gradients(e, b, &t);
        tile_end(&t, block_out + begin);
        begin += t.group.length;
    }
}

muster_status muster_code_encode(const muster_code *code, uint32_t answer,
                                 const float *const *grads, size_t dim,
                                 double *scratch, float *message_out)
{
    if (answer >= muster_code_answers(code) || dim == 0 ||
        message_out == NULL) {
        return MUSTER_ERR_INVALID;
    }
    for (uint32_t i = 0; i < code->part_spans[answer].count; i++) {
        if (grads == NULL || grads[i] == NULL) {
            return MUSTER_ERR_INVALID;
        }
    }
    const muster_code_encode_term *all = code->terms.data;
    const muster_code_span span = code->term_spans[answer];
    encoding e;
    e.terms = all + span.first;
    e.term_count = span.count;
    e.grads = grads;
    e.dim = dim;
    e.block = muster_code_block_length(code, dim);
    sums_init(&e.sums, scratch);
    size_t cut = dim % e.block; // where the gradient ends within a block
    for (uint32_t b = 0; b < code->info.message_blocks; b++) {
        float *block_out = message_out + b * e.block;
        encode_range(&e, b, 0, cut, block_out);
        encode_range(&e, b, cut, e.block, block_out);
    }
    return MUSTER_OK;
}

/* Sorted by output block, in range, and each with its message. */
static bool input_is_legal(const muster_code *code,
                           const muster_code_decode_input *input)
{
    if (input == NULL || input->terms == NULL || input->messages == NULL) {
        return false;
    }
    for (size_t i = 0; i < input->term_count; i++) {
        const muster_code_decode_term *term = &input->terms[i];
        if (term->worker >= muster_code_answers(code) ||
            term->output_block >= code->info.gradient_blocks ||
            term->message_block >= code->info.message_blocks ||
            input->messages[term->worker] == NULL ||
            (i > 0 && term->output_block < term[-1].output_block)) {
            return false;
        }
    }
    return true;
}

/* One output block, `length` coordinates of it, from its own terms. */
static void decode_block(const muster_code_decode_input *own, size_t block,
                         size_t length, const tile_sums *sums, float *out)
{
    size_t begin = 0;
    while (begin < length) {
        tile t;
        tile_begin(&t, sums, begin, length);
        for (size_t i = 0; i < own->term_count; i++) {
            const muster_code_decode_term *term = &own->terms[i];
            tile_add(&t,
                     own->messages[term->worker] + term->message_block * block,
                     term->weight);
        }
        tile_end(&t, out + begin);
        begin += t.group.length;
    }
}

muster_status muster_code_decode(const muster_code *code,
                                 const muster_code_decode_input *input,
                                 size_t dim, double *scratch, float *sum_out)
{
    if (dim == 0 || sum_out == NULL || !input_is_legal(code, input)) {
        return MUSTER_ERR_INVALID;
    }
    tile_sums sums;
    sums_init(&sums, scratch);
    size_t block = muster_code_block_length(code, dim);
    muster_code_decode_input own = {input->terms, 0, input->messages};
    const muster_code_decode_term *end = input->terms + input->term_count;
    for (uint32_t u = 0; u * block < dim; u++) {
        own.terms += own.term_count;
        own.term_count = 0;
        while (own.terms + own.term_count < end &&
               own.terms[own.term_count].output_block == u) {
            own.term_count++;
        }
        size_t left = dim - u * block;
        decode_block(&own, block, left < block ? left : block, &sums,
                     sum_out + u * block);
    }
    return MUSTER_OK;
}
