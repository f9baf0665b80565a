/*
 * role/assignment.h -- a numbered plan: a code, and the slot of each worker.
 *
 * A code speaks of its workers 0..n-1; here they are slots. The assignment
 * says which member fills which slot, so that a shuffle or a replacement is a
 * new plan with another map, and every message says by its plan number under
 * which one it was made. Plans count from 1.
 *
 *   Ownership    The code is lent.
 */
#ifndef MUSTER_ROLE_ASSIGNMENT_H
#define MUSTER_ROLE_ASSIGNMENT_H

#include <stdint.h>

#include "base/blob.h"
#include "muster/code.h"
#include "muster/status.h"

typedef struct muster_assignment {
    uint32_t number;
    const muster_code *code;
    muster_code_info info;
    uint32_t *slot_of;   // worker -> slot
    uint32_t *worker_of; // slot -> worker
} muster_assignment;

/* Everybody in the slot of his own number. */
MUSTER_CHECKED muster_status muster_assignment_init(
    muster_assignment *assignment, const muster_code *code, uint32_t number);
void muster_assignment_fini(muster_assignment *assignment);

/* The parts that `worker` needs, ascending; lent by the code. */
uint32_t muster_assignment_parts(const muster_assignment *assignment,
                                 uint32_t worker, const uint32_t **parts_out);

/* The payload of the PLAN message to `worker`; NULL when out of memory. */
muster_blob *muster_assignment_terms(const muster_assignment *assignment,
                                     uint32_t worker);

#endif // MUSTER_ROLE_ASSIGNMENT_H
