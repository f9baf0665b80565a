/*
 * edge.c -- events of an edge: which are for the member that follows the
 * coordinator, and which for the coordinator of its workers; see edge.h.
 *
 * Invariants:
 *   1. A connection belongs to one of the two: those that the edge made lead
 *      above, all others come from below.
 *   2. While nobody leads below, connections from there are dropped: workers
 *      try again.
 */
#include "role/edge.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "code/hier.h"
#include "code/numbers.h"
#include "role/edge_inside.h"
#include "role/member_inside.h"
#include "wire/edge_answers.h"

#define LEAVE_NS    MUSTER_NS_PER_S
#define LEAVE_TOKEN 1u

void muster_edge_stop(muster_edge *edge, muster_status status,
                      const char *reason, muster_actions *actions)
{
    if (!edge->over) {
        edge->over = true;
        muster_act_stop(actions, status, reason);
    }
}

/* Is the event's connection one to the coordinator? */
static bool is_above(muster_edge *edge, const muster_event *event)
{
    bool made_here =
        (event->kind == MUSTER_EVENT_PEER_UP && !event->as.up.incoming) ||
        (event->kind == MUSTER_EVENT_PEER_DOWN && event->as.down.token != 0);
    return made_here || muster_member_find(&edge->above, event->peer) != NULL;
}

/* The progress that one below reports is the edge's too: while its workers
 * compute, it is at work. */
static void count_progress(muster_edge *edge, const muster_event *event)
{
    if (event->kind != MUSTER_EVENT_MESSAGE) {
        return;
    }
    const muster_message *message = event->as.message.message;
    const muster_link *link =
        muster_member_find(&muster_edge_below(edge)->member, event->peer);
    bool beat = message->kind == MUSTER_MSG_HEARTBEAT;
    if (link != NULL &&
        (!beat || message->as.heartbeat.progress > link->progress)) {
        edge->progress++;
    }
}

static void on_connection(muster_edge *edge, const muster_event *event,
                          muster_actions *actions)
{
    if (is_above(edge, event)) {
        muster_edge_above(edge, event, actions);
    } else if (edge->below.state != NULL) {
        count_progress(edge, event);
        muster_edge_feed(edge, event, actions);
    } else if (event->kind == MUSTER_EVENT_PEER_UP) {
        muster_act_drop(actions, event->peer);
    }
}

static void end_leaving(muster_edge *edge, muster_actions *actions)
{
    muster_edge_stop(edge, MUSTER_ERR_INTERRUPTED, "interrupted", actions);
}

static void on_timer(muster_edge *edge, const muster_event *event,
                     muster_actions *actions)
{
    if (event->as.timer.id == MUSTER_TIMER_ABOVE) {
        muster_edge_above(edge, event, actions);
    } else if (event->as.timer.id == MUSTER_TIMER_LEAVE) {
        end_leaving(edge, actions);
    } else {
        muster_edge_feed(edge, event, actions);
    }
}

static void on_sent(muster_edge *edge, const muster_event *event,
                    muster_actions *actions)
{
    if (is_above(edge, event)) {
        end_leaving(edge, actions); // LEAVE is all that asks for it
    } else {
        muster_edge_feed(edge, event, actions);
    }
}

/* Send LEAVE, and stop once it is written to the network. */
static void leave(muster_edge *edge, const muster_event *event,
                  muster_actions *actions)
{
    muster_member_mail mail = {.message = {.kind = MUSTER_MSG_LEAVE},
                               .token = LEAVE_TOKEN};
    edge->leaving = true;
    if (muster_member_send(&edge->above, MUSTER_ID_LEADER, &mail, actions)) {
        muster_act_timer(actions, MUSTER_TIMER_LEAVE, event->now_ns + LEAVE_NS);
    } else {
        end_leaving(edge, actions);
    }
}

/* Does a worker say that it is at work? */
static bool has_busy_worker(const muster_edge *edge)
{
    const muster_coordinator *c = muster_edge_below(edge);
    const muster_link *links = c != NULL ? c->member.links.data : NULL;
    for (size_t i = 0; c != NULL && i < c->member.links.count; i++) {
        if (links[i].state == MUSTER_LINK_MEMBER && links[i].busy) {
            return true;
        }
    }
    return false;
}

static void say_how_busy(muster_edge *edge, muster_event *event)
{
    const muster_coordinator *c = muster_edge_below(edge);
    bool beats = event->kind == MUSTER_EVENT_TIMER &&
                 event->as.timer.id == MUSTER_TIMER_ABOVE;
    if (beats) { // only then is it told
        edge->above.busy = (c != NULL && c->jobs.update != 0) ||
                           edge->code == NULL || edge->adopting != 0 ||
                           has_busy_worker(edge);
    }
    event->progress += edge->progress;
}

static void dispatch(muster_edge *edge, const muster_event *event,
                     muster_actions *actions)
{
    switch (event->kind) {
    case MUSTER_EVENT_START:
        muster_edge_above(edge, event, actions);
        break;
    case MUSTER_EVENT_PEER_UP:
    case MUSTER_EVENT_PEER_DOWN:
    case MUSTER_EVENT_MESSAGE:
    case MUSTER_EVENT_HEARD:
        on_connection(edge, event, actions);
        break;
    case MUSTER_EVENT_BEGUN: // an edge combines whole messages
        break;
    case MUSTER_EVENT_TIMER:
        on_timer(edge, event, actions);
        break;
    case MUSTER_EVENT_COMPUTED:
        if (event->as.computed.kind == MUSTER_JOB_SETUP) {
            muster_edge_set_up(edge, &event->as.computed, actions);
        } else if (event->as.computed.kind == MUSTER_JOB_ADOPT) {
            muster_edge_adopted(edge, event, actions);
        } else {
            muster_edge_feed(edge, event, actions);
        }
        break;
    case MUSTER_EVENT_SENT:
        on_sent(edge, event, actions);
        break;
    case MUSTER_EVENT_STOP:
        if (!edge->leaving) {
            leave(edge, event, actions);
        }
        break;
    }
}

static void edge_step(void *state, const muster_event *event,
                      muster_actions *actions)
{
    muster_edge *edge = state;
    if (edge->over) {
        return;
    }
    muster_event own = *event;
    say_how_busy(edge, &own);
    dispatch(edge, &own, actions);
}

/* An edge that is restarted joins like a new one. */
static muster_status edge_save(const void *state, muster_vec *bytes_out)
{
    (void)state;
    (void)bytes_out;
    return MUSTER_OK;
}

static void edge_free(void *state)
{
    muster_edge *edge = state;
    if (edge->below.state != NULL) {
        edge->below.ops->free(edge->below.state);
    }
    muster_member_fini(&edge->above);
    muster_vec_fini(&edge->wants);
    muster_vec_fini(&edge->answers);
    muster_mem_free(edge);
}

static const muster_role_ops edge_ops = {
    .name = "edge",
    .step = edge_step,
    .save = edge_save,
    .free = edge_free,
};

uint32_t muster_edge_count(const muster_code *code)
{
    return muster_hier_numbers_of(code).edges;
}

uint32_t muster_edge_parts(const muster_code *code)
{
    return muster_code_numbers(muster_hier_outer(code))->parts;
}

uint32_t muster_edge_of(const muster_code *code, uint32_t worker)
{
    return muster_hier_edge_of(code, worker);
}

muster_status muster_edge_create(const muster_edge_opts *opts,
                                 muster_error *error_out, muster_role *role_out)
{
    if (opts->struct_size != sizeof(*opts) || opts->address[0] == 0 ||
        opts->patience_ns < 0 || opts->grace_ns < 0) {
        return muster_error_set(error_out, MUSTER_ERR_INVALID,
                                "edge: whom to join must be set");
    }
    muster_member_opts member = {.kind = MUSTER_MEMBER_EDGE,
                                 .timer = MUSTER_TIMER_ABOVE,
                                 .id = opts->id,
                                 .patience_ns = opts->patience_ns,
                                 .pid = opts->pid};
    memcpy(member.leader, opts->address, sizeof(member.leader));
    memcpy(member.host, opts->host, sizeof(member.host));
    muster_edge *edge = muster_mem_array(1, sizeof(*edge));
    if (edge == NULL ||
        muster_member_init(&edge->above, &member) != MUSTER_OK) {
        muster_mem_free(edge);
        return muster_error_set(error_out, MUSTER_ERR_NO_MEMORY,
                                "no memory for the edge");
    }
    edge->opts = *opts;
    edge->wants = muster_vec_make(sizeof(uint32_t));
    edge->answers = muster_vec_make(sizeof(muster_edge_answer));
    *role_out = (muster_role){&edge_ops, edge};
    return MUSTER_OK;
}
