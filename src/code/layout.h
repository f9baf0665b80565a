/*
 * code/layout.h -- which workers hold each part, while a code is being built.
 *
 * Families think of a part and its holders; a muster_code wants the terms of a
 * worker. A layout holds, for every part, its holders and for each of them the
 * message_blocks x gradient_blocks coefficients (row-major cells), and turns
 * the whole around with one counting sort.
 */
#ifndef MUSTER_CODE_LAYOUT_H
#define MUSTER_CODE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code/family.h"

typedef struct muster_code_layout {
    uint32_t parts;
    uint32_t cell_count; // message blocks * gradient blocks
    size_t *first;       // parts + 1: where a part's holders start
    uint32_t *holders;
    double *cells; // cell_count per holder
} muster_code_layout;

/* Holders to be filled by the caller, `holder_count` in all. */
MUSTER_CHECKED muster_status muster_code_layout_init(muster_code_layout *layout,
                                                     uint32_t parts,
                                                     size_t holder_count,
                                                     uint32_t cell_count);
void muster_code_layout_fini(muster_code_layout *layout);

/* Part j on workers j - d + 1 .. j (mod n): worker i holds i .. i + d - 1.
 * Fills first and holders for n parts. */
void muster_code_layout_cyclic(muster_code_layout *layout, uint32_t n,
                               uint32_t d);

/* Worker i holds the next loads[i] of `parts`, all different. NULL: of the ring
 * 0, 1, .. k - 1, 0, ..; then each worker holds an arc, of at most k parts.
 * Fills first and holders (sum of loads), holders ascending. */
void muster_code_layout_lists(muster_code_layout *layout, const uint32_t *loads,
                              const uint32_t *parts, uint32_t workers);

/* Set the code's terms from the layout; code->info must be complete.
 * MUSTER_ERR_UNSUPPORTED when they are too many. */
MUSTER_CHECKED muster_status muster_code_layout_fill(
    const muster_code_layout *layout, muster_code *code, muster_error *error);

#endif // MUSTER_CODE_LAYOUT_H
