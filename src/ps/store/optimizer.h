/*
 * ps/store/optimizer.h -- row optimisers: apply a gradient to a row.
 *
 * A row is `width` weights followed by its optimiser's state:
 *   none, sgd   nothing
 *   adagrad     width sums of squares:  s += g g;  w -= rate g / (sqrt s + eps)
 *   adam        width first moments, width second moments, one count of steps
 *
 *   Threads      Pure functions over a row that the caller has open.
 */
#ifndef MUSTER_PS_STORE_OPTIMIZER_H
#define MUSTER_PS_STORE_OPTIMIZER_H

#include <stdint.h>

#include "muster/ps.h"

typedef struct muster_row_optimizer {
    uint32_t kind; // a muster_ps_optimizer
    uint32_t width;
    float epsilon;
    float beta1;
    float beta2;
} muster_row_optimizer;

/* Floats of state beside a row of `width` weights. */
uint32_t muster_row_optimizer_state_floats(uint32_t kind, uint32_t width);

/* Apply `gradient` (width floats) to `row` at learning rate `rate`. */
void muster_row_optimizer_apply(const muster_row_optimizer *rule, float rate,
                                const float *gradient, float *row);

#endif // MUSTER_PS_STORE_OPTIMIZER_H
