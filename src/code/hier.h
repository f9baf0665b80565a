/*
 * code/hier.h -- the two layers of a `hier` code: edges and their workers.
 *
 * A hier code spreads its parts over edges by an outer code, and the parts of
 * each edge over its workers by an inner code (Tang et al. 2024). A worker's
 * encode terms already hold the products of both layers' coefficients.
 *
 *   worker j of edge i   sends x_ij = muster_code_encode() with the hier code
 *   edge i               decodes x_ij with muster_hier_inner(code, i), sends
 *                        y_i, muster_hier_edge_length() floats
 *   coordinator          decodes y_i with muster_hier_outer(code): the gradient
 *
 * Without edges, whoever hears the workers themselves decodes with the hier
 * code as with any other: its weights are the products of both layers'.
 *
 *   Ownership    Inner and outer codes are lent until the hier code is freed.
 *   Threads      Read only, as any code.
 */
#ifndef MUSTER_CODE_HIER_H
#define MUSTER_CODE_HIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/code.h"

typedef struct muster_hier_numbers {
    uint32_t edges;
    uint32_t edge_stragglers;   // s_e
    uint32_t worker_stragglers; // s_w, under each edge
    uint32_t edge_comm;         // m_e: an edge sends p / m_e
    uint32_t worker_comm;       // m_w: a worker sends p / (m_e m_w)
    double load;                // D / K
    double load_bound; // (s_e + m_e) (s_w + m_w) / workers: the least possible
    // A flat code that survives s_e lost edges and s_w more workers under each
    // other edge, with m = 1:
    uint32_t flat_stragglers;
    double flat_load;
} muster_hier_numbers;

bool muster_code_is_hier(const muster_code *code);

/* The name of the code with these numbers, "hier:se=1,sw=2", as --code and
 * plans have it; layers by default. */
void muster_hier_name(const muster_hier_numbers *numbers, char *name_out,
                      size_t size);

/* All below need a hier code. */
muster_hier_numbers muster_hier_numbers_of(const muster_code *code);

/* The code over edges: its workers are the edges, its messages are y_i. */
const muster_code *muster_hier_outer(const muster_code *code);

/*
 * The code over the workers of `edge`: its worker j is worker
 * muster_hier_first(code, edge) + j of the hier code. Its progress says when
 * the edge can decode, its weights how; what it decodes is y_i. Its encode
 * terms are not those that a worker uses: the hier code's are.
 */
const muster_code *muster_hier_inner(const muster_code *code, uint32_t edge);

/* As muster_code_opts has it, for muster_mem_free(); NULL when out of memory.
 */
char *muster_hier_topology(const muster_code *code);

/* The first worker of `edge`; of `edges`: the number of workers. */
uint32_t muster_hier_first(const muster_code *code, uint32_t edge);
/* The edge that `worker` is under. */
uint32_t muster_hier_edge_of(const muster_code *code, uint32_t worker);

/*
 * Floats of an edge's message for gradients of `dim` floats. It is a whole
 * number of a worker's blocks, so it may exceed p / m_e by padding: an edge
 * decodes this many floats with the inner code, and the coordinator takes
 * m_e times as many as the outer code's dim (its muster_code_block_length() is
 * then this) and uses the first `dim`.
 */
size_t muster_hier_edge_length(const muster_code *code, size_t dim);

#endif // MUSTER_CODE_HIER_H
