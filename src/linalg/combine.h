/*
 * linalg/combine.h -- weighted sums of many float vectors, one pass over
 * memory.
 *
 *     out[t] = sum_i weights[i] * rows[i][t],   begin <= t < end
 *
 * The rows are walked together, a tile at a time: a tile of sums stays in the
 * first cache while each row streams through once. Sums are kept in double and
 * rounded to float once, so the result is the rounded exact sum but for about
 * count * 2^-53. A caller that must stay responsive asks for one range after
 * another.
 *
 *   Threads      Pure functions over the caller's memory.
 *   Allocation   None; about 5 KiB of stack.
 *   Determinism  Rows are added in order and products are never fused, so every
 *                range split and every instruction set gives the same bits.
 */
#ifndef MUSTER_LINALG_COMBINE_H
#define MUSTER_LINALG_COMBINE_H

#include <stddef.h>
#include <stdint.h>

/* Sums held at a time, and the most that the tile pieces below accept. */
#define MUSTER_COMBINE_TILE 512u

/* Rows and weights of one output; out must not overlap a row. */
void muster_combine(const float *const *rows, const double *weights,
                    uint32_t count, size_t begin, size_t end, float *out);

/* The pieces, for callers whose rows come from a list of their own:
 * sums[t] += sum_i weights[i] * rows[i][t] for t < length <= the tile, and
 * rounding to float. The next tile of each row is fetched meanwhile. */
void muster_combine_tile_add(double *sums, const float *const *rows,
                             const double *weights, uint32_t count,
                             size_t length);
void muster_combine_tile_store(const double *sums, size_t length, float *out);

#endif // MUSTER_LINALG_COMBINE_H
