/*
 * linalg/vanish.h -- the shortest row of an affine space that is zero on given
 * columns.
 *
 * For each output u:   min over z of || scale . (affine_u + z N) ||
 *                      subject to   (affine_u + z N)_c = 0 for c in `zero`.
 * QR of the chosen columns of N satisfies the constraints; what freedom is left
 * goes into a least-squares problem. With q constraints and r rows of N the
 * cost is O(columns r^2 + q r^2), not more for more outputs than their rows.
 *
 *   Allocation   Scratch, freed before return.
 */
#ifndef MUSTER_LINALG_VANISH_H
#define MUSTER_LINALG_VANISH_H

#include <stdint.h>

#include "muster/export.h"
#include "muster/status.h"

typedef struct muster_vanish {
    uint32_t columns;
    uint32_t freedom; // rows of N
    uint32_t outputs;
    const double *affine; // outputs x columns
    const double *null;   // columns x freedom: N transposed
    const double *scale;  // columns, >= 0
    const uint32_t *zero; // columns that must vanish
    uint32_t zero_count;  // at most freedom
} muster_vanish;

/* rows_out: outputs x columns. condition_out: of the constrained columns of N,
 * 1 when there are none. MUSTER_ERR_INVALID when those are singular. */
MUSTER_CHECKED muster_status muster_vanish_solve(const muster_vanish *problem,
                                                 double *rows_out,
                                                 double *condition_out);

#endif // MUSTER_LINALG_VANISH_H
