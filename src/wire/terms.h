/*
 * wire/terms.h -- the payload of a PLAN message: what one worker encodes.
 *
 * The coordinator sends each worker the terms of its message, so a worker needs
 * to know nothing about codes. Little-endian: gradient_blocks, message_blocks,
 * count, then count times (message block, part, gradient block, coef).
 */
#ifndef MUSTER_WIRE_TERMS_H
#define MUSTER_WIRE_TERMS_H

#include <stddef.h>
#include <stdint.h>

#include "muster/code.h"
#include "muster/status.h"

typedef struct muster_terms {
    uint32_t gradient_blocks;
    uint32_t message_blocks;
    uint32_t count;
    muster_code_encode_term *terms; // sorted by (part, message block)
} muster_terms;

size_t muster_terms_bytes(uint32_t count);
void muster_terms_write(const muster_terms *terms, void *bytes);

/* Copies into heap memory that muster_terms_fini() frees. Refuses blocks out
 * of range, unsorted terms, coefficients that are not finite. */
MUSTER_CHECKED muster_status muster_terms_read(const void *bytes, size_t size,
                                               muster_error *error_out,
                                               muster_terms *terms_out);
void muster_terms_fini(muster_terms *terms);

#endif // MUSTER_WIRE_TERMS_H
