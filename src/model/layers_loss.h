/*
 * model/layers_loss.h -- the loss of a pass's rows, which the threads of
 * input->pool share.
 *
 *   Determinism  Each thread's losses are added up in the order of the threads:
 *                equal numbers of them give equal bits.
 */
#ifndef MUSTER_MODEL_LAYERS_LOSS_H
#define MUSTER_MODEL_LAYERS_LOSS_H

#include "model/layers_pass.h"

/* Operations that a score is worth: measured on one core. */
#define MUSTER_LAYERS_SCORE_OPS 500.0

/* Rows begin..end-1: scores become slopes, losses are added to pass->loss, and
 * how far off the slopes are is noted. MUSTER_ERR_INPUT: a label. */
MUSTER_CHECKED muster_status muster_layers_loss(muster_layers_pass *pass,
                                                uint32_t begin, uint32_t end);

#endif // MUSTER_MODEL_LAYERS_LOSS_H
