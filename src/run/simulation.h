/*
 * run/simulation.h -- what `muster simulate` makes of its options, for one
 * code: everything that sim/virtual.h needs.
 */
#ifndef MUSTER_RUN_SIMULATION_H
#define MUSTER_RUN_SIMULATION_H

#include "cluster/file.h"
#include "config/config.h"
#include "muster/status.h"
#include "run/build.h"
#include "sim/virtual.h"

typedef struct muster_simulation {
    muster_virtual_opts opts; // what it points to is below
    muster_build_code build;
    muster_code *code;
    muster_slowness *slowness;      // by worker
    muster_slowness *edge_slowness; // by edge; NULL without edges
    uint32_t edges;
    muster_delay *delay;             // NULL without --delay
    muster_delay_recorder *recorder; // NULL without --record-delays
    muster_vec faults;               // muster_fault
    muster_executor *executor;       // NULL without --data
    muster_cluster *cluster;         // NULL without --cluster
} muster_simulation;

/* `code` names one code. The configuration and the name are lent until fini.
 * Fails as the parts that are built; nothing is left then. */
MUSTER_CHECKED muster_status muster_simulation_init(
    muster_simulation *simulation, const muster_config *config,
    const char *code, muster_error *error_out);

/* Write what --record-delays is to write, after a run that ended with `status`;
 * that, or why it could not be written. */
MUSTER_CHECKED muster_status muster_simulation_recorded(
    muster_simulation *simulation, const muster_config *config,
    muster_status status, muster_error *error_out);
void muster_simulation_fini(muster_simulation *simulation);

#endif // MUSTER_RUN_SIMULATION_H
