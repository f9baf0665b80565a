/*
 * worker_step.c -- a step of a worker: the model, its stages, the answers.
 */
#include "base/assert.h"
#include "role/worker_inside.h"

void muster_worker_forget_model(muster_worker *w, muster_actions *actions)
{
    muster_blob_unref(w->model);
    w->model = NULL;
    muster_blob_unref(w->current);
    w->current = NULL;
    if (w->gradient != 0) {
        muster_act_cancel(actions, w->gradient);
    }
    if (w->gossip != NULL) {
        muster_gossip_reset(w->gossip, actions);
    }
}

/* An adopted plan, or NULL. */
static const muster_worker_plan *plan_of(const muster_worker *w,
                                         uint32_t number)
{
    if (w->plan.number == number) {
        return &w->plan;
    }
    for (uint32_t i = 0; i < MUSTER_WORKER_PLANS - 1; i++) {
        if (w->earlier[i].number == number) {
            return &w->earlier[i];
        }
    }
    return NULL;
}

/* The model that waits is that of the step at hand from now on. */
static void begin_step(muster_worker *w)
{
    const muster_worker_plan *adopted = plan_of(w, w->model_plan);
    MUSTER_ASSERT(adopted != NULL);
    muster_stages_plan plan = adopted->stages;
    plan.begun = w->model_own ? plan.own : plan.begun;
    muster_stages_begin(&w->stages, &plan, w->model_step, w->model_plan);
    w->gradient_plan = w->model_plan;
    w->gradient_check = w->model_check;
    w->gradient_life = w->life;
    muster_blob_unref(w->current);
    w->current = w->model;
    w->model = NULL;
}

static void start_gradient(muster_worker *w, muster_actions *actions)
{
    if (w->gradient != 0) {
        return;
    }
    if (w->model != NULL) {
        begin_step(w);
    }
    uint32_t stage = muster_stages_next(&w->stages);
    if (w->current == NULL || stage == MUSTER_STAGE_NONE) {
        return;
    }
    muster_job *job =
        muster_worker_compute(w, MUSTER_JOB_GRADIENT, w->current, actions);
    job->step = w->stages.step;
    job->plan = w->gradient_plan;
    job->stage = stage;
    job->follows = w->stages.started;
    job->spare = stage >= w->stages.plan.own;
    w->gradient = job->id;
    muster_stages_start(&w->stages, stage);
    if (!muster_stages_is_open(&w->stages)) {
        muster_blob_unref(w->current);
        w->current = NULL;
    }
}

bool muster_worker_is_usable(const muster_worker *w, uint32_t plan)
{
    return plan != 0 && plan >= w->plan_floor && plan_of(w, plan) != NULL;
}

/* A model that waits under a plan that has gone, or whose stages do. */
void muster_worker_drop_unusable(muster_worker *w)
{
    if (w->model != NULL && !muster_worker_is_usable(w, w->model_plan)) {
        muster_blob_unref(w->model);
        w->model = NULL;
    }
    if (w->current != NULL && !muster_worker_is_usable(w, w->gradient_plan)) {
        muster_blob_unref(w->current);
        w->current = NULL;
    }
}

void muster_worker_on_model(muster_worker *w, const muster_event *event,
                            muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    uint32_t plan = message->plan & MUSTER_PLAN_NUMBER;
    bool newer = !w->model_seen || message->step > w->model_step;
    if (!newer || !muster_worker_is_usable(w, plan) ||
        event->as.message.payload == NULL) {
        return; // overtaken by a newer one, or meant for another plan
    }
    if (w->gradient != 0 && w->gradient_check && w->gradient_life == w->life) {
        muster_blob_unref(w->model); // the one after it waits
    } else {
        muster_worker_forget_model(w, actions);
    }
    w->model_seen = true;
    w->model_step = message->step;
    w->model_plan = plan;
    w->model_check = (message->plan & MUSTER_PLAN_CHECK) != 0;
    w->model_own = (message->plan & MUSTER_PLAN_OWN) != 0;
    w->model = muster_blob_ref(event->as.message.payload);
    start_gradient(w, actions);
}

static void send_stage(muster_worker *w, uint32_t stage,
                       muster_stage_result result, muster_actions *actions)
{
    bool one = w->stages.plan.count == 1;
    muster_member_mail mail = {
        .message = {.kind = one ? MUSTER_MSG_GRADIENT : MUSTER_MSG_STAGE,
                    .plan = w->gradient_plan,
                    .step = w->stages.step},
        .payload = result.message};
    mail.message.as.gradient.compute_ns = (uint64_t)result.busy_ns;
    if (!one) {
        mail.message.as.gradient.stage = stage;
        mail.message.as.gradient.dropped =
            muster_stages_take_dropped(&w->stages);
    }
    muster_member_send(&w->member, MUSTER_ID_LEADER, &mail, actions);
}

void muster_worker_on_missing(muster_worker *w, const muster_message *message,
                              muster_actions *actions)
{
    muster_stages_word word = {message->step, message->plan,
                               message->as.missing.number,
                               message->as.missing.stages};
    muster_stage_result result;
    if (!muster_stages_told(&w->stages, &word)) {
        return;
    }
    for (uint32_t stage = muster_stages_take(&w->stages, &result);
         stage != MUSTER_STAGE_NONE;
         stage = muster_stages_take(&w->stages, &result)) {
        send_stage(w, stage, result, actions);
    }
    if (muster_stages_is_idle_work(&w->stages)) {
        muster_act_cancel(actions, w->gradient);
    } else {
        start_gradient(w, actions);
    }
}

void muster_worker_on_gradient(muster_worker *w,
                               const muster_job_result *result,
                               muster_actions *actions)
{
    if (result->id != w->gradient) {
        return; // a step with neighbours that was given up
    }
    w->gradient = 0;
    bool newest =
        w->model == NULL && w->model_seen && result->step == w->model_step;
    bool wanted = result->status >= 0 && w->gradient_life == w->life &&
                  (newest || w->gradient_check);
    muster_stage_result given = {wanted ? result->output : NULL,
                                 result->busy_ns};
    if (muster_stages_computed(&w->stages, given)) {
        muster_blob_ref(given.message);
        send_stage(w, result->stage, given, actions);
        if (w->gossip != NULL) {
            muster_gossip_start(w->gossip, result->output);
        }
    }
    start_gradient(w, actions);
}
