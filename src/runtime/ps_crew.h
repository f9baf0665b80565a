/*
 * runtime/ps_crew.h -- the other nodes of a local mesh: processes of our own.
 *
 * Node 0 is the process that the user started; it starts the others by exec of
 * the same program with the same task and `--node I --mesh DIR`, in a folder
 * only this user can reach. They die when it dies, and none is left when
 * muster_nodes_stop() returns.
 *
 *   Threads      The one that started them: a child dies with that thread.
 */
#ifndef MUSTER_RUNTIME_PS_CREW_H
#define MUSTER_RUNTIME_PS_CREW_H

#include <sys/types.h>

#include "config/config.h"
#include "muster/ps.h"
#include "muster/status.h"

typedef struct muster_nodes {
    char folder[64]; // "" when there is none
    pid_t pids[MUSTER_PS_NODES_MAX];
    uint32_t count; // with node 0, which is not in pids
} muster_nodes;

/* With `again`, or when the run itself was resumed, they begin from the
 * checkpoint in its folder. MUSTER_ERR_SYSTEM, MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_nodes_start(const muster_config *config,
                                                const char *program, bool again,
                                                muster_error *error_out,
                                                muster_nodes *nodes_out);

/* Wait for those that are ending, end the rest, remove the folder. */
void muster_nodes_stop(muster_nodes *nodes);

#endif // MUSTER_RUNTIME_PS_CREW_H
