/*
 * EVALUATE: the objective on all training data, and the loss and accuracy on
 * the test set, some rows a piece. Reads the model given, or the newest.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "job/inside.h"

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
    self->evaluate = (evaluate_state){.theta = model->data};
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
    result->loss = evaluate->train.loss / (double)evaluate->train.rows;
    measure_theta(self);
    if (self->test != NULL) {
        double rows = (double)evaluate->test.rows;
        result->test_loss = evaluate->test.loss / rows;
        if (self->model.kind != MUSTER_MODEL_REGRESSION) {
            result->test_accuracy = (double)evaluate->test.right / rows;
        }
    }
    return MUSTER_OK;
}

muster_status muster_job_evaluate_piece(coordinator *self)
{
    evaluate_state *evaluate = &self->evaluate;
    const muster_dataset *set = evaluate->is_test ? self->test : self->train;
    uint64_t samples = muster_dataset_describe(set).samples;
    uint64_t left = samples - evaluate->at;
    uint32_t count =
        left < self->chunk_rows ? (uint32_t)left : self->chunk_rows;
    muster_rows rows = muster_dataset_rows(set, evaluate->at, count);
    muster_status status = muster_model_evaluate(
        &self->model, evaluate->theta, &rows, self->scratch, self->scores,
        evaluate->is_test ? &evaluate->test : &evaluate->train);
    if (status != MUSTER_OK) {
        return muster_error_set(&self->base.error, MUSTER_ERR_INPUT,
                                "the model cannot be evaluated on rows "
                                "%" PRIu64 " to %" PRIu64 " of the %s data",
                                evaluate->at, evaluate->at + count - 1,
                                evaluate->is_test ? "test" : "training");
    }
    evaluate->at += count;
    if (evaluate->at < samples) {
        return MUSTER_IN_PROGRESS;
    }
    if (!evaluate->is_test && self->test != NULL) {
        evaluate->is_test = true;
        evaluate->at = 0;
        return MUSTER_IN_PROGRESS;
    }
    return finish(self);
}
