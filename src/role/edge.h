/*
 * role/edge.h -- an edge: gathers from its workers for the coordinator.
 *
 *   coordinator  --MODEL-->  edge  --MODEL-->  its workers
 *                <-GRADIENT-       <-GRADIENT-
 *
 * To the coordinator an edge is what a worker is to it: it joins, is set up,
 * gets a plan, is ready, and answers each model with one message. To its
 * workers it is a coordinator: it admits them, gives each its plan and shards,
 * offers them the model, and waits until the inner code has enough answers.
 * One COMBINE job decodes these; its result goes up. A newer model ends the
 * work on an older one. Shards are asked for above when a worker lacks one, and
 * passed on; none is kept.
 *
 * A later plan may have another code: workers are told of it and sent what they
 * lack while steps go on, and it comes into force with its first model.
 *
 * An edge is ready while those of its workers that are ready suffice for the
 * inner code. When too many are lost it ends its connection to the coordinator,
 * says why, and joins again when enough are back. A new life above is a new
 * life below: an edge that joins (again) drops its workers, which come back at
 * once and keep their shards. So steps never go back under the eyes of a
 * worker, also when a coordinator was resumed from an earlier step.
 *
 *   Numbers      Workers are numbered across edges: those of this one follow
 *                those of the edges before it.
 *   Ends         as a worker does (role/worker.h); also when the code that it
 *                made is not the coordinator's. Its workers are told when the
 *                run is over; otherwise they wait and try again.
 */
#ifndef MUSTER_ROLE_EDGE_H
#define MUSTER_ROLE_EDGE_H

#include <stdint.h>

#include "muster/code.h"
#include "muster/status.h"
#include "role/role.h"

typedef struct muster_edge_opts {
    uint32_t struct_size;
    char address[128];   // of the coordinator
    uint32_t id;         // the number wished for, or MUSTER_ID_ANY
    uint32_t pid;        // in log lines
    char host[64];       // in log lines
    int64_t patience_ns; // how long to try to reach the coordinator; 60 s
    int64_t grace_ns;    // how long to wait for late workers; 1 s
} muster_edge_opts;

#define MUSTER_EDGE_OPTS_INIT                              \
    {                                                      \
        .struct_size = (uint32_t)sizeof(muster_edge_opts), \
        .id = MUSTER_ID_ANY, .patience_ns = 60000000000ll, \
        .grace_ns = 1000000000ll                           \
    }

/* MUSTER_ERR_INVALID: no address. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_edge_create(const muster_edge_opts *opts,
                                                muster_error *error_out,
                                                muster_role *role_out);

/* Of a hier code: how many edges, the parts that its outer code has, and which
 * edge a worker is under. */
uint32_t muster_edge_count(const muster_code *code);
uint32_t muster_edge_parts(const muster_code *code);
uint32_t muster_edge_of(const muster_code *code, uint32_t worker);

#endif // MUSTER_ROLE_EDGE_H
