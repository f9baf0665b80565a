/*
 * model/layers_share.h -- the loops of a pass over all rows or all columns of
 * its block, which the threads of input->pool share.
 *
 *   Determinism  Every result is one thread's: no number of threads changes a
 *                bit.
 */
#ifndef MUSTER_MODEL_LAYERS_SHARE_H
#define MUSTER_MODEL_LAYERS_SHARE_H

#include "model/layers_pass.h"
#include "model/product.h"

/* Columns begin..begin+count-1 of row r of the layer's outputs. */
void muster_layers_fill_bias(muster_layers_pass *pass, uint32_t r,
                             uint32_t begin, uint32_t count);
/* ReLU and dropout, unless the layer is the last, or normed first. */
void muster_layers_activate(muster_layers_pass *pass, uint32_t r,
                            uint32_t begin, uint32_t count);

/* The pass (context) around a product (product.h): biases into a cell of the
 * layer's outputs; what follows, where all is summed; slopes through ReLU and
 * dropout, from a cell of `spare` into the place of the outputs below. */
void muster_layers_fill_cell(void *context, const muster_product_cell *cell);
void muster_layers_activate_cell(void *context,
                                 const muster_product_cell *cell);
void muster_layers_mask_cell(void *context, const muster_product_cell *cell);

/* A layer with one output: a dot product a row, and the sums of its weights. */
void muster_layers_dot(muster_layers_pass *pass);
void muster_layers_dot_back(muster_layers_pass *pass);

/* The gradient of the layer's biases. */
void muster_layers_sum_biases(muster_layers_pass *pass);

/* Rows begin..end-1: norm, ReLU and dropout of the layer's outputs; and their
 * slopes back through the norm. */
void muster_layers_norm(muster_layers_pass *pass, uint32_t begin, uint32_t end);
void muster_layers_norm_back(muster_layers_pass *pass, uint32_t begin,
                             uint32_t end);
/* The gradient of gains and shifts, before that. */
void muster_layers_sum_norm(muster_layers_pass *pass);

/* Where the layer's weights are summed by loops of our own. */
muster_layer_sums muster_layers_first_sums(const muster_layers_pass *pass);

#endif // MUSTER_MODEL_LAYERS_SHARE_H
