/*
 * GRADIENT of local:H: theta in, where H steps on own samples have led out. Of
 * ssp:BOUND and async: the gradient of one batch of own samples out.
 *
 * Worker j has n_j of the N samples, those of the plan's slots. A step takes
 * b_j = B n_j / N of them, drawn as data/batch.h draws from all: every pass
 * over the own samples visits each once. Worker j's mean gradient stands for
 * its samples; with the weights n_j / N the expected gradient of all workers is
 * that of the data.
 *
 * The message has the form of a gradient, so that all the rest is the same:
 * n_j (theta - theta_j), n_j times the mean loss of the steps, and behind it
 * n_j. The coordinator adds up those that came and divides by the sum of their
 * n_j: the weighted mean of the models.
 *
 * With is_gossip it takes one step, by n n_j / N times the mean gradient of n
 * workers, and the message is the model that it leads to (gossip.c). Its
 * optimiser goes on from step to step, unless the job says that it is not.
 *
 * With is_gradient the message is the mean gradient of the batch, its mean
 * loss, and a 0: the coordinator says by its weights how much it counts.
 *
 * The optimiser begins anew with each model that comes, so that an answer is a
 * function of the model, the step and the samples alone: a worker that returns
 * answers as one that stayed.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "job/inside.h"
#include "model/layers_kernel.h"

#define DRAW_GROUP      256u
#define OPTIMISE_FLOATS ((size_t)1 << 19)

void muster_job_local_fini(local_state *local)
{
    muster_vec_fini(&local->first);
    muster_mem_free(local->memory);
    *local = (local_state){.memory = NULL};
}

static float *theta_of(worker *self)
{
    return self->local.memory;
}

/* Where the steps begin, and where each of them stands. */
static const float *theta_now(worker *self)
{
    return self->setup.local.is_gradient ? self->base.job.input->data
                                         : theta_of(self);
}

static float *gradient_of(worker *self)
{
    return self->setup.local.is_gradient ? self->base.result.output->data
                                         : self->local.memory + self->model.dim;
}

static float *optimiser_of(worker *self)
{
    return self->local.memory + 2 * self->model.dim;
}

static muster_status make_room(worker *self)
{
    local_state *local = &self->local;
    const local_rule *rule = &self->setup.local;
    size_t arrays = rule->is_gradient ? 0 : 2 + rule->optim.slots;
    size_t floats = self->model.dim * arrays;
    if (floats > local->memory_floats) {
        muster_mem_free(local->memory);
        local->memory = muster_mem_raw_aligned(floats, sizeof(float));
        local->memory_floats = local->memory != NULL ? floats : 0;
    }
    if (local->first.element_bytes == 0) {
        local->first = muster_vec_make(sizeof(uint64_t));
    }
    bool has_room = floats <= local->memory_floats &&
                    muster_vec_reserve(&local->first, self->slots.list.count);
    return has_room ? MUSTER_OK
                    : muster_error_set(&self->base.error, MUSTER_ERR_NO_MEMORY,
                                       "out of memory for local steps");
}

/* How many of its own samples a worker takes in a step. */
static uint64_t own_batch(const worker *self)
{
    const muster_batch *all = &self->setup.batch;
    double share = (double)self->slots.rows / (double)all->samples;
    uint64_t size = (uint64_t)llround((double)all->size * share);
    return size > 0 ? size : 1;
}

/* Number the rows of the slots one after another. */
static void count_rows(worker *self)
{
    const plan_slot *slots = self->slots.list.data;
    uint64_t *first = self->local.first.data;
    uint64_t rows = 0;
    for (size_t i = 0; i < self->slots.list.count; i++) {
        first[i] = rows;
        rows += slots[i].shard->rows.count;
    }
}

static batch_member member_at(const worker *self, uint64_t row)
{
    const uint64_t *first = self->local.first.data;
    size_t low = 0;
    for (size_t count = self->slots.list.count; count > 1;) {
        size_t half = count / 2;
        low += first[low + half] <= row ? half : 0;
        count -= half;
    }
    return (batch_member){(uint32_t)low, (uint32_t)(row - first[low])};
}

static void begin_step(worker *self)
{
    local_state *local = &self->local;
    memset(gradient_of(self), 0, self->model.dim * sizeof(float));
    local->phase = LOCAL_ROWS;
    local->at = 0;
    local->loss = 0;
    local->theta_sq = 0;
    local->is_passing = false;
    local->coherence = (muster_layers_coherence){.is_fresh = true};
}

/* The model to step from, and the optimiser's state. */
static void begin_model(worker *self)
{
    local_state *local = &self->local;
    const local_rule *rule = &self->setup.local;
    double share = (double)self->slots.rows / (double)self->setup.samples;
    local->weight = rule->is_gossip ? rule->workers * share : 1;
    if (rule->is_gradient) {
        return;
    }
    memcpy(theta_of(self), self->base.job.input->data,
           self->model.dim * sizeof(float));
    if (!rule->is_gossip || !self->base.job.partial) {
        memset(optimiser_of(self), 0,
               self->model.dim * rule->optim.slots * sizeof(float));
        local->age = 0;
    }
}

muster_status muster_job_local_begin(worker *self)
{
    local_state *local = &self->local;
    float *message = self->base.result.output->data;
    muster_status status = make_room(self);
    if (status != MUSTER_OK) {
        return status;
    }
    if (self->slots.rows == 0) {
        memset(message, 0, (self->model.dim + 2) * sizeof(float));
        return MUSTER_OK;
    }
    count_rows(self);
    local->batch = (muster_batch){.seed = self->setup.batch.seed,
                                  .samples = self->slots.rows,
                                  .size = own_batch(self)};
    local->done = 0;
    local->loss_sum = 0;
    begin_model(self);
    begin_step(self);
    return MUSTER_IN_PROGRESS;
}

static uint64_t step_number(const worker *self)
{
    return self->base.job.step * self->setup.local.steps + self->local.done;
}

/* Collect the next rows of the batch. */
static void gather_rows(worker *self)
{
    local_state *local = &self->local;
    const plan_slot *slots = self->slots.list.data;
    const float weight = (float)(local->weight / (double)local->batch.size);
    bool is_full = false;
    self->gather.count = 0;
    while (!is_full && local->at < local->batch.size) {
        uint32_t rows[DRAW_GROUP];
        uint64_t left = local->batch.size - local->at;
        uint64_t count = left < DRAW_GROUP ? left : DRAW_GROUP;
        muster_batch_draw(&local->batch, step_number(self), local->at, count,
                          rows);
        for (uint64_t i = 0; !is_full && i < count; i++) {
            batch_member member = member_at(self, rows[i]);
            is_full = !muster_job_gather_add(
                &self->gather, slots[member.slot].shard, member.row, weight);
            local->at += !is_full;
        }
    }
}

static void begin_pass(worker *self)
{
    local_state *local = &self->local;
    muster_rows rows =
        muster_job_gather_view(&self->gather, self->setup.features);
    const muster_layers_input input = {
        .theta = theta_now(self),
        .rows = rows,
        .weights = self->gather.weights,
        .scratch = self->scratch,
        .gradient = gradient_of(self),
        .rows_summed = local->batch.size < UINT32_MAX
                           ? (uint32_t)local->batch.size
                           : UINT32_MAX,
        .sample_ids = self->gather.samples,
        .seed = self->setup.batch.seed,
        .step = step_number(self),
        .coherence = &local->coherence,
        .pool = self->base.pool,
    };
    muster_model_pass_begin(&local->pass, &self->model, &input);
    local->is_passing = true;
}

/* The message is the gradient, where it lies. */
static muster_status finish_gradient(worker *self)
{
    float *message = self->base.result.output->data;
    message[self->model.dim] = (float)self->local.loss;
    message[self->model.dim + 1] = 0;
    return MUSTER_OK;
}

/* The gradient of the batch is complete. */
static void begin_optimise(worker *self)
{
    local_state *local = &self->local;
    double squares = muster_layer_squares(gradient_of(self), self->model.dim);
    local->phase = LOCAL_OPTIMISE;
    local->at = 0;
    local->clip = (float)muster_optim_clip(self->setup.local.clip,
                                           sqrt(squares) / local->weight);
}

static muster_status rows_piece(worker *self)
{
    local_state *local = &self->local;
    if (!local->is_passing) {
        gather_rows(self);
        begin_pass(self);
    }
    muster_status status = muster_model_pass_step(&local->pass);
    if (status == MUSTER_IN_PROGRESS) {
        return status;
    }
    if (status != MUSTER_OK) {
        return muster_error_set(
            &self->base.error, status < 0 ? status : MUSTER_ERR_INPUT,
            "step %" PRIu64 ": the model cannot take the worker's rows (%s)",
            self->base.job.step, muster_status_text(status));
    }
    local->is_passing = false;
    local->coherence.is_fresh = false;
    local->loss += local->pass.loss;
    if (local->at == local->batch.size && self->setup.local.is_gradient) {
        return finish_gradient(self);
    }
    if (local->at == local->batch.size) {
        begin_optimise(self);
    }
    return MUSTER_IN_PROGRESS;
}

/* All steps are done: what goes to the coordinator. */
static muster_status finish(worker *self)
{
    const local_state *local = &self->local;
    const float *from = self->base.job.input->data;
    const float *theta = theta_of(self);
    float *message = self->base.result.output->data;
    size_t dim = self->model.dim;
    float samples = (float)self->slots.rows;
    if (self->setup.local.is_gossip) {
        double share = (double)self->slots.rows / (double)self->setup.samples;
        self->base.result.loss = local->loss_sum;
        memcpy(message, theta, dim * sizeof(float));
        message[dim] = (float)(share * local->loss_sum);
        message[dim + 1] = (float)share;
        return MUSTER_OK;
    }
    for (size_t i = 0; i < dim; i++) {
        message[i] = samples * (from[i] - theta[i]);
    }
    message[dim] =
        (float)((double)samples * local->loss_sum / self->setup.local.steps);
    message[dim + 1] = samples;
    return MUSTER_OK;
}

static muster_status optimise_piece(worker *self)
{
    local_state *local = &self->local;
    const local_rule *rule = &self->setup.local;
    size_t dim = self->model.dim;
    size_t begin = local->at;
    size_t end = dim - begin < OPTIMISE_FLOATS ? dim : begin + OPTIMISE_FLOATS;
    if (local->clip < 1) {
        muster_layer_scale(gradient_of(self) + begin, local->clip, end - begin);
    }
    if (rule->l2 > 0) {
        local->theta_sq +=
            muster_model_add_l2(&self->model, rule->l2, theta_of(self),
                                gradient_of(self), begin, end);
    }
    const muster_optim_arrays arrays = {dim, theta_of(self), gradient_of(self),
                                        optimiser_of(self), theta_of(self)};
    double lr =
        rule->lr * muster_schedule_factor(&rule->schedule, step_number(self));
    const muster_optim_step step = {&rule->optim, local->age, lr};
    muster_model_optimise(&self->model, &step, &arrays, begin, end);
    local->at = end;
    if (end < dim) {
        return MUSTER_IN_PROGRESS;
    }
    local->loss_sum +=
        local->loss / local->weight + rule->l2 / 2 * local->theta_sq;
    local->age++;
    if (++local->done == rule->steps) {
        return finish(self);
    }
    begin_step(self);
    return MUSTER_IN_PROGRESS;
}

muster_status muster_job_local_piece(worker *self)
{
    return self->local.phase == LOCAL_ROWS ? rows_piece(self)
                                           : optimise_piece(self);
}
