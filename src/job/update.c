/*
 * UPDATE: messages of a step in, the next theta out.
 *
 * Two passes, each in ranges:
 *  1. decode. Every output block is a weighted sum of message blocks
 *     (linalg/combine.h), a tile of coordinates at a time; while the tile is in
 *     cache its rows' squares are added up for the rounding bound.
 *  2. optimise. Mean, l2 term, optimiser, into the output blob.
 * Nothing of the coordinator's state changes in pass 1, and the decoded sum is
 * known to be finite before pass 2 starts. Pass 2 changes the optimiser's state
 * and is therefore never cut off.
 */
#include <inttypes.h>
#include <math.h>

#include "base/assert.h"
#include "base/error.h"
#include "job/inside.h"
#include "linalg/combine.h"

#define DECODE_TILE     4096u
#define DECODE_FLOATS   ((size_t)2 << 20) // read by a piece
#define OPTIMISE_FLOATS ((size_t)1 << 19) // coordinates of a piece
#define ROUNDING_F32    0x1p-24
#define SQUARE_LANES    16u

static double squares_slow(const float *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    return sum;
}

/* Sum of squares, in float lanes that the compiler keeps in registers; good to
 * about 1e-5. What overflows a float is done again in double. */
static double squares(const float *x, size_t count)
{
    float lanes[SQUARE_LANES] = {0};
    size_t i = 0;
    for (; i + SQUARE_LANES <= count; i += SQUARE_LANES) {
        for (size_t l = 0; l < SQUARE_LANES; l++) {
            lanes[l] += x[i + l] * x[i + l];
        }
    }
    double sum = squares_slow(x + i, count - i);
    for (size_t l = 0; l < SQUARE_LANES; l++) {
        sum += (double)lanes[l];
    }
    return isfinite(sum) ? sum : squares_slow(x, count);
}

static muster_status refuse(coordinator *self, const char *why)
{
    return muster_error_set(&self->base.error, MUSTER_ERR_INVALID,
                            "step %" PRIu64 ": %s", self->base.job.step, why);
}

/* Every message has the length that the decoding implies. */
static muster_status check_inputs(coordinator *self)
{
    const muster_job *job = &self->base.job;
    if (job->step != self->step) {
        return refuse(self, "is not the step that comes next");
    }
    const muster_decoding *decoding = job->decoding;
    if (decoding == NULL || decoding->gradient_blocks == 0 ||
        decoding->message_blocks == 0) {
        return refuse(self, "there is nothing to decode with");
    }
    size_t dim = self->model.dim + 1;
    size_t length =
        (dim + decoding->gradient_blocks - 1) / decoding->gradient_blocks;
    for (uint32_t i = 0; i < job->message_count; i++) {
        const muster_blob *message = job->messages[i];
        if (message == NULL || message->data == NULL ||
            message->bytes <
                length * decoding->message_blocks * sizeof(float)) {
            return refuse(self, "a message is too short");
        }
    }
    self->update.block_length = length;
    return MUSTER_OK;
}

/* Point at each term's message block. */
static muster_status lay_out_terms(coordinator *self)
{
    update_state *update = &self->update;
    const muster_job *job = &self->base.job;
    const muster_decoding *decoding = job->decoding;
    uint32_t count = decoding->term_count;
    if (!muster_vec_reserve(&update->terms.rows, count) ||
        !muster_vec_reserve(&update->terms.weights, count) ||
        !muster_vec_reserve(&update->terms.squares, count)) {
        return MUSTER_ERR_NO_MEMORY;
    }
    const float **rows = update->terms.rows.data;
    double *weights = update->terms.weights.data;
    double *squared = update->terms.squares.data;
    uint32_t block = 0;
    for (uint32_t i = 0; i < count; i++) {
        const muster_code_decode_term *term = &decoding->terms[i];
        if (term->output_block < block ||
            term->output_block >= decoding->gradient_blocks ||
            term->worker >= job->message_count ||
            term->message_block >= decoding->message_blocks) {
            return refuse(self, "a decode term is out of place");
        }
        block = term->output_block;
        const float *message = job->messages[term->worker]->data;
        rows[i] = message + term->message_block * update->block_length;
        weights[i] = term->weight;
        squared[i] = 0;
    }
    return MUSTER_OK;
}

/* Find the terms of the block to be decoded next. */
static void enter_block(coordinator *self, uint32_t block)
{
    update_state *update = &self->update;
    const muster_decoding *decoding = self->base.job.decoding;
    update->block = block;
    update->at = 0;
    update->term_first = block == 0 ? 0 : update->term_last;
    update->term_last = update->term_first;
    while (update->term_last < decoding->term_count &&
           decoding->terms[update->term_last].output_block == block) {
        update->term_last++;
    }
}

muster_status muster_job_update_begin(coordinator *self)
{
    self->update.is_optimising = false;
    self->update.gradient_sq = 0;
    self->update.theta_sq = 0;
    self->update.new_theta_sq = 0;
    muster_status status = check_inputs(self);
    if (status == MUSTER_OK) {
        status = lay_out_terms(self);
    }
    if (status == MUSTER_OK) {
        status = muster_executor_make_output(&self->base,
                                             self->model.dim * sizeof(float));
    }
    if (status == MUSTER_OK) {
        enter_block(self, 0);
        status = MUSTER_IN_PROGRESS;
    }
    return status;
}

/* Coordinates `begin`..`end`-1 of the block, and their squares: those of the
 * gradient only, not of the loss that travels behind it. */
static void decode_tile(coordinator *self, size_t begin, size_t end)
{
    update_state *update = &self->update;
    size_t first = update->block * update->block_length;
    float *out = self->gradient + first;
    const float *const *rows = update->terms.rows.data;
    const double *weights = update->terms.weights.data;
    double *squared = update->terms.squares.data;
    muster_combine(rows + update->term_first, weights + update->term_first,
                   (uint32_t)(update->term_last - update->term_first), begin,
                   end, out);
    size_t dim = self->model.dim;
    size_t stop = first + end > dim ? dim - first : end;
    if (stop <= begin) {
        return;
    }
    for (size_t i = update->term_first; i < update->term_last; i++) {
        squared[i] += squares(rows[i] + begin, stop - begin);
    }
    update->gradient_sq += squares(out + begin, stop - begin);
}

/* The share that is missing, plus the bound on what rounding did. */
static double gradient_error(const coordinator *self)
{
    const update_state *update = &self->update;
    const muster_decoding *decoding = self->base.job.decoding;
    const double *weights = update->terms.weights.data;
    const double *squared = update->terms.squares.data;
    double sum = 0;
    for (uint32_t i = 0; i < decoding->term_count; i++) {
        sum += fabs(weights[i]) * sqrt(squared[i]);
    }
    double norm = sqrt(update->gradient_sq);
    double rounding = sum > 0 && norm > 0 ? ROUNDING_F32 * sum / norm : 0;
    return decoding->fit.residual + rounding;
}

/* The decoded sum is complete: is it a gradient? */
static muster_status finish_decoding(coordinator *self)
{
    update_state *update = &self->update;
    double loss_sum = (double)self->gradient[self->model.dim];
    if (!isfinite(update->gradient_sq) || !isfinite(loss_sum)) {
        return muster_error_set(
            &self->base.error, MUSTER_ERR_INVALID,
            "step %" PRIu64 ": the %s is not finite; the training diverged: "
            "try a smaller --lr",
            self->base.job.step,
            isfinite(loss_sum) ? "decoded gradient" : "loss");
    }
    self->base.result.grad_err = gradient_error(self);
    self->base.result.loss = loss_sum / (double)self->batch.size;
    update->at = 0;
    update->is_optimising = true;
    return MUSTER_IN_PROGRESS;
}

static muster_status decode_piece(coordinator *self)
{
    update_state *update = &self->update;
    size_t dim = self->model.dim + 1;
    size_t first = update->block * update->block_length;
    size_t length = first >= dim ? 0 : dim - first;
    length = length < update->block_length ? length : update->block_length;
    size_t budget = DECODE_FLOATS;
    size_t cost = (update->term_last - update->term_first + 1) * DECODE_TILE;
    while (update->at < length) {
        size_t end = update->at + DECODE_TILE;
        end = end < length ? end : length;
        decode_tile(self, update->at, end);
        update->at = end;
        if (budget < cost) {
            return MUSTER_IN_PROGRESS;
        }
        budget -= cost;
    }
    if (update->block + 1 < self->base.job.decoding->gradient_blocks) {
        enter_block(self, update->block + 1);
        return MUSTER_IN_PROGRESS;
    }
    return finish_decoding(self);
}

/* The new theta stands: it becomes the coordinator's. */
static muster_status commit(coordinator *self)
{
    muster_job_result *result = &self->base.result;
    self->update.is_optimising = false;
    result->loss += self->l2 / 2 * self->update.theta_sq;
    result->theta_norm = sqrt(self->update.new_theta_sq);
    if (!isfinite(result->theta_norm)) {
        return refuse(self, "the new model is not finite; the training "
                            "diverged: try a smaller --lr");
    }
    muster_blob_unref(self->theta);
    self->theta = muster_blob_ref(result->output);
    self->step++;
    return MUSTER_OK;
}

static muster_status optimise_piece(coordinator *self)
{
    update_state *update = &self->update;
    size_t dim = self->model.dim;
    size_t begin = update->at;
    size_t end = dim - begin < OPTIMISE_FLOATS ? dim : begin + OPTIMISE_FLOATS;
    const float *theta = self->theta->data;
    float *theta_out = self->base.result.output->data;
    const float scale = (float)(1 / (double)self->batch.size);
    for (size_t i = begin; i < end; i++) {
        self->gradient[i] *= scale;
    }
    if (self->l2 > 0) {
        update->theta_sq += muster_model_add_l2(&self->model, self->l2, theta,
                                                self->gradient, begin, end);
    }
    const muster_optim_arrays arrays = {dim, theta, self->gradient,
                                        self->optim_state, theta_out};
    double lr = self->lr * muster_schedule_factor(&self->schedule, self->step);
    muster_optim_apply(&self->optim, self->step, lr, &arrays, begin, end);
    update->new_theta_sq += squares(theta_out + begin, end - begin);
    update->at = end;
    return end < dim ? MUSTER_IN_PROGRESS : commit(self);
}

muster_status muster_job_update_piece(coordinator *self)
{
    return self->update.is_optimising ? optimise_piece(self)
                                      : decode_piece(self);
}
