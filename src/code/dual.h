/*
 * code/dual.h -- codes seen from their decoders: the engine behind crc,
 * cyclic-mds, rs, heter and ye-abbe-random / -tuned.
 *
 * All decodings that use everyone form an affine space: a_u + span(N), where
 * a_u is one decoding of output block u (row u of `affine`) and the rows of N
 * (`null`) are the weights that decode nothing. A set S of s stragglers asks
 * for the point of that space that vanishes on S: a solve of size s, whatever n
 * is. With fewer stragglers there is freedom left, and the point of least
 * float32 error is taken (a least-squares problem).
 *
 * The same two matrices make the encoding: with P = [affine; N], the
 * coefficients c of a part on any s + m holders h are the solution of
 * P_h c = [I_m; 0]. Ye and Abbe's random code, the heterogeneity-aware code
 * (Wang et al., m = 1) and their tuned variants differ only in P and in
 * which workers hold which parts.
 *
 * A column is a (worker, message block) pair; complex codes have two blocks
 * and appear here in their real form.
 *
 *   Promise      At most s missing workers that hold anything: exact up to the
 *                rounding that the fit reports. More: exact where a decoding
 *                vanishes on all of them, which some sets of structured codes
 *                allow; else least squares (lsq.h).
 */
#ifndef MUSTER_CODE_DUAL_H
#define MUSTER_CODE_DUAL_H

#include <stdint.h>

#include "code/family.h"

typedef struct muster_dual {
    uint32_t workers;    // n
    uint32_t outputs;    // gradient blocks
    uint32_t blocks;     // message blocks
    uint32_t stragglers; // s
    uint32_t freedom;    // rows of N: s * blocks
    uint32_t zeros_max;  // workers on whom a decoding may vanish at once: s
                         // unless the family raises it
    double *affine;      // outputs x columns, row-major
    double *null;        // columns x freedom: column c at null + c * freedom
} muster_dual;

/* Zeroed matrices of the right size. NULL when out of memory. */
muster_dual *muster_dual_create(uint32_t workers, uint32_t outputs,
                                uint32_t blocks, uint32_t stragglers);
void muster_dual_free(void *dual);

/* Replace N by an orthonormal basis of the same space, so that conditions mean
 * something. */
MUSTER_CHECKED muster_status muster_dual_orthonormalise(muster_dual *dual);

/* Coefficients of a part on `count` = s + m holders (blocks == 1): cells_out is
 * count x outputs. Least squares where P_h is close to singular. */
MUSTER_CHECKED muster_status muster_dual_encode(const muster_dual *dual,
                                                const uint32_t *holders,
                                                uint32_t count,
                                                double *cells_out);

/*
 * Fill a real dual from vectors of R^(s+m), any s + m of them independent:
 * `frame` is (s + m) x (m + n) row-major and is destroyed, its first m columns
 * are the targets, the others the workers'. Decodings of output u are the rows
 * y F with y . target_v = [u = v], so the targets are turned into unit vectors.
 */
void muster_dual_from_frame(muster_dual *dual, double *frame);

/* Decode for a code whose state is a muster_dual (the table's function). */
muster_status muster_dual_weights(const muster_code *code,
                                  muster_code_query *query);

/*
 * Progress for such a code where zeros_max > s (the table's functions): ready
 * as early as the set allows (dual_progress.c).
 */
size_t muster_dual_progress_bytes(const muster_code *code);
void muster_dual_progress_reset(const muster_code *code, void *progress);
bool muster_dual_progress_add(const muster_code *code, void *progress,
                              uint32_t worker);

/*
 * The weights alone, for a dual that is part of another state: its place p is
 * worker names[p] of the code (NULL: itself), `present` are the places heard
 * from, ascending. weights_out: outputs x (places * blocks).
 * MUSTER_ERR_INVALID: more are missing than s and no decoding vanishes on all
 * of them, or singular.
 */
typedef struct muster_dual_query {
    const muster_code *code;
    const uint32_t *names;
    const uint32_t *present;
    uint32_t count;
} muster_dual_query;

MUSTER_CHECKED muster_status muster_dual_solve(const muster_dual *dual,
                                               const muster_dual_query *query,
                                               double *weights_out,
                                               double *condition_out);

#endif // MUSTER_CODE_DUAL_H
