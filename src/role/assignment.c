/*
 * assignment.c -- see assignment.h.
 */
#include "role/assignment.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "code/numbers.h"
#include "wire/terms.h"

muster_status muster_assignment_init(muster_assignment *assignment,
                                     const muster_code *code, uint32_t number)
{
    muster_code_info info = *muster_code_numbers(code);
    *assignment = (muster_assignment){
        .number = number,
        .code = code,
        .info = info,
        .slot_of = muster_mem_array(info.workers, sizeof(uint32_t)),
        .worker_of = muster_mem_array(info.workers, sizeof(uint32_t))};
    if (assignment->slot_of == NULL || assignment->worker_of == NULL) {
        muster_assignment_fini(assignment);
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < info.workers; i++) {
        assignment->slot_of[i] = i;
        assignment->worker_of[i] = i;
    }
    return MUSTER_OK;
}

void muster_assignment_fini(muster_assignment *assignment)
{
    muster_mem_free(assignment->slot_of);
    muster_mem_free(assignment->worker_of);
    *assignment = (muster_assignment){0};
}

uint32_t muster_assignment_parts(const muster_assignment *assignment,
                                 uint32_t worker, const uint32_t **parts_out)
{
    uint32_t count = 0;
    muster_status status = muster_code_parts(
        assignment->code, assignment->slot_of[worker], parts_out, &count);
    MUSTER_ASSERT(status == MUSTER_OK);
    return count;
}

muster_blob *muster_assignment_terms(const muster_assignment *assignment,
                                     uint32_t worker)
{
    const muster_code_encode_term *list = NULL;
    muster_terms terms = {.gradient_blocks = assignment->info.gradient_blocks,
                          .message_blocks = assignment->info.message_blocks};
    muster_status status = muster_code_encode_terms(
        assignment->code, assignment->slot_of[worker], &list, &terms.count);
    MUSTER_ASSERT(status == MUSTER_OK);
    terms.terms = muster_mem_array(terms.count, sizeof(*terms.terms));
    if (terms.terms == NULL) {
        return NULL;
    }
    memcpy(terms.terms, list, terms.count * sizeof(*terms.terms));
    muster_blob *blob = muster_blob_create(muster_terms_bytes(terms.count));
    if (blob != NULL) {
        muster_terms_write(&terms, blob->data);
    }
    muster_terms_fini(&terms);
    return blob;
}
