/*
 * task/mf_deal.h -- the rows of matrix factorisation, dealt to the parts, and
 * those of a part one after the other.
 */
#ifndef MUSTER_TASK_MF_DEAL_H
#define MUSTER_TASK_MF_DEAL_H

#include "task/mf.h"

/* Neighbouring rows of one part. */
typedef struct muster_mf_group {
    uint64_t cells;
    uint32_t row; // the first
    uint32_t end; // above the last
    uint32_t part;
} muster_mf_group;

/*
 * Steps of muster_mf_arrange(): deal the rows, given those of all cells in
 * order (MUSTER_ERR_NO_MEMORY); say whose one is, while groups are in the order
 * of rows; and when nobody asks any more, put each part's together.
 */
MUSTER_CHECKED muster_status muster_mf_deal(muster_mf *m,
                                            const uint32_t *sorted);
uint32_t muster_mf_part_of(const muster_mf *m, uint32_t row);
void muster_mf_dealt(muster_mf *m);

/* The rows of the parts up to `end`, some at a time; 0: there are no more. */
typedef struct muster_mf_cursor {
    const muster_mf_group *group;
    const muster_mf_group *end;
    uint32_t row;
} muster_mf_cursor;

muster_mf_cursor muster_mf_rows_of(const muster_mf *m, uint32_t part,
                                   uint32_t end);
uint32_t muster_mf_next_rows(muster_mf_cursor *at, uint32_t *rows_out,
                             uint32_t max);

#endif // MUSTER_TASK_MF_DEAL_H
