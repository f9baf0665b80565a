/*
 * model/layers_error.h -- how far a pass's gradient is off by rounding.
 *
 * The pass calls in when a block's scores are known and not yet replaced by
 * slopes, and when a layer's gradient is complete. What comes out
 * is pass->variance, which grad_err is made from.
 *
 *   Promise      Reads a sample of the rows and weights: it costs next to
 *                nothing beside the products.
 *   Allocation   None.
 */
#ifndef MUSTER_MODEL_LAYERS_ERROR_H
#define MUSTER_MODEL_LAYERS_ERROR_H

#include "model/layers_pass.h"

/* Note how much the slopes of rows begin..begin+count-1 will be off, from
 * their scores; `scores` are those of row `begin` on. */
void muster_layers_scale_errors(muster_layers_pass *pass, const float *scores,
                                uint32_t begin, uint32_t count);

/* Add the variance of the gradient of the pass's layer, which is complete. */
void muster_layers_measure(muster_layers_pass *pass);

/* The same of its gains and shifts, whose slopes are there. */
void muster_layers_measure_norm(muster_layers_pass *pass);

/* Of the rows one in so many is looked at: multiples of it. */
uint32_t muster_layers_sample_stride(const muster_layers_pass *pass);

#endif // MUSTER_MODEL_LAYERS_ERROR_H
