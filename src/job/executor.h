/*
 * job/executor.h -- carries out the jobs that roles ask for.
 *
 * The arithmetic behind role/job.h, without threads, clocks or sockets: the
 * runtime drives it on its compute thread, the simulator in virtual time. Long
 * jobs are done in pieces of a few milliseconds, so that the driver can look at
 * a cancel flag, or sleep, between them.
 *
 *     muster_executor_begin(executor, &job);
 *     while (muster_executor_piece(executor) == MUSTER_IN_PROGRESS) { ... }
 *     muster_executor_end(executor, &result);
 *
 *   Promise      After SETUP, the result of a job depends on its inputs only:
 *                an executor holds shards, plans, model shape and (coordinator)
 *                theta, optimiser state and the data set; a worker of gossip
 *                has the state of its optimiser. Pieces are cut by
 *                counts, never by clocks: the same inputs give the same bits.
 *                GRADIENT and EVALUATE multiply with BLAS, whose bits depend
 *                on the number of its threads; the command and the workers
 *                that it starts have one. An executor changes nothing of the
 *                process around it, so neither that number.
 *   Lifecycle    create; jobs one after another; free. A job in the middle may
 *                be ended early with muster_executor_end: MUSTER_ERR_CANCELLED.
 *                An UPDATE that has begun to change the model is finished
 *                then. What a DECODE has done, ended early or not, is kept
 *                until the next UPDATE or DECODE, which goes on from it when
 *                its messages and weights are the same.
 *   Ownership    begin takes over the job's references. The result's output is
 *                the caller's reference.
 *   Threads      One at a time; an evaluator may work beside its coordinator's.
 *                With muster_executor_use_threads() a piece is shared among
 *                several, which wait while there is none; another number of
 *                them changes a GRADIENT by rounding alone.
 *   Allocation   SETUP, ADOPT, LOAD allocate, and the first GRADIENT after
 *                them. Later ones, and UPDATE, take their output blob from
 *                `alloc` and nothing else.
 *
 * Background: docs/design/job.md.
 */
#ifndef MUSTER_JOB_EXECUTOR_H
#define MUSTER_JOB_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/dataset.h"
#include "muster/config.h"
#include "muster/status.h"
#include "role/job.h"

typedef struct muster_executor muster_executor;

/* Where outputs live: net blobs in a process, heap blobs in the simulator. */
typedef struct muster_executor_alloc {
    muster_blob *(*make)(void *context, size_t bytes);
    void *context;
} muster_executor_alloc;

/* Heap blobs. */
extern const muster_executor_alloc muster_executor_heap;

/* A worker's executor: knows nothing until SETUP. */
MUSTER_CHECKED muster_status muster_executor_create_worker(
    const muster_executor_alloc *alloc, muster_executor **executor_out);

/*
 * A job whose model is a shared object makes a worker run code. It does so only
 * for a file that was allowed before SETUP: `spec` names it (what follows .so
 * is passed over), and where the job's model has the same file name, this one
 * is loaded, wherever the coordinator has its own. Without it SETUP fails with
 * MUSTER_ERR_INVALID and says what to do. MUSTER_ERR_NO_MEMORY.
 */
MUSTER_CHECKED muster_status
muster_executor_allow_model(muster_executor *worker, const char *spec);

/* A run with --data-at workers: read the data at `path` in place of the
 * coordinator's. Before SETUP. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_executor_read_from(muster_executor *worker,
                                                       const char *path);

/* Makes the run's code from its options. */
typedef muster_status (*muster_executor_code)(const muster_config *config,
                                              muster_error *error_out,
                                              muster_code **code_out);

/* An edge's: SETUP makes the code that the job description names, by `code`,
 * and lends it in its result, ADOPT likewise that of a plan; COMBINE decodes
 * messages.
 * MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status muster_executor_create_edge(
    muster_executor_code code, const muster_executor_alloc *alloc,
    muster_executor **executor_out);

/*
 * A coordinator's: loads the data and test sets that `config` (checked) names,
 * makes the model and the optimiser, and cuts the data into `shards` shards.
 * Fails as data/dataset.h, model/model.h, model/optim.h and model/schedule.h
 * say, with their texts.
 */
MUSTER_CHECKED muster_status muster_executor_create_coordinator(
    const muster_config *config, uint32_t shards,
    const muster_executor_alloc *alloc, muster_error *error_out,
    muster_executor **executor_out);

/*
 * Cut the data of a coordinator's executor by owners in place of evenly, into
 * as many shards: owner_of[i], below `owners`, owns sample i. Before the first
 * job. Fails as muster_cut_placed().
 */
MUSTER_CHECKED muster_status muster_executor_place(muster_executor *executor,
                                                   const uint32_t *owner_of,
                                                   uint32_t owners,
                                                   muster_error *error_out);

/*
 * An executor for EVALUATE jobs alone, each with its model, on the data of
 * `of`, a coordinator's: it may work beside that one, on another thread. It is
 * freed first. MUSTER_ERR_NO_MEMORY.
 */
MUSTER_CHECKED muster_status muster_executor_create_evaluator(
    const muster_executor *of, muster_executor **executor_out);

/* The training data; and the first shard of each owner, with the number of
 * shards after the last, or NULL where nobody owns any. Lent. */
const muster_dataset *muster_executor_data(const muster_executor *executor);
const uint32_t *muster_executor_owned(const muster_executor *executor);
/* How many samples are in the shards before each, and in all of them. Lent. */
const uint64_t *muster_executor_shards(const muster_executor *executor);

/* How many threads share a piece: 1 to MUSTER_THREADS_MAX, 1 at first. Those
 * of an evaluator, but the caller, give way to others; see base/threads.h.
 * Before the first job. MUSTER_ERR_NO_MEMORY. */
MUSTER_CHECKED muster_status
muster_executor_use_threads(muster_executor *executor, uint32_t threads);

/* NULL is allowed and does nothing. */
void muster_executor_free(muster_executor *executor);

/* Start a job. Failures come out of end(). */
void muster_executor_begin(muster_executor *executor, muster_job *job);

/* Do a piece (about 5 ms at most). MUSTER_IN_PROGRESS: call again;
 * MUSTER_ERR_AGAIN, of a DECODE alone: call again when more of its messages has
 * come, or end; anything else: call end. */
muster_status muster_executor_piece(muster_executor *executor);

/* Finish, or cancel when pieces are left; fills result_out (status included;
 * busy_ns is the driver's to fill in). */
void muster_executor_end(muster_executor *executor,
                         muster_job_result *result_out);

/* --- the coordinator's executor only -------------------------------------- */

typedef struct muster_executor_info {
    size_t dim;          // p, floats of theta
    size_t message_dim;  // D = p + 1: the gradient and the loss
    size_t message_tail; // bytes behind what a code makes of D floats: a float,
                         // the bound on the rounding in the message
    uint64_t samples;    // of the training data
    uint32_t features;
    uint32_t classes; // 0: the labels are real targets
    uint64_t batch;   // samples a step
    uint32_t shards;  // that the training data is cut into
    uint64_t steps;   // of the whole run
    uint64_t step;    // steps done so far; not 0 after a restore
    bool has_test;
    uint64_t test_samples;
} muster_executor_info;

muster_executor_info muster_executor_describe(const muster_executor *executor);

/* The job description for WELCOME: JSON text {"config":{..}, "samples",
 * "features", "classes", "nonzeros", "shards"}. A new reference, or NULL when
 * out of memory. */
muster_blob *muster_executor_setup_blob(const muster_executor *executor);

/* The newest theta, dim floats; a new reference. */
muster_blob *muster_executor_model_blob(const muster_executor *executor);

/* Write theta to `path` as safetensors, with the model's spec, features,
 * classes and kind as metadata, so that `muster predict` needs nothing else.
 * MUSTER_ERR_SYSTEM: it could not be written. */
MUSTER_CHECKED muster_status muster_executor_save_model(
    const muster_executor *executor, const char *path, muster_error *error_out);

/*
 * Where SNAPSHOT jobs write their checkpoints; NULL (the start): nowhere, they
 * then do nothing. A SNAPSHOT job's input, if any, is the role's own state: it
 * is stored beside theta and handed back by restore. The job copies what the
 * next step changes, and ends; the file is then written by a thread of its own.
 * While one is being written no other begins: the job does nothing then, but
 * with is_last it waits, writes, and ends when the file is there. That a file
 * could not be written is told by the next SNAPSHOT job.
 */
MUSTER_CHECKED muster_status
muster_executor_snapshot_to(muster_executor *executor, const char *folder);

/*
 * Go on from the newest checkpoint in `folder`: theta, the optimiser's state
 * and the step are set; *role_out is the role's state (a new reference), or
 * NULL. MUSTER_ERR_INPUT: there is none, or it is of another job (model,
 * optimiser, data, batch or seed differ; the text says which).
 */
MUSTER_CHECKED muster_status muster_executor_restore(muster_executor *executor,
                                                     const char *folder,
                                                     muster_error *error_out,
                                                     muster_blob **role_out);

#endif // MUSTER_JOB_EXECUTOR_H
