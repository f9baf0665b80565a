/*
 * member_links.c -- the connections of role/member.h, and mail over them.
 *
 * Invariants:
 *   1. A link in state MEMBER is the `peer` of its place (or of the leader's
 *      target in a star); no other link claims that number.
 *   2. JOINED is told when a link enters MEMBER, LOST when it leaves: they
 *      alternate per number.
 */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "role/member_inside.h"

/* How long one that misbehaved is kept away, from first to most. */
#define SHUT_OUT_FIRST_NS MUSTER_NS_PER_S
#define SHUT_OUT_MAX_NS   (60 * MUSTER_NS_PER_S)
#define BARS_MAX          6u
/* A list of at most so many links has no gaps. */
#define LINKS_MOVED 64u
/* Beyond so many, new links wait in a list of at most so many. */
#define LINKS_NEW_MAX 512u

/* Where a link is in a list that ascends, or would be. */
static size_t link_index(const muster_vec *list, muster_role_peer peer)
{
    const muster_link *links = list->data;
    size_t low = 0;
    size_t count = list->count;
    // Numbers grow evenly where all peers do the same: guess before searching.
    if (count > 1 && peer > links[0].peer && peer <= links[count - 1].peer) {
        uint64_t span = links[count - 1].peer - links[0].peer;
        size_t guess = (size_t)((peer - links[0].peer) * (count - 1) / span);
        if (links[guess].peer == peer) {
            return guess;
        }
    }
    for (size_t high = count; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (links[middle].peer < peer) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static muster_link *find_in(const muster_vec *list, muster_role_peer peer)
{
    size_t index = link_index(list, peer);
    muster_link *links = list->data;
    bool found = index < list->count && links[index].peer == peer &&
                 links[index].state != MUSTER_LINK_GONE;
    return found ? &links[index] : NULL;
}

muster_link *muster_member_find(muster_member *member, muster_role_peer peer)
{
    muster_link *link = find_in(&member->links, peer);
    return link != NULL || member->links_new.count == 0
               ? link
               : find_in(&member->links_new, peer);
}

bool muster_member_merge(muster_member *member)
{
    size_t old = member->links.count;
    size_t added = member->links_new.count;
    if (!muster_vec_reserve(&member->links, old + added)) {
        return false;
    }
    member->links.count += added;
    muster_link *links = member->links.data;
    const muster_link *fresh = member->links_new.data;
    while (added > 0) { // from the end: nothing is overwritten unread
        bool take_old = old > 0 && links[old - 1].peer > fresh[added - 1].peer;
        links[old + added - 1] = take_old ? links[old - 1] : fresh[added - 1];
        old -= take_old;
        added -= !take_old;
    }
    muster_vec_clear(&member->links_new);
    return true;
}

static void close_gaps(muster_member *member)
{
    muster_link *links = member->links.data;
    size_t kept = 0;
    for (size_t i = 0; i < member->links.count; i++) {
        if (links[i].state != MUSTER_LINK_GONE) {
            links[kept++] = links[i];
        }
    }
    member->links.count = kept;
    member->links_gone = 0;
}

/* The list that takes a new link. Thousands of peers may come one after
 * another in any order: in a long list they are merged many at a time. NULL
 * when out of memory. */
static muster_vec *list_for(muster_member *member, muster_role_peer peer)
{
    if (member->links_new.count >= LINKS_NEW_MAX &&
        !muster_member_merge(member)) {
        return NULL;
    }
    const muster_link *links = member->links.data;
    size_t count = member->links.count;
    bool moves_many = count > LINKS_NEW_MAX && links[count - 1].peer > peer;
    return moves_many || member->links_new.count > 0 ? &member->links_new
                                                     : &member->links;
}

muster_link *muster_member_add(muster_member *member, muster_role_peer peer,
                               int64_t now_ns)
{
    if (2 * member->links_gone > member->links.count) {
        if (!muster_member_merge(member)) {
            return NULL;
        }
        close_gaps(member);
    }
    muster_vec *list = list_for(member, peer);
    size_t all = member->links.count + member->links_new.count;
    // One event may be news of every link, and a little more.
    if (list == NULL ||
        !muster_vec_reserve(&member->news, all + 1 + MUSTER_NEWS_MORE) ||
        muster_vec_push(list) == NULL) {
        return NULL;
    }
    list->count--;
    size_t index = link_index(list, peer);
    muster_link *link = (muster_link *)list->data + index;
    memmove(link + 1, link, (list->count++ - index) * sizeof(*link));
    *link = (muster_link){.peer = peer,
                          .id = MUSTER_ID_ANY,
                          .heard_ns = now_ns,
                          .progress_ns = now_ns};
    return link;
}

/* In a long list the place stays empty until many are: thousands of peers may
 * go one after another. */
static void remove_link(muster_member *member, muster_link *link)
{
    if (member->links.count > LINKS_MOVED) {
        link->state = MUSTER_LINK_GONE;
        member->links_gone++;
        return;
    }
    muster_link *links = member->links.data;
    size_t index = (size_t)(link - links);
    memmove(link, link + 1, (--member->links.count - index) * sizeof(*link));
}

muster_news *muster_member_tell(muster_member *member, muster_news_kind kind,
                                uint32_t id, const char *reason)
{
    MUSTER_ASSERT(muster_vec_reserve(&member->news, member->news.count + 1));
    muster_news *news = (muster_news *)member->news.data + member->news.count++;
    // Most news is a message, and has no reason.
    *news = (muster_news){.kind = kind,
                          .id = id,
                          .reason = reason[0] != 0 ? muster_mem_string(reason)
                                                   : NULL};
    return news;
}

const char *muster_news_reason(const muster_news *news)
{
    return news->reason != NULL ? news->reason : "";
}

void muster_member_forget_news(muster_member *member)
{
    muster_news *news = member->news.data;
    for (size_t i = 0; i < member->news.count; i++) {
        muster_mem_free(news[i].reason);
    }
    muster_vec_clear(&member->news);
}

void muster_member_settle(muster_member *member, muster_link *link,
                          int64_t now_ns)
{
    member->links_member += link->state != MUSTER_LINK_MEMBER;
    link->state = MUSTER_LINK_MEMBER;
    link->heard_ns = now_ns;
    link->progress_ns = now_ns;
    if (link->id < member->size && member->places != NULL) {
        member->places[link->id].peer = link->peer;
    }
    muster_member_tell(member, MUSTER_NEWS_JOINED, link->id, "");
}

void muster_member_forget(muster_member *member, muster_link *link,
                          const char *reason, bool drop,
                          const muster_event *event, muster_actions *actions)
{
    muster_link gone = *link;
    member->links_member -= gone.state == MUSTER_LINK_MEMBER;
    remove_link(member, link);
    if (drop) {
        muster_act_drop(actions, gone.peer);
    }
    if (gone.outgoing) {
        muster_connect_target *target = muster_member_target(member, gone.id);
        if (target != NULL && target->peer == gone.peer) {
            target->peer = 0;
            muster_member_retry_later(member, target, event->now_ns);
        }
    }
    if (gone.state != MUSTER_LINK_MEMBER) {
        return;
    }
    if (member->places != NULL && gone.id < member->size) {
        member->places[gone.id].peer = 0;
    }
    muster_member_tell(member, MUSTER_NEWS_LOST, gone.id, reason);
}

void muster_member_refuse(muster_member *member, muster_link *link,
                          muster_status status, const char *text,
                          muster_actions *actions)
{
    muster_action *action = muster_act(actions, MUSTER_ACTION_SEND);
    action->as.send.peer = link->peer;
    muster_message *message = &action->as.send.message;
    message->kind = MUSTER_MSG_REFUSE;
    message->run = member->run;
    message->as.refuse.status = status;
    snprintf(message->as.refuse.text, sizeof(message->as.refuse.text), "%s",
             text);
    member->links_member -= link->state == MUSTER_LINK_MEMBER;
    link->state = MUSTER_LINK_REFUSED;
    link->outgoing = false;
}

bool muster_member_is_here(const muster_member *member, uint32_t id)
{
    return member->places != NULL && id < member->size &&
           member->places[id].peer != 0;
}

muster_link *muster_member_link(muster_member *member, uint32_t id)
{
    // A star's follower has one link, to its leader (invariant 1).
    muster_link *first = member->links.data;
    if (id == MUSTER_ID_LEADER && member->links.count > 0 && first->id == id &&
        first->state == MUSTER_LINK_MEMBER) {
        return first;
    }
    muster_role_peer peer = 0;
    if (muster_member_is_here(member, id)) {
        peer = member->places[id].peer;
    } else if (id == MUSTER_ID_LEADER) {
        muster_connect_target *target = muster_member_target(member, id);
        peer = target != NULL ? target->peer : 0;
    }
    muster_link *link = peer != 0 ? muster_member_find(member, peer) : NULL;
    return link != NULL && link->state == MUSTER_LINK_MEMBER ? link : NULL;
}

bool muster_member_send(muster_member *member, uint32_t id,
                        muster_member_mail *mail, muster_actions *actions)
{
    const muster_link *link = muster_member_link(member, id);
    if (link == NULL) {
        muster_blob_unref(mail->payload);
        return false;
    }
    muster_action *action = muster_act_send(actions, &mail->message);
    action->as.send.peer = link->peer;
    action->as.send.message.run = member->run;
    action->as.send.message.incarnation = link->incarnation;
    action->as.send.payload = mail->payload;
    action->as.send.replace_slot = mail->replace_slot;
    action->as.send.token = mail->token;
    return true;
}

/* Keep a process away for a while, twice as long as the last time. */
static void bar(muster_place *place, int64_t now_ns)
{
    if (now_ns - place->shut_out_ns > SHUT_OUT_MAX_NS) {
        place->bars = 0; // it has been good for long
    }
    int64_t shut_out_for_ns =
        SHUT_OUT_FIRST_NS << (place->bars < BARS_MAX ? place->bars : BARS_MAX);
    place->bars++;
    place->shut_out_ns =
        now_ns +
        (shut_out_for_ns < SHUT_OUT_MAX_NS ? shut_out_for_ns : SHUT_OUT_MAX_NS);
}

void muster_member_offends(muster_member *member, muster_link *link,
                           const char *reason, const muster_event *event,
                           muster_actions *actions)
{
    if (member->opts.leads && link->state == MUSTER_LINK_MEMBER) {
        bar(&member->places[link->id], event->now_ns);
    }
    muster_member_forget(member, link, reason, true, event, actions);
}

void muster_member_drop(muster_member *member, uint32_t id,
                        const muster_event *event, muster_actions *actions)
{
    muster_link *link = muster_member_link(member, id);
    if (link != NULL && member->opts.leads && id < member->size) {
        bar(&member->places[id], event->now_ns);
    }
    if (link != NULL) {
        muster_member_forget(member, link, "", true, event, actions);
        member->news.count--; // the caller knows already
    }
}

void muster_member_owes(muster_member *member, muster_role_peer peer,
                        int64_t now_ns)
{
    muster_link *link = muster_member_find(member, peer);
    if (link != NULL && link->owed_ns == 0) {
        link->owed_ns = now_ns;
    }
}

void muster_member_paid(muster_member *member, muster_role_peer peer)
{
    muster_link *link = muster_member_find(member, peer);
    if (link != NULL) {
        link->owed_ns = 0;
    }
}

/* Where the link of a peer is, or would be: the guess of link_index(). */
static const muster_link *link_near(const muster_member *member,
                                    muster_role_peer peer)
{
    const muster_link *links = member->links.data;
    size_t count = member->links.count;
    if (count < 2 || peer < links[0].peer || peer > links[count - 1].peer) {
        return NULL;
    }
    uint64_t span = links[count - 1].peer - links[0].peer;
    return &links[(size_t)((peer - links[0].peer) * (count - 1) / span)];
}

void muster_member_prefetch_link(const muster_member *member,
                                 muster_role_peer peer)
{
    const muster_link *link = link_near(member, peer);
    if (link != NULL) {
        __builtin_prefetch(link);
    }
}

uint32_t muster_member_number_of(const muster_member *member,
                                 muster_role_peer peer)
{
    const muster_link *link = link_near(member, peer);
    return link != NULL && link->peer == peer ? link->id : MUSTER_ID_ANY;
}
