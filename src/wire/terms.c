/*
 * terms.c -- the codec of wire/terms.h. 16 bytes, then 20 per term and 12
 * per part.
 */
#include "wire/terms.h"

#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "wire/bytes.h"

#define HEAD_BYTES 16u
#define TERM_BYTES 20u
#define PART_BYTES 12u
#define BLOCKS_MAX 65536u

size_t muster_terms_bytes(uint32_t count, uint32_t part_count)
{
    return HEAD_BYTES + (size_t)TERM_BYTES * count +
           (size_t)PART_BYTES * part_count;
}

void muster_terms_write(const muster_terms *terms, void *bytes)
{
    uint8_t *at = bytes;
    muster_bytes_put(at, terms->gradient_blocks, 4);
    muster_bytes_put(at + 4, terms->message_blocks, 4);
    muster_bytes_put(at + 8, terms->count, 4);
    muster_bytes_put(at + 12, terms->part_count, 4);
    at += HEAD_BYTES;
    for (uint32_t i = 0; i < terms->count; i++, at += TERM_BYTES) {
        const muster_code_encode_term *term = &terms->terms[i];
        muster_bytes_put(at, term->message_block, 4);
        muster_bytes_put(at + 4, term->part, 4);
        muster_bytes_put(at + 8, term->gradient_block, 4);
        muster_bytes_put_double(at + 12, term->coef);
    }
    for (uint32_t i = 0; i < terms->part_count; i++, at += PART_BYTES) {
        muster_bytes_put(at, terms->parts[i].part, 4);
        muster_bytes_put(at + 4, terms->parts[i].first, 4);
        muster_bytes_put(at + 8, terms->parts[i].count, 4);
    }
}

static bool before(const muster_code_encode_term *a,
                   const muster_code_encode_term *b)
{
    return a->part != b->part ? a->part < b->part
                              : a->message_block < b->message_block;
}

static muster_status read_term(const uint8_t *at, uint32_t index,
                               muster_error *error, muster_terms *terms)
{
    muster_code_encode_term *term = &terms->terms[index];
    term->message_block = (uint32_t)muster_bytes_get(at, 4);
    term->part = (uint32_t)muster_bytes_get(at + 4, 4);
    term->gradient_block = (uint32_t)muster_bytes_get(at + 8, 4);
    term->coef = muster_bytes_get_double(at + 12);
    if (term->message_block >= terms->message_blocks ||
        term->gradient_block >= terms->gradient_blocks ||
        term->part == UINT32_MAX || !isfinite(term->coef)) {
        return muster_error_set(error, MUSTER_ERR_PROTOCOL,
                                "plan: term %u is out of range", index);
    }
    if (index > 0 && before(term, term - 1)) {
        return muster_error_set(error, MUSTER_ERR_PROTOCOL,
                                "plan: term %u is out of order", index);
    }
    return MUSTER_OK;
}

static muster_status read_terms(muster_cursor *cursor, muster_error *error,
                                muster_terms *terms)
{
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; status == MUSTER_OK && i < terms->count; i++) {
        status = read_term(cursor->at, i, error, terms);
        cursor->at += TERM_BYTES;
    }
    return status;
}

/* The parts must be those of the terms, in their order, and no shard may come
 * twice: its samples would count twice. */
static muster_status read_parts(muster_cursor *cursor, muster_error *error,
                                muster_terms *terms)
{
    uint64_t free_shard = 0; // every shard from here on is in no part yet
    uint32_t found = 0;
    for (uint32_t i = 0; i < terms->count; i++) {
        uint32_t number = terms->terms[i].part;
        if (i > 0 && number == terms->terms[i - 1].part) {
            continue;
        }
        muster_terms_part *part = &terms->parts[found];
        if (found++ == terms->part_count) {
            break;
        }
        part->part = (uint32_t)muster_cursor_take(cursor, 4);
        part->first = (uint32_t)muster_cursor_take(cursor, 4);
        part->count = (uint32_t)muster_cursor_take(cursor, 4);
        uint64_t end = (uint64_t)part->first + part->count;
        if (part->part != number || end > UINT32_MAX ||
            part->first < free_shard) {
            return muster_error_set(error, MUSTER_ERR_PROTOCOL,
                                    "plan: the shards of part %u are out of "
                                    "range or order",
                                    number);
        }
        free_shard = end;
    }
    return found == terms->part_count
               ? MUSTER_OK
               : muster_error_set(error, MUSTER_ERR_PROTOCOL,
                                  "plan: the parts with shards are not those "
                                  "of the terms");
}

muster_status muster_terms_read(const void *bytes, size_t size,
                                muster_error *error_out,
                                muster_terms *terms_out)
{
    muster_cursor cursor = {bytes, (const uint8_t *)bytes + size, false};
    muster_terms terms = {0};
    terms.gradient_blocks = (uint32_t)muster_cursor_take(&cursor, 4);
    terms.message_blocks = (uint32_t)muster_cursor_take(&cursor, 4);
    terms.count = (uint32_t)muster_cursor_take(&cursor, 4);
    terms.part_count = (uint32_t)muster_cursor_take(&cursor, 4);
    if (cursor.bad ||
        size != muster_terms_bytes(terms.count, terms.part_count) ||
        terms.gradient_blocks - 1 >= BLOCKS_MAX ||
        terms.message_blocks - 1 >= BLOCKS_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "%zu bytes that are not a plan", size);
    }
    terms.terms = muster_mem_array(terms.count, sizeof(*terms.terms));
    terms.parts = muster_mem_array(terms.part_count, sizeof(*terms.parts));
    if (terms.terms == NULL || terms.parts == NULL) {
        uint32_t count = terms.count;
        muster_terms_fini(&terms);
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for a plan of %u terms", count);
    }
    muster_status status = read_terms(&cursor, error_out, &terms);
    if (status == MUSTER_OK) {
        status = read_parts(&cursor, error_out, &terms);
    }
    if (status != MUSTER_OK) {
        muster_terms_fini(&terms);
        return status;
    }
    *terms_out = terms;
    return MUSTER_OK;
}

void muster_terms_fini(muster_terms *terms)
{
    muster_mem_free(terms->terms);
    muster_mem_free(terms->parts);
    *terms = (muster_terms){0};
}
