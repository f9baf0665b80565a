/*
 * code/leak.h -- decodings of too few short messages, for parts that are alike.
 *
 * A message mixes m blocks of a part's gradient. Too few messages do
 * not take them apart: output block u of the least-squares best, x_u, also
 * holds M_uv times block v, on average over parts. Parts of shuffled data have
 * nearly equal gradients, so that this leak adds up over all of them, while
 * what it has of single parts cancels. Plain least squares weighs both alike.
 *
 * Here ||c_u - target||^2 / k + LEAK sum_{v != u} M_uv^2 is least, c_u being
 * what output block u has of the parts' blocks. Plain least squares gives
 * projections, so that the best is a mix of its weights,
 *   x_u - sum_{v != u} b_v x_v,  (M_vv' + I / LEAK) b = M_vu  over v, v' != u,
 * whatever code and solver they are from. No message at all leaks nothing:
 * the residual is at most 1, and a step from messages that do not help is
 * nearly none.
 *
 *   Not here     The length of the step (code.c).
 */
#ifndef MUSTER_CODE_LEAK_H
#define MUSTER_CODE_LEAK_H

#include "code/family.h"

/* From this m on. With two blocks the least-squares best ends within 2 % of
 * the uncoded loss, and nearer to it where parts are unlike. */
#define MUSTER_CODE_LEAKY 3u

/* Mixes the terms of an inexact decoding, the least-squares best, and fills the
 * fit anew but for its condition. MUSTER_ERR_NO_MEMORY: as it was. */
MUSTER_CHECKED muster_status muster_code_leak_less(const muster_code *code,
                                                   muster_code_query *query);

#endif // MUSTER_CODE_LEAK_H
