/*
 * wire/edge_terms.h -- the payload of a PLAN message to an edge.
 *
 * An edge makes the plan's code itself, from the run's topology and the numbers
 * of the code's layers. What it needs besides are the sizes of the job, and a
 * sum over the coefficients of its workers, which tells whether it made the
 * same code as the coordinator.
 * Little-endian: message_dim (8), message_tail (4), shards (4), check (8),
 * edge_stragglers (4), worker_stragglers (4), edge_comm (4), worker_comm (4).
 */
#ifndef MUSTER_WIRE_EDGE_TERMS_H
#define MUSTER_WIRE_EDGE_TERMS_H

#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

#define MUSTER_EDGE_TERMS_BYTES 40u

typedef struct muster_edge_terms {
    uint64_t message_dim;  // floats of a gradient with its loss
    uint32_t message_tail; // bytes behind a message
    uint32_t shards;       // of the whole run
    double check;          // over the coefficients of the edge's workers
    uint32_t edge_stragglers, worker_stragglers; // of the hier code,
    uint32_t edge_comm, worker_comm;             // at least 1
} muster_edge_terms;

/* Into MUSTER_EDGE_TERMS_BYTES bytes. */
void muster_edge_terms_write(const muster_edge_terms *terms, void *bytes);

/* MUSTER_ERR_PROTOCOL: another size, no shard, no float, more than 2^40 floats,
 * a comm of 0, or a check that is not finite. */
MUSTER_CHECKED muster_status muster_edge_terms_read(
    const void *bytes, size_t size, muster_edge_terms *terms_out);

#endif // MUSTER_WIRE_EDGE_TERMS_H
