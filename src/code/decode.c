/*
 * decode.c -- every output block is a weighted sum of message blocks.
 *
 * begin() turns terms into the rows and weights that linalg/combine.h takes,
 * once for all ranges, and notes where each block's terms start.
 */
#include "code/decode.h"

#include <math.h>

#include "base/mem.h"
#include "base/vec.h"
#include "linalg/combine.h"

struct muster_decoder {
    const muster_code_decode_term *terms; // lent
    size_t term_count;
    size_t block;
    size_t measured;
    muster_vec rows;    // const float *, a term
    muster_vec weights; // double, a term
    uint32_t lanes;
    muster_vec squares; // double, a term and lane
    double *scratch;    // MUSTER_COMBINE_RUN a lane
};

/* The terms of one output block. */
typedef struct term_run {
    size_t first;
    size_t count;
} term_run;

static bool make_room(muster_decoder *decoder, size_t terms)
{
    return muster_vec_reserve(&decoder->rows, terms) &&
           muster_vec_reserve(&decoder->weights, terms) &&
           muster_vec_reserve(&decoder->squares, terms * decoder->lanes);
}

muster_status muster_decoder_create(size_t terms, muster_decoder **decoder_out)
{
    muster_decoder *decoder = muster_mem_array(1, sizeof(*decoder));
    if (decoder == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    decoder->rows = muster_vec_make(sizeof(const float *));
    decoder->weights = muster_vec_make(sizeof(double));
    decoder->squares = muster_vec_make(sizeof(double));
    if (muster_decoder_use_lanes(decoder, 1) != MUSTER_OK ||
        !make_room(decoder, terms + 1)) {
        muster_decoder_free(decoder);
        return MUSTER_ERR_NO_MEMORY;
    }
    *decoder_out = decoder;
    return MUSTER_OK;
}

muster_status muster_decoder_use_lanes(muster_decoder *decoder, uint32_t lanes)
{
    if (lanes <= decoder->lanes) {
        return MUSTER_OK;
    }
    double *scratch = muster_mem_raw_aligned((size_t)MUSTER_COMBINE_RUN * lanes,
                                             sizeof(double));
    if (scratch == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_mem_free(decoder->scratch);
    decoder->scratch = scratch;
    decoder->lanes = lanes;
    decoder->term_count = 0; // squares have moved
    return MUSTER_OK;
}

void muster_decoder_free(muster_decoder *decoder)
{
    if (decoder == NULL) {
        return;
    }
    muster_mem_free(decoder->scratch);
    muster_vec_fini(&decoder->squares);
    muster_vec_fini(&decoder->weights);
    muster_vec_fini(&decoder->rows);
    muster_mem_free(decoder);
}

muster_status muster_decoder_begin(muster_decoder *decoder,
                                   const muster_decode_input *input)
{
    size_t count = input->term_count;
    if (!make_room(decoder, count)) {
        return MUSTER_ERR_NO_MEMORY;
    }
    const float **rows = decoder->rows.data;
    double *weights = decoder->weights.data;
    double *squares = decoder->squares.data;
    for (size_t i = 0; i < count; i++) {
        const muster_code_decode_term *term = &input->terms[i];
        const float *message = input->messages[term->worker];
        if (message == NULL ||
            (i > 0 && term->output_block < term[-1].output_block)) {
            decoder->term_count = 0;
            return MUSTER_ERR_INVALID;
        }
        rows[i] = message + term->message_block * input->block;
        weights[i] = term->weight;
    }
    for (size_t i = 0; i < count * decoder->lanes; i++) {
        squares[i] = 0.0;
    }
    decoder->terms = input->terms;
    decoder->term_count = count;
    decoder->block = input->block;
    decoder->measured = input->measured;
    return MUSTER_OK;
}

/* The first term whose block is not below `block`. */
static size_t first_term(const muster_decoder *decoder, size_t block)
{
    size_t low = 0;
    size_t high = decoder->term_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (decoder->terms[middle].output_block < block) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static term_run run_of_block(const muster_decoder *decoder, size_t block)
{
    size_t first = first_term(decoder, block);
    return (term_run){first, first_term(decoder, block + 1) - first};
}

size_t muster_decoder_terms_at(const muster_decoder *decoder, size_t at)
{
    return run_of_block(decoder, at / decoder->block).count;
}

/* A range within one block. */
static void decode_within(muster_decoder *decoder, uint32_t lane, size_t begin,
                          size_t end, float *out)
{
    const float **rows = decoder->rows.data;
    const double *weights = decoder->weights.data;
    double *squares =
        (double *)decoder->squares.data + lane * decoder->term_count;
    term_run run = run_of_block(decoder, begin / decoder->block);
    size_t start = begin - begin % decoder->block;
    bool is_measured = begin < decoder->measured && run.count > 0;
    const muster_combine_rows input = {
        rows + run.first,
        weights + run.first,
        is_measured ? squares + run.first : NULL,
        (uint32_t)run.count,
    };
    muster_combine(&input, begin - start, end - start,
                   decoder->scratch + (size_t)lane * MUSTER_COMBINE_RUN,
                   out + start);
}

void muster_decoder_range(muster_decoder *decoder, size_t begin, size_t end,
                          float *out)
{
    muster_decoder_range_in(decoder, 0, begin, end, out);
}

void muster_decoder_range_in(muster_decoder *decoder, uint32_t lane,
                             size_t begin, size_t end, float *out)
{
    while (begin < end) {
        size_t block = begin / decoder->block;
        size_t stop = (block + 1) * decoder->block;
        stop = end < stop ? end : stop;
        if (begin < decoder->measured && decoder->measured < stop) {
            stop = decoder->measured;
        }
        decode_within(decoder, lane, begin, stop, out);
        begin = stop;
    }
}

double muster_decoder_mass(const muster_decoder *decoder)
{
    const double *weights = decoder->weights.data;
    const double *squares = decoder->squares.data;
    double sum = 0.0;
    for (size_t i = 0; i < decoder->term_count; i++) {
        double all = 0.0;
        for (uint32_t lane = 0; lane < decoder->lanes; lane++) {
            all += squares[lane * decoder->term_count + i];
        }
        sum += fabs(weights[i]) * sqrt(all);
    }
    return sum;
}
