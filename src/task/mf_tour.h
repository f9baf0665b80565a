/*
 * task/mf_tour.h -- a share of matrix factorisation by columns: the tour that a
 * part makes of them, and how far the parts are (mf_tour.c).
 */
#ifndef MUSTER_TASK_MF_TOUR_H
#define MUSTER_TASK_MF_TOUR_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/mem.h"
#include "task/mf.h"

/* The columns are cut into so many pieces for each part. */
enum { MUSTER_MF_CUTS = 4 };
enum { MUSTER_MF_PROGRESS_FLOATS = 2 }; // a row of the table of progress

/* How far a part is in its tour: epoch + 1 in the upper half, in the lower one
 * the pieces that it has left behind. Written where the part is worked on:
 * nodes find how far the parts of others are in a table. */
typedef struct muster_mf_progress {
    _Alignas(MUSTER_MEM_APART) _Atomic uint64_t done;
} muster_mf_progress;

/*
 * The piece of the columns with which `part` begins its tour in `epoch`; it
 * goes on to the last piece and then from the first to here. In every epoch the
 * parts begin as far from each other as cells go, and a part begins with the
 * block of MUSTER_MF_CUTS pieces that it ended the epoch before with: those
 * columns are still there.
 */
uint32_t muster_mf_first_piece(const muster_mf *m, uint32_t part,
                               uint32_t epoch);

/* A share by columns. Parts keep their distance where the share says that they
 * are worked on together. MUSTER_ERR_CANCELLED: it was stopped. */
MUSTER_CHECKED muster_status
muster_mf_work_columns(muster_mf_pass *p, const muster_task_share *share);

#endif // MUSTER_TASK_MF_TOUR_H
