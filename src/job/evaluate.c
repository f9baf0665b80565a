/*
 * EVALUATE: the objective on all training data, and the loss, the accuracy and
 * for two classes the AUC on the test set, some rows a piece. Reads the model
 * given, or the newest.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "job/inside.h"

/* For as many threads as there are, which evaluate_bytes() does not know. */
static bool has_scratch(coordinator *self)
{
    const muster_model *model = &self->model;
    size_t bytes = muster_model_evaluate_bytes(model, self->block_rows);
    size_t shared = muster_model_pass_bytes(
        model, self->block_rows, muster_threads_count(self->base.pool));
    if (self->scratch == NULL) {
        self->scratch =
            muster_mem_raw_aligned((bytes > shared ? bytes : shared) + 1, 1);
    }
    return self->scratch != NULL;
}

muster_status muster_job_evaluate_begin(coordinator *self)
{
    const muster_blob *model = self->base.job.input;
    if (model == NULL) {
        model = self->theta;
    }
    if (model->data == NULL || model->bytes < self->model.dim * sizeof(float)) {
        return muster_error_set(&self->base.error, MUSTER_ERR_INVALID,
                                "evaluation: the model is too short");
    }
    if (!has_scratch(self)) {
        return muster_error_set(&self->base.error, MUSTER_ERR_NO_MEMORY,
                                "evaluation: out of memory");
    }
    bool test_only = self->base.job.test_only && self->test != NULL;
    self->evaluate =
        (evaluate_state){.theta = model->data, .is_test = test_only};
    return MUSTER_IN_PROGRESS;
}

/* Norm of all of theta, and the l2 term of the objective without biases. */
static void measure_theta(coordinator *self)
{
    const float *theta = self->evaluate.theta;
    double all = 0;
    double biases = 0;
    for (size_t i = 0; i < self->model.dim; i++) {
        all += (double)theta[i] * (double)theta[i];
    }
    for (uint32_t t = 0; t < self->model.tensor_count; t++) {
        const muster_model_tensor *tensor = &self->model.tensors[t];
        size_t count = tensor->shape[0];
        count *= tensor->rank == 2 ? tensor->shape[1] : 1;
        for (size_t i = 0; tensor->is_bias && i < count; i++) {
            double value = (double)theta[tensor->offset + i];
            biases += value * value;
        }
    }
    self->base.result.theta_norm = sqrt(all);
    self->base.result.loss += self->l2 / 2 * (all - biases);
}

static muster_status finish(coordinator *self)
{
    const evaluate_state *evaluate = &self->evaluate;
    muster_job_result *result = &self->base.result;
    bool trained = evaluate->train.rows > 0;
    result->loss =
        trained ? evaluate->train.loss / (double)evaluate->train.rows : NAN;
    measure_theta(self);
    if (self->test != NULL) {
        double rows = (double)evaluate->test.rows;
        result->test_loss = evaluate->test.loss / rows;
        if (self->model.kind != MUSTER_MODEL_REGRESSION) {
            result->test_accuracy = (double)evaluate->test.right / rows;
        }
        if (self->scored != NULL) {
            result->test_auc = muster_auc(self->scored, evaluate->test.rows);
        }
    }
    return MUSTER_OK;
}

/* Begin with the next rows of the set. */
static void take_rows(coordinator *self, const muster_dataset *set)
{
    evaluate_state *evaluate = &self->evaluate;
    uint64_t left = muster_dataset_describe(set).samples - evaluate->at;
    uint32_t count =
        left < self->block_rows ? (uint32_t)left : self->block_rows;
    evaluate->rows = muster_dataset_rows(set, evaluate->at, count);
    evaluate->is_passing = true;
    if (self->model.library == NULL) {
        const muster_layers_input input = {.theta = evaluate->theta,
                                           .rows = evaluate->rows,
                                           .scratch = self->scratch,
                                           .pool = self->base.pool};
        muster_model_pass_begin(&evaluate->pass, &self->model, &input);
    }
}

/* A piece of the rows at hand. */
static muster_status score_rows(coordinator *self)
{
    evaluate_state *evaluate = &self->evaluate;
    muster_model_tally *tally =
        evaluate->is_test ? &evaluate->test : &evaluate->train;
    const float *scores = self->scores;
    muster_status status = MUSTER_OK;
    if (self->model.library != NULL) {
        status = muster_model_evaluate(&self->model, evaluate->theta,
                                       &evaluate->rows, self->scratch,
                                       self->scores, tally);
    } else {
        status = muster_model_pass_step(&evaluate->pass);
        if (status == MUSTER_OK) {
            scores = muster_model_pass_scores(&evaluate->pass);
            status = muster_model_count(&self->model, &evaluate->rows, scores,
                                        tally);
        }
    }
    if (status == MUSTER_OK && evaluate->is_test && self->scored != NULL) {
        muster_auc_collect(&self->model, &evaluate->rows, scores,
                           self->scored + evaluate->at);
    }
    return status;
}

muster_status muster_job_evaluate_piece(coordinator *self)
{
    evaluate_state *evaluate = &self->evaluate;
    const muster_dataset *set = evaluate->is_test ? self->test : self->train;
    if (!evaluate->is_passing) {
        take_rows(self, set);
    }
    muster_status status = score_rows(self);
    if (status == MUSTER_IN_PROGRESS) {
        return status;
    }
    uint32_t count = evaluate->rows.count;
    if (status != MUSTER_OK) {
        return muster_error_set(&self->base.error, MUSTER_ERR_INPUT,
                                "the model cannot be evaluated on rows "
                                "%" PRIu64 " to %" PRIu64 " of the %s data",
                                evaluate->at, evaluate->at + count - 1,
                                evaluate->is_test ? "test" : "training");
    }
    evaluate->is_passing = false;
    evaluate->at += count;
    if (evaluate->at < muster_dataset_describe(set).samples) {
        return MUSTER_IN_PROGRESS;
    }
    if (!evaluate->is_test && self->test != NULL) {
        evaluate->is_test = true;
        evaluate->at = 0;
        return MUSTER_IN_PROGRESS;
    }
    return finish(self);
}
