/*
 * UPDATE: messages of a step in, the next theta out.
 *
 * Two passes, each in tiles:
 *  1. decode (code/decode.h), which also measures the messages for the bound
 *     on what rounding did. A tile is the same range of every block, so that
 *     tiles need the messages from their begin on: DECODE (early.c) does them
 *     as the messages arrive, and UPDATE the rest. A message that is not
 *     finite shows in the sum; the job then ends MUSTER_INEXACT and says which.
 *  2. optimise. Mean, clipping, l2 term, optimiser, into the output blob; all
 *     of it for a strip that stays in the cache, so that the pass goes over
 *     memory once.
 * Nothing of the coordinator's state changes in pass 1, and the decoded sum is
 * known to be finite before pass 2 starts. Pass 2 changes the optimiser's state
 * and is therefore never cut off.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/finite.h"
#include "job/inside.h"
#include "model/layers_kernel.h"

#define DECODE_FLOATS   ((size_t)1 << 20) // read and written by a tile
#define DECODE_MIN      ((size_t)4096)    // coordinates of it, of all blocks
#define OPTIMISE_FLOATS ((size_t)1 << 19) // coordinates of a piece
#define STRIP_FLOATS    ((size_t)8192)    // coordinates that stay in a cache
#define LINE_FLOATS     ((size_t)16)      // of a cache line
#define SQUARE_LANES    16u
#define SQUARE_FLOATS   ((size_t)4096)

static double squares_slow(const float *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    return sum;
}

/* Sum of squares in float lanes that the compiler keeps in registers; good
 * to about 1e-5. What overflows a float is done again in double. */
static double squares_some(const float *x, size_t count)
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

/* The same for any length: pieces short enough for floats. */
static double squares(const float *x, size_t count)
{
    double sum = 0;
    for (size_t at = 0; at < count; at += SQUARE_FLOATS) {
        size_t left = count - at;
        sum +=
            squares_some(x + at, left < SQUARE_FLOATS ? left : SQUARE_FLOATS);
    }
    return sum;
}

/* The decoded sum, and behind it the loss. It lies where the new theta will:
 * an array of its own would be one more copy of the model. */
static float *gradient_of(const coordinator *self)
{
    return self->update.sum->data;
}

static muster_status refuse(coordinator *self, const char *why)
{
    return muster_error_set(&self->base.error, MUSTER_ERR_INVALID,
                            "step %" PRIu64 ": %s", self->base.job.step, why);
}

/* Check all, then hand it to the decoder. */
static muster_status take_messages(coordinator *self)
{
    const muster_decoding *decoding = self->base.job.decoding;
    if (self->base.job.step != self->step) {
        return refuse(self, "is not the step that comes next");
    }
    if (self->is_async && !(self->base.job.fraction > 0)) {
        return refuse(self, "the update is no part of a step");
    }
    if (decoding == NULL || decoding->gradient_blocks == 0 ||
        decoding->message_blocks == 0) {
        return refuse(self, "there is nothing to decode with");
    }
    size_t dim = self->model.dim + 1;
    size_t length =
        (dim + decoding->gradient_blocks - 1) / decoding->gradient_blocks;
    if (self->base.job.block > length) {
        length = self->base.job.block; // the last is padded with more zeros
    }
    // The loss, which travels behind the gradient, is not measured.
    const job_messages_shape shape = {.block = length,
                                      .measured = self->model.dim};
    self->update.block = length;
    self->update.tail = length * decoding->message_blocks;
    muster_status status = muster_decoder_use_lanes(
        self->update.decoder, muster_threads_count(self->base.pool));
    if (status != MUSTER_OK) {
        return status;
    }
    return muster_job_messages_begin(
        &self->base, &shape, &self->update.messages, self->update.decoder);
}

muster_status muster_job_decode_begin(coordinator *self)
{
    self->update.gradient_sq = 0;
    self->update.at = 0;
    muster_job_snapshot_tidy(self);
    muster_status status = take_messages(self);
    if (status == MUSTER_OK) {
        status = muster_executor_make_output(
            &self->base, (self->model.dim + 1) * sizeof(float));
    }
    self->update.sum = self->base.result.output;
    return status;
}

muster_status muster_job_update_begin(coordinator *self)
{
    self->update.is_optimising = false;
    self->update.theta_sq = 0;
    self->update.new_theta_sq = 0;
    muster_status status =
        muster_job_early_take(self) ? MUSTER_OK : muster_job_decode_begin(self);
    return status == MUSTER_OK ? MUSTER_IN_PROGRESS : status;
}

/* The share that is missing, plus the bound on what rounding did: to lanes and
 * messages (as much each), to the decoded sum, and to the sums over rows. */
static double gradient_error(const coordinator *self)
{
    const update_state *update = &self->update;
    const muster_decoding *decoding = self->base.job.decoding;
    double norm = sqrt(update->gradient_sq);
    double missing = decoding->fit.residual;
    if (!(norm > 0)) {
        return missing;
    }
    // With several blocks what is missing is a share of all that is mixed, and
    // the loss is behind the gradient.
    if (decoding->gradient_blocks > 1) {
        missing *= hypot(1, (double)gradient_of(self)[self->model.dim] / norm);
    }
    double mass = 2 * muster_decoder_mass(update->decoder);
    double sums =
        MUSTER_JOB_DEVIATIONS *
        sqrt(muster_job_messages_squares(
            self->base.job.decoding, self->update.messages.data, update->tail));
    return missing + MUSTER_JOB_ROUNDING * (1 + mass / norm) + sums / norm;
}

/* Local steps: behind each message is how many samples its worker has. */
static double sum_samples(const coordinator *self)
{
    const muster_job *job = &self->base.job;
    double samples = 0;
    for (uint32_t i = 0; i < job->message_count; i++) {
        const float *message = job->messages[i]->data;
        samples += (double)message[self->update.tail];
    }
    return samples > 0 ? samples : 1;
}

/* ssp: how much the gradients count together. */
static double sum_weights(const coordinator *self)
{
    const muster_decoding *decoding = self->base.job.decoding;
    double weights = 0;
    for (size_t i = 0; i < decoding->term_count; i++) {
        weights += decoding->terms[i].weight;
    }
    return weights > 0 ? weights : 1;
}

/*
 * What the decoded sum and the loss behind it are divided by. An update of ssp
 * is a fraction f of a step: the mean gradient is the sum over f, and the
 * optimiser takes f times the learning rate, so that a step's updates together
 * are as long as one of sync, whatever the optimiser.
 */
static void set_divisors(coordinator *self)
{
    update_state *update = &self->update;
    update->divisor = self->is_async   ? self->base.job.fraction
                      : self->is_local ? sum_samples(self)
                                       : (double)self->batch.size;
    update->loss_divisor = self->is_async ? sum_weights(self)
                           : self->is_local
                               ? update->divisor
                               : update->divisor * MUSTER_JOB_LOSS_SCALE;
}

/* Do all messages say what rounding did to them? */
static bool has_bounds(const coordinator *self)
{
    const muster_job *job = &self->base.job;
    for (uint32_t i = 0; i < job->message_count; i++) {
        const float *message = job->messages[i]->data;
        if (!isfinite(message[self->update.tail])) {
            return false;
        }
    }
    return true;
}

/*
 * Something is not finite. Where that is so of messages, they become the job's
 * output, marked, and nothing else has changed: who sent them is the role's
 * matter. A message that is not finite leaves a sum that is not, so messages
 * are read for it only here.
 */
static muster_status blame_messages(coordinator *self)
{
    const muster_job *job = &self->base.job;
    size_t floats = self->update.tail + 1;
    bool any = false;
    muster_blob *marks = muster_blob_create(job->message_count);
    if (marks == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < job->message_count; i++) {
        bool good = muster_floats_are_finite(job->messages[i]->data, floats);
        ((uint8_t *)marks->data)[i] =
            good ? MUSTER_MARK_NONE : MUSTER_MARK_NOT_FINITE;
        any = any || !good;
    }
    if (!any) {
        muster_blob_unref(marks);
        return MUSTER_OK;
    }
    muster_blob_unref(self->base.result.output);
    self->base.result.output = marks;
    return MUSTER_INEXACT;
}

/* The decoded sum is complete: is it a gradient? */
static muster_status finish_decoding(coordinator *self)
{
    update_state *update = &self->update;
    double loss_sum = (double)gradient_of(self)[self->model.dim];
    bool is_finite = isfinite(update->gradient_sq) && isfinite(loss_sum);
    if (!is_finite || !has_bounds(self)) {
        muster_status status = blame_messages(self);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    if (!is_finite) {
        return muster_error_set(
            &self->base.error, MUSTER_ERR_INVALID,
            "step %" PRIu64 ": the %s is not finite; the training diverged: "
            "try a smaller --lr",
            self->base.job.step,
            isfinite(loss_sum) ? "decoded gradient" : "loss");
    }
    const muster_code_fit *fit = &self->base.job.decoding->fit;
    bool is_whole = !self->is_local && !self->is_async;
    set_divisors(self);
    self->base.result.grad_err =
        is_whole ? gradient_error(self) : fit->residual;
    self->base.result.loss = loss_sum / update->loss_divisor;
    double norm = sqrt(update->gradient_sq) / update->divisor;
    update->scale =
        (float)(muster_optim_clip(self->clip, norm) / update->divisor);
    update->at = 0;
    update->is_optimising = true;
    return MUSTER_IN_PROGRESS;
}

/* What each thread adds up in a piece: added in order afterwards, so that
 * sums depend on the number of threads alone. */
typedef struct shared_sums {
    coordinator *self;
    double gradient_sq[MUSTER_THREADS_MAX];
    double theta_sq[MUSTER_THREADS_MAX];
    double new_theta_sq[MUSTER_THREADS_MAX];
} shared_sums;

static double sum_parts(const coordinator *self, size_t count,
                        const double *parts)
{
    double sum = 0;
    for (uint32_t i = 0; i < muster_job_parts(&self->base, count); i++) {
        sum += parts[i];
    }
    return sum;
}

static void decode_range(void *context, uint32_t part, size_t begin, size_t end)
{
    shared_sums *sums = context;
    coordinator *self = sums->self;
    size_t dim = self->model.dim;
    muster_decoder_range_in(self->update.decoder, part, begin, end,
                            gradient_of(self));
    size_t stop = end < dim ? end : dim;
    sums->gradient_sq[part] =
        begin < stop ? squares(gradient_of(self) + begin, stop - begin) : 0;
}

/* Coordinates of each block in a tile of one thread. */
static size_t tile_floats(const muster_decoding *decoding)
{
    size_t blocks = decoding->gradient_blocks;
    size_t some = DECODE_FLOATS / (decoding->term_count + blocks);
    size_t lines = LINE_FLOATS * blocks;
    size_t min = (DECODE_MIN + lines - 1) / lines * LINE_FLOATS;
    return some > min ? some : min;
}

size_t muster_job_decode_end(const coordinator *self)
{
    const update_state *update = &self->update;
    size_t some = tile_floats(self->base.job.decoding);
    some *= muster_threads_count(self->base.pool);
    size_t left = update->block - update->at;
    return update->at + (left < some ? left : some);
}

static void decode_tile_of(coordinator *self, size_t begin, size_t end)
{
    size_t all = self->model.dim + 1;
    end = end < all ? end : all;
    if (begin < end) {
        shared_sums sums = {.self = self};
        muster_job_share(&self->base, begin, end, decode_range, &sums);
        self->update.gradient_sq +=
            sum_parts(self, end - begin, sums.gradient_sq);
    }
}

bool muster_job_decode_tile(coordinator *self)
{
    update_state *update = &self->update;
    size_t end = muster_job_decode_end(self);
    for (uint32_t b = 0; b < self->base.job.decoding->gradient_blocks; b++) {
        size_t start = b * update->block;
        decode_tile_of(self, start + update->at, start + end);
    }
    update->at = end;
    return end < update->block;
}

static muster_status decode_piece(coordinator *self)
{
    bool more =
        self->update.at < self->update.block && muster_job_decode_tile(self);
    return more ? MUSTER_IN_PROGRESS : finish_decoding(self);
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
    result->output->bytes = self->model.dim * sizeof(float); // no loss behind
    muster_blob_unref(self->theta);
    self->theta = muster_blob_ref(result->output);
    self->partial = self->base.job.partial ? self->partial + 1 : 0;
    self->step += !self->base.job.partial;
    return MUSTER_OK;
}

static void optimise_strip(shared_sums *sums, uint32_t part,
                           const muster_optim_step *step, size_t begin,
                           size_t end)
{
    coordinator *self = sums->self;
    const float *theta = self->theta->data;
    float *gradient = gradient_of(self); // each becomes its own new theta
    muster_layer_scale(gradient + begin, self->update.scale, end - begin);
    if (self->l2 > 0 && !self->is_local) {
        sums->theta_sq[part] += muster_model_add_l2(
            &self->model, self->l2, theta, gradient, begin, end);
    }
    const muster_optim_arrays arrays = {self->model.dim, theta, gradient,
                                        self->optim_state, gradient};
    muster_model_optimise(&self->model, step, &arrays, begin, end);
    sums->new_theta_sq[part] += squares(gradient + begin, end - begin);
}

/* An async update is about one a worker in each step. */
static muster_optim_step optim_step(const coordinator *self)
{
    double lr = self->lr * muster_schedule_factor(&self->schedule, self->step);
    if (self->is_async) {
        uint64_t updates = self->step * self->workers + self->partial;
        return (muster_optim_step){&self->optim, updates,
                                   lr * self->base.job.fraction};
    }
    return (muster_optim_step){&self->optim, self->step, lr};
}

static void optimise_range(void *context, uint32_t part, size_t begin,
                           size_t end)
{
    shared_sums *sums = context;
    coordinator *self = sums->self;
    const muster_optim_step step = optim_step(self);
    for (size_t at = begin; at < end; at += STRIP_FLOATS) {
        size_t left = end - at;
        optimise_strip(sums, part, &step, at,
                       at + (left < STRIP_FLOATS ? left : STRIP_FLOATS));
    }
}

static muster_status optimise_piece(coordinator *self)
{
    update_state *update = &self->update;
    size_t dim = self->model.dim;
    size_t begin = update->at;
    size_t some = OPTIMISE_FLOATS * muster_threads_count(self->base.pool);
    size_t end = dim - begin < some ? dim : begin + some;
    shared_sums sums = {.self = self};
    muster_job_share(&self->base, begin, end, optimise_range, &sums);
    update->theta_sq += sum_parts(self, end - begin, sums.theta_sq);
    update->new_theta_sq += sum_parts(self, end - begin, sums.new_theta_sq);
    update->at = end;
    return end < dim ? MUSTER_IN_PROGRESS : commit(self);
}

muster_status muster_job_update_piece(coordinator *self)
{
    return self->update.is_optimising ? optimise_piece(self)
                                      : decode_piece(self);
}
