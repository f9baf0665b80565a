/*
 * model/layers.h -- the built-in models: fully connected layers and a loss,
 * behind convolutions or not.
 *
 * linear, logistic and softmax are one layer; mlp has hidden layers with ReLU
 * between, cnn convolutions in front of them (conv.h). Layer l maps a row x of
 * sizes[l] floats to x W_l + b_l; W_l is sizes[l] x sizes[l+1] row by row, so
 * that one entry of a sparse row meets one contiguous row of W. theta is the
 * convolutions' weights and biases, then W_0, b_0, (gains, shifts), W_1, b_1..
 *
 *   linear    squared loss, labels are targets; starts at 0
 *   logistic  two classes, one score; starts at 0
 *   softmax   `classes` scores; starts at 0
 *   mlp       hidden=256 or hidden=256,128 (default 128); softmax loss, or
 *             squared loss when the labels are targets; He-uniform start
 *   cnn       channels=16,32 (the default), hidden= (none by default)
 *
 * Options of the loss: class-weights=1,5 (not for targets), smoothing=0.1 (of
 * softmax scores). Of mlp's and cnn's hidden layers: dropout=0.5, norm=layer.
 */
#ifndef MUSTER_MODEL_LAYERS_H
#define MUSTER_MODEL_LAYERS_H

#include "muster/model.h"

#define MUSTER_LAYERS_MAX       17u // weight matrices: 16 hidden layers
#define MUSTER_LAYERS_WIDTH_MAX 65536u

extern const muster_model_ops muster_model_linear;
extern const muster_model_ops muster_model_logistic;
extern const muster_model_ops muster_model_softmax;
extern const muster_model_ops muster_model_mlp;
extern const muster_model_ops muster_model_cnn;

#endif // MUSTER_MODEL_LAYERS_H
