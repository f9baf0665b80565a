/*
 * role/assignment.h -- a numbered plan: a code, the slot of each worker, and
 * the shards of each part.
 *
 * A code speaks of its workers 0..n-1; here they are slots. The assignment
 * says which member fills which slot, so that a shuffle or a replacement is a
 * new plan with another map, and every message says by its plan number under
 * which one it was made. Plans count from 1.
 *
 * A code also speaks of its parts 0..k-1. Data is held and moved in shards,
 * which are the same under every plan: part p is the shards first_shard[p] ..
 * first_shard[p + 1] - 1. Where k divides the number of shards S, all parts
 * have S / k of them; where it does not, some have one more. A part without a
 * shard (k > S) is one without samples.
 *
 *   Ownership    The code is lent.
 */
#ifndef MUSTER_ROLE_ASSIGNMENT_H
#define MUSTER_ROLE_ASSIGNMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/blob.h"
#include "muster/code.h"
#include "muster/status.h"

/* The workers that a plan is for: all of a code's, or those under an edge. */
typedef struct muster_layer {
    const muster_code *code;  // says when their answers are enough, and how to
                              // decode them; n workers
    const muster_code *terms; // their parts and encode terms: worker j has
    uint32_t first;           // those of worker first + j of this one
    const muster_code *hier;  // with edges, the code of both layers; else NULL
} muster_layer;

typedef struct muster_assignment {
    uint32_t number;
    const muster_code *code; // muster_layer.terms
    uint32_t first;          // of the layer
    const muster_code *hier; // likewise
    muster_code_info info;
    uint32_t shards;       // S, of the run
    uint32_t *first_shard; // by part, and S after the last
    uint32_t *slot_of;     // worker -> slot
    uint32_t *worker_of;   // slot -> worker
} muster_assignment;

/* Every worker in the slot of its own number; S = `shards`, at least 1. */
MUSTER_CHECKED muster_status
muster_assignment_init(muster_assignment *assignment, const muster_code *code,
                       uint32_t shards, uint32_t number);
/* The same for a layer. The numbers in `info` are of `layer->code`; parts and
 * blocks, which the encode terms speak of, of `layer->terms`. */
MUSTER_CHECKED muster_status muster_assignment_init_layer(
    muster_assignment *assignment, const muster_layer *layer, uint32_t shards,
    uint32_t number);
void muster_assignment_fini(muster_assignment *assignment);

/* The parts that `worker` needs, ascending; lent by the code. */
uint32_t muster_assignment_parts(const muster_assignment *assignment,
                                 uint32_t worker, const uint32_t **parts_out);

/* The parts of one answer, slot * stages + stage, likewise. */
uint32_t muster_assignment_answer(const muster_assignment *assignment,
                                  uint32_t answer, const uint32_t **parts_out);

/* Where a walk over the shards of a worker is; {0} at its start. */
typedef struct muster_shard_walk {
    uint32_t part;  // which of the worker's parts
    uint32_t shard; // which of that part's shards
} muster_shard_walk;

/* The shard that the walk is at (they ascend), or MUSTER_ID_ANY at its end. */
uint32_t muster_assignment_shard(const muster_assignment *assignment,
                                 uint32_t worker, muster_shard_walk *walk);

/* Is `shard` one of the worker's? */
bool muster_assignment_asks(const muster_assignment *assignment,
                            uint32_t worker, uint32_t shard);

/* The same two of a slot, whoever has it. */
uint32_t muster_assignment_slot_shard(const muster_assignment *assignment,
                                      uint32_t slot, muster_shard_walk *walk);
bool muster_assignment_slot_asks(const muster_assignment *assignment,
                                 uint32_t slot, uint32_t shard);

/* The payload of the PLAN message to `worker`, of SCHEDULE where the code has
 * stages; NULL when out of memory. */
muster_blob *muster_assignment_terms(const muster_assignment *assignment,
                                     uint32_t worker);

/* The same of a slot, whoever has it. */
muster_blob *muster_assignment_slot_terms(const muster_assignment *assignment,
                                          uint32_t slot);

#endif // MUSTER_ROLE_ASSIGNMENT_H
