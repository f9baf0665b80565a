/*
 * role/worker.h -- a worker of synchronous training: joins, computes, answers.
 *
 * It connects to the coordinator, sets up the job it is sent, keeps the shards
 * it is given, and answers each model with one coded message. A newer model
 * cancels the work on an older one. When the coordinator is lost it reconnects,
 * with the same number, for up to `patience_ns`; shards it holds need not be
 * sent again within the same run.
 *
 * It keeps the newest plans (MUSTER_WORKER_PLANS), so that the next ones can be
 * made ready while steps go on under the present one. SHARD and FORGET carry a
 * number in `step` that grows with each of them; the newest word about a shard
 * counts, in whatever order they come, and HAVE says it back. After a FORGET of
 * plan p no model of a plan before p is taken.
 *
 *   Ends         by a STOP action: MUSTER_OK when the coordinator said that the
 *                run is over (the reason says how), _REFUSED when it would not
 *                have us, _PEER_LOST after `patience_ns` without it,
 *                _INTERRUPTED after a STOP event, or what a failed SETUP,
 *                ADOPT, LOAD or FORGET said.
 */
#ifndef MUSTER_ROLE_WORKER_H
#define MUSTER_ROLE_WORKER_H

#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"
#include "role/role.h"

typedef struct muster_worker_opts {
    uint32_t struct_size;
    char address[128];   // of the coordinator
    char listen[128];    // where other workers reach it; "": nowhere, which
                         // is enough for all but gossip
    uint32_t id;         // the number wished for, or MUSTER_ID_ANY
    uint32_t pid;        // in log lines
    char host[64];       // in log lines
    int64_t patience_ns; // how long to try to reach the coordinator; 60 s
    void *room;          // NULL: on the heap; or muster_worker_bytes(), from a
                         // cache line on, that stand until the role is freed
} muster_worker_opts;

#define MUSTER_WORKER_OPTS_INIT                              \
    {                                                        \
        .struct_size = (uint32_t)sizeof(muster_worker_opts), \
        .id = MUSTER_ID_ANY, .patience_ns = 60000000000ll    \
    }

/* What a worker's state takes, whole cache lines: a simulation has thousands of
 * them in one block. Lists that are long for a worker lie elsewhere. */
size_t muster_worker_bytes(void);

/* MUSTER_ERR_INVALID: no address. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status
muster_worker_create(const muster_worker_opts *opts, muster_error *error_out,
                     muster_role *role_out);

#endif // MUSTER_ROLE_WORKER_H
