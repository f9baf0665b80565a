/*
 * run/sparse_nodes.h -- the other nodes of a local mesh: processes of our own.
 *
 * Node 0 is the process that the user started; it starts the others by exec of
 * the same program with the same task and `--node I --mesh DIR`, in a folder
 * only this user can reach. They die when it dies, and none is left when
 * muster_local_nodes_stop() returns.
 *
 *   Threads      The one that started them: a child dies with that thread.
 */
#ifndef MUSTER_RUN_SPARSE_NODES_H
#define MUSTER_RUN_SPARSE_NODES_H

#include <stdbool.h>
#include <sys/types.h>

#include "config/config.h"
#include "muster/ps.h"
#include "muster/status.h"

typedef struct muster_local_nodes {
    char folder[64]; // "" when there is none
    pid_t pids[MUSTER_PS_NODES_MAX];
    uint32_t count; // with node 0, which is not in pids
} muster_local_nodes;

/* When the run was resumed, they begin from the checkpoint in its folder.
 * MUSTER_ERR_SYSTEM, MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_local_nodes_start(
    const muster_config *config, const char *program, muster_error *error_out,
    muster_local_nodes *nodes_out);

/* Has the process of a node ended? */
bool muster_local_nodes_ended(muster_local_nodes *nodes, uint32_t node);

/* End what is left of a node and start another in its place. */
MUSTER_CHECKED muster_status muster_local_nodes_replace(
    muster_local_nodes *nodes, const muster_config *config, const char *program,
    uint32_t node, muster_error *error_out);

/* Wait for those that are ending, end the rest, and those of `lost` (one bit
 * each) at once; remove the folder. */
void muster_local_nodes_stop(muster_local_nodes *nodes, uint64_t lost);

#endif // MUSTER_RUN_SPARSE_NODES_H
