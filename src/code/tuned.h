/*
 * code/tuned.h -- good duals from harmonic frames: candidates to choose from.
 *
 * All take their vectors from frames (frame.h) of which any s + m (or any s,
 * for the part that decodes nothing) are independent.
 *   Candidate 0 is regular by proof for every (n, s, m): a frame of n + m
 *     vectors in R^(s+m), m of them, evenly spread, as targets.
 *   Even m: the frame of n vectors in R^(s+m); its first s rows are the
 *     frame of R^s and decode nothing, the other m decode. Regular by proof as
 *     well.
 *   Odd m: the same in R^(s+m+1), of which m + 1 rows are mixed down to m by a
 *     random orthonormal matrix. Regular with probability 1 only, but far
 *     better than candidate 0.
 * Worker i stands at place i * step of the circle, so that neighbours, who hold
 * the same parts and fail together, have unlike vectors.
 */
#ifndef MUSTER_CODE_TUNED_H
#define MUSTER_CODE_TUNED_H

#include "code/dual.h"

/* How many candidates are worth trying for n, s, m: fewer where building one
 * takes long; at least 1. */
uint32_t muster_tuned_candidates(uint32_t workers, uint32_t stragglers,
                                 uint32_t comm);

/* Build one. MUSTER_ERR_NO_MEMORY, MUSTER_ERR_INVALID (not finite). */
MUSTER_CHECKED muster_status muster_tuned_create(uint32_t workers,
                                                 uint32_t stragglers,
                                                 uint32_t comm,
                                                 uint32_t candidate,
                                                 muster_dual **dual_out);

#endif // MUSTER_CODE_TUNED_H
