/*
 * toy_early.h -- DECODE of the toy job: the messages that are whole when it
 * ends are added up, and the UPDATE of the same messages adds the rest. A
 * message that was not whole then is spoiled (sim.h), so that its use shows.
 */
#ifndef MUSTER_TESTS_SIM_TOY_EARLY_H
#define MUSTER_TESTS_SIM_TOY_EARLY_H

#include <string.h>

#include "base/assert.h"
#include "role/job.h"

#define TOY_EARLY_MESSAGES 64u
#define TOY_EARLY_FLOATS   128u

typedef struct toy_early {
    muster_decoding *decoding; // NULL: nothing is kept
    muster_blob *messages[TOY_EARLY_MESSAGES];
    bool added[TOY_EARLY_MESSAGES];
    uint32_t count;
    float sum[TOY_EARLY_FLOATS];
    uint64_t asked; // DECODE jobs so far
    uint64_t used;  // messages that an UPDATE did not add itself
} toy_early;

static inline bool toy_is_whole(const muster_blob *message)
{
    return muster_blob_here(message) == message->bytes;
}

/* Add message `at` of the job to the sum. */
static inline void toy_add_message(const muster_job *job, uint32_t at,
                                   float *sum)
{
    size_t block = job->block;
    const float *message = job->messages[at]->data;
    MUSTER_ASSERT(toy_is_whole(job->messages[at]));
    for (size_t i = 0; i < job->decoding->term_count; i++) {
        const muster_code_decode_term *term = &job->decoding->terms[i];
        for (size_t j = 0; term->worker == job->decoding->used[at] && j < block;
             j++) {
            sum[term->output_block * block + j] +=
                (float)term->weight * message[term->message_block * block + j];
        }
    }
}

static inline void toy_early_drop(toy_early *early)
{
    for (uint32_t i = 0; i < early->count; i++) {
        muster_blob_unref(early->messages[i]);
    }
    muster_decoding_unref(early->decoding);
    early->decoding = NULL;
    early->count = 0;
}

/* A DECODE ends, cancelled or not. */
static inline void toy_early_decode(toy_early *early, const muster_job *job)
{
    toy_early_drop(early);
    MUSTER_ASSERT(job->message_count <= TOY_EARLY_MESSAGES &&
                  job->block * job->decoding->gradient_blocks <=
                      TOY_EARLY_FLOATS);
    early->asked++;
    early->decoding = muster_decoding_ref(job->decoding);
    early->count = job->message_count;
    memset(early->sum, 0, sizeof(early->sum));
    for (uint32_t i = 0; i < job->message_count; i++) {
        early->messages[i] = muster_blob_ref(job->messages[i]);
        early->added[i] = toy_is_whole(job->messages[i]);
        if (early->added[i]) {
            toy_add_message(job, i, early->sum);
        }
    }
}

static inline bool toy_early_fits(const toy_early *early, const muster_job *job)
{
    bool same =
        early->decoding == job->decoding && early->count == job->message_count;
    for (uint32_t i = 0; same && i < early->count; i++) {
        same = early->messages[i] == job->messages[i];
    }
    return same;
}

/* Add up the messages of an UPDATE into `sum`, which is all zeros. */
static inline void toy_early_update(toy_early *early, const muster_job *job,
                                    float *sum)
{
    bool fits = toy_early_fits(early, job);
    if (fits) {
        size_t floats = job->block * job->decoding->gradient_blocks;
        memcpy(sum, early->sum, floats * sizeof(*sum));
    }
    for (uint32_t i = 0; i < job->message_count; i++) {
        if (fits && early->added[i]) {
            early->used++;
        } else {
            toy_add_message(job, i, sum);
        }
    }
    toy_early_drop(early);
}

#endif // MUSTER_TESTS_SIM_TOY_EARLY_H
