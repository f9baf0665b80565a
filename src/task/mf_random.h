/*
 * task/mf_random.h -- the random order of matrix factorisation: which block of
 * cells is visited when.
 */
#ifndef MUSTER_TASK_MF_RANDOM_H
#define MUSTER_TASK_MF_RANDOM_H

#include "base/perm.h"
#include "task/mf.h"

/* Cells of one column lie together within so many of the random order. */
enum { MUSTER_MF_BLOCK = 1024 };

/* A block's cells lie in from .. end - 1. They are visited from `middle` on,
 * then from `from` up to it. */
typedef struct muster_mf_block {
    const muster_cell *from;
    const muster_cell *middle;
    const muster_cell *end;
} muster_mf_block;

/* The blocks of a part in the order of an epoch. */
typedef struct muster_mf_visits {
    const muster_cell *cells;
    uint64_t count;
    uint64_t blocks;
    uint64_t seed;
    uint64_t epoch;
    muster_perm order;
} muster_mf_visits;

muster_mf_visits muster_mf_visits_make(const muster_mf *m, uint32_t part,
                                       uint32_t epoch);
/* The block that is visited at `number`; an empty one after the last. */
muster_mf_block muster_mf_visits_at(const muster_mf_visits *v, uint64_t number);

/* A share in this order. */
MUSTER_CHECKED muster_status
muster_mf_work_random(muster_mf_pass *p, const muster_task_share *share);

#endif // MUSTER_TASK_MF_RANDOM_H
