/*
 * model/model.h -- find a model by name, or load a user's own, and use it.
 *
 *   muster_model model;
 *   muster_model_create("mlp:hidden=256", 784, 10, &error, &model);
 *   model.ops->gradient(model.self, theta, &rows, weights, ..);
 *   muster_model_free(&model);
 *
 * A spec is NAME or NAME:OPTIONS; NAME is linear, logistic, softmax, mlp, cnn,
 * or the path of a shared object that ends in .so (./mine.so:delta=0.5). What a
 * shared object offers is checked before use: its abi, that no function is
 * missing, that its tensors cover theta exactly once.
 *
 *   Lifecycle    create fills the caller's struct; free ends it. A struct of
 *                zeros may be freed.
 *   Threads      A model does not change after create.
 */
#ifndef MUSTER_MODEL_MODEL_H
#define MUSTER_MODEL_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "model/loss.h"
#include "model/optim.h"
#include "muster/model.h"
#include "muster/status.h"

typedef struct muster_model {
    const muster_model_ops *ops;
    void *self;    // the first argument of the ops
    void *library; // dlopen's handle; NULL for a built-in model
    muster_model_kind kind;
    muster_loss loss; // of a built-in model; of a user's its kind alone
    uint32_t features;
    uint32_t classes;
    muster_image image; // what the rows are, as create was told
    uint32_t outputs;
    size_t dim;
    uint32_t tensor_count;
    muster_model_tensor *tensors; // owned
} muster_model;

/* What a model is made for. */
typedef struct muster_model_data {
    uint32_t features;
    uint32_t classes;   // 0: labels are targets
    muster_image image; // what the rows are; all 0: not known to be images
} muster_model_data;

/*
 * MUSTER_ERR_INVALID  no such name, or options it does not take, or data it
 *                     cannot serve (logistic on ten classes)
 * MUSTER_ERR_INPUT    the shared object cannot be loaded or breaks the
 *                     contract of muster/model.h; the text names the file
 * MUSTER_ERR_NO_MEMORY
 */
MUSTER_CHECKED muster_status
muster_model_create_for(const char *spec, const muster_model_data *data,
                        muster_error *error_out, muster_model *model_out);
/* The same for rows that are not known to be images. */
MUSTER_CHECKED muster_status muster_model_create(const char *spec,
                                                 uint32_t features,
                                                 uint32_t classes,
                                                 muster_error *error_out,
                                                 muster_model *model_out);
void muster_model_free(muster_model *model);

/* How long the path of a shared object in front of `spec` is; 0: it names a
 * built-in model. */
size_t muster_model_plugin_path(const char *spec);

/* Does `spec` name a built-in model, or have the form of a path to one? Its
 * parameters are not looked at. MUSTER_ERR_INVALID says what there is. */
MUSTER_CHECKED muster_status muster_model_check_name(const char *spec,
                                                     muster_error *error_out);

/* The same where sparse tasks are not taken: they are refused as such. */
MUSTER_CHECKED muster_status muster_model_check_dense(const char *spec,
                                                      muster_error *error_out);

/* What evaluate() adds up. */
typedef struct muster_model_tally {
    double loss;    // sum of the rows' losses
    uint64_t right; // rows classed right
    uint64_t rows;
} muster_model_tally;

/* Scratch for evaluate(), for at most rows_max rows at a time. */
size_t muster_model_evaluate_bytes(const muster_model *model,
                                   uint32_t rows_max);

/*
 * Scores (count x outputs) of some rows and, where they have labels, their
 * losses and hits added to *tally. MUSTER_ERR_INPUT: a label that is not one
 * of the model's classes. A user's model gives its loss with its gradient only,
 * which is then thrown away: three times the work of a built-in one.
 */
MUSTER_CHECKED muster_status muster_model_evaluate(
    const muster_model *model, const float *theta, const muster_rows *rows,
    void *scratch, float *scores_out, muster_model_tally *tally);

/* Losses and hits of rows with labels, from the scores of a built-in model,
 * added to *tally. MUSTER_ERR_INPUT as above. */
MUSTER_CHECKED muster_status muster_model_count(const muster_model *model,
                                                const muster_rows *rows,
                                                const float *scores,
                                                muster_model_tally *tally);

/* Add `l2` theta to the gradient in begin..end-1, biases left out; returns
 * the sum of the squares of the theta it used. */
double muster_model_add_l2(const muster_model *model, double l2,
                           const float *theta, float *gradient, size_t begin,
                           size_t end);

/* A step of an optimiser over coordinates begin..end-1; adamw's decay leaves
 * biases out. */
void muster_model_optimise(const muster_model *model,
                           const muster_optim_step *step,
                           const muster_optim_arrays *arrays, size_t begin,
                           size_t end);

#endif // MUSTER_MODEL_MODEL_H
