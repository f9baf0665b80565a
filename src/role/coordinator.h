/*
 * role/coordinator.h -- leads synchronous training with a gradient code.
 *
 * Workers join, are set up, get their plan and parts, and then count. A step:
 * the newest model is offered to every ready worker; answers of exactly this
 * (run, incarnation, plan, step) are gathered until the code says that they are
 * enough; decode and optimise (one UPDATE job); next step. A worker that does
 * not answer is a straggler, dead or not. When the ready workers are too few to
 * decode, training pauses, names those missing, and goes on when one returns;
 * after `patience_ns` (with `stop_on_loss` at once, when training has begun)
 * it ends with MUSTER_ERR_QUORUM, after a snapshot. With
 * `degrade` it goes on with the least-squares best of those that are there, and
 * says so. An approximate code with a tolerance s > 0 goes on with n - s
 * answers, those of lost workers missing among the s; and at a deadline, with
 * the best of what came. An exact code does the latter where deadline_ns is
 * set. With `edges` those that join are edges (role/edge.h), each with the
 * workers that the hier code has under it: one model goes to an edge, one
 * message comes back, and shards go to it when it asks for them; "worker" means
 * an edge in all of this page then. A shuffle moves workers to other slots of
 * the code, under a new plan.
 *
 *   Promise      No message is used that is late, of an earlier life, of
 *                another plan, of the wrong length or a second one of its
 *                worker. Every step's UPDATE sees messages whose decoding was
 *                solved for exactly those responders.
 *                A message that is not finite is an answer that did not come;
 *                its worker is named, and lost after three. With `verify`
 *                (coordinator_verify.c) surplus answers are compared with
 *                those used.
 *   Reports      STEP_BEGIN, ANSWER (also late ones), STEP_END for each step;
 *                WORKER for each change; RESULT before the end; NOTICE for
 *                what people should know.
 *   Evaluations  with `evaluate_every` run beside the steps; each is an
 *                EVALUATION report. A `target` that one shows ends the run when
 *                the next is due: the step does not depend on timing.
 *   Ends         by a STOP action: MUSTER_OK, _QUORUM, _INTERRUPTED (after a
 *                STOP event), or what a failed job said. Workers are told
 *                before.
 *   Ownership    `code` and `change_code` are lent for the role's life; setup
 *                and model are referenced by create.
 */
#ifndef MUSTER_ROLE_COORDINATOR_H
#define MUSTER_ROLE_COORDINATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blob.h"
#include "muster/code.h"
#include "muster/status.h"
#include "role/role.h"

/* What an evaluation on the way must show for training to end. */
typedef enum muster_target_kind {
    MUSTER_TARGET_NONE = 0,
    MUSTER_TARGET_LOSS,     // the objective on the training data, at most
    MUSTER_TARGET_ACCURACY, // on the test data, at least
} muster_target_kind;

typedef struct muster_target {
    muster_target_kind kind;
    double value;
} muster_target;

/* What is done with answers beyond those that decoding needs. */
typedef enum muster_verify_mode {
    MUSTER_VERIFY_OFF = 0,
    MUSTER_VERIFY_WARN,    // now and then: name workers whose answers are wrong
    MUSTER_VERIFY_CORRECT, // every step waits for all, and uses none that is
} muster_verify_mode;

typedef struct muster_coordinator_opts {
    uint32_t struct_size;
    const muster_code *code;   // its n workers are the workers of the run
    bool edges;                // a hier code whose edges join, not workers
    uint64_t run;              // drawn anew for each run; 0: that of `saved`
    uint64_t first_step;       // of this life; 0 unless resumed
    uint64_t last_step;        // one past the last
    size_t message_dim;        // D: floats of a gradient with its loss, p + 1
    size_t message_tail;       // bytes behind the coded ones; default 0
    muster_blob *setup;        // payload of WELCOME: the job description
    muster_blob *model;        // theta for first_step
    int64_t heartbeat_ns;      // silence that counts as lost; default 2 s
    int64_t stall_ns;          // busy without progress: lost; default 10 s
    int64_t grace_ns;          // wait for late joiners at the start; 5 s
    int64_t patience_ns;       // longest pause; default 60 s
    uint64_t checkpoint_every; // steps between SNAPSHOT jobs; 0: only at ends
    bool evaluate_at_end;      // EVALUATE before the end
    int64_t deadline_ns;       // a step's longest wait; 0: approximate codes
                               // learn it from the arrivals of the last
                               // steps, exact ones have none
    bool degrade;              // go on when too many are lost, not exactly
    bool eager;                // a code in stages that does not say: workers
                               // begin all stages unasked, as is best where
                               // each has processors of its own
    bool stop_on_loss;         // end when too many are lost: no pause
    muster_verify_mode verify; // default: off
    const char *shuffle;       // a policy of role/shuffle.h; NULL: none
    uint32_t shards;           // S, pieces that the data is cut into; 0: as
                               // many as the code has parts
    const muster_code *change_code; // go over to this one, of as many workers
    uint64_t change_step;           // when this step has begun; NULL: never
    /* Change to the code that a plan for the times measured so far chooses, as
     * often as that pays: coordinator_replan.c. Without a shuffle. */
    bool replan;
    uint32_t processors; // that its workers share; 0: each has its own
    /* The first shard of each part, and S after the last; lent for create.
     * NULL: as many shards for each part. */
    const uint32_t *first_shard;
    /* Size parts by the times that workers measure: role/balance.h. For codes
     * with one part for each worker, and without a shuffle. */
    bool balance;
    /* Answers are models to be averaged: a step without a lost worker is as
     * good as any. Only what people are told depends on it. */
    bool averages;
    /* Answers are gradients of workers' own samples, applied as they come:
     * coordinator_async.c. With `averages`, and without a shuffle. */
    bool async;
    uint64_t bound; // answers that a worker may be ahead of the slowest
    /* Samples in the shards before each, and in all; lent for create. NULL:
     * every shard has as many. */
    const uint64_t *rows_before;
    /* Workers have the models and average them with their neighbours:
     * coordinator_gossip.c. With `averages`, and without a shuffle. */
    bool gossip;
    uint32_t partners; // random neighbours in each step; 0: a ring
    uint64_t seed;     // of these
    /* Steps between EVALUATE jobs (0: none), and when training ends by one. */
    uint64_t evaluate_every;
    muster_target target;
    const void *saved; // what save() gave in an earlier life, or NULL
    size_t saved_bytes;
} muster_coordinator_opts;

#define MUSTER_COORDINATOR_OPTS_INIT                              \
    {                                                             \
        .struct_size = (uint32_t)sizeof(muster_coordinator_opts), \
        .heartbeat_ns = 2000000000ll, .stall_ns = 10000000000ll,  \
        .grace_ns = 5000000000ll, .patience_ns = 60000000000ll    \
    }

/*
 * MUSTER_ERR_INVALID    a field is out of its range, or `saved` is of another
 *                       run or damaged
 * MUSTER_ERR_NO_MEMORY
 */
MUSTER_CHECKED muster_status
muster_coordinator_create(const muster_coordinator_opts *opts,
                          muster_error *error_out, muster_role *role_out);

#endif // MUSTER_ROLE_COORDINATOR_H
