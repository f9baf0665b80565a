/*
 * Gossip: models are averaged between neighbours.
 *
 * A worker's model travels with two floats behind it: the share of all samples
 * that the worker has times the mean loss of its batch, and the share. MIX
 * (worker) is the mean of such models, with the two floats of the first.
 * UPDATE (coordinator) takes an answer of each worker: its model, or the two
 * floats alone. The model of the run is the plain mean of those that came, and
 * stays what it was where none came.
 *
 * Why a plain mean: of n workers, worker j steps by n n_j / N times its
 * gradient (local.c), so that the mean of the steps is that of the full one.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/finite.h"
#include "job/inside.h"

#define PIECE_FLOATS ((size_t)1 << 20) // read by a piece
#define PIECE_MIN    ((size_t)4096)    // coordinates of a piece
#define TAIL_FLOATS  2u

/* Coordinates at..end-1 of the mean of models; returns `end`. */
static size_t mean_some(const float *const *models, uint32_t count, size_t at,
                        size_t dim, float *mean_out)
{
    size_t some = PIECE_FLOATS / (count + 1);
    some = some > PIECE_MIN ? some : PIECE_MIN;
    size_t end = dim - at < some ? dim : at + some;
    const float weight = 1.0f / (float)count;
    for (size_t i = at; i < end; i++) {
        mean_out[i] = weight * models[0][i];
    }
    for (uint32_t m = 1; m < count; m++) {
        const float *model = models[m];
        for (size_t i = at; i < end; i++) {
            mean_out[i] += weight * model[i];
        }
    }
    return end;
}

static bool has_floats(const muster_blob *blob, size_t floats)
{
    return blob != NULL && blob->data != NULL &&
           blob->bytes == floats * sizeof(float);
}

muster_status muster_job_mix_begin(worker *self)
{
    const muster_job *job = &self->base.job;
    size_t floats = self->model.dim + TAIL_FLOATS;
    muster_vec_clear(&self->mix.models);
    self->mix.at = 0;
    bool whole = self->is_set_up && job->message_count > 0;
    for (uint32_t i = 0; whole && i < job->message_count; i++) {
        whole = has_floats(job->messages[i], floats);
        if (whole) {
            const float *model = job->messages[i]->data;
            whole = muster_vec_append(&self->mix.models, &model, 1);
        }
    }
    if (!whole) {
        return muster_error_set(&self->base.error, MUSTER_ERR_PROTOCOL,
                                "step %" PRIu64 ": a neighbour's model has not "
                                "the length of this one",
                                job->step);
    }
    muster_status status =
        muster_executor_make_output(&self->base, floats * sizeof(float));
    return status == MUSTER_OK ? MUSTER_IN_PROGRESS : status;
}

muster_status muster_job_mix_piece(worker *self)
{
    const muster_job *job = &self->base.job;
    size_t dim = self->model.dim;
    float *mean = self->base.result.output->data;
    const float *const *models = self->mix.models.data;
    self->mix.at =
        mean_some(models, job->message_count, self->mix.at, dim, mean);
    if (self->mix.at < dim) {
        return MUSTER_IN_PROGRESS;
    }
    for (size_t i = 0; i < TAIL_FLOATS; i++) { // `partial`: no step of our own
        mean[dim + i] = job->partial ? 0 : models[0][dim + i];
    }
    return MUSTER_OK;
}

/* The loss of the step, and the models that came with the answers. */
static muster_status read_answers(coordinator *self)
{
    const muster_job *job = &self->base.job;
    size_t dim = self->model.dim;
    double loss = 0;
    double share = 0;
    muster_vec_clear(&self->update.messages);
    for (uint32_t i = 0; i < job->message_count; i++) {
        const muster_blob *blob = job->messages[i];
        bool is_model = has_floats(blob, dim + TAIL_FLOATS);
        if (!is_model && !has_floats(blob, TAIL_FLOATS)) {
            return muster_error_set(&self->base.error, MUSTER_ERR_INVALID,
                                    "step %" PRIu64 ": an answer has a wrong "
                                    "length",
                                    job->step);
        }
        const float *numbers = blob->data;
        const float *tail = numbers + (is_model ? dim : 0);
        loss += (double)tail[0];
        share += (double)tail[1];
        if (is_model &&
            !muster_vec_append(&self->update.messages, &numbers, 1)) {
            return MUSTER_ERR_NO_MEMORY;
        }
    }
    self->base.result.loss = share > 0 ? loss / share : NAN;
    self->base.result.grad_err = share < 1 ? 1 - share : 0;
    return MUSTER_OK;
}

muster_status muster_job_gossip_begin(coordinator *self)
{
    muster_status status = read_answers(self);
    self->update.at = 0;
    if (status != MUSTER_OK) {
        return status;
    }
    if (self->update.messages.count == 0) {
        self->base.result.output = muster_blob_ref(self->theta);
        self->step++;
        return MUSTER_OK;
    }
    status = muster_executor_make_output(&self->base,
                                         self->model.dim * sizeof(float));
    return status == MUSTER_OK ? MUSTER_IN_PROGRESS : status;
}

muster_status muster_job_gossip_piece(coordinator *self)
{
    update_state *update = &self->update;
    muster_job_result *result = &self->base.result;
    size_t dim = self->model.dim;
    float *mean = result->output->data;
    update->at =
        mean_some(update->messages.data, (uint32_t)update->messages.count,
                  update->at, dim, mean);
    if (update->at < dim) {
        return MUSTER_IN_PROGRESS;
    }
    if (!muster_floats_are_finite(mean, dim)) {
        return muster_error_set(&self->base.error, MUSTER_ERR_INVALID,
                                "step %" PRIu64 ": the mean of the models is "
                                "not finite; the training diverged: try a "
                                "smaller --lr",
                                self->base.job.step);
    }
    muster_blob_unref(self->theta);
    self->theta = muster_blob_ref(result->output);
    self->step++;
    return MUSTER_OK;
}
