/*
 * run/build.h -- from options to code, job, roles and slowness; the one place
 * for all verbs.
 *
 *   options -+- muster_build_code_opts --- code         train simulate code
 *            +- muster_build_coordinator - coordinator  train simulate
 *            +- muster_build_worker ------ worker       join simulate
 *            +- muster_build_slowness ---- sleeps       join simulate
 *
 * A local worker of train is a process of `join`, so that `--slow` and
 * `--delay` mean the same in train, join and simulate.
 *
 *   Ownership    Configurations are lent for the call; texts in the results
 *                are the configuration's.
 */
#ifndef MUSTER_RUN_BUILD_H
#define MUSTER_RUN_BUILD_H

#include <stdint.h>

#include "cluster/slowness.h"
#include "config/config.h"
#include "job/executor.h"
#include "muster/code.h"
#include "muster/status.h"
#include "role/coordinator.h"
#include "role/edge.h"
#include "role/worker.h"

/* The options of a code, with the array that they point to. */
typedef struct muster_build_code {
    muster_code_opts opts;
    double *speeds; // one a worker, 1 without --speeds
} muster_build_code;

/* Of each worker: from --speeds, a list or a cluster file, or from --cluster;
 * nothing is written without them. MUSTER_ERR_INVALID: not one for each worker.
 * MUSTER_ERR_INPUT: a bad file. */
MUSTER_CHECKED muster_status muster_build_speeds(const muster_config *config,
                                                 uint32_t workers,
                                                 muster_error *error_out,
                                                 double *speeds_out);

/* The code that --code auto begins with; other names stand for themselves. */
const char *muster_build_first(const muster_config *config, const char *name);

/* `name` is a code, or NULL: that of --code. MUSTER_ERR_INVALID: there are no
 * workers, or --speeds does not fit them. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status
muster_build_code_opts(const muster_config *config, const char *name,
                       muster_error *error_out, muster_build_code *build_out);
void muster_build_code_fini(muster_build_code *build);

/* S of --shards, or the default of data/cut.h: eight times as many with
 * --placement, twice that where speeds are measured. Also where the code has
 * more parts than --shards says, as after --resume with more workers. */
uint32_t muster_build_shards(const muster_config *config,
                             const muster_code *code);

/* May the data be cut as --shards says? Not into fewer than the code has parts
 * or more than there are samples (MUSTER_ERR_INVALID); what the file of an
 * earlier run says stands. */
MUSTER_CHECKED muster_status
muster_build_check_shards(const muster_config *config, const muster_code *code,
                          uint64_t samples, muster_error *error_out);

/* The processors that the workers of a local run share, in units of workers;
 * 0: each has its own, or is elsewhere. */
uint32_t muster_build_processors(const muster_config *config);

/* May the run have this code? MUSTER_ERR_INVALID: not with its --topology or
 * --verify. */
MUSTER_CHECKED muster_status
muster_build_check_code(const muster_config *config, const muster_code *code,
                        muster_error *error_out);

/*
 * A coordinator's options, for a code and the executor that has its job. `code`
 * is lent. Without an executor (timing only) there are --steps or 100 steps,
 * and messages are lengths. The run's number or saved state and the steps
 * between checkpoints are the caller's to fill in. MUSTER_ERR_INPUT: the
 * accuracy that --until asks for cannot be had. MUSTER_ERR_INVALID: of
 * muster_build_check_code(). MUSTER_ERR_NO_MEMORY.
 */
MUSTER_CHECKED muster_status muster_build_coordinator(
    const muster_config *config, const muster_code *code,
    const muster_executor *executor, muster_error *error_out,
    muster_coordinator_opts *opts_out);
void muster_build_coordinator_fini(muster_coordinator_opts *opts);

/* The run's code, as an edge makes it from the options in its job description;
 * for muster_executor_create_edge(). */
MUSTER_CHECKED muster_status muster_build_code_of(const muster_config *config,
                                                  muster_error *error_out,
                                                  muster_code **code_out);

/* An edge's options, likewise. */
muster_edge_opts muster_build_edge(const muster_config *config);

/* The model, as this machine knows it: --model; for code that the file of a
 * resumed run names, the shared object that --allow-model has in its place.
 * Lent by the configuration. */
const char *muster_build_model_path(const muster_config *config);

/* A worker's options: --patience and, in `join`, --worker. Address, pid and
 * host are the caller's to fill in. */
muster_worker_opts muster_build_worker(const muster_config *config);

/* Give an executor the threads of --threads. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_build_threads(const muster_config *config,
                                                  muster_executor *executor,
                                                  muster_error *error_out);

/* The delay model of --delay, or NULL. Fails as muster_delay_create(). */
MUSTER_CHECKED muster_status muster_build_delay(const muster_config *config,
                                                uint32_t workers,
                                                muster_error *error_out,
                                                muster_delay **delay_out);

/* How slow an edge is: of the values of --slow those for edgeK, and its link
 * where `delay` (lent; may be NULL) has a cluster file. */
MUSTER_CHECKED muster_status muster_build_edge_slowness(
    const muster_config *config, uint32_t edge, muster_delay *delay,
    muster_error *error_out, muster_slowness *slowness_out);

/*
 * How slow `worker` is: of the values W:TIME that --slow has for it the last
 * one counts, of the values W:FACTORx likewise; a time, a factor and a delay
 * add up. With @STEP a value counts from that step on, in place of those
 * before; W:0 ends both time and factor. `delay` is lent to the result, which
 * is for muster_slowness_fini(). MUSTER_ERR_INVALID: a value of --slow cannot
 * be read. MUSTER_ERR_NO_MEMORY.
 */
MUSTER_CHECKED muster_status muster_build_slowness(
    const muster_config *config, uint32_t worker, muster_delay *delay,
    muster_error *error_out, muster_slowness *slowness_out);

#endif // MUSTER_RUN_BUILD_H
