/*
 * wire/terms.h -- the payload of a PLAN message: what one worker encodes, and
 * of which shards.
 *
 * The coordinator sends each worker the terms of its message and the shards of
 * each part that they name, so a worker needs to know nothing about codes.
 * Little-endian: gradient_blocks, message_blocks, count, part_count, then count
 * times (message block, part, gradient block, coef), then part_count times
 * (part, first shard, shards).
 */
#ifndef MUSTER_WIRE_TERMS_H
#define MUSTER_WIRE_TERMS_H

#include <stddef.h>
#include <stdint.h>

#include "muster/code.h"
#include "muster/status.h"

/* A part under this plan: shards first .. first + count - 1, maybe none. */
typedef struct muster_terms_part {
    uint32_t part;
    uint32_t first;
    uint32_t count;
} muster_terms_part;

typedef struct muster_terms {
    uint32_t gradient_blocks;
    uint32_t message_blocks;
    uint32_t count;
    uint32_t part_count;
    muster_code_encode_term *terms; // sorted by (part, message block)
    muster_terms_part *parts;       // those of the terms; parts, shards ascend
} muster_terms;

size_t muster_terms_bytes(uint32_t count, uint32_t part_count);
void muster_terms_write(const muster_terms *terms, void *bytes);

/* Copies into heap memory that muster_terms_fini() frees. Refuses blocks out
 * of range, unsorted terms, coefficients that are not finite, parts that are
 * not those of the terms, a shard in two of them. */
MUSTER_CHECKED muster_status muster_terms_read(const void *bytes, size_t size,
                                               muster_error *error_out,
                                               muster_terms *terms_out);
void muster_terms_fini(muster_terms *terms);

#endif // MUSTER_WIRE_TERMS_H
