/*
 * model/layers_spec.h -- the built-in models from their options.
 *
 * Each is the create() of muster_model_ops: *model_out is a muster_layers, for
 * muster_layers_free(). MUSTER_ERR_INVALID: an option that the model does not
 * take, or data that it cannot serve; the text says what would be right.
 * MUSTER_ERR_NO_MEMORY.
 */
#ifndef MUSTER_MODEL_LAYERS_SPEC_H
#define MUSTER_MODEL_LAYERS_SPEC_H

#include "muster/model.h"
#include "muster/status.h"

muster_status muster_layers_create_linear(const muster_model_spec *spec,
                                          muster_error *error_out,
                                          void **model_out);
muster_status muster_layers_create_logistic(const muster_model_spec *spec,
                                            muster_error *error_out,
                                            void **model_out);
muster_status muster_layers_create_softmax(const muster_model_spec *spec,
                                           muster_error *error_out,
                                           void **model_out);
muster_status muster_layers_create_mlp(const muster_model_spec *spec,
                                       muster_error *error_out,
                                       void **model_out);
muster_status muster_layers_create_cnn(const muster_model_spec *spec,
                                       muster_error *error_out,
                                       void **model_out);

void muster_layers_free(void *model);

#endif // MUSTER_MODEL_LAYERS_SPEC_H
