/*
 * EVALUATE: the objective on all training data, and the loss, the accuracy and
 * for two classes the AUC on the test set, some rows a piece. Reads the model
 * given, or the newest.
 *
 * A coordinator's executor does it between its other jobs; an evaluator,
 * made by muster_executor_create_evaluator(), beside them on another thread.
 * Both read the coordinator's data and its model's shape, which do not change.
 * Each has room of its own, made when it is first needed.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "job/inside.h"

/* An executor that evaluates and does nothing else. */
typedef struct evaluator {
    muster_executor base;
    evaluation evaluation;
} evaluator;

/* For as many threads as there are, which evaluate_bytes() does not know. */
static size_t scratch_bytes(const evaluation *at)
{
    const coordinator *of = at->of;
    size_t alone = muster_model_evaluate_bytes(&of->model, of->block_rows);
    size_t shared = muster_model_pass_bytes(
        &of->model, of->block_rows, muster_threads_count(at->frame->pool));
    return alone > shared ? alone : shared;
}

/* Room for a block of rows, and to rank the test set's rows by score where that
 * has a meaning. */
static bool has_room(evaluation *at)
{
    const coordinator *of = at->of;
    bool ranks = of->test != NULL && muster_auc_applies(&of->model);
    if (at->scratch == NULL) {
        at->scratch = muster_mem_raw_aligned(scratch_bytes(at) + 1, 1);
    }
    if (at->scores == NULL) {
        at->scores = muster_mem_raw_aligned(
            (size_t)of->block_rows * of->model.outputs, sizeof(float));
    }
    if (ranks && at->scored == NULL) {
        at->scored = muster_mem_array(muster_dataset_describe(of->test).samples,
                                      sizeof(*at->scored));
    }
    return at->scratch != NULL && at->scores != NULL &&
           (!ranks || at->scored != NULL);
}

muster_status muster_job_evaluate_begin(evaluation *at)
{
    const coordinator *of = at->of;
    const muster_job *job = &at->frame->job;
    const muster_blob *model = job->input != NULL ? job->input : of->theta;
    if (model->data == NULL || model->bytes < of->model.dim * sizeof(float)) {
        return muster_error_set(&at->frame->error, MUSTER_ERR_INVALID,
                                "evaluation: the model is too short");
    }
    if (!has_room(at)) {
        return muster_error_set(&at->frame->error, MUSTER_ERR_NO_MEMORY,
                                "evaluation: out of memory");
    }
    at->theta = model->data;
    at->row = 0;
    at->is_test = job->test_only && of->test != NULL;
    at->is_passing = false;
    at->train = at->test = (muster_model_tally){0};
    return MUSTER_IN_PROGRESS;
}

/* Norm of all of theta, and the l2 term of the objective without biases. */
static void measure_theta(evaluation *at)
{
    const muster_model *model = &at->of->model;
    const float *theta = at->theta;
    double all = 0;
    double biases = 0;
    for (size_t i = 0; i < model->dim; i++) {
        all += (double)theta[i] * (double)theta[i];
    }
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const muster_model_tensor *tensor = &model->tensors[t];
        size_t count = tensor->shape[0];
        count *= tensor->rank == 2 ? tensor->shape[1] : 1;
        for (size_t i = 0; tensor->is_bias && i < count; i++) {
            double value = (double)theta[tensor->offset + i];
            biases += value * value;
        }
    }
    at->frame->result.theta_norm = sqrt(all);
    at->frame->result.loss += at->of->l2 / 2 * (all - biases);
}

static muster_status finish(evaluation *at)
{
    const coordinator *of = at->of;
    muster_job_result *result = &at->frame->result;
    bool trained = at->train.rows > 0;
    result->loss = trained ? at->train.loss / (double)at->train.rows : NAN;
    measure_theta(at);
    if (of->test != NULL) {
        double rows = (double)at->test.rows;
        result->test_loss = at->test.loss / rows;
        if (of->model.kind != MUSTER_MODEL_REGRESSION) {
            result->test_accuracy = (double)at->test.right / rows;
        }
        if (at->scored != NULL) {
            result->test_auc = muster_auc(at->scored, at->test.rows);
        }
    }
    return MUSTER_OK;
}

/* Begin with the next rows of the set. */
static void take_rows(evaluation *at, const muster_dataset *set)
{
    const coordinator *of = at->of;
    uint64_t left = muster_dataset_describe(set).samples - at->row;
    uint32_t count = left < of->block_rows ? (uint32_t)left : of->block_rows;
    at->rows = muster_dataset_rows(set, at->row, count);
    at->is_passing = true;
    if (of->model.library == NULL) {
        const muster_layers_input input = {.theta = at->theta,
                                           .rows = at->rows,
                                           .scratch = at->scratch,
                                           .pool = at->frame->pool};
        muster_model_pass_begin(&at->pass, &of->model, &input);
    }
}

/* A piece of the rows at hand. */
static muster_status score_rows(evaluation *at)
{
    const muster_model *model = &at->of->model;
    muster_model_tally *tally = at->is_test ? &at->test : &at->train;
    const float *scores = at->scores;
    muster_status status = MUSTER_OK;
    if (model->library != NULL) {
        status = muster_model_evaluate(model, at->theta, &at->rows, at->scratch,
                                       at->scores, tally);
    } else {
        status = muster_model_pass_step(&at->pass);
        if (status == MUSTER_OK) {
            scores = muster_model_pass_scores(&at->pass);
            status = muster_model_count(model, &at->rows, scores, tally);
        }
    }
    if (status == MUSTER_OK && at->is_test && at->scored != NULL) {
        muster_auc_collect(model, &at->rows, scores, at->scored + at->row);
    }
    return status;
}

muster_status muster_job_evaluate_piece(evaluation *at)
{
    const coordinator *of = at->of;
    const muster_dataset *set = at->is_test ? of->test : of->train;
    if (!at->is_passing) {
        take_rows(at, set);
    }
    muster_status status = score_rows(at);
    if (status == MUSTER_IN_PROGRESS) {
        return status;
    }
    uint32_t count = at->rows.count;
    if (status != MUSTER_OK) {
        return muster_error_set(&at->frame->error, MUSTER_ERR_INPUT,
                                "the model cannot be evaluated on rows "
                                "%" PRIu64 " to %" PRIu64 " of the %s data",
                                at->row, at->row + count - 1,
                                at->is_test ? "test" : "training");
    }
    at->is_passing = false;
    at->row += count;
    if (at->row < muster_dataset_describe(set).samples) {
        return MUSTER_IN_PROGRESS;
    }
    if (!at->is_test && of->test != NULL) {
        at->is_test = true;
        at->row = 0;
        return MUSTER_IN_PROGRESS;
    }
    return finish(at);
}

void muster_job_evaluate_fini(evaluation *at)
{
    muster_mem_free(at->scored);
    muster_mem_free(at->scores);
    muster_mem_free(at->scratch);
}

static muster_status evaluator_begin(muster_executor *executor)
{
    if (executor->job.kind != MUSTER_JOB_EVALUATE ||
        executor->job.input == NULL) {
        return muster_error_set(&executor->error, MUSTER_ERR_INVALID,
                                "job %d is not an evaluation of a model",
                                (int)executor->job.kind);
    }
    return muster_job_evaluate_begin(&((evaluator *)executor)->evaluation);
}

static muster_status evaluator_piece(muster_executor *executor)
{
    return muster_job_evaluate_piece(&((evaluator *)executor)->evaluation);
}

static bool evaluator_must_finish(const muster_executor *executor)
{
    (void)executor;
    return false;
}

static void evaluator_free(muster_executor *executor)
{
    muster_job_evaluate_fini(&((evaluator *)executor)->evaluation);
    muster_mem_free(executor);
}

static const executor_ops evaluator_ops = {
    evaluator_begin,
    evaluator_piece,
    evaluator_must_finish,
    evaluator_free,
};

muster_status muster_executor_create_evaluator(const muster_executor *of,
                                               muster_executor **executor_out)
{
    evaluator *self = muster_mem_array(1, sizeof(*self));
    if (self == NULL) {
        return MUSTER_ERR_NO_MEMORY;
    }
    muster_executor_init(&self->base, &evaluator_ops, &muster_executor_heap);
    self->base.yields = true;
    self->evaluation.of = muster_job_coordinator_const(of);
    self->evaluation.frame = &self->base;
    *executor_out = &self->base;
    return MUSTER_OK;
}
