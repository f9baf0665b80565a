/*
 * coordinator_evaluate.c -- evaluations on the way, and the target.
 *
 * An EVALUATE job runs while the workers compute the next step; jobs come one
 * after another, so that the step's update waits for it at most. The model that
 * reached the target is one or two steps old when that is known.
 */
#include <stdio.h>

#include "role/coordinator_inside.h"

void muster_evaluate_begin(muster_coordinator *c, int64_t now_ns,
                           muster_actions *actions)
{
    uint64_t every = c->opts.evaluate_every;
    if (every == 0 || c->step % every != 0 || c->jobs.evaluate != 0) {
        return;
    }
    c->jobs.evaluate = ++c->jobs.ids;
    c->jobs.model_ns = now_ns;
    muster_job *job =
        muster_act_compute(actions, MUSTER_JOB_EVALUATE, c->jobs.evaluate);
    job->step = c->step;
    job->input = muster_blob_ref(c->model);
    job->test_only = c->opts.target.kind == MUSTER_TARGET_ACCURACY;
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

void muster_evaluate_done(muster_coordinator *c, const muster_event *event,
                          muster_actions *actions)
{
    const muster_job_result *result = &event->as.computed;
    c->jobs.evaluate = 0;
    if (result->status < 0) {
        muster_coordinator_end(c, result->status, result->text, event, actions);
        return;
    }
    bool reached = is_reached(&c->opts.target, result);
    muster_report *report =
        muster_act_report(actions, MUSTER_REPORT_EVALUATION, event->now_ns);
    report->step = result->step;
    report->as.evaluation.loss = result->loss;
    report->as.evaluation.test_loss = result->test_loss;
    report->as.evaluation.test_accuracy = result->test_accuracy;
    report->as.evaluation.model_ns = c->jobs.model_ns;
    report->as.evaluation.reached = reached;
    if (reached) {
        char reason[64];
        snprintf(reason, sizeof(reason), "the target is reached at step %llu",
                 (unsigned long long)result->step);
        muster_coordinator_end(c, MUSTER_OK, reason, event, actions);
    }
}
