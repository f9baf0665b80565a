/*
 * code/decode.h -- apply a decoding to messages: the coordinator's data path.
 *
 * A message is message_blocks blocks of `block` floats, the output
 * gradient_blocks of them, cut off at the gradient's length. A decoder takes
 * one decoding with its messages and then gives any ranges of the output, so
 * that a caller may work in pieces. While a message passes it can add up its
 * squares, for the bound on what rounding did (design page).
 *
 *   Lifecycle    create; then begin and any number of ranges, again and again;
 *                then free.
 *   Ownership    Terms and messages are lent from begin to the last range.
 *   Threads      A decoder belongs to one thread. Ranges that do not overlap
 *                may be given out by several at once, a lane each.
 *   Allocation   create; begin when there are more terms than ever before. A
 *                range never allocates.
 *   Determinism  Splitting into ranges changes no bit of the output.
 */
#ifndef MUSTER_CODE_DECODE_H
#define MUSTER_CODE_DECODE_H

#include <stddef.h>

#include "muster/code.h"

typedef struct muster_decode_input {
    const muster_code_decode_term *terms; // sorted by output block
    size_t term_count;
    const float *const *messages; // by term->worker; NULL where no term is
    size_t block;                 // muster_code_block_length()
    size_t measured; // squares count for outputs below this; 0: unwanted
} muster_decode_input;

typedef struct muster_decoder muster_decoder;

/* Room for `terms` at first. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status
muster_decoder_create(size_t terms, muster_decoder **decoder_out);
void muster_decoder_free(muster_decoder *decoder);

/* Take a decoding. MUSTER_ERR_INVALID when its terms are not sorted or a
 * message that they name is NULL; MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status
muster_decoder_begin(muster_decoder *decoder, const muster_decode_input *input);

/* Terms of the block that coordinate `at` belongs to: what a range there reads
 * a coordinate. */
size_t muster_decoder_terms_at(const muster_decoder *decoder, size_t at);

/* Have at least so many lanes (1 at first), from the next begin on: each adds
 * up squares of its own. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_decoder_use_lanes(muster_decoder *decoder,
                                                      uint32_t lanes);

/* out[t] for begin <= t < end. Blocks without a term become 0. */
void muster_decoder_range(muster_decoder *decoder, size_t begin, size_t end,
                          float *out);
void muster_decoder_range_in(muster_decoder *decoder, uint32_t lane,
                             size_t begin, size_t end, float *out);

/* Sum of |weight| * 2-norm of the message block, over the terms, of the
 * measured coordinates given out since begin, lane after lane. */
double muster_decoder_mass(const muster_decoder *decoder);

#endif // MUSTER_CODE_DECODE_H
