/*
 * role/member_inside.h -- what the files of member share with each other:
 *   member.c         the step: heartbeats, losses, whose message it is
 *   member_links.c   connections, mail
 *   member_admit.c   incoming connections: HELLO, numbers, refusals
 *   member_follow.c  outgoing connections: connect, retry, WELCOME
 *   member_mesh.c    the directory
 */
#ifndef MUSTER_ROLE_MEMBER_INSIDE_H
#define MUSTER_ROLE_MEMBER_INSIDE_H

#include "role/act.h"
#include "role/member.h"

/* How long a new connection may take to say who it is. */
#define MUSTER_GREETING_NS 5000000000ll

/* member_links.c */
muster_link *muster_member_find(muster_member *member, muster_role_peer peer);
/* A new link, with room for the news of it; NULL when out of memory. */
muster_link *muster_member_add(muster_member *member, muster_role_peer peer,
                               int64_t now_ns);
/* All links are in `links` from now on; false when out of memory. */
bool muster_member_merge(muster_member *member);
/* The link is a member's from now on: JOINED. */
void muster_member_settle(muster_member *member, muster_link *link,
                          int64_t now_ns);
/* Forget a link: LOST if it was a member's; a target is tried again.
 * `drop` also ends the connection. */
void muster_member_forget(muster_member *member, muster_link *link,
                          const char *reason, bool drop,
                          const muster_event *event, muster_actions *actions);
muster_news *muster_member_tell(muster_member *member, muster_news_kind kind,
                                uint32_t id, const char *reason);
/* The news of the last event. */
void muster_member_forget_news(muster_member *member);
/* Say no on a link and let the other side hang up. */
void muster_member_refuse(muster_member *member, muster_link *link,
                          muster_status status, const char *text,
                          muster_actions *actions);
/* The member broke a rule: LOST, and its process is kept away for a while. */
void muster_member_offends(muster_member *member, muster_link *link,
                           const char *reason, const muster_event *event,
                           muster_actions *actions);
bool muster_member_is_here(const muster_member *member, uint32_t id);

/* member.c */
void muster_member_beat(const muster_member *member, const muster_link *link,
                        const muster_event *event, muster_actions *actions);

/* member_admit.c */
/* Is the HELLO of the process that has, or had, this place? */
bool muster_member_is_process_of(const muster_place *place,
                                 const muster_message *hello);
void muster_member_admit(muster_member *member, muster_link *link,
                         const muster_event *event, muster_actions *actions);

/* member_follow.c */
muster_connect_target *muster_member_target(muster_member *member, uint32_t id);
/* Connect to `id` from now on; false when out of memory. */
bool muster_member_aim(muster_member *member, uint32_t id, const char *address,
                       int64_t now_ns);
void muster_member_connected(muster_member *member, const muster_event *event,
                             muster_actions *actions);
void muster_member_unreachable(muster_member *member,
                               const muster_event *event);
void muster_member_welcomed(muster_member *member, muster_link *link,
                            const muster_event *event, muster_actions *actions);
void muster_member_refused(muster_member *member, muster_link *link,
                           const muster_event *event, muster_actions *actions);
void muster_member_retry(muster_member *member, const muster_event *event,
                         muster_actions *actions);
void muster_member_retry_later(muster_member *member,
                               muster_connect_target *target, int64_t now_ns);
/* The lowest number that others than the leader have. */
uint32_t muster_member_first_id(const muster_member *member);
uint32_t muster_member_leader_id(const muster_member *member);

/* member_mesh.c */
void muster_member_publish(muster_member *member, muster_actions *actions);
void muster_member_remind(muster_member *member, uint32_t id, uint64_t epoch,
                          muster_actions *actions);
void muster_member_directory(muster_member *member, const muster_event *event,
                             muster_actions *actions);

#endif // MUSTER_ROLE_MEMBER_INSIDE_H
