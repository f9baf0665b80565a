/*
 * model/loss.h -- the losses of the built-in models, from their scores.
 *
 *   squared    (z - y)^2 / 2                  one score, y a real target
 *   logistic   log(1 + exp(-y z))             one score, y is -1 or +1
 *   softmax    log sum_c exp(z_c) - z_y       a score per class
 *
 * With smoothing e the target of softmax is not class y alone: every class has
 * e / C of it, and class y the rest, so the loss is
 * log sum_c exp(z_c) - (1 - e) z_y - e / C sum_c z_c. With class weights the
 * loss of a row counts as many times as its class says.
 *
 * Two-class labels come as -1/+1 or 0/1; both are understood by both class
 * losses: what is not positive is class 0.
 *
 *   Promise      No score overflows: the exponentials are of numbers <= 0.
 *                A label outside the classes is MUSTER_ERR_INPUT, and then
 *                nothing was written.
 */
#ifndef MUSTER_MODEL_LOSS_H
#define MUSTER_MODEL_LOSS_H

#include <stdint.h>

#include "muster/model.h"
#include "muster/status.h"

/* Which loss. */
typedef struct muster_loss {
    muster_model_kind kind;     // see above, in the kinds' order
    float smoothing;            // e of softmax, 0 to below 1
    const float *class_weights; // one a class; NULL: all 1
} muster_loss;

/* Some rows' scores, count x outputs, with their labels. */
typedef struct muster_loss_rows {
    muster_loss loss;
    uint32_t count;
    uint32_t outputs;
    const float *labels;
    const float *weights; // NULL: all 1
} muster_loss_rows;

/* *loss += sum_r w_r loss_r. */
MUSTER_CHECKED muster_status muster_loss_sum(const muster_loss_rows *rows,
                                             const float *scores, double *loss);

/* The same, and scores become w_r d loss_r / d score. */
MUSTER_CHECKED muster_status muster_loss_slopes(const muster_loss_rows *rows,
                                                float *scores, double *loss);

/* How many rows are classed right; 0 for regression. Scores that are not
 * numbers are wrong. */
uint32_t muster_loss_correct(const muster_loss_rows *rows, const float *scores);

/* The class that a row of scores says: the largest, or for one score whether
 * it is positive. */
uint32_t muster_loss_class(muster_model_kind kind, uint32_t outputs,
                           const float *scores);

#endif // MUSTER_MODEL_LOSS_H
