/*
 * role/job.h -- what a role may ask to be computed, and what comes back.
 *
 * Jobs are described here and carried out by src/job (exactly) or by the
 * simulator (as a sampled duration). A job's inputs are blobs and plain
 * numbers; COMPUTED brings the result under the same id. A cancelled job ends
 * with MUSTER_ERR_CANCELLED unless it had finished.
 */
#ifndef MUSTER_ROLE_JOB_H
#define MUSTER_ROLE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/blob.h"
#include "code/decoding.h"
#include "muster/status.h"

typedef enum muster_job_kind {
    /* worker */
    MUSTER_JOB_SETUP = 1,    // input: the job description sent by WELCOME
    MUSTER_JOB_ADOPT = 2,    // the payload of a PLAN: what to encode; to an
                             // edge: the code that it names
    MUSTER_JOB_LOAD = 3,     // a shard arrived: check and keep it
    MUSTER_JOB_FORGET = 4,   // drop a shard
    MUSTER_JOB_GRADIENT = 5, // model in, coded message out
    MUSTER_JOB_MIX = 7,      // gossip: models in, their mean out
    /* edge; it has SETUP too */
    MUSTER_JOB_COMBINE = 6, // messages in; decode, the edge's message out
    /* coordinator */
    MUSTER_JOB_SHARD = 10,    // shard number in, the shard's bytes out
    MUSTER_JOB_UPDATE = 11,   // messages in; decode, optimise, new model out
    MUSTER_JOB_EVALUATE = 12, // model in, loss and accuracy out
    MUSTER_JOB_SNAPSHOT = 13, // checkpoint of the newest state
    MUSTER_JOB_VERIFY = 14,   // messages in, a muster_job_mark each out
    MUSTER_JOB_PLAN = 15,     // a measured cluster in, a code for it out
    MUSTER_JOB_DECODE = 16,   // an UPDATE's input, of which some messages are
                              // still arriving: decode what is there and wait
                              // for more. Nothing comes out and nothing
                              // changes; the UPDATE of the same messages is
                              // done sooner. Gives way to any other job
} muster_job_kind;

/* Plans that a worker keeps: those that it adopted last. Steps go on under one
 * while those after it are made ready. */
#define MUSTER_WORKER_PLANS 4u

/* What UPDATE and VERIFY say of a message: a byte each. */
typedef enum muster_job_mark {
    MUSTER_MARK_NONE = 0,   // nothing is known against it
    MUSTER_MARK_AGREES,     // it agrees with those of others
    MUSTER_MARK_SUSPECT,    // it, or another suspect, is wrong
    MUSTER_MARK_WRONG,      // those of the others show that it is wrong
    MUSTER_MARK_NOT_FINITE, // it is no gradient
} muster_job_mark;

/* Room for the messages of a job. Reference-counted, so that a role can use it
 * again when the job that had it is over. */
typedef struct muster_job_list {
    _Atomic unsigned references;
    uint32_t room;
    muster_blob *blobs[];
} muster_job_list;

typedef struct muster_job {
    uint64_t id; // chosen by the role, unique in its life
    muster_job_kind kind;
    uint64_t step;      // GRADIENT, UPDATE, EVALUATE, SNAPSHOT
    bool is_last;       // SNAPSHOT: it ends when the file is there
    uint32_t shard;     // LOAD, FORGET, PART
    uint32_t stage;     // GRADIENT: which stage of the plan
    bool follows;       // GRADIENT: not the first of its step on this worker
    bool spare;         // GRADIENT: of another's share, to be left at once when
                        // there is better work
    uint32_t stages;    // ADOPT: so many in the plan, 1 at least
    muster_blob *input; // SETUP, ADOPT, LOAD, GRADIENT and EVALUATE (model),
                        // SNAPSHOT (the role's saved state), VERIFY (the slots
                        // of the messages, uint32_t, ascending), PLAN (a
                        // cluster file's text, with its NUL)
    uint32_t plan;      // ADOPT, GRADIENT
    bool test_only;     // EVALUATE: leave the training data out
    muster_decoding *decoding; // UPDATE, DECODE, COMBINE
    const muster_code *code;   // VERIFY; PLAN: the one in force; lent until
                               // the job has ended
    muster_blob **messages;    // UPDATE, DECODE, COMBINE: in `list`;
                               // messages[i] is of answer decoding->used[i].
                               // VERIFY likewise
    size_t block;              // UPDATE, DECODE, COMBINE: floats of a message's
                               // block; 0 but in COMBINE: as the model's length
                               // says
    uint32_t message_count;
    double fraction; // UPDATE of ssp: how much of a step it is
    bool partial;    // likewise: others of the same step follow. GRADIENT of
                     // gossip: the optimiser goes on. MIX: no model is ours
    muster_job_list *list;
} muster_job;

typedef struct muster_job_result {
    uint64_t id;
    muster_job_kind kind;
    muster_status status;
    uint64_t step;
    uint32_t shard;
    uint32_t stage;
    muster_blob *output;     // PART, GRADIENT, UPDATE, COMBINE, VERIFY (marks):
                             // lent with the event. Of an UPDATE or COMBINE
                             // that ended MUSTER_INEXACT: marks; messages are
                             // not finite, nothing was changed
    int64_t busy_ns;         // compute time, with injected slowness
    const muster_code *code; // SETUP of an edge: the run's; ADOPT of one: the
                             // plan's; PLAN: the chosen one. Lent for the
                             // executor's life
    uint64_t model_floats;   // SETUP of a worker: of its model
    double expected_ms;      // PLAN: of a step with the chosen code,
    double in_force_ms;      // and with that in force; NAN: not known
    double share;            // GRADIENT: of the step's samples, d parts of k
    double message;          // GRADIENT: the output's length over a gradient's
    double loss;             // GRADIENT of gossip: of the batch, mean + l2;
        // UPDATE: decoded batch mean + l2; EVALUATE: objective,
        // NAN when left out
    double grad_err;   // UPDATE
    double theta_norm; // UPDATE, EVALUATE
    double test_loss;  // EVALUATE; NAN without a test set
    double test_accuracy;
    double test_auc; // NAN unless there are two classes
    char text[256];  // why, when status < 0; PLAN: names of the code chosen
                     // and of that in force, "frc:s=1 in place of uncoded"
} muster_job_result;

/* Empty, for so many blobs; NULL when out of memory. */
muster_job_list *muster_job_list_create(uint32_t room);
muster_job_list *muster_job_list_ref(muster_job_list *list);
void muster_job_list_unref(muster_job_list *list);
/* Is the caller's reference the only one? */
bool muster_job_list_is_free(const muster_job_list *list);

/* Drop every reference a job holds. */
void muster_job_fini(muster_job *job);

#endif // MUSTER_ROLE_JOB_H
