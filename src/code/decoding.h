/*
 * code/decoding.h -- the solved decoding of one responder set.
 *
 * What muster_code_weights() found, kept as one object: the coordinator shares
 * it between its cache and the jobs that use it.
 *
 *   Ownership    Reference-counted; immutable after create.
 *   Threads      Any thread may hold a reference.
 *   Allocation   Only create allocates.
 */
#ifndef MUSTER_CODE_DECODING_H
#define MUSTER_CODE_DECODING_H

#include <stddef.h>
#include <stdint.h>

#include "muster/code.h"

typedef struct muster_decoding {
    _Atomic unsigned references;
    muster_status status;     // MUSTER_OK or MUSTER_INEXACT
    uint32_t workers;         // terms name answers below it; one stage: n
    uint32_t gradient_blocks; // of the code
    uint32_t message_blocks;
    uint32_t used_count;
    const uint32_t *used; // answers that a term names, ascending
    muster_code_fit fit;
    size_t term_count;
    muster_code_decode_term terms[]; // sorted by (output block, worker)
} muster_decoding;

/* A copy of what muster_code_weights() gave; NULL when out of memory. */
muster_decoding *muster_decoding_create(const muster_code *code,
                                        muster_status status,
                                        const muster_code_decode_term *terms,
                                        size_t term_count,
                                        const muster_code_fit *fit);
/* NULL is allowed in both and does nothing. */
muster_decoding *muster_decoding_ref(muster_decoding *decoding);
void muster_decoding_unref(muster_decoding *decoding);

#endif // MUSTER_CODE_DECODING_H
