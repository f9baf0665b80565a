/*
 * decoding.c -- one allocation holds a decoding, its terms and the list of
 * workers whose messages it uses.
 */
#include "code/decoding.h"

#include <stdatomic.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "code/family.h"

/* Mark the workers that terms name; returns how many. */
static uint32_t mark_used(const muster_code_decode_term *terms, size_t count,
                          uint8_t *is_used)
{
    uint32_t used = 0;
    for (size_t i = 0; i < count; i++) {
        used += is_used[terms[i].worker] == 0;
        is_used[terms[i].worker] = 1;
    }
    return used;
}

muster_decoding *muster_decoding_create(const muster_code *code,
                                        muster_status status,
                                        const muster_code_decode_term *terms,
                                        size_t term_count,
                                        const muster_code_fit *fit)
{
    uint32_t n = muster_code_answers(code);
    uint8_t *is_used = muster_mem_array(n, 1);
    if (is_used == NULL) {
        return NULL;
    }
    uint32_t used_count = mark_used(terms, term_count, is_used);
    size_t terms_bytes = term_count * sizeof(*terms);
    muster_decoding *decoding =
        muster_mem_array(1, sizeof(*decoding) + terms_bytes +
                                used_count * sizeof(*decoding->used));
    if (decoding != NULL) {
        uint32_t *used = (uint32_t *)(decoding->terms + term_count);
        atomic_init(&decoding->references, 1);
        decoding->status = status;
        decoding->workers = n;
        decoding->gradient_blocks = code->info.gradient_blocks;
        decoding->message_blocks = code->info.message_blocks;
        decoding->fit = *fit;
        decoding->term_count = term_count;
        memcpy(decoding->terms, terms, terms_bytes);
        decoding->used = used;
        for (uint32_t worker = 0; worker < n; worker++) {
            if (is_used[worker] != 0) {
                used[decoding->used_count++] = worker;
            }
        }
    }
    muster_mem_free(is_used);
    return decoding;
}

muster_decoding *muster_decoding_ref(muster_decoding *decoding)
{
    if (decoding != NULL) {
        atomic_fetch_add_explicit(&decoding->references, 1,
                                  memory_order_relaxed);
    }
    return decoding;
}

void muster_decoding_unref(muster_decoding *decoding)
{
    if (decoding == NULL) {
        return;
    }
    unsigned before = atomic_fetch_sub_explicit(&decoding->references, 1,
                                                memory_order_acq_rel);
    MUSTER_ASSERT(before > 0);
    if (before == 1) {
        muster_mem_free(decoding);
    }
}
