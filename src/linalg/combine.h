/*
 * linalg/combine.h -- weighted sums of many float vectors, one pass over
 * memory.
 *
 *     out[t] = sum_i weights[i] * rows[i][t],   begin <= t < end
 *
 * The rows are walked together, so that each streams through once. Sums are
 * kept in double and rounded to float once: the result is the rounded exact sum
 * but for about count * 2^-53. A caller that must stay responsive asks for one
 * range after another; long ranges, of MUSTER_COMBINE_RUN, are the fastest.
 *
 *   Threads      Pure functions over the caller's memory.
 *   Allocation   None; about 2 KiB of stack. More than
 *                MUSTER_COMBINE_TOGETHER rows need scratch of the caller's.
 *   Determinism  Rows are added in order and products are never fused, so every
 *                range split and every instruction set gives the same bits.
 *
 * Background: docs/design/linalg.md.
 */
#ifndef MUSTER_LINALG_COMBINE_H
#define MUSTER_LINALG_COMBINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Up to this many rows need no scratch. */
#define MUSTER_COMBINE_TOGETHER 7u

/* Doubles of scratch, aligned as muster_mem_raw_aligned() does. */
#define MUSTER_COMBINE_RUN 98304u

typedef struct muster_combine_rows {
    const float *const *rows;
    const double *weights;
    double *squares; // adds up each row's squares, good to 1e-4; NULL: unwanted
    uint32_t count;
} muster_combine_rows;

/* out must overlap no row. `scratch` holds MUSTER_COMBINE_RUN doubles and may
 * be NULL when count <= MUSTER_COMBINE_TOGETHER. Without rows out becomes 0. */
void muster_combine(const muster_combine_rows *input, size_t begin, size_t end,
                    double *scratch, float *out);

/*
 * One group of 1..MUSTER_COMBINE_TOGETHER rows, for a caller that brings the
 * rows of a long sum group by group: the coordinates from `begin` on, `length`
 * of them. The first group overwrites sums, later ones add to them. The last
 * has an `out` (from `begin` on), which gets the rounded sums; else it is NULL.
 * Bits are those of muster_combine() over all rows at once.
 */
typedef struct muster_combine_group {
    size_t begin;
    size_t length;
    double *sums; // `length` of them
    bool is_first;
    float *out;
} muster_combine_group;

void muster_combine_add(const muster_combine_rows *input,
                        const muster_combine_group *group);

#endif // MUSTER_LINALG_COMBINE_H
