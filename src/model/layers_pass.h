/*
 * model/layers_pass.h -- rows through fully connected layers, and gradients
 * back; layers.h says what the layers are. The functions are those of
 * muster_model_ops, the model being a muster_layers.
 */
#ifndef MUSTER_MODEL_LAYERS_PASS_H
#define MUSTER_MODEL_LAYERS_PASS_H

#include "model/layers.h"

typedef struct muster_layers {
    muster_model_kind kind;
    uint32_t count;                        // weight matrices
    uint32_t sizes[MUSTER_LAYERS_MAX + 1]; // features, hidden.., outputs
    size_t weights[MUSTER_LAYERS_MAX];     // offsets into theta
    size_t biases[MUSTER_LAYERS_MAX];
    size_t dim;
} muster_layers;

size_t muster_layers_scratch_bytes(const void *model, uint32_t rows_max);

// NOLINTNEXTLINE(readability-function-size): the shape of the public ops.
muster_status muster_layers_gradient(const void *model, const float *theta,
                                     const muster_rows *rows,
                                     const float *weights, void *scratch,
                                     float *gradient, double *loss);

muster_status muster_layers_predict(const void *model, const float *theta,
                                    const muster_rows *rows, void *scratch,
                                    float *out);

#endif // MUSTER_MODEL_LAYERS_PASS_H
