/*
 * coordinator_begun.c -- answers that have begun to arrive.
 *
 * A long answer takes time to arrive, while the compute thread has nothing to
 * do. When the answers that are whole and those that have begun are enough, a
 * DECODE job decodes them as they come. The UPDATE of the step is asked for as
 * ever, when enough answers are whole. If it has the messages of the DECODE, it
 * goes on from there; if not, because one of them was lost, or another one was
 * faster, it begins anew. So nothing here has a say in which answers count.
 *
 * Not in an edge, nor with stages, async or gossip: an edge combines whole
 * messages, answers of stages are parts of one, and the other two decode what
 * has come whenever it comes. At the top of a hierarchy the messages are those
 * of edges.
 */
#include "role/coordinator_inside.h"

static bool is_used(const muster_coordinator *c)
{
    return c->edge == NULL && c->async == NULL && c->gossip == NULL &&
           c->staging.stages == 1;
}

/* May it be an answer to the open step? What is wrong with it is told when it
 * is whole. */
static bool may_count(const muster_coordinator *c, uint32_t id,
                      const muster_event *event)
{
    const muster_message *message = event->as.message.message;
    const muster_worker_record *worker = &c->workers[id];
    return message->kind == MUSTER_MSG_GRADIENT && message->step == c->step &&
           message->plan == c->plan.number &&
           event->as.message.payload->bytes == c->answer_bytes &&
           worker->stage == MUSTER_STAGE_READY &&
           worker->heard_steps != c->step + 1;
}

/* Those who have answered or begun to, by slot; returns their number. */
static uint32_t list_begun(const muster_coordinator *c)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < c->worker_count; slot++) {
        uint32_t id = c->plan.worker_of[slot];
        if (*muster_step_message(c, id, 0) != NULL ||
            c->workers[id].begun != NULL) {
            c->staging.responders[count++] = slot;
        }
    }
    return count;
}

/* Ask for a DECODE if what has begun, once it is whole, is enough. */
static void try_decode(muster_coordinator *c, muster_actions *actions)
{
    if (c->phase != MUSTER_PHASE_COLLECT || c->end.begun || c->open.decodes ||
        c->jobs.decode != 0) {
        return;
    }
    uint32_t count = list_begun(c);
    muster_code_progress_reset(c->open.reach);
    for (uint32_t i = 0; i < count; i++) {
        muster_code_progress_add(c->open.reach, c->staging.responders[i]);
    }
    muster_decoding *decoding = NULL;
    if (!muster_code_progress_ready(c->open.reach) ||
        muster_code_cache_get(c->decodings, c->staging.responders, count,
                              &decoding) != MUSTER_OK ||
        !muster_step_has_list(c, &c->open.begun)) {
        return; // UPDATE will tell what is wrong, if anything is
    }
    c->open.decodes = true;
    c->jobs.decode = ++c->jobs.ids;
    muster_job *job =
        muster_act_compute(actions, MUSTER_JOB_DECODE, c->jobs.decode);
    muster_step_fill_job(c, decoding, c->open.begun, job);
}

void muster_begun_answer(muster_coordinator *c, const muster_event *event,
                         muster_actions *actions)
{
    uint32_t id = muster_member_sender(&c->member, event);
    if (!is_used(c) || c->phase != MUSTER_PHASE_COLLECT ||
        id >= c->worker_count || !may_count(c, id, event)) {
        return;
    }
    muster_begun_forget(c, id);
    c->workers[id].begun = muster_blob_ref(event->as.message.payload);
    try_decode(c, actions);
}

/* One of its messages will not be whole. */
static void stop(const muster_coordinator *c, muster_actions *actions)
{
    if (c->jobs.decode != 0) {
        muster_act_cancel(actions, c->jobs.decode);
    }
}

void muster_begun_lost(muster_coordinator *c, uint32_t id,
                       muster_actions *actions)
{
    if (c->workers[id].begun == NULL) {
        return;
    }
    muster_begun_forget(c, id);
    stop(c, actions); // what is left is tried when it has ended
}

void muster_begun_decoded(muster_coordinator *c, const muster_event *event,
                          muster_actions *actions)
{
    c->jobs.decode = 0;
    if (event->as.computed.status == MUSTER_ERR_CANCELLED) {
        c->open.decodes = false;
        try_decode(c, actions);
    }
}

void muster_begun_forget(muster_coordinator *c, uint32_t id)
{
    muster_blob_unref(c->workers[id].begun);
    c->workers[id].begun = NULL;
}
