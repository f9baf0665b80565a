/*
 * muster/run.h -- the verbs of the command as functions.
 *
 * Each takes the options of its verb and runs to the end in the calling thread
 * (plus threads and processes of its own, gone when it returns). Text for
 * people goes to `log`; the result is one JSON object.
 *
 *   Promise      What is printed by `muster VERB --json` is exactly
 *                *json_out. Nothing is left running on return.
 *   Ownership    *json_out is the caller's, for muster_config_text_free(); it
 *                is NULL when the verb failed before it had a result.
 *   Threads      One verb at a time per process: signals are process-wide.
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

/* Train; with --local N the workers are processes made from `program` (the
 * path of the muster command). Returns MUSTER_OK, or what the exit code table
 * calls for: _INPUT, _QUORUM, _INTERRUPTED, .. */
MUSTER_API MUSTER_CHECKED muster_status
muster_train(const muster_config *config, const char *program,
             muster_error *error_out, char **json_out);

/* Be a worker of the run at the configured address until it ends. */
MUSTER_API MUSTER_CHECKED muster_status muster_join(const muster_config *config,
                                                    muster_error *error_out);

/* The same roles in virtual time. */
MUSTER_API MUSTER_CHECKED muster_status muster_simulate(
    const muster_config *config, muster_error *error_out, char **json_out);

/* Look at the gradient code of --code: what it costs and tolerates, or its
 * coefficients with --matrix; the code "list" lists all. *text_out is JSON with
 * --json, else lines for people; the caller's, for muster_config_text_free().
 * MUSTER_ERR_INVALID: no such code, or not with these numbers. */
MUSTER_API MUSTER_CHECKED muster_status muster_show_code(
    const muster_config *config, muster_error *error_out, char **text_out);

/* Apply model.safetensors to a data set. */
MUSTER_API MUSTER_CHECKED muster_status muster_predict(
    const muster_config *config, muster_error *error_out, char **json_out);

/* The `count` (1..1000) rows nearest to the one called `word`, by cosine, among
 * vectors in word2vec's format: a file, or a run folder that has vectors.txt.
 * MUSTER_ERR_INPUT: no such file, word, or not that format. */
MUSTER_API MUSTER_CHECKED muster_status
muster_neighbors(const char *path, const char *word, uint32_t count,
                 muster_error *error_out, char **json_out);

#ifdef __cplusplus
}
#endif
#endif // MUSTER_RUN_H
