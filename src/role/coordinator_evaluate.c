/*
 * coordinator_evaluate.c -- evaluations on the way, and the target.
 *
 * The model of every E-th step is evaluated while training goes on: an EVALUATE
 * job has a reference to it, and may run beside any other job.
 *
 * Invariants
 *   1. One EVALUATE at a time. Where the next one is due and the last has not
 *      ended, no step begins before it has: every E-th model is evaluated, and
 *      one model is kept beyond those of the steps.
 *   2. What an evaluation shows counts when the next is due, not when it is
 *      known. A target that the model of step s reaches ends the run at step
 *      s + E, or at its last step, however long the evaluation took.
 */
#include <stdio.h>

#include "role/coordinator_inside.h"

static void begin(muster_coordinator *c, int64_t now_ns,
                  muster_actions *actions)
{
    c->jobs.evaluate = ++c->jobs.ids;
    c->jobs.model_ns = now_ns;
    muster_job *job =
        muster_act_compute(actions, MUSTER_JOB_EVALUATE, c->jobs.evaluate);
    job->step = c->step;
    job->input = muster_blob_ref(c->model);
    job->test_only = c->opts.target.kind == MUSTER_TARGET_ACCURACY;
}

bool muster_evaluate_holds(muster_coordinator *c, const muster_event *event,
                           muster_actions *actions)
{
    uint64_t every = c->opts.evaluate_every;
    if (every == 0 || c->step % every != 0) {
        return false;
    }
    c->jobs.held = c->jobs.evaluate != 0;
    if (c->jobs.held) {
        c->phase = MUSTER_PHASE_UPDATE;
        return true;
    }
    if (c->jobs.is_reached) {
        char reason[64];
        snprintf(reason, sizeof(reason), "the target is reached at step %llu",
                 (unsigned long long)c->jobs.reached_step);
        muster_coordinator_end(c, MUSTER_OK, reason, event, actions);
        return true;
    }
    begin(c, event->now_ns, actions);
    return false;
}

static bool is_reached(const muster_target *target,
                       const muster_job_result *result)
{
    switch (target->kind) {
    case MUSTER_TARGET_LOSS:
        return result->loss <= target->value;
    case MUSTER_TARGET_ACCURACY:
        return result->test_accuracy >= target->value;
    case MUSTER_TARGET_NONE:
        break;
    }
    return false;
}

static void report(muster_coordinator *c, const muster_event *event,
                   muster_actions *actions)
{
    const muster_job_result *result = &event->as.computed;
    muster_report *report =
        muster_act_report(actions, MUSTER_REPORT_EVALUATION, event->now_ns);
    report->step = result->step;
    report->as.evaluation.loss = result->loss;
    report->as.evaluation.test_loss = result->test_loss;
    report->as.evaluation.test_accuracy = result->test_accuracy;
    report->as.evaluation.model_ns = c->jobs.model_ns;
    report->as.evaluation.reached = c->jobs.is_reached;
}

void muster_evaluate_done(muster_coordinator *c, const muster_event *event,
                          muster_actions *actions)
{
    const muster_job_result *result = &event->as.computed;
    bool held = c->jobs.held;
    c->jobs.evaluate = 0;
    c->jobs.held = false;
    if (result->status == MUSTER_OK) {
        c->jobs.is_reached = is_reached(&c->opts.target, result);
        c->jobs.reached_step = result->step;
        report(c, event, actions);
    } else if (!c->end.begun) {
        muster_coordinator_end(c, result->status, result->text, event, actions);
        return;
    }
    if (c->end.begun) {
        muster_coordinator_close_on(c, event, actions);
    } else if (held && !muster_evaluate_holds(c, event, actions)) {
        muster_step_go_on(c, event, actions);
        muster_step_try(c, event, actions); // async: some came meanwhile
    }
}
