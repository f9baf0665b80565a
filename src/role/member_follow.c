/*
 * member_follow.c -- outgoing connections: connect, retry, HELLO, WELCOME.
 *
 * A target is tried until it is taken off the list: at once, then with a delay
 * that doubles from 50 ms to 1 s. The leader is the first target; without it
 * for `patience_ns` we are ALONE.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "role/member_inside.h"

#define BACKOFF_FIRST_NS (50 * MUSTER_NS_PER_MS)
#define BACKOFF_MAX_NS   MUSTER_NS_PER_S

uint32_t muster_member_leader_id(const muster_member *member)
{
    return member->zero_leads ? 0 : MUSTER_ID_LEADER;
}

uint32_t muster_member_first_id(const muster_member *member)
{
    return muster_member_leader_id(member) == 0 ? 1 : 0;
}

muster_connect_target *muster_member_target(muster_member *member, uint32_t id)
{
    muster_connect_target *targets = member->targets.data;
    for (size_t i = 0; i < member->targets.count; i++) {
        if (targets[i].id == id) {
            return &targets[i];
        }
    }
    return NULL;
}

static muster_connect_target *target_of_token(muster_member *member,
                                              uint64_t token)
{
    muster_connect_target *targets = member->targets.data;
    for (size_t i = 0; i < member->targets.count; i++) {
        if (targets[i].token == token) {
            return &targets[i];
        }
    }
    return NULL;
}

bool muster_member_aim(muster_member *member, uint32_t id, const char *address,
                       int64_t now_ns)
{
    muster_connect_target *target = muster_vec_push(&member->targets);
    if (target == NULL) {
        return false;
    }
    member->due_moved = true;
    target->id = id;
    snprintf(target->address, sizeof(target->address), "%s", address);
    target->retry_ns = now_ns;
    target->backoff_ns = BACKOFF_FIRST_NS;
    return true;
}

void muster_member_retry_later(muster_member *member,
                               muster_connect_target *target, int64_t now_ns)
{
    member->due_moved = true;
    target->retry_ns = now_ns + target->backoff_ns;
    target->backoff_ns = target->backoff_ns * 2 < BACKOFF_MAX_NS
                             ? target->backoff_ns * 2
                             : BACKOFF_MAX_NS;
}

void muster_member_retry(muster_member *member, const muster_event *event,
                         muster_actions *actions)
{
    muster_connect_target *targets = member->targets.data;
    for (size_t i = 0; i < member->targets.count; i++) {
        if (targets[i].retry_ns < 0 || targets[i].retry_ns > event->now_ns) {
            continue;
        }
        member->due_moved = true;
        targets[i].retry_ns = -1;
        targets[i].token = ++member->tokens;
        muster_act_connect(actions, targets[i].address, targets[i].token);
    }
    bool led =
        member->opts.leads ||
        muster_member_link(member, muster_member_leader_id(member)) != NULL;
    if (!led && event->now_ns - member->contact_ns > member->opts.patience_ns) {
        muster_member_tell(member, MUSTER_NEWS_ALONE,
                           muster_member_leader_id(member), member->unreached);
    }
}

muster_status muster_member_alone_status(const muster_member *member)
{
    return member->run != 0 ? MUSTER_ERR_QUORUM : MUSTER_ERR_PEER_LOST;
}

const char *muster_member_without_leader(muster_status status)
{
    return status == MUSTER_ERR_QUORUM
               ? "the run has ended meanwhile, or its coordinator cannot be "
                 "reached any more at"
               : "cannot join";
}

void muster_member_connected(muster_member *member, const muster_event *event,
                             muster_actions *actions)
{
    muster_connect_target *target = target_of_token(member, event->as.up.token);
    if (target == NULL) {
        muster_act_drop(actions, event->peer); // no longer wanted
        return;
    }
    target->token = 0;
    muster_link *link = muster_member_add(member, event->peer, event->now_ns);
    if (link == NULL) {
        muster_act_drop(actions, event->peer);
        muster_member_retry_later(member, target, event->now_ns);
        return;
    }
    target->peer = event->peer;
    link->outgoing = true;
    link->id = target->id;
    muster_action *action = muster_act(actions, MUSTER_ACTION_SEND);
    action->as.send.peer = event->peer;
    muster_message *hello = &action->as.send.message;
    hello->kind = MUSTER_MSG_HELLO;
    hello->run = member->run;
    hello->incarnation = member->incarnation;
    hello->as.hello.id = member->id;
    hello->as.hello.role = (uint32_t)member->opts.kind;
    hello->as.hello.pid = member->opts.pid;
    memcpy(hello->as.hello.host, member->opts.host,
           sizeof(hello->as.hello.host));
    memcpy(hello->as.hello.address, member->opts.address,
           sizeof(hello->as.hello.address));
}

void muster_member_unreachable(muster_member *member, const muster_event *event)
{
    muster_connect_target *target =
        target_of_token(member, event->as.down.token);
    if (target == NULL) {
        return;
    }
    target->token = 0;
    if (event->as.down.status == MUSTER_ERR_REFUSED) {
        // Another version or key: no number of tries will change that.
        muster_member_tell(member, MUSTER_NEWS_REFUSED, target->id,
                           event->as.down.reason);
        return;
    }
    if (target->id == muster_member_leader_id(member)) {
        snprintf(member->unreached, sizeof(member->unreached), "%.159s",
                 event->as.down.reason);
    }
    muster_member_retry_later(member, target, event->now_ns);
}

static bool take_leaders_word(muster_member *member, const muster_event *event)
{
    const muster_message *welcome = event->as.message.message;
    if (member->opts.mesh && member->places == NULL) {
        member->size = welcome->as.welcome.size;
        member->places = muster_mem_array(member->size, sizeof(muster_place));
        if (member->places == NULL) {
            return false;
        }
    }
    member->run = welcome->run;
    member->id = welcome->as.welcome.id;
    member->incarnation = welcome->incarnation;
    member->size = welcome->as.welcome.size;
    member->heartbeat_ns =
        (int64_t)welcome->as.welcome.heartbeat_ms * MUSTER_NS_PER_MS;
    member->contact_ns = event->now_ns;
    member->unreached[0] = 0;
    member->told_unreached = false;
    muster_blob_unref(member->welcome);
    member->welcome = muster_blob_ref(event->as.message.payload);
    return true;
}

void muster_member_welcomed(muster_member *member, muster_link *link,
                            const muster_event *event, muster_actions *actions)
{
    const muster_message *welcome = event->as.message.message;
    bool from_leader = link->id == muster_member_leader_id(member);
    bool other_run = member->run != 0 && welcome->run != member->run;
    bool other_mesh = member->opts.mesh && member->places != NULL &&
                      welcome->as.welcome.size != member->size;
    if (welcome->run == 0 || other_run || other_mesh ||
        (from_leader && !take_leaders_word(member, event))) {
        muster_member_forget(member, link, "its welcome makes no sense", true,
                             event, actions);
        return;
    }
    muster_connect_target *target = muster_member_target(member, link->id);
    if (target == NULL || target->peer != link->peer) {
        // The directory changed its mind while we were greeting.
        muster_member_forget(member, link, "", true, event, actions);
        return;
    }
    link->incarnation = welcome->incarnation;
    target->backoff_ns = BACKOFF_FIRST_NS;
    muster_member_settle(member, link, event->now_ns);
    if (from_leader && member->opts.mesh) {
        // A directory that overtook the welcome was lost: ask for it.
        muster_member_beat(member, link, event, actions);
    }
}

void muster_member_refused(muster_member *member, muster_link *link,
                           const muster_event *event, muster_actions *actions)
{
    const muster_message *refuse = event->as.message.message;
    uint32_t id = link->id;
    bool for_good = link->outgoing && id == muster_member_leader_id(member) &&
                    refuse->as.refuse.status != MUSTER_ERR_AGAIN;
    muster_member_forget(member, link, refuse->as.refuse.text, true, event,
                         actions);
    if (id == muster_member_leader_id(member)) {
        snprintf(member->unreached, sizeof(member->unreached), "%.159s",
                 refuse->as.refuse.text);
    }
    if (for_good) {
        muster_member_tell(member, MUSTER_NEWS_REFUSED, id,
                           refuse->as.refuse.text);
    }
}
