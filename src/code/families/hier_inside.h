/*
 * code/families/hier_inside.h -- what the files of the hier code share.
 *
 * Invariants: the workers of an edge are consecutive; edges of one size share
 * one inner code; all inner codes have the same message and gradient blocks;
 * part t of the hier code is a piece of outer part t / pieces, and the parts of
 * an edge, ascending, are cut into as many equal runs as its inner code has
 * parts.
 */
#ifndef MUSTER_CODE_FAMILIES_HIER_INSIDE_H
#define MUSTER_CODE_FAMILIES_HIER_INSIDE_H

#include "base/topology.h"
#include "code/family.h"
#include "code/hier.h"

typedef struct muster_hier_edge {
    uint32_t first;           // worker
    uint32_t workers;         // m_i
    const muster_code *inner; // of inner[]
    size_t progress_at;       // where its inner code's progress lies
} muster_hier_edge;

typedef struct muster_hier {
    muster_topology topology;
    uint32_t edge_stragglers;   // s_e
    uint32_t worker_stragglers; // s_w
    uint32_t edge_comm;         // m_e
    uint32_t worker_comm;       // m_w
    uint32_t pieces;            // parts of an outer part
    muster_code *outer;
    uint32_t inner_count;
    muster_code **inner; // one for each size of edges
    muster_hier_edge *edges;
    uint32_t *edge_of; // by worker
    size_t outer_progress_at;
    size_t progress_bytes;
    double load; // D / K
} muster_hier;

/* hier_layers.c: the outer code, from topology and s_e, m_e; the inner code for
 * an edge of `workers`, of the family `family` or (NULL) the one of least
 * float32 error that fits. */
MUSTER_CHECKED muster_status
muster_hier_build_outer(const muster_hier *hier, const muster_code_spec *spec,
                        muster_error *error, muster_code **outer_out);
MUSTER_CHECKED muster_status muster_hier_build_inner(
    const muster_hier *hier, const muster_code_spec *spec, uint32_t workers,
    muster_error *error, muster_code **inner_out);

/* hier_decode.c: functions of the table. */
muster_status muster_hier_weights(const muster_code *code,
                                  muster_code_query *query);
size_t muster_hier_progress_bytes(const muster_code *code);
void muster_hier_progress_reset(const muster_code *code, void *progress);
bool muster_hier_progress_add(const muster_code *code, void *progress,
                              uint32_t worker);
/* Where the layers' progress lies; needs the codes of both. */
void muster_hier_place_progress(muster_hier *hier);

#endif // MUSTER_CODE_FAMILIES_HIER_INSIDE_H
