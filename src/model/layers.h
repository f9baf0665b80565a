/*
 * model/layers.h -- the built-in models: fully connected layers and a loss.
 *
 * linear, logistic and softmax are one layer; mlp has hidden layers with ReLU
 * between. Layer l maps a row x of sizes[l] floats to x W_l + b_l; W_l is
 * sizes[l] x sizes[l+1] row by row, so that one entry of a sparse row meets
 * one contiguous row of W. theta is W_0, b_0, W_1, b_1, ..
 *
 *   linear    squared loss, labels are targets; starts at 0
 *   logistic  two classes, one score; starts at 0
 *   softmax   `classes` scores; starts at 0
 *   mlp       hidden=256 or hidden=256,128 (default 128); softmax loss, or
 *             squared loss when the labels are targets; He-uniform start
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

#endif // MUSTER_MODEL_LAYERS_H
