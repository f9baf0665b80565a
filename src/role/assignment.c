/*
 * assignment.c -- see assignment.h.
 */
#include "role/assignment.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/vec.h"
#include "code/numbers.h"
#include "wire/message.h"
#include "wire/terms.h"

muster_status muster_assignment_init(muster_assignment *assignment,
                                     const muster_code *code, uint32_t shards,
                                     uint32_t number)
{
    muster_layer whole = {.code = code, .terms = code};
    return muster_assignment_init_layer(assignment, &whole, shards, number);
}

muster_status muster_assignment_init_layer(muster_assignment *assignment,
                                           const muster_layer *layer,
                                           uint32_t shards, uint32_t number)
{
    const muster_code_info *terms = muster_code_numbers(layer->terms);
    muster_code_info info = *muster_code_numbers(layer->code);
    info.parts = terms->parts;
    info.gradient_blocks = terms->gradient_blocks;
    info.message_blocks = terms->message_blocks;
    MUSTER_ASSERT(shards > 0);
    *assignment = (muster_assignment){
        .number = number,
        .code = layer->terms,
        .first = layer->first,
        .hier = layer->hier,
        .info = info,
        .shards = shards,
        .first_shard =
            muster_mem_array((size_t)info.parts + 1, sizeof(uint32_t)),
        .slot_of = muster_mem_array(info.workers, sizeof(uint32_t)),
        .worker_of = muster_mem_array(info.workers, sizeof(uint32_t))};
    if (assignment->first_shard == NULL || assignment->slot_of == NULL ||
        assignment->worker_of == NULL) {
        muster_assignment_fini(assignment);
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < info.workers; i++) {
        assignment->slot_of[i] = i;
        assignment->worker_of[i] = i;
    }
    for (uint64_t part = 0; part <= info.parts; part++) {
        assignment->first_shard[part] = (uint32_t)(part * shards / info.parts);
    }
    return MUSTER_OK;
}

void muster_assignment_fini(muster_assignment *assignment)
{
    muster_mem_free(assignment->first_shard);
    muster_mem_free(assignment->slot_of);
    muster_mem_free(assignment->worker_of);
    *assignment = (muster_assignment){0};
}

static uint32_t parts_of_slot(const muster_assignment *assignment,
                              uint32_t slot, const uint32_t **parts_out)
{
    uint32_t count = 0;
    muster_status status = muster_code_parts(
        assignment->code, assignment->first + slot, parts_out, &count);
    MUSTER_ASSERT(status == MUSTER_OK);
    return count;
}

uint32_t muster_assignment_parts(const muster_assignment *assignment,
                                 uint32_t worker, const uint32_t **parts_out)
{
    return parts_of_slot(assignment, assignment->slot_of[worker], parts_out);
}

uint32_t muster_assignment_answer(const muster_assignment *assignment,
                                  uint32_t answer, const uint32_t **parts_out)
{
    uint32_t count = 0;
    uint32_t first = assignment->first * assignment->info.stages;
    muster_status status = muster_code_answer_parts(
        assignment->code, first + answer, parts_out, &count);
    MUSTER_ASSERT(status == MUSTER_OK);
    return count;
}

uint32_t muster_assignment_shard(const muster_assignment *assignment,
                                 uint32_t worker, muster_shard_walk *walk)
{
    return muster_assignment_slot_shard(assignment, assignment->slot_of[worker],
                                        walk);
}

uint32_t muster_assignment_slot_shard(const muster_assignment *assignment,
                                      uint32_t slot, muster_shard_walk *walk)
{
    const uint32_t *parts = NULL;
    uint32_t count = parts_of_slot(assignment, slot, &parts);
    for (; walk->part < count; walk->part++, walk->shard = 0) {
        const uint32_t *first = &assignment->first_shard[parts[walk->part]];
        if (first[0] + walk->shard < first[1]) {
            return first[0] + walk->shard;
        }
    }
    return MUSTER_ID_ANY;
}

/* How many of `list`, which ascends, are not above `value`. */
static uint32_t count_up_to(const uint32_t *list, uint32_t count,
                            uint32_t value)
{
    uint32_t low = 0;
    uint32_t high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list[middle] <= value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool muster_assignment_asks(const muster_assignment *assignment,
                            uint32_t worker, uint32_t shard)
{
    return muster_assignment_slot_asks(assignment, assignment->slot_of[worker],
                                       shard);
}

bool muster_assignment_slot_asks(const muster_assignment *assignment,
                                 uint32_t slot, uint32_t shard)
{
    const uint32_t *parts = NULL;
    uint32_t count = parts_of_slot(assignment, slot, &parts);
    if (shard >= assignment->shards) {
        return false;
    }
    uint32_t part = count_up_to(assignment->first_shard,
                                assignment->info.parts + 1, shard) -
                    1;
    uint32_t at = count_up_to(parts, count, part);
    return at > 0 && parts[at - 1] == part;
}

static muster_terms_part shards_of(const muster_assignment *assignment,
                                   uint32_t part)
{
    const uint32_t *first = &assignment->first_shard[part];
    return (muster_terms_part){part, first[0], first[1] - first[0]};
}

static int by_part(const void *one, const void *two)
{
    const muster_code_encode_term *a = one;
    const muster_code_encode_term *b = two;
    if (a->part != b->part) {
        return a->part < b->part ? -1 : 1;
    }
    return (a->message_block > b->message_block) -
           (a->message_block < b->message_block);
}

/* Append the terms of all stages of a slot, the message blocks of one after
 * those of the stage before. False when out of memory. */
static bool gather_terms(const muster_assignment *assignment, uint32_t slot,
                         muster_vec *terms)
{
    uint32_t stages = assignment->info.stages;
    for (uint32_t t = 0; t < stages; t++) {
        const muster_code_encode_term *list = NULL;
        uint32_t count = 0;
        muster_status status = muster_code_encode_terms(
            assignment->code, (assignment->first + slot) * stages + t, &list,
            &count);
        MUSTER_ASSERT(status == MUSTER_OK);
        if (!muster_vec_append(terms, list, count)) {
            return false;
        }
        muster_code_encode_term *added = terms->data;
        for (size_t i = terms->count - count; i < terms->count; i++) {
            added[i].message_block += t * assignment->info.message_blocks;
        }
    }
    if (stages > 1) {
        qsort(terms->data, terms->count, sizeof(muster_code_encode_term),
              by_part);
    }
    return true;
}

muster_blob *muster_assignment_terms(const muster_assignment *assignment,
                                     uint32_t worker)
{
    return muster_assignment_slot_terms(assignment,
                                        assignment->slot_of[worker]);
}

muster_blob *muster_assignment_slot_terms(const muster_assignment *assignment,
                                          uint32_t slot)
{
    muster_vec list = muster_vec_make(sizeof(muster_code_encode_term));
    muster_blob *blob = NULL;
    if (!gather_terms(assignment, slot, &list)) {
        goto out;
    }
    muster_terms terms = {.gradient_blocks = assignment->info.gradient_blocks,
                          .message_blocks = assignment->info.message_blocks *
                                            assignment->info.stages,
                          .terms = list.data,
                          .count = (uint32_t)list.count};
    terms.parts = muster_mem_array(terms.count, sizeof(*terms.parts));
    if (terms.parts != NULL) {
        for (uint32_t i = 0; i < terms.count; i++) {
            if (i == 0 || terms.terms[i].part != terms.terms[i - 1].part) {
                terms.parts[terms.part_count++] =
                    shards_of(assignment, terms.terms[i].part);
            }
        }
        blob = muster_blob_create(
            muster_terms_bytes(terms.count, terms.part_count));
    }
    if (blob != NULL) {
        muster_terms_write(&terms, blob->data);
    }
    muster_mem_free(terms.parts);
out:
    muster_vec_fini(&list);
    return blob;
}
