/*
 * muster/run.h -- the verbs of the command as functions.
 *
 * Each takes the options of its verb and runs to the end in the calling thread
 * (plus threads and processes of its own, gone when it returns). Text for
 * people goes to the sink of muster/log.h; the result is one JSON object.
 *
 *   Promise      What is printed by `muster VERB --json` is exactly
 *                *json_out. Nothing is left running on return.
 *   Lifecycle    muster_config_check() first; a verb may run again afterwards.
 *   Ownership    *json_out is the caller's, for muster_config_text_free(); it
 *                is NULL when the verb failed before it had a result.
 *   Threads      One verb at a time per process: signals are process-wide.
 *   BLAS         The library leaves the number of BLAS threads of its process
 *                alone. Workers of --local have one each, so that a model
 *                trained by them does not depend on it. What is computed in
 *                this process (join, simulate, losses) may differ in its last
 *                bits; the muster command sets one thread at its start.
 *   Not here     Options: muster/config.h. Exit codes: muster/status.h.
 *
 * Background: docs/design/run.md; for users: docs/training.md, docs/cli.md.
 */
#ifndef MUSTER_RUN_H
#define MUSTER_RUN_H

#include <stdint.h>

#include "muster/config.h"
#include "muster/export.h"
#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Before muster_config_check(): the number of workers, and the topology of a
 * `hier` code, from the file of --cluster where options leave them out. Does
 * nothing for verbs without them.
 * MUSTER_ERR_INPUT      the cluster file is missing or bad
 * MUSTER_ERR_NO_MEMORY
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_options_of_cluster(muster_config *config, muster_error *error_out);

/*
 * Train; with --local N the workers are processes made from `program` (the
 * path of the muster command).
 * MUSTER_ERR_INVALID      options that do not go together, an unknown code,
 *                         model or optimiser
 * MUSTER_ERR_UNSUPPORTED  the code cannot serve this number of workers, or
 *                         loses the gradient to rounding
 * MUSTER_ERR_INPUT        data or a checkpoint is missing or bad
 * MUSTER_ERR_SYSTEM       a file, a socket or a process could not be had
 * MUSTER_ERR_NO_MEMORY    data, model or code do not fit the memory
 * MUSTER_ERR_REFUSED      a node was refused by its peers (key, version, run)
 * MUSTER_ERR_PEER_LOST    a node of the parameter server was lost
 * MUSTER_ERR_TIMED_OUT    a peer did not answer in time
 * MUSTER_ERR_PROTOCOL     a peer sent what it must not
 * MUSTER_ERR_QUORUM       too few workers or nodes are left; *json_out is the
 *                         summary so far, and a checkpoint was written
 * MUSTER_ERR_INTERRUPTED  a signal asked for the end; likewise
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_train(const muster_config *config, const char *program,
             muster_error *error_out, char **json_out);

/*
 * Be a worker of the run at the configured address until it ends.
 * MUSTER_ERR_INVALID      the address or the run's model is not legal here
 * MUSTER_ERR_INPUT        the host does not exist
 * MUSTER_ERR_SYSTEM       a socket could not be had
 * MUSTER_ERR_NO_MEMORY    the parts do not fit the memory
 * MUSTER_ERR_REFUSED      refused by the coordinator (key, version, run)
 * MUSTER_ERR_TIMED_OUT    no coordinator answered for --patience
 * MUSTER_ERR_PEER_LOST    the coordinator was lost for --patience
 * MUSTER_ERR_PROTOCOL     the coordinator sent what it must not
 * MUSTER_ERR_QUORUM       the run ended for want of workers
 * MUSTER_ERR_INTERRUPTED  a signal asked for the end, here or there
 */
MUSTER_API MUSTER_CHECKED muster_status muster_join(const muster_config *config,
                                                    muster_error *error_out);

/*
 * The same roles in virtual time.
 * MUSTER_ERR_INVALID      options that do not go together, an unknown code
 * MUSTER_ERR_UNSUPPORTED  a code cannot serve this number of workers
 * MUSTER_ERR_INPUT        data or a trace is missing or bad
 * MUSTER_ERR_SYSTEM       a file could not be written
 * MUSTER_ERR_NO_MEMORY    the world does not fit the memory
 * MUSTER_ERR_QUORUM       the simulated run lost too many workers
 */
MUSTER_API MUSTER_CHECKED muster_status muster_simulate(
    const muster_config *config, muster_error *error_out, char **json_out);

/*
 * Look at the gradient code of --code: what it costs and tolerates, or its
 * coefficients with --matrix; the code "list" lists all. *text_out is JSON with
 * --json, else lines for people; the caller's, for muster_config_text_free().
 * MUSTER_ERR_INVALID    no such code, or not with these numbers
 * MUSTER_ERR_INPUT      a matrix file is missing or bad
 * MUSTER_ERR_NO_MEMORY  the code or the text does not fit the memory
 */
MUSTER_API MUSTER_CHECKED muster_status muster_show_code(
    const muster_config *config, muster_error *error_out, char **text_out);

/*
 * Plan for the cluster of --cluster (muster/plan.h). *text_out is JSON with
 * --json, else lines for people; the caller's, for muster_config_text_free().
 * MUSTER_ERR_INPUT      the cluster file is missing or bad
 * MUSTER_ERR_SYSTEM     the file of --used cannot be written
 * MUSTER_ERR_NO_MEMORY  the plan or the text does not fit the memory
 */
MUSTER_API MUSTER_CHECKED muster_status muster_show_plan(
    const muster_config *config, muster_error *error_out, char **text_out);

/*
 * Apply model.safetensors to a data set.
 * MUSTER_ERR_INVALID    options that do not go together
 * MUSTER_ERR_INPUT      the model or the data is missing or bad, or they do
 *                       not fit each other
 * MUSTER_ERR_SYSTEM     the predictions could not be written
 * MUSTER_ERR_NO_MEMORY  model or data do not fit the memory
 */
MUSTER_API MUSTER_CHECKED muster_status muster_predict(
    const muster_config *config, muster_error *error_out, char **json_out);

/*
 * Give every sample of --data one of --workers by --method (or read who has
 * it), measure that, and write it to --out.
 * MUSTER_ERR_INVALID    options that do not go together, no such method
 * MUSTER_ERR_INPUT      the data or the owners' file is missing or bad, or
 *                       there are more workers than samples
 * MUSTER_ERR_SYSTEM     the owners could not be written
 * MUSTER_ERR_NO_MEMORY  data or similarities do not fit the memory
 */
MUSTER_API MUSTER_CHECKED muster_status muster_partition(
    const muster_config *config, muster_error *error_out, char **json_out);

/*
 * The `count` (1..1000) rows nearest to the one called `word`, by cosine, among
 * vectors in word2vec's format: a file, or a run folder that has vectors.txt.
 * MUSTER_ERR_INVALID    count is out of range
 * MUSTER_ERR_INPUT      no such file, word, or not that format
 * MUSTER_ERR_NO_MEMORY  the vectors do not fit the memory
 */
MUSTER_API MUSTER_CHECKED muster_status
muster_neighbors(const char *path, const char *word, uint32_t count,
                 muster_error *error_out, char **json_out);

#ifdef __cplusplus
}
#endif
#endif // MUSTER_RUN_H
