/*
 * DECODE: the messages of the next UPDATE are decoded while they arrive, tile
 * by tile, as far as all of them are here.
 *
 * What is decoded is kept, with references to the messages. An UPDATE of the
 * same messages with the same weights goes on from it; any other begins anew.
 * Tiles are cut as those of UPDATE, so no bit depends on how far it came.
 */
#include "job/inside.h"

static muster_blob **kept_messages(const early_state *early)
{
    return early->messages.data;
}

static void let_messages_go(early_state *early)
{
    for (size_t i = 0; i < early->messages.count; i++) {
        muster_blob_unref(kept_messages(early)[i]);
    }
    muster_vec_clear(&early->messages);
}

/* Keep what the job has: it may end before its messages are whole. */
static muster_status keep(coordinator *self)
{
    early_state *early = &self->update.early;
    const muster_job *job = &self->base.job;
    if (!muster_vec_append(&early->messages, job->messages,
                           job->message_count)) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < job->message_count; i++) {
        muster_blob_ref(job->messages[i]);
    }
    early->block = job->block;
    early->sum = self->base.result.output;
    self->base.result.output = NULL;
    return MUSTER_OK;
}

static bool is_same_term(const muster_code_decode_term *a,
                         const muster_code_decode_term *b)
{
    return a->output_block == b->output_block && a->worker == b->worker &&
           a->message_block == b->message_block && a->weight == b->weight;
}

/* Does the job decode what is kept, in the same way? */
static bool is_kept(const coordinator *self)
{
    const early_state *early = &self->update.early;
    const muster_decoding *decoding = self->base.job.decoding;
    if (early->sum == NULL || decoding == NULL ||
        decoding->term_count != early->decoding->term_count ||
        self->base.job.message_count != early->messages.count ||
        self->base.job.block != early->block ||
        self->base.job.step != self->step) {
        return false;
    }
    bool same = true;
    for (size_t i = 0; i < early->messages.count; i++) {
        same = same && self->base.job.messages[i] == kept_messages(early)[i];
    }
    for (size_t i = 0; i < decoding->term_count; i++) {
        same = same &&
               is_same_term(&decoding->terms[i], &early->decoding->terms[i]);
    }
    return same;
}

bool muster_job_early_take(coordinator *self)
{
    early_state *early = &self->update.early;
    bool same = is_kept(self);
    if (same) {
        self->base.result.output = early->sum;
    } else {
        muster_blob_unref(early->sum);
    }
    early->sum = NULL;
    let_messages_go(early); // the job has references of its own
    return same;
}

void muster_job_early_fini(coordinator *self)
{
    early_state *early = &self->update.early;
    muster_blob_unref(early->sum);
    early->sum = NULL;
    let_messages_go(early);
    muster_vec_fini(&early->messages);
    muster_decoding_unref(early->decoding);
    early->decoding = NULL;
}

muster_status muster_job_early_begin(coordinator *self)
{
    muster_status status = MUSTER_OK;
    if (!muster_job_early_take(self)) {
        status = muster_job_decode_begin(self);
        // The decoder reads its terms until it begins anew.
        muster_decoding_unref(self->update.early.decoding);
        self->update.early.decoding =
            muster_decoding_ref(self->base.job.decoding);
    }
    if (status == MUSTER_OK) {
        status = keep(self);
    }
    return status == MUSTER_OK ? MUSTER_IN_PROGRESS : status;
}

/* Are the messages here as far as the next tile reads them? */
static bool has_tile(const coordinator *self)
{
    const muster_job *job = &self->base.job;
    size_t before = self->update.block * (job->decoding->message_blocks - 1);
    size_t bytes = (before + muster_job_decode_end(self)) * sizeof(float);
    bool here = true;
    for (uint32_t i = 0; i < job->message_count; i++) {
        here = here && muster_blob_here(job->messages[i]) >= bytes;
    }
    return here;
}

muster_status muster_job_early_piece(coordinator *self)
{
    if (self->update.at == self->update.block) {
        return MUSTER_OK; // all of it, by one before
    }
    if (!has_tile(self)) {
        return MUSTER_ERR_AGAIN;
    }
    return muster_job_decode_tile(self) ? MUSTER_IN_PROGRESS : MUSTER_OK;
}
