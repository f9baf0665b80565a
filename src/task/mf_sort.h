/*
 * task/mf_sort.h -- cells with the place that each belongs to, sorted.
 *
 * A radix sort: the cells of a matrix are many, and what they are sorted by are
 * whole numbers. All nodes sort the same cells and must get the same order,
 * so that cells which agree in all but the value are in order of the value.
 *
 *   Allocation   none; the caller lends a second array.
 *   Threads      any, on arrays of their own.
 */
#ifndef MUSTER_TASK_MF_SORT_H
#define MUSTER_TASK_MF_SORT_H

#include <stdint.h>

#include "data/ratings.h"

typedef struct muster_mf_placed {
    uint32_t part;  // first,
    uint32_t minor; // then this, then row, column and value of the cell
    muster_cell cell;
} muster_mf_placed;

/* Sort `all`; `spare` is as long, and its values are lost. */
void muster_mf_sort(muster_mf_placed *all, muster_mf_placed *spare,
                    uint64_t count);

/* The same by part and minor only; equal ones stay in the order they have. */
void muster_mf_sort_stable(muster_mf_placed *all, muster_mf_placed *spare,
                           uint64_t count);

#endif // MUSTER_TASK_MF_SORT_H
