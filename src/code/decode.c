/*
 * decode.c -- walks the output a tile at a time; within a tile all terms of
 * its block pass once, some dozens of rows per kernel call.
 */
#include "code/decode.h"

#include "linalg/combine.h"

#define ROWS_AT_A_TIME 64u

/* The terms of one output block. */
typedef struct term_run {
    const muster_code_decode_term *terms;
    size_t count;
} term_run;

static term_run run_of_block(const muster_decode_input *input, size_t block)
{
    size_t first = 0;
    while (first < input->term_count &&
           input->terms[first].output_block < block) {
        first++;
    }
    size_t last = first;
    while (last < input->term_count &&
           input->terms[last].output_block == block) {
        last++;
    }
    return (term_run){input->terms + first, last - first};
}

/* One tile: `offset` is where it starts inside its block. */
static void decode_tile(const muster_decode_input *input, term_run run,
                        size_t offset, size_t length, float *out)
{
    double sums[MUSTER_COMBINE_TILE];
    const float *rows[ROWS_AT_A_TIME];
    double weights[ROWS_AT_A_TIME];

    for (size_t t = 0; t < length; t++) {
        sums[t] = 0.0;
    }
    for (size_t first = 0; first < run.count; first += ROWS_AT_A_TIME) {
        uint32_t count = 0;
        for (; count < ROWS_AT_A_TIME && first + count < run.count; count++) {
            const muster_code_decode_term *term = &run.terms[first + count];
            rows[count] = input->messages[term->worker] +
                          term->message_block * input->block + offset;
            weights[count] = term->weight;
        }
        muster_combine_tile_add(sums, rows, weights, count, length);
    }
    muster_combine_tile_store(sums, length, out);
}

void muster_decode_range(const muster_decode_input *input, size_t begin,
                         size_t end, float *out)
{
    while (begin < end) {
        size_t block = begin / input->block;
        size_t block_end = (block + 1) * input->block;
        size_t stop = end < block_end ? end : block_end;
        term_run run = run_of_block(input, block);
        while (begin < stop) {
            size_t length = stop - begin < MUSTER_COMBINE_TILE
                                ? stop - begin
                                : MUSTER_COMBINE_TILE;
            decode_tile(input, run, begin - block * input->block, length,
                        out + begin);
            begin += length;
        }
    }
}
