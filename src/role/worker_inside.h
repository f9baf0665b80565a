/*
 * role/worker_inside.h -- the state of a worker, for its files:
 *   worker.c       events, plans, shards, the connection
 *   worker_step.c  a step: the model, its stages, the answers
 */
#ifndef MUSTER_ROLE_WORKER_INSIDE_H
#define MUSTER_ROLE_WORKER_INSIDE_H

#include "role/act.h"
#include "role/gossip.h"
#include "role/member.h"
#include "role/stages.h"
#include "role/worker.h"

/* What was said and done about a shard. */
typedef struct muster_worker_shard {
    uint32_t shard;
    bool held;      // loaded, and not told to forget it since
    uint64_t stamp; // of the newest word about it in this life; 0: none
    uint64_t job;   // the newest LOAD or FORGET of it, while under way; or 0
} muster_worker_shard;

/* A plan that a worker has adopted. */
typedef struct muster_worker_plan {
    uint32_t number; // 0: none, or going
    muster_stages_plan stages;
} muster_worker_plan;

/* Of as many shards nothing lies elsewhere. */
#define MUSTER_WORKER_SHARDS 4u

typedef struct muster_worker {
    // What a step reads comes first, and in the member: few cache lines.
    _Alignas(64) bool setup_asked;
    bool set_up;
    bool leaving, over;
    muster_worker_plan plan; // the newest adopted in this life
    uint32_t plan_floor;     // earlier ones may lack shards
    uint64_t life;           // welcomes so far
    uint64_t job_ids;
    uint32_t jobs; // under way

    muster_blob *model;  // the newest, not yet started; or NULL
    uint64_t model_step; // of `model` or of the job
    uint32_t model_plan; // likewise
    bool model_seen;     // in this life
    bool model_check;    // it is to be answered even if a newer one comes
    bool model_own;      // no other's share is begun unasked
    uint64_t gradient;   // job under way, or 0
    uint64_t gradient_life;
    uint32_t gradient_plan;
    bool gradient_check;   // likewise
    muster_gossip *gossip; // steps with neighbours; NULL: it has no address
    muster_blob *current;  // the model of the step at hand; or NULL
    muster_stages stages;  // of that step
    muster_member member;  // its end is seldom read, and so is the rest

    // Adopted before it in this life, the newest first.
    muster_worker_plan earlier[MUSTER_WORKER_PLANS - 1];
    uint32_t plan_asked;             // the newest sent
    muster_stages_plan stages_asked; // likewise
    uint64_t adopt;    // ADOPT job of plan_asked, while under way; or 0
    muster_vec shards; // muster_worker_shard
    muster_worker_shard first_shards[MUSTER_WORKER_SHARDS];
    muster_status leave_status; // why it leaves
    char *leave_text;           // or NULL: interrupted, or no memory for it
    bool lent;                  // its memory is the caller's
} muster_worker;

/* worker.c */
/* A job to fill in; it is under way. */
muster_job *muster_worker_compute(muster_worker *w, muster_job_kind kind,
                                  muster_blob *input, muster_actions *actions);

/* worker_step.c */
/* Leave the step at hand, and the model that waits. */
void muster_worker_forget_model(muster_worker *w, muster_actions *actions);
/* May a model of this plan be computed with? */
bool muster_worker_is_usable(const muster_worker *w, uint32_t plan);
/* Drop models under a plan that has gone. */
void muster_worker_drop_unusable(muster_worker *w);
void muster_worker_on_model(muster_worker *w, const muster_event *event,
                            muster_actions *actions);
/* What is missing in a step. */
void muster_worker_on_missing(muster_worker *w, const muster_message *message,
                              muster_actions *actions);
/* A GRADIENT job has ended. */
void muster_worker_on_gradient(muster_worker *w,
                               const muster_job_result *result,
                               muster_actions *actions);

#endif // MUSTER_ROLE_WORKER_INSIDE_H
