/*
 * model/optim.h -- from gradient to step: sgd, momentum, nesterov, adam,
 * adamw.
 *
 *   sgd        theta -= lr g
 *   momentum   v = beta v + g;  theta -= lr v
 *   nesterov   v = beta v + g;  theta -= lr (g + beta v)
 *   adam       m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;
 *              theta -= lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
 *   adamw      the same, and theta -= lr decay theta (Loshchilov and Hutter,
 *              2019): the decay does not pass through m and v
 *
 * The state is `slots` flat arrays of dim floats, zero at the start, so that a
 * checkpoint writes them as they are.
 *
 *   Determinism  Coordinates are independent: doing [0, dim) at once or in
 *                ranges gives the same bits.
 *   Threads      Pure, apart from the arrays given.
 */
#ifndef MUSTER_MODEL_OPTIM_H
#define MUSTER_MODEL_OPTIM_H

#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

#define MUSTER_OPTIM_SLOTS_MAX 2u

typedef enum muster_optim_kind {
    MUSTER_OPTIM_SGD = 0,
    MUSTER_OPTIM_MOMENTUM = 1,
    MUSTER_OPTIM_NESTEROV = 2,
    MUSTER_OPTIM_ADAM = 3, // and adamw
} muster_optim_kind;

typedef struct muster_optim {
    muster_optim_kind kind;
    uint32_t slots; // arrays of dim floats it keeps
    double beta1;   // momentum's beta, 0.9; adam's b1, 0.9
    double beta2;   // adam's b2, 0.999
    double epsilon; // adam's eps, 1e-8
    double decay;   // adamw's, 0.01; else 0
} muster_optim;

/* "sgd", "momentum:beta=0.95", "nesterov", "adam:b1=0.9,b2=0.99,eps=1e-7".
 * MUSTER_ERR_INVALID with a text that names --optimizer. */
MUSTER_CHECKED muster_status muster_optim_parse(const char *spec,
                                                muster_error *error_out,
                                                muster_optim *optim_out);

/* What a gradient of this norm is multiplied by, so that its norm is at most
 * `norm_max`; 0: no limit. */
double muster_optim_clip(double norm_max, double norm);

/* What a step works on; theta_out may be theta. */
typedef struct muster_optim_arrays {
    size_t dim;
    const float *theta;
    const float *gradient;
    float *state; // slots * dim
    float *theta_out;
} muster_optim_arrays;

/* A step: number 0 is the first. */
typedef struct muster_optim_step {
    const muster_optim *optim;
    uint64_t number;
    double lr;
} muster_optim_step;

/* Coordinates begin..end-1, all of which decay. */
void muster_optim_apply(const muster_optim_step *step,
                        const muster_optim_arrays *arrays, size_t begin,
                        size_t end);

#endif // MUSTER_MODEL_OPTIM_H
