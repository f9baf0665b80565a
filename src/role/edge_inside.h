/*
 * role/edge_inside.h -- the state of an edge, for its files:
 *   edge.c        events: which are for the member above, which for below
 *   edge_above.c  what the coordinator says
 *   edge_plan.c   plans: their codes, and when they come into force
 *   edge_below.c  its workers: when they are enough, and their step
 *
 * Its workers are led by a muster_coordinator of its own, whose `edge` says
 * whose it is; that calls the functions named "called by" below.
 */
#ifndef MUSTER_ROLE_EDGE_INSIDE_H
#define MUSTER_ROLE_EDGE_INSIDE_H

#include "role/coordinator_inside.h"
#include "role/edge.h"
#include "wire/edge_terms.h"

enum {
    MUSTER_TIMER_ABOVE = 2, // of the member that follows the coordinator
    MUSTER_TIMER_LEAVE = 23,
};

struct muster_edge {
    muster_edge_opts opts;
    muster_member above;
    muster_role below;       // no state: there is no plan yet
    const muster_code *code; // of both layers; NULL until SETUP has ended
    bool setup_asked;
    uint32_t plan;           // in force in this life above; 0: none
    uint32_t plan_newest;    // that came in this life
    uint32_t plan_told;      // the newest confirmed in this life
    muster_edge_terms terms; // of plan_newest
    uint64_t adopting;       // ADOPT of plan_newest under way, or 0
    bool ready;              // told above, in this life
    bool step_seen;          // a model came in this life
    muster_vec wants;        // uint32_t: shards asked for above
    uint64_t want_stamp;     // of the newest WANT in this life above
    uint64_t job_ids;        // given out by the last coordinator below
    uint64_t progress;       // of all below, counted
    muster_vec answers;      // muster_edge_answer: not told above yet
    int64_t told_ns;         // when some were
    bool leaving, over;
};

static inline muster_coordinator *muster_edge_below(const muster_edge *edge)
{
    return edge->below.state;
}

/* edge.c */
void muster_edge_stop(muster_edge *edge, muster_status status,
                      const char *reason, muster_actions *actions);

/* edge_above.c */
void muster_edge_above(muster_edge *edge, const muster_event *event,
                       muster_actions *actions);
void muster_edge_set_up(muster_edge *edge, const muster_job_result *result,
                        muster_actions *actions);

/* edge_plan.c */
/* A plan has come from above. */
void muster_edge_on_plan(muster_edge *edge, const muster_event *event,
                         muster_actions *actions);
/* Its code was made, or not. */
void muster_edge_adopted(muster_edge *edge, const muster_event *event,
                         muster_actions *actions);
/* The workers' next plan is in force, from this step on. */
void muster_edge_adopt(muster_edge *edge, uint64_t first_step,
                       const muster_event *event, muster_actions *actions);
/* A life above has ended. */
void muster_edge_forget_plans(muster_edge *edge);

/* edge_below.c */
/* Drop all workers. */
void muster_edge_close(muster_edge *edge, muster_actions *actions);
/* Hand it an event. */
void muster_edge_feed(muster_edge *edge, const muster_event *event,
                      muster_actions *actions);
/* Tell the coordinator what workers did. */
void muster_edge_tell(muster_edge *edge, int64_t now_ns,
                      muster_actions *actions);
/* A model has come from above. */
void muster_edge_begin(muster_edge *edge, const muster_event *event,
                       muster_actions *actions);
/* A shard has come from above. */
void muster_edge_shard(muster_edge *edge, const muster_event *event,
                       muster_actions *actions);
/* Called by the coordinator below: who is ready has changed; a shard is
 * lacking (false: out of memory); a step's message is there. */
void muster_edge_review(muster_edge *edge, const muster_event *event,
                        muster_actions *actions);
bool muster_edge_want(muster_edge *edge, uint32_t shard,
                      muster_actions *actions);
void muster_edge_combined(muster_edge *edge, const muster_event *event,
                          muster_actions *actions);
/* Called by it likewise: a worker has answered. */
void muster_edge_answered(muster_edge *edge, const muster_report *report);

#endif // MUSTER_ROLE_EDGE_INSIDE_H
