/*
 * code/decode.h -- apply a decoding to messages: the coordinator's data path.
 *
 * A message is message_blocks blocks of `block` floats, the output
 * gradient_blocks of them, cut off at `dim`. Any range of output coordinates
 * can be asked for, so that a caller may work in pieces.
 *
 *   Threads      Pure.
 *   Allocation   None.
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
} muster_decode_input;

/* out[t] for begin <= t < end <= dim. Blocks without a term become 0. */
void muster_decode_range(const muster_decode_input *input, size_t begin,
                         size_t end, float *out);

#endif // MUSTER_CODE_DECODE_H
