/*
 * member_leader.c -- what a follower tells people of its leader.
 */
#include <stdio.h>
#include <string.h>

#include "role/act.h"
#include "role/member.h"

const char *muster_member_leader_address(const muster_member *member)
{
    const char *address = member->opts.leader;
    return strncmp(address, "tcp:", 4) == 0 ? address + 4 : address;
}

/* A reason of net begins with the address, which is told anyway. */
static const char *without_address(const muster_member *member,
                                   const char *reason)
{
    size_t length = strlen(member->opts.leader);
    bool named = strncmp(reason, member->opts.leader, length) == 0 &&
                 strncmp(reason + length, ": ", 2) == 0;
    const char *rest = named ? reason + length + 2 : reason;
    return rest[0] != 0 ? rest : "no answer";
}

void muster_member_say_end(const muster_member *member, muster_status status,
                           const char *reason, char *text, size_t room)
{
    (void)snprintf(
        text, room, "%s %s: %s", muster_member_without_leader(status),
        muster_member_leader_address(member), without_address(member, reason));
}

void muster_member_tell_unreached(muster_member *member,
                                  const muster_event *event,
                                  muster_actions *actions)
{
    if (member->unreached[0] == 0 || member->told_unreached) {
        return;
    }
    member->told_unreached = true;
    muster_act_notice(actions, event->now_ns, MUSTER_LOG_INFO,
                      "%s: %s; trying again for %.0f s",
                      muster_member_leader_address(member),
                      without_address(member, member->unreached),
                      (double)member->opts.patience_ns * 1e-9);
}
