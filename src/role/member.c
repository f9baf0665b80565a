/*
 * member.c -- the step function of role/member.h: heartbeats, who is lost, and
 * who gets a message. One timer is set to the earliest thing due: heartbeat,
 * retry, patience.
 */
#include "role/member.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "role/member_inside.h"

#define BEATS_PER_WINDOW 4
/* Strangers that may knock at the same time, beyond two per number. */
#define STRANGERS_MAX 64u

void muster_member_close(muster_member *member, const char *why)
{
    snprintf(member->closed, sizeof(member->closed), "%s", why);
}

void muster_member_beat(const muster_member *member, const muster_link *link,
                        const muster_event *event, muster_actions *actions)
{
    muster_action *action = muster_act(actions, MUSTER_ACTION_SEND);
    action->as.send.peer = link->peer;
    action->as.send.replace_slot = MUSTER_SLOT_HEARTBEAT;
    muster_message *message = &action->as.send.message;
    message->kind = MUSTER_MSG_HEARTBEAT;
    message->run = member->run;
    message->incarnation = link->incarnation;
    message->step = member->epoch; // tells the leader which directory we have
    message->as.heartbeat.progress = event->progress;
    message->as.heartbeat.busy = member->busy;
}

static void beat_all(const muster_member *member, const muster_event *event,
                     muster_actions *actions)
{
    const muster_link *links = member->links.data;
    for (size_t i = 0; i < member->links.count; i++) {
        if (links[i].state == MUSTER_LINK_MEMBER) {
            muster_member_beat(member, &links[i], event, actions);
        }
    }
}

/* It owes an answer, and says that it has nothing to do. */
static const char *idles(const muster_member *member, const muster_link *link,
                         char *text, size_t text_bytes)
{
    int64_t since_ns =
        link->owed_ns > link->progress_ns ? link->owed_ns : link->progress_ns;
    if (link->state != MUSTER_LINK_MEMBER || link->busy || link->owed_ns == 0 ||
        member->opts.stall_ns <= 0 ||
        link->beat_ns - since_ns <= member->opts.stall_ns) {
        return NULL;
    }
    snprintf(text, text_bytes, "idle, and did not answer for %.1f s",
             (double)(link->beat_ns - since_ns) * 1e-9);
    return text;
}

/* How long this link may be silent. */
static int64_t window_ns(const muster_member *member, const muster_link *link)
{
    bool led = member->opts.leads &&
               (!member->opts.mesh || member->opts.apart) &&
               link->state == MUSTER_LINK_MEMBER;
    return member->heartbeat_ns << (led ? member->places[link->id].doubts : 0);
}

/* Why this link should end now, or NULL. */
static const char *verdict(const muster_member *member, const muster_link *link,
                           int64_t now_ns, char *text, size_t text_bytes)
{
    int64_t silent_ns = now_ns - link->heard_ns;
    if (link->state == MUSTER_LINK_GONE) {
        return NULL;
    }
    if (link->state == MUSTER_LINK_GREETING) {
        return silent_ns > MUSTER_GREETING_NS ? "said no hello" : NULL;
    }
    if (silent_ns > window_ns(member, link)) {
        snprintf(text, text_bytes, "no sign of life for %.1f s",
                 (double)silent_ns * 1e-9);
        return text;
    }
    int64_t stuck_ns = link->beat_ns - link->progress_ns;
    if (link->state == MUSTER_LINK_MEMBER && link->busy &&
        member->opts.stall_ns > 0 && stuck_ns > member->opts.stall_ns) {
        snprintf(text, text_bytes, "busy without progress for %.1f s",
                 (double)stuck_ns * 1e-9);
        return text;
    }
    return idles(member, link, text, text_bytes);
}

static void check_links(muster_member *member, const muster_event *event,
                        muster_actions *actions)
{
    for (size_t i = 0; i < member->links.count;) {
        muster_link *link = (muster_link *)member->links.data + i;
        char text[64];
        const char *reason =
            verdict(member, link, event->now_ns, text, sizeof(text));
        if (reason == NULL) {
            i++;
        } else {
            if (member->opts.leads && link->state == MUSTER_LINK_MEMBER) {
                member->places[link->id].silenced =
                    event->now_ns - link->heard_ns > window_ns(member, link);
            }
            muster_member_forget(member, link, reason, true, event, actions);
        }
    }
}

static void on_timer(muster_member *member, const muster_event *event,
                     muster_actions *actions)
{
    member->timer_ns = -1;
    member->due_moved = true;
    (void)muster_member_merge(member); // else the new ones wait once more
    if (event->now_ns >= member->next_beat_ns) {
        // A host that was stopped finds old messages waiting behind its timer;
        // it must not call the others silent before it has read them.
        bool slept = event->now_ns - member->next_beat_ns >
                     member->heartbeat_ns / BEATS_PER_WINDOW;
        if (!slept) {
            check_links(member, event, actions);
        }
        beat_all(member, event, actions);
        member->next_beat_ns =
            event->now_ns + member->heartbeat_ns / BEATS_PER_WINDOW;
    }
    muster_member_retry(member, event, actions);
}

static void hear(muster_link *link, const muster_event *event)
{
    link->heard_ns = event->now_ns;
    const muster_message *message = event->as.message.message;
    if (message->kind != MUSTER_MSG_HEARTBEAT) {
        return;
    }
    link->beat_ns = event->now_ns;
    bool busy = message->as.heartbeat.busy != 0;
    // Heartbeats may overtake each other; progress only grows.
    if (message->as.heartbeat.progress > link->progress || busy != link->busy) {
        link->progress_ns = event->now_ns;
    }
    if (message->as.heartbeat.progress > link->progress) {
        link->progress = message->as.heartbeat.progress;
    }
    link->busy = busy;
}

/* Can it be a message of an earlier life, or HELLO again, that comes late? */
static bool is_late(const muster_member *member, const muster_link *link,
                    const muster_message *message)
{
    if (message->kind == MUSTER_MSG_HELLO) {
        return muster_member_is_process_of(&member->places[link->id], message);
    }
    return message->kind != MUSTER_MSG_WELCOME && message->run == member->run &&
           message->incarnation < link->incarnation;
}

/* A message that is not of this run and this life. What is late is dropped.
 * Whoever came to us and says that it is another one ends its connection; a
 * leader is believed. */
static void on_stray(muster_member *member, muster_link *link,
                     const muster_event *event, muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    char text[64];
    member->strays++;
    if (!link->outgoing && !is_late(member, link, message)) {
        snprintf(text, sizeof(text), "sent a %s of another run or life",
                 muster_message_name(message->kind));
        muster_member_offends(member, link, text, event, actions);
    }
}

static void member_message(muster_member *member, muster_link *link,
                           const muster_event *event, muster_actions *actions)
{
    const muster_message *message = event->as.message.message;
    if (message->kind == MUSTER_MSG_REFUSE) {
        muster_member_refused(member, link, event, actions);
        return;
    }
    if (message->run != member->run ||
        message->incarnation != link->incarnation ||
        message->kind == MUSTER_MSG_HELLO ||
        message->kind == MUSTER_MSG_WELCOME) {
        on_stray(member, link, event, actions);
        return;
    }
    hear(link, event);
    if (link->id == muster_member_leader_id(member)) {
        member->contact_ns = event->now_ns;
    }
    if (message->kind == MUSTER_MSG_LEAVE) {
        muster_member_forget(member, link, "left", true, event, actions);
    } else if (message->kind == MUSTER_MSG_DIRECTORY &&
               link->id == muster_member_leader_id(member)) {
        muster_member_directory(member, event, actions);
    } else if (message->kind == MUSTER_MSG_DIRECTORY) {
        member->strays++;
    } else if (message->kind == MUSTER_MSG_HEARTBEAT) {
        muster_member_remind(member, link->id, message->step, actions);
    } else {
        muster_member_tell(member, MUSTER_NEWS_MESSAGE, link->id, "");
    }
}

static void on_message(muster_member *member, const muster_event *event,
                       muster_actions *actions)
{
    muster_link *link = muster_member_find(member, event->peer);
    if (link == NULL || link->state == MUSTER_LINK_REFUSED) {
        member->strays++;
        return;
    }
    if (link->state == MUSTER_LINK_MEMBER) {
        member_message(member, link, event, actions);
        return;
    }
    muster_message_kind kind = event->as.message.message->kind;
    if (!link->outgoing && kind == MUSTER_MSG_HELLO) {
        muster_member_admit(member, link, event, actions);
    } else if (link->outgoing && kind == MUSTER_MSG_WELCOME) {
        muster_member_welcomed(member, link, event, actions);
    } else if (link->outgoing && kind == MUSTER_MSG_REFUSE) {
        muster_member_refused(member, link, event, actions);
    } else {
        // Of a leader: a later message overtook the greeting, and cannot be
        // trusted yet. Others have nothing to say before their HELLO.
        member->strays++;
        if (!link->outgoing) {
            muster_member_forget(member, link, "", true, event, actions);
        }
    }
}

uint32_t muster_member_sender(muster_member *member, const muster_event *event)
{
    const muster_message *message = event->as.message.message;
    const muster_link *link = muster_member_find(member, event->peer);
    bool here = link != NULL && link->state == MUSTER_LINK_MEMBER &&
                message->run == member->run &&
                message->incarnation == link->incarnation;
    return here ? link->id : MUSTER_ID_ANY;
}

/* A message takes longer than a heartbeat to arrive. What the peer says of its
 * life and its progress waits behind it. Strangers get no more time for it. */
static void on_heard(muster_member *member, const muster_event *event)
{
    muster_link *link = muster_member_find(member, event->peer);
    if (link == NULL ||
        (link->state != MUSTER_LINK_MEMBER && !link->outgoing)) {
        return;
    }
    link->heard_ns = event->now_ns;
    link->progress_ns = event->now_ns;
    if (link->id == muster_member_leader_id(member)) {
        member->contact_ns = event->now_ns;
    }
}

static void on_up(muster_member *member, const muster_event *event,
                  muster_actions *actions)
{
    if (!event->as.up.incoming) {
        muster_member_connected(member, event, actions);
    } else if (member->links.count + member->links_new.count -
                       member->links_gone >=
                   2u * member->size + STRANGERS_MAX ||
               muster_member_add(member, event->peer, event->now_ns) == NULL) {
        muster_act_drop(actions, event->peer);
    }
}

static void on_down(muster_member *member, const muster_event *event,
                    muster_actions *actions)
{
    muster_link *link = muster_member_find(member, event->peer);
    if (event->as.down.token != 0) {
        muster_member_unreachable(member, event);
    } else if (link != NULL) {
        const char *reason = event->as.down.reason;
        muster_member_forget(member, link,
                             reason != NULL ? reason : "connection lost", false,
                             event, actions);
    }
}

static void on_start(muster_member *member, const muster_event *event)
{
    member->contact_ns = event->now_ns;
    member->due_moved = true;
    member->next_beat_ns =
        event->now_ns + member->heartbeat_ns / BEATS_PER_WINDOW;
    if (!member->opts.leads) {
        MUSTER_ASSERT(muster_member_aim(member, muster_member_leader_id(member),
                                        member->opts.leader, event->now_ns));
    }
}

static uint32_t timer_of(const muster_member *member)
{
    return member->opts.timer != 0 ? member->opts.timer : MUSTER_TIMER_MEMBER;
}

/* Sets the timer to the earliest thing due, when that has changed. */
static void rearm(muster_member *member, muster_actions *actions)
{
    member->due_moved = false;
    int64_t due_ns = member->next_beat_ns;
    const muster_connect_target *targets = member->targets.data;
    for (size_t i = 0; i < member->targets.count; i++) {
        if (targets[i].retry_ns >= 0 && targets[i].retry_ns < due_ns) {
            due_ns = targets[i].retry_ns;
        }
    }
    if (due_ns != member->timer_ns) {
        member->timer_ns = due_ns;
        muster_act_timer(actions, timer_of(member), due_ns);
    }
}

void muster_member_step(muster_member *member, const muster_event *event,
                        muster_actions *actions)
{
    muster_member_forget_news(member);
    switch (event->kind) {
    case MUSTER_EVENT_START:
        on_start(member, event);
        muster_member_retry(member, event, actions);
        break;
    case MUSTER_EVENT_PEER_UP:
        on_up(member, event, actions);
        break;
    case MUSTER_EVENT_PEER_DOWN:
        on_down(member, event, actions);
        break;
    case MUSTER_EVENT_MESSAGE:
        on_message(member, event, actions);
        break;
    case MUSTER_EVENT_TIMER:
        if (event->as.timer.id == timer_of(member)) {
            on_timer(member, event, actions);
        }
        break;
    case MUSTER_EVENT_HEARD:
        on_heard(member, event);
        break;
    case MUSTER_EVENT_BEGUN: // on_message comes when it is whole
    case MUSTER_EVENT_COMPUTED:
    case MUSTER_EVENT_SENT:
    case MUSTER_EVENT_STOP:
        break;
    }
    if (member->publishes) {
        muster_member_publish(member, actions);
    }
    if (member->due_moved) {
        rearm(member, actions);
    }
}

muster_status muster_member_init(muster_member *member,
                                 const muster_member_opts *opts)
{
    *member = (muster_member){
        .opts = *opts,
        .publishes = opts->mesh && opts->leads,
        .zero_leads = opts->mesh && !opts->apart,
        .run = opts->leads ? opts->run : 0,
        .id = opts->leads ? (opts->mesh && !opts->apart ? 0 : MUSTER_ID_LEADER)
                          : opts->id,
        .incarnation = opts->incarnations,
        .size = opts->size,
        .links = muster_vec_make_lines(sizeof(muster_link)),
        .links_new = muster_vec_make(sizeof(muster_link)),
        .heartbeat_ns =
            opts->leads ? opts->heartbeat_ns : MUSTER_HEARTBEAT_JOIN_NS,
        .timer_ns = -1,
    };
    member->news = muster_vec_make_in(sizeof(muster_news), member->first_news,
                                      MUSTER_NEWS_FEW);
    member->targets = muster_vec_make_in(sizeof(muster_connect_target),
                                         &member->first_target, 1);
    if (!opts->leads && !opts->mesh) {
        member->links =
            muster_vec_make_in(sizeof(muster_link), &member->first_link, 1);
    }
    muster_blob_ref(member->opts.setup);
    if (opts->leads) {
        member->places = muster_mem_array(opts->size, sizeof(muster_place));
        if (member->places == NULL) {
            muster_member_fini(member);
            return MUSTER_ERR_NO_MEMORY;
        }
    }
    // Lists that every member needs at once; growing later is rare.
    uint32_t links = opts->leads || opts->mesh ? opts->size + 4u : 1;
    if (!muster_vec_reserve(&member->links, links)) {
        muster_member_fini(member);
        return MUSTER_ERR_NO_MEMORY;
    }
    return MUSTER_OK;
}

void muster_member_fini(muster_member *member)
{
    if (member->links.element_bytes == 0) {
        return; // never initialised, or already done
    }
    muster_mem_free(member->places);
    muster_blob_unref(member->opts.setup);
    muster_blob_unref(member->welcome);
    muster_vec_fini(&member->links);
    muster_vec_fini(&member->links_new);
    muster_vec_fini(&member->targets);
    muster_member_forget_news(member);
    muster_vec_fini(&member->news);
    *member = (muster_member){0};
}
