/*
 * role/stages.h -- the stages of a worker's step: what to compute next, and
 * what to send.
 *
 * A worker computes its stages in their order and sends those of its own share
 * when they are done. Of the others it computes as many as its plan says, and
 * keeps the results, until the coordinator says what is missing; from then on
 * it computes and sends what is missing, and nothing else. A plan of one stage
 * is an own share of one.
 *
 *   Promise      No stage of a step is sent twice, or computed again after it
 *                was done. A word that is older than the newest, or of another
 *                step, changes nothing.
 *   Ownership    Results kept are references; fini and begin drop them.
 */
#ifndef MUSTER_ROLE_STAGES_H
#define MUSTER_ROLE_STAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/blob.h"
#include "wire/message.h"

#define MUSTER_STAGE_NONE UINT32_MAX

/* What a plan says of stages. */
typedef struct muster_stages_plan {
    uint32_t count; // 0: there is no plan
    uint32_t own;   // sent when they are done
    uint32_t begun; // computed without being asked
} muster_stages_plan;

/* MISSING, as it came. */
typedef struct muster_stages_word {
    uint64_t step;
    uint32_t plan;
    uint32_t number; // 0: none
    uint64_t missing;
} muster_stages_word;

/* What a stage gave. */
typedef struct muster_stage_result {
    muster_blob *message; // NULL: nothing is kept
    int64_t busy_ns;
} muster_stage_result;

typedef struct muster_stages {
    muster_stages_plan plan;
    uint64_t step;
    uint32_t number;
    bool told;                 // what is missing in this step
    bool started;              // a stage of this step
    uint64_t missing;          // valid when told
    uint64_t done, sent;       // bits
    uint32_t running;          // the stage being computed, or MUSTER_STAGE_NONE
    uint32_t dropped;          // computed or begun for nothing, not yet said
    muster_stages_word word;   // the newest that came
    muster_stage_result *kept; // by stage: not sent; NULL with one stage
} muster_stages;

/* The plan of one stage. */
#define MUSTER_STAGES_ONE \
    (muster_stages_plan)  \
    {                     \
        1, 1, 1           \
    }

void muster_stages_fini(muster_stages *stages);

/* A step begins under plan `number`: the last one's results are dropped.
 * Without memory for results, only those are computed that are wanted. */
void muster_stages_begin(muster_stages *stages, const muster_stages_plan *plan,
                         uint64_t step, uint32_t number);

/* The next stage to compute, or MUSTER_STAGE_NONE: there is none, or one is
 * being computed. */
uint32_t muster_stages_next(const muster_stages *stages);
void muster_stages_start(muster_stages *stages, uint32_t stage);

/* Could a stage of this step still be asked for? */
bool muster_stages_is_open(const muster_stages *stages);

/* The stage that was being computed has ended; its message is lent, NULL when
 * it was cancelled. True: send it; else it is kept until it is wanted. */
bool muster_stages_computed(muster_stages *stages, muster_stage_result result);

/* What is missing; true: it counts for the step at hand. A word for a step to
 * come counts when that begins. */
bool muster_stages_told(muster_stages *stages, const muster_stages_word *word);
/* Is the stage being computed for nothing? */
bool muster_stages_is_idle_work(const muster_stages *stages);
/* A kept result that is wanted now: its stage, and *result_out with a reference
 * for the caller. MUSTER_STAGE_NONE: no more. */
uint32_t muster_stages_take(muster_stages *stages,
                            muster_stage_result *result_out);
/* Forget the step and what was told: another life. */
void muster_stages_leave(muster_stages *stages);

/* Stages dropped since the last call. */
uint32_t muster_stages_take_dropped(muster_stages *stages);

#endif // MUSTER_ROLE_STAGES_H
