/*
 * run/sparse_nodes.h -- the other nodes of a local mesh, as processes.
 *
 * Node 0 is the process that the user started. It starts the others by exec of
 * the same program with the same task and `--mesh DIR --node I`, where DIR is a
 * folder that only this user can reach. They die when node 0 dies, and none is
 * left when muster_local_nodes_stop() returns.
 *
 *   Threads      The one that started them: a node dies with that thread.
 */
#ifndef MUSTER_RUN_SPARSE_NODES_H
#define MUSTER_RUN_SPARSE_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "muster/status.h"
#include "proc/process_group.h"
#include "proc/socket_dir.h"

/* Zeroed: this process has started no nodes. */
typedef struct muster_local_nodes {
    muster_socket_dir dir;
    muster_process_group *group; // members 1..; NULL: none were started
    uint32_t count;              // with node 0, which is not in the group
} muster_local_nodes;

/* When the run was resumed, the nodes begin from the checkpoint in its folder.
 * Also after a failure, muster_local_nodes_stop() must follow.
 * MUSTER_ERR_SYSTEM, MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_local_nodes_start(
    const muster_config *config, const char *program, muster_error *error_out,
    muster_local_nodes *nodes_out);

/* Has the process of a node ended? */
bool muster_local_nodes_ended(muster_local_nodes *nodes, uint32_t node);

/* The first node whose process has ended, or 0. */
uint32_t muster_local_nodes_first_ended(muster_local_nodes *nodes);

/* Kill the process of a node, if it runs, and start another in its place. */
MUSTER_CHECKED muster_status muster_local_nodes_replace(
    muster_local_nodes *nodes, const muster_config *config, uint32_t node,
    muster_error *error_out);

/* Kill the nodes of `lost` (one bit each), wait for the others and end them if
 * they do not; remove the folder. */
void muster_local_nodes_stop(muster_local_nodes *nodes, uint64_t lost);

#endif // MUSTER_RUN_SPARSE_NODES_H
