/*
 * Messages that are to be decoded, in UPDATE and COMBINE: checked, and handed
 * to the decoder.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "job/inside.h"

static muster_status refuse(muster_executor *executor, const char *why)
{
    return muster_error_set(&executor->error, MUSTER_ERR_INVALID,
                            "step %" PRIu64 ": %s", executor->job.step, why);
}

static muster_status check_inputs(muster_executor *executor, size_t length)
{
    const muster_job *job = &executor->job;
    const muster_decoding *decoding = job->decoding;
    if (job->message_count != decoding->used_count) {
        return refuse(executor, "the decoding uses other messages");
    }
    for (uint32_t i = 0; i < job->message_count; i++) {
        const muster_blob *message = job->messages[i];
        if (message == NULL || message->data == NULL ||
            message->bytes <
                (length * decoding->message_blocks + 1) * sizeof(float)) {
            return refuse(executor, "a message is too short");
        }
    }
    for (size_t i = 0; i < decoding->term_count; i++) {
        const muster_code_decode_term *term = &decoding->terms[i];
        if (term->output_block >= decoding->gradient_blocks ||
            term->worker >= decoding->workers ||
            term->message_block >= decoding->message_blocks) {
            return refuse(executor, "a decode term is out of place");
        }
    }
    return MUSTER_OK;
}

muster_status muster_job_messages_begin(muster_executor *executor,
                                        const job_messages_shape *shape,
                                        muster_vec *messages,
                                        muster_decoder *decoder)
{
    const muster_job *job = &executor->job;
    const muster_decoding *decoding = job->decoding;
    muster_status status = check_inputs(executor, shape->block);
    if (status != MUSTER_OK) {
        return status;
    }
    if (!muster_vec_reserve(messages, decoding->workers)) {
        return MUSTER_ERR_NO_MEMORY;
    }
    const float **by_slot = messages->data; // as the terms are
    memset(by_slot, 0, decoding->workers * sizeof(*by_slot));
    for (uint32_t i = 0; i < job->message_count; i++) {
        by_slot[decoding->used[i]] = job->messages[i]->data;
    }
    const muster_decode_input input = {
        .terms = decoding->terms,
        .term_count = decoding->term_count,
        .messages = by_slot,
        .block = shape->block,
        .measured = shape->measured,
    };
    status = muster_decoder_begin(decoder, &input);
    return status == MUSTER_ERR_INVALID
               ? refuse(executor, "a decode term is out of place")
               : status;
}

double muster_job_messages_squares(const muster_decoding *decoding,
                                   const float *const *messages, size_t tail)
{
    double squares = 0;
    for (size_t i = 0; i < decoding->term_count; i++) {
        const muster_code_decode_term *term = &decoding->terms[i];
        double off = term->weight * (double)messages[term->worker][tail];
        squares += off * off;
    }
    return squares;
}
