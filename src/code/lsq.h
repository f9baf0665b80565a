/*
 * code/lsq.h -- the least-squares best decoding from any set of responders.
 *
 * min over a of ||a B_F - target||, one problem per output block, for codes of
 * any shape, straight from their encode terms. Small problems are solved
 * densely; large ones by conjugate gradients on the normal equations (CGLS),
 * which needs only products with the sparse B and stops at 1e-12 of the start,
 * where the query settles, or after a bounded number of rounds. It starts at
 * zero, so that of several best decodings the one of least norm is found.
 */
#ifndef MUSTER_CODE_LSQ_H
#define MUSTER_CODE_LSQ_H

#include "code/family.h"

/* Fills terms and the fit (condition: of B_F when solved densely, else NAN). */
muster_status muster_code_least_squares(const muster_code *code,
                                        muster_code_query *query);

#endif // MUSTER_CODE_LSQ_H
