/*
 * edge_terms.c -- see edge_terms.h.
 */
#include "wire/edge_terms.h"

#include <math.h>
#include <string.h>

#include "wire/bytes.h"

#define DIM_MAX (1ull << 40)

void muster_edge_terms_write(const muster_edge_terms *terms, void *bytes)
{
    uint8_t *at = bytes;
    uint64_t check = 0;
    memcpy(&check, &terms->check, sizeof(check));
    muster_bytes_put(at, terms->message_dim, 8);
    muster_bytes_put(at + 8, terms->message_tail, 4);
    muster_bytes_put(at + 12, terms->shards, 4);
    muster_bytes_put(at + 16, check, 8);
    muster_bytes_put(at + 24, terms->edge_stragglers, 4);
    muster_bytes_put(at + 28, terms->worker_stragglers, 4);
    muster_bytes_put(at + 32, terms->edge_comm, 4);
    muster_bytes_put(at + 36, terms->worker_comm, 4);
}

muster_status muster_edge_terms_read(const void *bytes, size_t size,
                                     muster_edge_terms *terms_out)
{
    const uint8_t *at = bytes;
    if (size != MUSTER_EDGE_TERMS_BYTES) {
        return MUSTER_ERR_PROTOCOL;
    }
    muster_edge_terms terms = {
        .message_dim = muster_bytes_get(at, 8),
        .message_tail = (uint32_t)muster_bytes_get(at + 8, 4),
        .shards = (uint32_t)muster_bytes_get(at + 12, 4),
        .edge_stragglers = (uint32_t)muster_bytes_get(at + 24, 4),
        .worker_stragglers = (uint32_t)muster_bytes_get(at + 28, 4),
        .edge_comm = (uint32_t)muster_bytes_get(at + 32, 4),
        .worker_comm = (uint32_t)muster_bytes_get(at + 36, 4),
    };
    uint64_t check = muster_bytes_get(at + 16, 8);
    memcpy(&terms.check, &check, sizeof(check));
    if (terms.message_dim == 0 || terms.message_dim > DIM_MAX ||
        terms.shards == 0 || terms.edge_comm == 0 || terms.worker_comm == 0 ||
        !isfinite(terms.check)) {
        return MUSTER_ERR_PROTOCOL;
    }
    *terms_out = terms;
    return MUSTER_OK;
}
