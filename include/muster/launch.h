/*
 * muster/launch.h -- processes that a launcher started, and a launcher of our
 * own for one machine.
 *
 * Under srun, mpirun, torchrun, an indexed job of Kubernetes or muster launch
 * every process runs the same command line. Number, count and meeting place
 * come from the environment: MUSTER_RANK, MUSTER_SIZE and MUSTER_MASTER, else
 * what the launcher sets (docs/cluster.md).
 */
#ifndef MUSTER_LAUNCH_H
#define MUSTER_LAUNCH_H

#include <stdint.h>

#include "muster/config.h"
#include "muster/export.h"
#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What the environment makes of a `train` configuration, between parse and
 * check. Process 0 becomes the coordinator (its listen and workers are set),
 * any other one a worker: *join_out is its configuration, for muster_join(),
 * and the caller's to free. The processes of a sparse task become its nodes.
 * *join_out is NULL in all other cases, also when no launcher is found or the
 * options say where the workers are (--local, --listen, --node).
 * MUSTER_ERR_INVALID    a variable is wrong, or MUSTER_SIZE or MUSTER_MASTER
 *                       has to be set
 * MUSTER_ERR_NO_MEMORY
 */
MUSTER_API MUSTER_CHECKED muster_status muster_launched(
    muster_config *config, muster_error *error_out, muster_config **join_out);

typedef struct muster_launch_opts {
    uint32_t struct_size;
    uint32_t count;          // of processes, 1..1024; no default
    const char *const *argv; // the program and its arguments, NULL at the end
    uint64_t required_to;    // processes 0..required_to-1 are required;
                             // default UINT64_MAX: all
} muster_launch_opts;

#define MUSTER_LAUNCH_OPTS_INIT                                    \
    {                                                              \
        (uint32_t)sizeof(muster_launch_opts), 0u, NULL, UINT64_MAX \
    }

/*
 * Run a program `count` times on this machine, with MUSTER_RANK, MUSTER_SIZE,
 * MUSTER_MASTER and MUSTER_KEY_FILE set (a fresh key, unless there is one). The
 * lines that they write come out of our stdout and stderr, each with its
 * number. SIGINT, SIGTERM and SIGHUP are passed on. When a required process
 * fails, the others are ended: SIGTERM, and SIGKILL five seconds later. Returns
 * when all have ended. *code_out: 0, or the exit code of the first required one
 * that failed, 128 and the signal's number when it was killed.
 * MUSTER_ERR_INVALID    a field is out of range
 * MUSTER_ERR_SYSTEM     a process, a pipe or the key's folder cannot be made
 * MUSTER_ERR_NO_MEMORY
 */
MUSTER_API MUSTER_CHECKED muster_status muster_launch(
    const muster_launch_opts *opts, muster_error *error_out, int *code_out);

#ifdef __cplusplus
}
#endif

#endif // MUSTER_LAUNCH_H
