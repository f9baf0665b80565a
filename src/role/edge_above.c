/*
 * edge_above.c -- what the coordinator says to an edge.
 */

#include "role/edge_inside.h"

/* Ready for a plan. */
static void have_setup(muster_edge *edge, muster_actions *actions)
{
    muster_member_mail mail = {.message = {.kind = MUSTER_MSG_HAVE}};
    mail.message.as.have.shard = MUSTER_ID_ANY;
    muster_member_send(&edge->above, MUSTER_ID_LEADER, &mail, actions);
}

static void on_welcome(muster_edge *edge, const muster_event *event,
                       muster_actions *actions)
{
    muster_act_notice(actions, event->now_ns, MUSTER_LOG_INFO,
                      "joined %s as edge %u of %u",
                      muster_member_leader_address(&edge->above),
                      edge->above.id, edge->above.size);
    muster_edge_close(edge, actions);
    muster_edge_forget_plans(edge);
    edge->step_seen = false;
    edge->want_stamp = 0;
    if (!edge->setup_asked) {
        edge->setup_asked = true;
        muster_job *job =
            muster_act_compute(actions, MUSTER_JOB_SETUP, ++edge->job_ids);
        job->input = muster_blob_ref(edge->above.welcome);
    } else if (edge->code != NULL) {
        have_setup(edge, actions);
    }
}

void muster_edge_set_up(muster_edge *edge, const muster_job_result *result,
                        muster_actions *actions)
{
    if (result->status < 0 || result->code == NULL) {
        muster_edge_stop(
            edge, result->status < 0 ? result->status : MUSTER_ERR_PROTOCOL,
            result->text, actions);
        return;
    }
    edge->code = result->code;
    have_setup(edge, actions);
}

/* The run is over: the workers are told, and when they have gone, the edge
 * ends. */
static void on_stop(muster_edge *edge, const muster_event *event,
                    muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    muster_coordinator *c = muster_edge_below(edge);
    if (c == NULL) {
        muster_edge_stop(edge, MUSTER_OK, message->as.stop.text, actions);
        return;
    }
    muster_step_abandon(c, actions);
    edge->leaving = true;
    muster_coordinator_end(c, MUSTER_OK, message->as.stop.text, event, actions);
    edge->over = c->phase == MUSTER_PHASE_OVER;
}

static void on_message(muster_edge *edge, const muster_event *event,
                       muster_actions *actions)
{
    switch (event->as.message.message->kind) {
    case MUSTER_MSG_PLAN:
        muster_edge_on_plan(edge, event, actions);
        break;
    case MUSTER_MSG_SHARD:
        muster_edge_shard(edge, event, actions);
        break;
    case MUSTER_MSG_MODEL:
        muster_edge_begin(edge, event, actions);
        break;
    case MUSTER_MSG_STOP:
        on_stop(edge, event, actions);
        break;
    case MUSTER_MSG_HELLO:
    case MUSTER_MSG_WELCOME:
    case MUSTER_MSG_REFUSE:
    case MUSTER_MSG_HEARTBEAT:
    case MUSTER_MSG_DIRECTORY:
    case MUSTER_MSG_HAVE:
    case MUSTER_MSG_GRADIENT:
    case MUSTER_MSG_LEAVE:
    case MUSTER_MSG_FORGET:
    case MUSTER_MSG_WANT:
    case MUSTER_MSG_SCHEDULE:
    case MUSTER_MSG_STAGE:
    case MUSTER_MSG_MISSING:
    case MUSTER_MSG_PEERS:
    case MUSTER_MSG_ANSWERS:
        break; // not for an edge
    }
}

static void stop_at_leader(muster_edge *edge, muster_status status,
                           const char *reason, muster_actions *actions)
{
    char text[384];
    muster_member_say_end(&edge->above, status, reason, text, sizeof(text));
    muster_edge_stop(edge, status, text, actions);
}

static void on_news(muster_edge *edge, const muster_news *news,
                    const muster_event *event, muster_actions *actions)
{
    switch (news->kind) {
    case MUSTER_NEWS_JOINED:
        on_welcome(edge, event, actions);
        break;
    case MUSTER_NEWS_LOST:
        muster_edge_forget_plans(edge);
        muster_act_notice(actions, event->now_ns, MUSTER_LOG_WARN,
                          "lost the coordinator (%s), trying again",
                          muster_news_reason(news));
        break;
    case MUSTER_NEWS_MESSAGE:
        on_message(edge, event, actions);
        break;
    case MUSTER_NEWS_REFUSED:
        stop_at_leader(edge, MUSTER_ERR_REFUSED, muster_news_reason(news),
                       actions);
        break;
    case MUSTER_NEWS_ALONE:
        stop_at_leader(edge, muster_member_alone_status(&edge->above),
                       muster_news_reason(news), actions);
        break;
    }
}

void muster_edge_above(muster_edge *edge, const muster_event *event,
                       muster_actions *actions)
{
    muster_member_step(&edge->above, event, actions);
    for (size_t i = 0; i < edge->above.news.count && !edge->over; i++) {
        // A copy: withdrawing writes to the list.
        muster_news news = ((const muster_news *)edge->above.news.data)[i];
        if (!edge->leaving) {
            on_news(edge, &news, event, actions);
        }
    }
    if (!edge->over) {
        muster_member_tell_unreached(&edge->above, event, actions);
    }
}
