/*
 * edge_plan.c -- the plans of an edge: the code that each names, the workers'
 * under it, and when it comes into force.
 *
 *   PLAN n        make its code (ADOPT), unless it is the run's own
 *     the first   lead workers under it
 *     a later     the next plan of the coordinator below: workers get it, and
 *                 the shards that they lack
 *   HAVE n        once enough workers have it
 *   MODEL of n    it comes into force with this step
 *
 * Invariants:
 *   1. Below there is at most one next plan. The coordinator above sends plan
 *      n + 1 only while n is in force and was confirmed: an n that still waits
 *      for its first model comes into force then.
 *   2. An edge never leads workers under a code of which the check differs from
 *      the coordinator's.
 */
#include <math.h>

#include "code/hier.h"
#include "code/numbers.h"
#include "role/edge_inside.h"

/* How far the sum over the coefficients may be off: other processors round
 * otherwise. */
#define CHECK_MAX 1e-6
/* Each life of an edge gives its workers later incarnations than those before
 * it, also where the process is another; about so many of them. */
#define LIVES_BITS 8u

/* Is this the code that the coordinator has? */
static const char *wrong_with(const muster_edge *edge, const muster_code *code)
{
    uint32_t id = edge->above.id;
    if (!muster_code_is_hier(code) ||
        id >= muster_hier_numbers_of(code).edges) {
        return "the run's code has no such edge";
    }
    double own = muster_edges_check(code, id);
    return fabs(own - edge->terms.check) <= CHECK_MAX * (1 + fabs(own))
               ? NULL
               : "this machine makes another code of the run's options than "
                 "the coordinator's";
}

static muster_status create(muster_edge *edge, const muster_code *code)
{
    uint32_t id = edge->above.id;
    const muster_code *inner = muster_hier_inner(code, id);
    muster_coordinator_place place = {
        .layer = {.code = inner,
                  .terms = code,
                  .first = muster_hier_first(code, id),
                  .hier = code},
        .edge = edge,
        .first = muster_hier_first(code, id),
        .total = muster_code_numbers(code)->workers,
        .jobs = edge->job_ids,
        .lives = edge->above.incarnation << LIVES_BITS};
    muster_coordinator_opts opts = MUSTER_COORDINATOR_OPTS_INIT;
    opts.code = inner;
    opts.run = edge->above.run;
    opts.last_step = UINT64_MAX;
    opts.message_dim = (size_t)edge->terms.message_dim;
    opts.message_tail = edge->terms.message_tail;
    opts.shards = edge->terms.shards;
    opts.setup = edge->above.welcome;
    opts.model = muster_blob_create_empty(0); // none has come yet
    opts.heartbeat_ns = edge->above.heartbeat_ns;
    opts.grace_ns = edge->opts.grace_ns;
    muster_status status = opts.model == NULL
                               ? MUSTER_ERR_NO_MEMORY
                               : muster_coordinator_create_below(
                                     &opts, &place, NULL, &edge->below);
    muster_blob_unref(opts.model);
    return status;
}

/* Lead workers under the first plan of this life. */
static muster_status open_below(muster_edge *edge, const muster_code *code,
                                const muster_event *event,
                                muster_actions *actions)
{
    muster_status status = create(edge, code);
    if (status != MUSTER_OK) {
        return status;
    }
    edge->plan = edge->plan_newest;
    muster_edge_below(edge)->plan.number = edge->plan;
    muster_event start = {.kind = MUSTER_EVENT_START,
                          .now_ns = event->now_ns,
                          .progress = event->progress};
    muster_edge_feed(edge, &start, actions);
    return MUSTER_OK;
}

void muster_edge_adopt(muster_edge *edge, uint64_t first_step,
                       const muster_event *event, muster_actions *actions)
{
    muster_coordinator *c = muster_edge_below(edge);
    muster_edge_tell(edge, event->now_ns, actions); // under the old plan
    edge->plan = c->next.number;
    muster_plan_adopt(c, first_step, event, actions);
}

/* The workers' next plan. */
static muster_status follow(muster_edge *edge, const muster_code *code,
                            const muster_event *event, muster_actions *actions)
{
    muster_coordinator *c = muster_edge_below(edge);
    if (c->next.number != 0) { // confirmed, and overtaken by the next
        muster_step_abandon(c, actions);
        muster_edge_adopt(edge, c->step + edge->step_seen, event, actions);
    }
    muster_status status =
        muster_plan_follow(c, code, edge->plan_newest, event, actions);
    if (status == MUSTER_OK && !c->end.begun) {
        muster_edge_review(edge, event, actions);
    }
    return status;
}

/* The plan's code is here. */
static void take(muster_edge *edge, const muster_code *code,
                 const muster_event *event, muster_actions *actions)
{
    const char *wrong = wrong_with(edge, code);
    if (wrong != NULL) {
        muster_edge_stop(edge, MUSTER_ERR_REFUSED, wrong, actions);
        return;
    }
    muster_status status = edge->below.state == NULL
                               ? open_below(edge, code, event, actions)
                               : follow(edge, code, event, actions);
    if (status != MUSTER_OK) {
        muster_edge_stop(edge, status, "the workers' plan cannot be made",
                         actions);
    }
}

/* Does the plan name the code that SETUP made? */
static bool is_own(const muster_edge *edge)
{
    if (!muster_code_is_hier(edge->code)) {
        return true; // which is said to be wrong
    }
    muster_hier_numbers own = muster_hier_numbers_of(edge->code);
    const muster_edge_terms *terms = &edge->terms;
    return own.edge_stragglers == terms->edge_stragglers &&
           own.worker_stragglers == terms->worker_stragglers &&
           own.edge_comm == terms->edge_comm &&
           own.worker_comm == terms->worker_comm;
}

void muster_edge_on_plan(muster_edge *edge, const muster_event *event,
                         muster_actions *actions)
{
    uint32_t number = event->as.message.message->plan;
    muster_blob *payload = event->as.message.payload;
    if (number <= edge->plan_newest || edge->code == NULL || payload == NULL) {
        return;
    }
    if (payload->data == NULL ||
        muster_edge_terms_read(payload->data, payload->bytes, &edge->terms) <
            0) {
        muster_edge_stop(edge, MUSTER_ERR_PROTOCOL,
                         "the coordinator's plan is not an edge's", actions);
        return;
    }
    edge->plan_newest = number;
    if (is_own(edge)) {
        take(edge, edge->code, event, actions);
        return;
    }
    muster_coordinator *c = muster_edge_below(edge);
    edge->adopting = c != NULL ? ++c->jobs.ids : ++edge->job_ids;
    muster_job *job =
        muster_act_compute(actions, MUSTER_JOB_ADOPT, edge->adopting);
    job->plan = number;
    job->input = muster_blob_ref(payload);
}

void muster_edge_adopted(muster_edge *edge, const muster_event *event,
                         muster_actions *actions)
{
    const muster_job_result *result = &event->as.computed;
    if (result->id != edge->adopting) {
        return; // of an earlier life
    }
    edge->adopting = 0;
    if (result->status < 0 || result->code == NULL) {
        muster_edge_stop(
            edge, result->status < 0 ? result->status : MUSTER_ERR_PROTOCOL,
            result->text, actions);
        return;
    }
    take(edge, result->code, event, actions);
}

void muster_edge_forget_plans(muster_edge *edge)
{
    edge->ready = false;
    edge->plan = edge->plan_newest = edge->plan_told = 0;
    edge->adopting = 0;
}
