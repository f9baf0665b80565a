/*
 * muster/model.h -- a dense model: loss and gradient of some rows.
 *
 * The same interface serves the built-in models (linear, logistic, softmax,
 * mlp, cnn) and a user's own, in a shared object that exports
 *
 *     const muster_model_ops *muster_model_plugin(void);
 *
 * and is named by `--model ./mine.so`. A model is a pure function of (theta,
 * rows): Muster cuts the data, draws the batches, adds the l2 term, codes the
 * gradients, optimises and saves.
 *
 *   Promise      gradient() adds  sum_r weight_r * d loss_r / d theta  to
 *                `gradient`, for any real weights, also negative ones (codes
 *                need them). Nothing is averaged or regularised here.
 *   Lifecycle    create; then any number of calls; then free.
 *   Threads      A model does not change after create; each caller brings its
 *                own scratch, so calls may run at the same time.
 *   Allocation   Only create allocates.
 *   Determinism  init depends on the seed alone.
 *   Not here     Optimisers, schedules, files, threads.
 *
 * A plugin is versioned as a whole by MUSTER_MODEL_ABI: its structs have no
 * struct_size but for what create() is given (docs/compatibility.md).
 *
 * Background: docs/design/model.md; for users: docs/models.md.
 */
#ifndef MUSTER_MODEL_H
#define MUSTER_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/export.h"
#include "muster/rows.h"
#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_MODEL_ABI         1u
#define MUSTER_MODEL_TENSORS_MAX 64u

/* What the model is to be built for. */
typedef struct muster_model_spec {
    uint32_t struct_size; // as Muster knows it: may grow, check before use
    uint32_t features;    // columns of the rows
    uint32_t classes;     // distinct labels; 0 when labels are real targets
    const char *options;  // what followed the name: "hidden=256,128"; or ""
    muster_image image;   // what the rows are; all 0: not known to be images
} muster_model_spec;

/* What the rows' labels mean to the model. */
typedef enum muster_model_kind {
    MUSTER_MODEL_REGRESSION = 0, // one output, labels are targets
    MUSTER_MODEL_CLASSES = 1,    // outputs are scores, one per class
    MUSTER_MODEL_BINARY = 2,     // one output, class 1 when it is positive
} muster_model_kind;

/* A named piece of theta, for files and for the l2 term. */
typedef struct muster_model_tensor {
    char name[64];
    size_t offset; // floats from the start of theta
    uint32_t rank; // 1 or 2
    size_t shape[2];
    bool is_bias; // the l2 term leaves it out
} muster_model_tensor;

/*
 * What a plugin brings. Statuses that its functions return end the run, with
 * the text where there is one:
 * MUSTER_ERR_INVALID    create: the options or the data do not suit the model
 * MUSTER_ERR_NO_MEMORY  create: the model does not fit the memory
 * any other failure     gradient, predict: passed up as it is
 */
typedef struct muster_model_ops {
    uint32_t abi;     // MUSTER_MODEL_ABI
    const char *name; // for files and texts; lent for ever
    /* On MUSTER_OK *model_out is Muster's until free(). */
    muster_status (*create)(const muster_model_spec *spec,
                            muster_error *error_out, void **model_out);
    void (*free)(void *model);
    muster_model_kind (*kind)(const void *model);
    size_t (*dim)(const void *model);       // floats of theta
    uint32_t (*outputs)(const void *model); // floats predicted per row
    uint32_t (*tensors)(const void *model,  // fills up to TENSORS_MAX,
                        muster_model_tensor *tensors_out); // returns how many
    void (*init)(const void *model, uint64_t seed, float *theta_out);
    size_t (*scratch_bytes)(const void *model, uint32_t rows_max);
    /* gradient += sum_r w_r dloss_r/dtheta; *loss += sum_r w_r loss_r. */
    muster_status (*gradient)(const void *model, const float *theta,
                              const muster_rows *rows, const float *weights,
                              void *scratch, float *gradient, double *loss);
    /* out: count x outputs scores. */
    muster_status (*predict)(const void *model, const float *theta,
                             const muster_rows *rows, void *scratch,
                             float *out);
} muster_model_ops;

/* The name that a plugin exports. */
typedef const muster_model_ops *(*muster_model_plugin_fn)(void);

#ifdef __cplusplus
}
#endif
#endif // MUSTER_MODEL_H
