/*
 * worker.c -- a worker of synchronous training; see worker.h.
 *
 * Invariants:
 *   1. At most one GRADIENT job is under way; a newer model waits in `model`
 *      (only the newest does) and cancels it, unless the job's model was sent
 *      to be answered in any case. The model of the step at hand is kept as
 *      long as a stage of it may be computed.
 *   2. Nothing is sent for a model of an earlier connection: `life` counts
 *      welcomes, and a job remembers under which it was started.
 *   3. SETUP happens once per run. Shards that were loaded stay announced by
 *      HAVE after a reconnection, so they need not travel again.
 *   4. A GRADIENT job is asked for only under a plan whose ADOPT has ended in
 *      this life, which no ADOPT asked for since pushes out
 *      (MUSTER_WORKER_PLANS are kept), and whose shards are still held: plans
 *      before `plan_floor` may have lost theirs.
 */
#include "role/worker.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "role/act.h"
#include "role/gossip.h"
#include "role/worker_inside.h"

#define LEAVE_NS    MUSTER_NS_PER_S
#define LEAVE_TOKEN 1u

enum { TIMER_LEAVE = MUSTER_TIMER_ROLE };

static void stop(muster_worker *w, muster_status status, const char *reason,
                 muster_actions *actions)
{
    if (!w->over) {
        w->over = true;
        muster_act_stop(actions, status, reason);
    }
}

/* Plan adopted (shard MUSTER_ID_ANY), or shard held as `stamp` asked for. */
static void have(muster_worker *w, uint32_t plan, uint32_t shard,
                 uint64_t stamp, muster_actions *actions)
{
    muster_member_mail mail = {
        .message = {.kind = MUSTER_MSG_HAVE, .plan = plan, .step = stamp}};
    mail.message.as.have.shard = shard;
    muster_member_send(&w->member, MUSTER_ID_LEADER, &mail, actions);
}

muster_job *muster_worker_compute(muster_worker *w, muster_job_kind kind,
                                  muster_blob *input, muster_actions *actions)
{
    w->jobs++;
    muster_job *job = muster_act_compute(actions, kind, ++w->job_ids);
    job->input = muster_blob_ref(input);
    return job;
}

/* What is known of `shard`: a new entry when nothing is. Without memory for it
 * the worker ends, and NULL is returned. */
static muster_worker_shard *shard_of(muster_worker *w, uint32_t shard,
                                     muster_actions *actions)
{
    muster_worker_shard *list = w->shards.data;
    for (size_t i = 0; i < w->shards.count; i++) {
        if (list[i].shard == shard) {
            return &list[i];
        }
    }
    muster_worker_shard *added = muster_vec_push(&w->shards);
    if (added == NULL) {
        stop(w, MUSTER_ERR_NO_MEMORY, "no memory for another shard", actions);
        return NULL;
    }
    *added = (muster_worker_shard){.shard = shard};
    return added;
}

static void on_welcome(muster_worker *w, muster_actions *actions)
{
    w->life++;
    w->model_seen = false;
    w->plan = (muster_worker_plan){.number = 0};
    memset(w->earlier, 0, sizeof(w->earlier));
    w->plan_asked = w->plan_floor = 0;
    w->adopt = 0;
    muster_worker_forget_model(w, actions);
    muster_stages_leave(&w->stages);
    muster_worker_shard *shards = w->shards.data;
    for (size_t i = 0; i < w->shards.count; i++) {
        shards[i].stamp = 0;
    }
    if (!w->setup_asked) {
        w->setup_asked = true;
        muster_worker_compute(w, MUSTER_JOB_SETUP, w->member.welcome, actions);
    } else if (w->set_up) {
        for (size_t i = 0; i < w->shards.count; i++) {
            if (shards[i].held) {
                have(w, 0, shards[i].shard, 0, actions);
            }
        }
        have(w, 0, MUSTER_ID_ANY, 0, actions);
    }
}

static void on_plan(muster_worker *w, const muster_event *event,
                    muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    uint32_t number = message->plan;
    if (number > w->plan_asked && event->as.message.payload != NULL) {
        w->earlier[MUSTER_WORKER_PLANS - 2].number = 0; // it is pushed out
        muster_worker_drop_unusable(w);
        muster_job *job = muster_worker_compute(
            w, MUSTER_JOB_ADOPT, event->as.message.payload, actions);
        w->stages_asked = MUSTER_STAGES_ONE;
        if (message->kind == MUSTER_MSG_SCHEDULE) {
            w->stages_asked = (muster_stages_plan){message->as.schedule.stages,
                                                   message->as.schedule.own,
                                                   message->as.schedule.begun};
        }
        job->plan = number;
        job->stages = w->stages_asked.count;
        w->plan_asked = number;
        w->adopt = job->id;
    }
}

static void on_shard(muster_worker *w, const muster_event *event,
                     muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    muster_worker_shard *shard = shard_of(w, message->as.shard.shard, actions);
    if (shard == NULL) {
        return;
    }
    bool again = message->step == shard->stamp && shard->job != 0;
    if (message->step < shard->stamp || again ||
        event->as.message.payload == NULL) {
        return; // a newer word has come, or this one a second time
    }
    shard->stamp = message->step;
    if (shard->held) {
        have(w, message->plan, shard->shard, shard->stamp, actions);
        return;
    }
    muster_job *job = muster_worker_compute(w, MUSTER_JOB_LOAD,
                                            event->as.message.payload, actions);
    job->shard = shard->shard;
    shard->job = job->id;
}

static void on_forget(muster_worker *w, const muster_event *event,
                      muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    muster_worker_shard *shard = shard_of(w, message->as.shard.shard, actions);
    if (shard == NULL) {
        return;
    }
    if (message->plan > w->plan_floor) {
        w->plan_floor = message->plan;
    }
    muster_worker_drop_unusable(w);
    if (message->step <= shard->stamp) {
        return;
    }
    shard->stamp = message->step;
    if (shard->held || shard->job != 0) {
        muster_job *job =
            muster_worker_compute(w, MUSTER_JOB_FORGET, NULL, actions);
        job->shard = shard->shard;
        shard->job = job->id;
        shard->held = false;
    }
}

static void on_message(muster_worker *w, const muster_event *event,
                       muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    switch (message->kind) {
    case MUSTER_MSG_PLAN:
    case MUSTER_MSG_SCHEDULE:
        on_plan(w, event, actions);
        break;
    case MUSTER_MSG_SHARD:
        on_shard(w, event, actions);
        break;
    case MUSTER_MSG_FORGET:
        on_forget(w, event, actions);
        break;
    case MUSTER_MSG_MODEL:
        muster_worker_on_model(w, event, actions);
        break;
    case MUSTER_MSG_MISSING:
        muster_worker_on_missing(w, message, actions);
        break;
    case MUSTER_MSG_PEERS:
        if (w->gossip != NULL && muster_worker_is_usable(w, message->plan)) {
            muster_gossip_begin(w->gossip, event, actions);
        }
        break;
    case MUSTER_MSG_STOP:
        muster_worker_forget_model(w, actions);
        stop(w, MUSTER_OK, message->as.stop.text, actions);
        break;
    case MUSTER_MSG_HELLO:
    case MUSTER_MSG_WELCOME:
    case MUSTER_MSG_REFUSE:
    case MUSTER_MSG_HEARTBEAT:
    case MUSTER_MSG_DIRECTORY:
    case MUSTER_MSG_HAVE:
    case MUSTER_MSG_GRADIENT:
    case MUSTER_MSG_STAGE:
    case MUSTER_MSG_LEAVE:
    case MUSTER_MSG_WANT:
    case MUSTER_MSG_ANSWERS:
        break; // not for a worker
    }
}

static void on_adopted(muster_worker *w, const muster_job_result *result,
                       muster_actions *actions)
{
    if (result->id == w->adopt) { // else a newer plan, or life, has come
        w->adopt = 0;
        memmove(w->earlier + 1, w->earlier,
                sizeof(w->earlier) - sizeof(w->earlier[0]));
        w->earlier[0] = w->plan;
        w->plan = (muster_worker_plan){w->plan_asked, w->stages_asked};
        have(w, w->plan.number, MUSTER_ID_ANY, 0, actions);
    }
}

static void on_shard_done(muster_worker *w, const muster_job_result *result,
                          muster_actions *actions)
{
    muster_worker_shard *shard = shard_of(w, result->shard, actions);
    if (shard == NULL) {
        return;
    }
    if (result->id != shard->job) {
        return; // a newer word about it is being followed
    }
    shard->job = 0;
    shard->held = result->kind == MUSTER_JOB_LOAD;
    if (shard->held) {
        have(w, 0, shard->shard, shard->stamp, actions);
    }
}

static void stop_leaving(muster_worker *w, muster_actions *actions)
{
    const char *text = w->leave_text != NULL
                           ? w->leave_text
                           : muster_status_text(w->leave_status);
    stop(w, w->leave_status, text, actions);
}

/* Send LEAVE, or REFUSE with the reason; stop once it is written to the
 * network. */
static void leave(muster_worker *w, const muster_event *event,
                  muster_actions *actions)
{
    muster_member_mail mail = {.message = {.kind = MUSTER_MSG_LEAVE},
                               .token = LEAVE_TOKEN};
    if (w->leave_status != MUSTER_ERR_INTERRUPTED) {
        mail.message.kind = MUSTER_MSG_REFUSE;
        mail.message.as.refuse.status = w->leave_status;
        (void)snprintf(mail.message.as.refuse.text,
                       sizeof(mail.message.as.refuse.text), "%s",
                       w->leave_text != NULL ? w->leave_text : "");
    }
    muster_worker_forget_model(w, actions);
    w->leaving = true;
    if (muster_member_send(&w->member, MUSTER_ID_LEADER, &mail, actions)) {
        muster_act_timer(actions, TIMER_LEAVE, event->now_ns + LEAVE_NS);
    } else {
        stop_leaving(w, actions);
    }
}

static void on_computed(muster_worker *w, const muster_event *event,
                        muster_actions *actions)
{
    const muster_job_result *result = &event->as.computed;
    w->jobs--;
    if (w->leaving) {
        return;
    }
    if (result->status < 0 && result->status != MUSTER_ERR_CANCELLED) {
        w->leave_status = result->status;
        w->leave_text = muster_mem_string(result->text);
        leave(w, event, actions);
        return;
    }
    if (w->gossip != NULL &&
        muster_gossip_computed(w->gossip, result, actions)) {
        return;
    }
    if (result->kind == MUSTER_JOB_SETUP) {
        w->set_up = true;
        muster_act_expect(actions, result->model_floats);
        have(w, 0, MUSTER_ID_ANY, 0, actions);
    } else if (result->kind == MUSTER_JOB_ADOPT) {
        on_adopted(w, result, actions);
    } else if (result->kind == MUSTER_JOB_GRADIENT) {
        muster_worker_on_gradient(w, result, actions);
    } else {
        on_shard_done(w, result, actions);
    }
}

static void stop_at_leader(muster_worker *w, muster_status status,
                           const char *reason, muster_actions *actions)
{
    char text[256];
    muster_member_say_end(&w->member, status, reason, text, sizeof(text));
    stop(w, status, text, actions);
}

/* Only these events bring a reason; others need not look for one. */
static bool may_be_unreached(const muster_event *event)
{
    return event->kind == MUSTER_EVENT_PEER_DOWN ||
           (event->kind == MUSTER_EVENT_MESSAGE &&
            event->as.message.message->kind == MUSTER_MSG_REFUSE);
}

/* News of another worker. */
static void on_peer_news(muster_worker *w, const muster_news *news,
                         const muster_event *event, muster_actions *actions)
{
    if (news->kind == MUSTER_NEWS_JOINED) {
        muster_gossip_peer_up(w->gossip, news->id, actions);
    } else if (news->kind == MUSTER_NEWS_LOST) {
        muster_gossip_peer_down(w->gossip, news->id, actions);
    } else if (news->kind == MUSTER_NEWS_MESSAGE) {
        muster_gossip_message(w->gossip, news->id, event, actions);
    }
}

static void on_news(muster_worker *w, const muster_event *event,
                    muster_actions *actions)
{
    const muster_news *news = w->member.news.data;
    for (size_t i = 0; i < w->member.news.count && !w->over; i++) {
        if (news[i].id != MUSTER_ID_LEADER) {
            on_peer_news(w, &news[i], event, actions);
            continue;
        }
        switch (news[i].kind) {
        case MUSTER_NEWS_JOINED:
            muster_act_notice(actions, event->now_ns, MUSTER_LOG_INFO,
                              "joined %s as worker %u of %u",
                              muster_member_leader_address(&w->member),
                              w->member.id, w->member.size);
            on_welcome(w, actions);
            break;
        case MUSTER_NEWS_LOST:
            muster_worker_forget_model(w, actions);
            muster_act_notice(actions, event->now_ns, MUSTER_LOG_WARN,
                              "lost the coordinator (%s), trying again",
                              muster_news_reason(&news[i]));
            break;
        case MUSTER_NEWS_MESSAGE:
            on_message(w, event, actions);
            break;
        case MUSTER_NEWS_REFUSED:
            stop_at_leader(w, MUSTER_ERR_REFUSED, muster_news_reason(&news[i]),
                           actions);
            break;
        case MUSTER_NEWS_ALONE:
            stop_at_leader(w, muster_member_alone_status(&w->member),
                           muster_news_reason(&news[i]), actions);
            break;
        }
    }
}

/* The LEAVE is written, or cannot be. */
static bool has_left(muster_worker *w, const muster_event *event)
{
    return event->kind == MUSTER_EVENT_SENT ||
           (event->kind == MUSTER_EVENT_TIMER &&
            event->as.timer.id == TIMER_LEAVE) ||
           muster_member_link(&w->member, MUSTER_ID_LEADER) == NULL;
}

static void worker_step(void *state, const muster_event *event,
                        muster_actions *actions)
{
    muster_worker *w = state;
    if (w->over) {
        return;
    }
    w->member.busy = w->jobs > 0;
    muster_member_step(&w->member, event, actions);
    on_news(w, event, actions);
    if (w->over) {
        return;
    }
    if (may_be_unreached(event)) {
        muster_member_tell_unreached(&w->member, event, actions);
    }
    if (event->kind == MUSTER_EVENT_COMPUTED) {
        on_computed(w, event, actions);
    } else if (event->kind == MUSTER_EVENT_STOP && !w->leaving) {
        w->leave_status = MUSTER_ERR_INTERRUPTED;
        leave(w, event, actions);
    } else if (w->leaving && has_left(w, event)) {
        stop_leaving(w, actions);
    }
}

/* A worker that is restarted joins like a new one. */
static muster_status worker_save(const void *state, muster_vec *bytes_out)
{
    (void)state;
    (void)bytes_out;
    return MUSTER_OK;
}

static void free_room(muster_worker *w)
{
    if (w != NULL && !w->lent) {
        muster_mem_free(w);
    }
}

static void worker_free(void *state)
{
    muster_worker *w = state;
    muster_member_fini(&w->member);
    muster_gossip_free(w->gossip);
    muster_vec_fini(&w->shards);
    muster_blob_unref(w->model);
    muster_blob_unref(w->current);
    muster_stages_fini(&w->stages);
    muster_mem_free(w->leave_text);
    free_room(w);
}

static const muster_role_ops worker_ops = {
    .name = "worker",
    .step = worker_step,
    .save = worker_save,
    .free = worker_free,
};

size_t muster_worker_bytes(void)
{
    return sizeof(muster_worker);
}

muster_status muster_worker_create(const muster_worker_opts *opts,
                                   muster_error *error_out,
                                   muster_role *role_out)
{
    if (opts->struct_size != sizeof(*opts) || opts->address[0] == 0 ||
        opts->patience_ns < 0) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "worker: whom to join must be set");
    }
    bool meets = opts->listen[0] != 0;
    muster_member_opts member = {.kind = MUSTER_MEMBER_WORKER,
                                 .mesh = meets,
                                 .apart = meets,
                                 .id = opts->id,
                                 .patience_ns = opts->patience_ns,
                                 .pid = opts->pid};
    memcpy(member.leader, opts->address, sizeof(member.leader));
    memcpy(member.host, opts->host, sizeof(member.host));
    memcpy(member.address, opts->listen, sizeof(member.address));
    muster_worker *w = opts->room;
    if (w == NULL) {
        w = muster_mem_lines(1, sizeof(*w));
    } else {
        memset(w, 0, sizeof(*w));
        w->lent = true;
    }
    if (w == NULL || muster_member_init(&w->member, &member) != MUSTER_OK) {
        free_room(w);
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for the worker");
    }
    w->shards = muster_vec_make_in(sizeof(muster_worker_shard), w->first_shards,
                                   MUSTER_WORKER_SHARDS);
    const muster_gossip_host host = {&w->member, &w->job_ids, &w->jobs};
    if (meets && muster_gossip_create(&host, &w->gossip) != MUSTER_OK) {
        worker_free(w);
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for the worker");
    }
    muster_stages_leave(&w->stages);
    *role_out = (muster_role){&worker_ops, w};
    return MUSTER_OK;
}
