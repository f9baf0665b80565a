/*
 * dissimilarity.c -- see dissimilarity.h.
 *
 * One worker's samples at a time are copied side by side, as a shard is, and go
 * to the model in blocks. Only one gradient and the sum of all are kept, for
 * sum_j p_j |g_j - g|^2 = sum_j p_j |g_j|^2 - |g|^2.
 */
#include "run/dissimilarity.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/shard.h"
#include "model/model.h"

#define BLOCK_ROWS 512u

typedef struct measuring {
    muster_model model;
    muster_cut cut; // a shard for each owner with samples
    float *theta;
    float *gradient; // of a block
    float *weights;  // all 1
    void *scratch;
    double *own; // sum of an owner's
    double *all; // sum of all
} measuring;

static muster_status allocate(measuring *self)
{
    const muster_model *model = &self->model;
    self->theta = muster_mem_raw_aligned(model->dim, sizeof(float));
    self->gradient = muster_mem_raw_aligned(model->dim, sizeof(float));
    self->weights = muster_mem_array(BLOCK_ROWS, sizeof(float));
    self->scratch = muster_mem_raw_aligned(
        model->ops->scratch_bytes(model->self, BLOCK_ROWS) + 1, 1);
    self->own = muster_mem_array(model->dim, sizeof(double));
    self->all = muster_mem_array(model->dim, sizeof(double));
    for (uint32_t r = 0; self->weights != NULL && r < BLOCK_ROWS; r++) {
        self->weights[r] = 1;
    }
    return self->theta != NULL && self->gradient != NULL &&
                   self->weights != NULL && self->scratch != NULL &&
                   self->own != NULL && self->all != NULL
               ? MUSTER_OK
               : MUSTER_ERR_NO_MEMORY;
}

static void fini(measuring *self)
{
    muster_mem_free(self->theta);
    muster_mem_free(self->gradient);
    muster_mem_free(self->weights);
    muster_mem_free(self->scratch);
    muster_mem_free(self->own);
    muster_mem_free(self->all);
    muster_cut_fini(&self->cut);
    muster_model_free(&self->model);
}

/* Rows at..at + BLOCK_ROWS - 1 of a shard. */
static muster_rows block_of(const muster_rows *rows, uint32_t at)
{
    muster_rows block = *rows;
    uint32_t left = rows->count - at;
    block.count = left < BLOCK_ROWS ? left : BLOCK_ROWS;
    block.labels += at;
    if (block.dense != NULL) {
        block.dense += at * rows->stride;
    } else {
        block.offsets += at;
    }
    return block;
}

static muster_status add_rows(measuring *self, const muster_rows *rows)
{
    const muster_model *model = &self->model;
    for (uint32_t at = 0; at < rows->count; at += BLOCK_ROWS) {
        muster_rows block = block_of(rows, at);
        double loss = 0;
        for (size_t i = 0; i < model->dim; i++) {
            self->gradient[i] = 0;
        }
        muster_status status = model->ops->gradient(
            model->self, self->theta, &block, self->weights, self->scratch,
            self->gradient, &loss);
        if (status != MUSTER_OK) {
            return status;
        }
        for (size_t i = 0; i < model->dim; i++) {
            self->own[i] += (double)self->gradient[i];
        }
    }
    return MUSTER_OK;
}

/* Add one owner's samples; spread_out gets n_j |g_j|^2. */
static muster_status add_owner(measuring *self, const muster_dataset *data,
                               uint32_t number, double *spread_out)
{
    size_t size = muster_dataset_shard_bytes(data, &self->cut, number);
    void *bytes = muster_mem_raw_aligned(size, 1);
    if (bytes == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_shard shard;
    muster_dataset_shard_write(data, &self->cut, number, bytes);
    muster_status status = muster_shard_open(bytes, size, NULL, &shard);
    for (size_t i = 0; i < self->model.dim; i++) {
        self->own[i] = 0;
    }
    if (status == MUSTER_OK) {
        status = add_rows(self, &shard.rows);
    }
    double squares = 0;
    for (size_t i = 0; status == MUSTER_OK && i < self->model.dim; i++) {
        squares += self->own[i] * self->own[i];
        self->all[i] += self->own[i];
    }
    *spread_out = status == MUSTER_OK ? squares / shard.rows.count : 0;
    muster_mem_free(bytes);
    return status;
}

static muster_status measure(measuring *self, const muster_dataset *data,
                             double *value_out)
{
    double samples = (double)muster_dataset_describe(data).samples;
    double spread = 0, squares = 0;
    for (uint32_t number = 0; number < self->cut.shards; number++) {
        double own = 0;
        muster_status status = add_owner(self, data, number, &own);
        if (status != MUSTER_OK) {
            return status;
        }
        spread += own / samples;
    }
    for (size_t i = 0; i < self->model.dim; i++) {
        squares += self->all[i] / samples * (self->all[i] / samples);
    }
    double apart = spread - squares;
    *value_out = apart > 0 ? apart / squares : 0;
    return MUSTER_OK;
}

/* Owners that have samples. */
static uint32_t count_having(const uint32_t *owner_of, uint64_t samples,
                             uint32_t owners, bool *seen)
{
    uint32_t having = 0;
    for (uint64_t i = 0; i < samples; i++) {
        having += owner_of[i] < owners && !seen[owner_of[i]];
        seen[owner_of[i]] = true;
    }
    return having;
}

static muster_status cut_data(measuring *self, const muster_dataset *data,
                              const uint32_t *owner_of, uint32_t owners,
                              muster_error *error_out)
{
    uint64_t samples = muster_dataset_describe(data).samples;
    bool *seen = muster_mem_array(owners, sizeof(*seen));
    if (seen == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    uint32_t having = count_having(owner_of, samples, owners, seen);
    muster_mem_free(seen);
    return muster_cut_placed(owner_of, samples, owners, having, error_out,
                             &self->cut);
}

muster_status muster_dissimilarity_measure(
    const muster_dissimilarity_opts *opts, const muster_dataset *data,
    const uint32_t *owner_of, muster_error *error_out, double *value_out)
{
    measuring self = {.theta = NULL};
    muster_dataset_info info = muster_dataset_describe(data);
    const muster_model_data form = {info.features, info.classes, info.image};
    muster_status status =
        muster_model_create_for(opts->model, &form, error_out, &self.model);
    if (status != MUSTER_OK) {
        return status;
    }
    status = cut_data(&self, data, owner_of, opts->owners, error_out);
    if (status == MUSTER_OK) {
        status = allocate(&self);
    }
    if (status == MUSTER_OK) {
        self.model.ops->init(self.model.self, opts->seed, self.theta);
        status = measure(&self, data, value_out);
    }
    if (status != MUSTER_OK) {
        status = muster_error_set(error_out, status,
                                  "--model %s: its gradients cannot be had: %s",
                                  opts->model, muster_status_text(status));
    }
    fini(&self);
    return status;
}
