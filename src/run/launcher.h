/*
 * run/launcher.h -- which of how many processes this one is, and where process
 * 0 listens, as the environment says.
 *
 *   MUSTER_RANK, _SIZE, _MASTER   win over the others, one by one
 *   SLURM_PROCID                  of a step (srun), not of a batch script
 *   OMPI_COMM_WORLD_RANK          mpirun of Open MPI
 *   PMI_RANK                      mpiexec of MPICH
 *   RANK                          torchrun and its like, with WORLD_SIZE
 *   JOB_COMPLETION_INDEX          an indexed job of Kubernetes
 *
 * The port is made from the job's number, so that two jobs on one machine do
 * not meet, unless MUSTER_MASTER has one: HOST:PORT.
 */
#ifndef MUSTER_RUN_LAUNCHER_H
#define MUSTER_RUN_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "muster/status.h"

#define MUSTER_LAUNCHER_HOST_BYTES 100u

typedef struct muster_launcher_place {
    bool found; // else this process was not launched as one of several
    uint32_t rank;
    uint32_t size;
    char host[MUSTER_LAUNCHER_HOST_BYTES]; // of process 0; "": nobody told
    uint32_t port;
    bool one_host; // all processes are known to be on one machine
} muster_launcher_place;

/* MUSTER_ERR_INVALID names the variable that is wrong or has to be set. */
MUSTER_CHECKED muster_status
muster_launcher_find(muster_error *error_out, muster_launcher_place *place_out);

/* MUSTER_ERR_INVALID, and what to set, where nobody told the host. */
MUSTER_CHECKED muster_status muster_launcher_need_host(
    const muster_launcher_place *place, muster_error *error_out);

/* The host of any process, into MUSTER_LAUNCHER_HOST_BYTES; false: unknown. */
bool muster_launcher_host_of(const muster_launcher_place *place, uint32_t rank,
                             char *host_out);

#endif // MUSTER_RUN_LAUNCHER_H
