/*
 * member_admit.c -- incoming connections: HELLO, numbers, refusals.
 *
 * A leader gives out numbers. Any other node of a mesh admits only peers that
 * the leader has admitted: of the same run, and with the incarnation that the
 * directory has.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "role/member_inside.h"

/* A HELLO whose incarnation is further ahead of ours is not believed. */
#define FORGOTTEN_MAX (1u << 20)
/* How often the window of a starved process is doubled, and after how many
 * windows without trouble that is forgotten. */
#define DOUBTS_MAX    2u
#define DOUBT_WINDOWS 100

/* The number that a HELLO asks for. One of another edge's was given to the
 * process by an edge that had another number: it gets any of ours. */
static uint32_t wanted_number(const muster_member *member,
                              const muster_message *hello)
{
    uint32_t wanted = hello->as.hello.id;
    bool ours = wanted >= member->opts.first &&
                wanted - member->opts.first < member->size;
    if (wanted == MUSTER_ID_ANY || member->opts.total == 0) {
        return wanted;
    }
    return ours ? wanted - member->opts.first : MUSTER_ID_ANY;
}

/* The first number nobody ever had, else the first one that is free. */
static uint32_t free_number(const muster_member *member)
{
    uint32_t free = MUSTER_ID_ANY;
    for (uint32_t id = muster_member_first_id(member); id < member->size;
         id++) {
        const muster_place *place = &member->places[id];
        if (place->incarnation == 0) {
            return id;
        }
        if (free == MUSTER_ID_ANY && place->peer == 0) {
            free = id;
        }
    }
    return free;
}

/* Half a window, two heartbeats, is too short to lose a member, but enough to
 * let a process have its number back whose old connection is dead. */
static bool shows_life(muster_member *member, uint32_t id, int64_t now_ns)
{
    const muster_link *link = muster_member_link(member, id);
    return link != NULL && now_ns - link->heard_ns <= member->heartbeat_ns / 2;
}

bool muster_member_is_process_of(const muster_place *place,
                                 const muster_message *hello)
{
    return place->pid == hello->as.hello.pid &&
           strncmp(place->host, hello->as.hello.host, sizeof(place->host)) == 0;
}

/*
 * The number for this HELLO: the one that it asks for, if nobody has it who
 * shows life. Else another that is free. A process that returns before its own
 * old connection is known to be dead waits for its number. One that was away
 * while another took its number gets a free one, or the two would take it from
 * each other for ever.
 */
static uint32_t choose_number(muster_member *member, const muster_event *event)
{
    const muster_message *hello = event->as.message.message;
    uint32_t wanted = wanted_number(member, hello);
    if (wanted == MUSTER_ID_ANY) {
        return free_number(member);
    }
    const muster_place *place = &member->places[wanted];
    bool returns = hello->run == member->run;
    // A leader that was resumed may have given its life to another process.
    bool was_its = returns && place->incarnation == hello->incarnation &&
                   muster_member_is_process_of(place, hello);
    if (place->peer == 0 || was_its) {
        return wanted;
    }
    if (returns || shows_life(member, wanted, event->now_ns)) {
        return free_number(member);
    }
    return wanted;
}

/* False, and a refusal, when this HELLO can never be right. */
static bool is_welcome(muster_member *member, muster_link *link,
                       const muster_message *hello, muster_actions *actions)
{
    char text[200];
    uint32_t wanted = wanted_number(member, hello);
    if (member->closed[0] != 0) {
        snprintf(text, sizeof(text), "%s", member->closed);
    } else if (hello->run != 0 && hello->run != member->run) {
        snprintf(text, sizeof(text), "run %016llx is not this one (%016llx)",
                 (unsigned long long)hello->run,
                 (unsigned long long)member->run);
    } else if (hello->as.hello.role != (uint32_t)member->opts.kind) {
        snprintf(text, sizeof(text), "no place for a member of kind %u here",
                 hello->as.hello.role);
    } else if (wanted != MUSTER_ID_ANY &&
               (wanted >= member->size ||
                wanted < muster_member_first_id(member))) {
        snprintf(text, sizeof(text), "number %u: this run has 0 to %u", wanted,
                 member->size - 1);
    } else if (member->opts.apart && hello->as.hello.address[0] == 0) {
        snprintf(text, sizeof(text),
                 "workers of this run meet each other: join with --listen "
                 "HOST:PORT");
    } else {
        return true;
    }
    muster_member_refuse(member, link, MUSTER_ERR_REFUSED, text, actions);
    return false;
}

/* The connection that had this number is refused, and its member is lost. */
static void oust(muster_member *member, uint32_t id, muster_actions *actions)
{
    muster_link *old = muster_member_link(member, id);
    if (old == NULL) {
        return;
    }
    muster_member_refuse(member, old, MUSTER_ERR_REFUSED,
                         "another process has taken this number", actions);
    member->places[id].peer = 0;
    muster_member_tell(member, MUSTER_NEWS_LOST, id,
                       "silent, and replaced by a newer process");
}

/* False, and who asks is told to come again, where a member has the place. */
static bool is_to_be_had(muster_member *member, muster_link *link, uint32_t id,
                         int64_t now_ns, muster_actions *actions)
{
    if (!shows_life(member, id, now_ns)) {
        return true;
    }
    const muster_place *place = &member->places[id];
    char text[200];
    snprintf(text, sizeof(text), "number %u is taken by process %u on %.63s",
             member->opts.first + id, place->pid,
             place->host[0] != 0 ? place->host : "?");
    muster_member_refuse(member, link, MUSTER_ERR_AGAIN, text, actions);
    return false;
}

static void send_welcome(const muster_member *member, const muster_link *link,
                         muster_actions *actions)
{
    muster_action *action = muster_act(actions, MUSTER_ACTION_SEND);
    action->as.send.peer = link->peer;
    action->as.send.payload = muster_blob_ref(member->opts.setup);
    muster_message *welcome = &action->as.send.message;
    welcome->kind = MUSTER_MSG_WELCOME;
    welcome->run = member->run;
    welcome->incarnation = link->incarnation;
    welcome->as.welcome.id = member->opts.first + link->id;
    welcome->as.welcome.size =
        member->opts.total != 0 ? member->opts.total : member->size;
    welcome->as.welcome.heartbeat_ms =
        (uint32_t)(member->heartbeat_ns / MUSTER_NS_PER_MS);
}

/* Was its silence taken for its end? */
static void doubt(const muster_member *member, muster_place *place,
                  const muster_event *event)
{
    bool returns =
        muster_member_is_process_of(place, event->as.message.message);
    int64_t here_ns = event->now_ns - place->seated_ns;
    if (!returns || here_ns > DOUBT_WINDOWS * member->heartbeat_ns) {
        place->doubts = 0;
    }
    if (returns && place->silenced && place->doubts < DOUBTS_MAX) {
        place->doubts++;
    }
    place->silenced = false;
    place->seated_ns = event->now_ns;
}

static void seat(muster_member *member, muster_link *link, uint32_t id,
                 const muster_event *event)
{
    const muster_message *hello = event->as.message.message;
    muster_place *place = &member->places[id];
    doubt(member, place, event);
    place->incarnation = link->incarnation;
    place->pid = hello->as.hello.pid;
    memcpy(place->host, hello->as.hello.host, sizeof(place->host));
    memcpy(place->address, hello->as.hello.address, sizeof(place->address));
    link->id = id;
    muster_member_settle(member, link, event->now_ns);
}

/* A resumed leader does not know the incarnations that it gave out after its
 * state was saved. It begins a new block of numbers; when it is resumed twice
 * from one state, returning workers bring the numbers of the first block. No
 * incarnation is given out twice. */
static void remember_life(muster_member *member, const muster_message *hello)
{
    bool later =
        hello->run == member->run && hello->incarnation > member->incarnation;
    if (later && hello->incarnation - member->incarnation < FORGOTTEN_MAX) {
        member->incarnation = hello->incarnation;
    }
}

/* Is this the process that misbehaved under that number a moment ago? */
static bool is_shut_out(const muster_place *place, const muster_event *event)
{
    return place->shut_out_ns > event->now_ns &&
           muster_member_is_process_of(place, event->as.message.message);
}

static void admit_as_leader(muster_member *member, muster_link *link,
                            const muster_event *event, muster_actions *actions)
{
    const muster_message *hello = event->as.message.message;
    if (!is_welcome(member, link, hello, actions)) {
        return;
    }
    uint32_t id = choose_number(member, event);
    if (id == MUSTER_ID_ANY) {
        char text[64];
        snprintf(text, sizeof(text), "all %u places are taken", member->size);
        muster_member_refuse(member, link, MUSTER_ERR_AGAIN, text, actions);
        return;
    }
    if (is_shut_out(&member->places[id], event)) {
        muster_member_refuse(member, link, MUSTER_ERR_AGAIN,
                             "what you sent could not be used; come later",
                             actions);
        return;
    }
    if (!is_to_be_had(member, link, id, event->now_ns, actions)) {
        return;
    }
    oust(member, id, actions);
    remember_life(member, hello);
    link->incarnation = ++member->incarnation;
    seat(member, link, id, event);
    send_welcome(member, link, actions);
}

static void admit_as_node(muster_member *member, muster_link *link,
                          const muster_event *event, muster_actions *actions)
{
    const muster_message *hello = event->as.message.message;
    uint32_t id = hello->as.hello.id;
    bool known = member->places != NULL && id < member->size;
    if (member->run == 0 || !known || hello->run != member->run ||
        id <= member->id ||
        hello->incarnation != member->places[id].incarnation) {
        // It will ask again when the directory has reached both of us.
        muster_member_refuse(member, link, MUSTER_ERR_AGAIN,
                             "not in the directory", actions);
        return;
    }
    if (!is_to_be_had(member, link, id, event->now_ns, actions)) {
        return;
    }
    oust(member, id, actions);
    link->incarnation = hello->incarnation;
    seat(member, link, id, event);
    send_welcome(member, link, actions);
}

void muster_member_admit(muster_member *member, muster_link *link,
                         const muster_event *event, muster_actions *actions)
{
    if (member->opts.leads) {
        admit_as_leader(member, link, event, actions);
    } else {
        admit_as_node(member, link, event, actions);
    }
}
