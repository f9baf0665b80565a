/*
 * terms.c -- the codec of wire/terms.h. 12 bytes, then 20 per term.
 */
#include "wire/terms.h"

#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "wire/bytes.h"

#define HEAD_BYTES 12u
#define TERM_BYTES 20u
#define BLOCKS_MAX 65536u

size_t muster_terms_bytes(uint32_t count)
{
    return HEAD_BYTES + (size_t)TERM_BYTES * count;
}

void muster_terms_write(const muster_terms *terms, void *bytes)
{
    uint8_t *at = bytes;
    muster_bytes_put(at, terms->gradient_blocks, 4);
    muster_bytes_put(at + 4, terms->message_blocks, 4);
    muster_bytes_put(at + 8, terms->count, 4);
    at += HEAD_BYTES;
    for (uint32_t i = 0; i < terms->count; i++, at += TERM_BYTES) {
        const muster_code_encode_term *term = &terms->terms[i];
        muster_bytes_put(at, term->message_block, 4);
        muster_bytes_put(at + 4, term->part, 4);
        muster_bytes_put(at + 8, term->gradient_block, 4);
        muster_bytes_put_double(at + 12, term->coef);
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

muster_status muster_terms_read(const void *bytes, size_t size,
                                muster_error *error_out,
                                muster_terms *terms_out)
{
    muster_cursor cursor = {bytes, (const uint8_t *)bytes + size, false};
    muster_terms terms = {0};
    terms.gradient_blocks = (uint32_t)muster_cursor_take(&cursor, 4);
    terms.message_blocks = (uint32_t)muster_cursor_take(&cursor, 4);
    terms.count = (uint32_t)muster_cursor_take(&cursor, 4);
    if (cursor.bad || size != muster_terms_bytes(terms.count) ||
        terms.gradient_blocks - 1 >= BLOCKS_MAX ||
        terms.message_blocks - 1 >= BLOCKS_MAX) {
        return muster_error_set(error_out, MUSTER_ERR_PROTOCOL,
                                "%zu bytes that are not a plan", size);
    }
    terms.terms = muster_mem_array(terms.count, sizeof(*terms.terms));
    if (terms.terms == NULL) {
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for a plan of %u terms",
                                terms.count);
    }
    for (uint32_t i = 0; i < terms.count; i++, cursor.at += TERM_BYTES) {
        muster_status status = read_term(cursor.at, i, error_out, &terms);
        if (status != MUSTER_OK) {
            muster_terms_fini(&terms);
            return status;
        }
    }
    *terms_out = terms;
    return MUSTER_OK;
}

void muster_terms_fini(muster_terms *terms)
{
    muster_mem_free(terms->terms);
    terms->terms = NULL;
    terms->count = 0;
}
