/*
 * role/member.h -- membership: hello, numbers, incarnations, heartbeats.
 *
 * Every role is a member. A leader gives out numbers 0..size-1 and a fresh
 * incarnation for every HELLO it accepts; others follow: they connect to the
 * leader and keep trying. In a star that is all. In a mesh the leader is
 * number 0, or apart from the numbers, and sends every node the addresses
 * (DIRECTORY); of two nodes the one with the higher number connects to the
 * other.
 *
 * A role hands every event to muster_member_step() first and then reads the
 * news: who joined, who was lost and why, and the messages that are not about
 * membership.
 *
 *   Promise      A message reaches the role only from a member whose
 *                connection stands, and only with this run and the incarnation
 *                of that connection. JOINED and LOST of a number alternate.
 *                A number whose holder was heard in the last half window is
 *                nobody else's: who asks for it gets a free one, or is told to
 *                come again. The first message of an incoming connection,
 *                HELLO, says what its sender is; a HELLO of another process,
 *                or a message of another run or a later life, ends it. One of
 *                an earlier life is late, and dropped.
 *   Liveness     Any message counts as a sign of life, and so does each KiB of
 *                one that is still arriving (HEARD). Silence longer than
 *                the heartbeat window is loss; so is a peer that says it is
 *                busy and whose progress counter stands still for `stall_ns`,
 *                and one that says it is idle while it owes an answer as long.
 *                Both as of its newest heartbeat: between two nothing is known.
 *                A process that returns after its silence was not dead but
 *                starved: a star's leader then gives it twice the window, at
 *                most four times, or on a crowded machine it would be lost
 *                again before it has its parts, for ever.
 *   Timer        MUSTER_TIMER_MEMBER, or opts.timer, belongs to this module.
 *   Numbers      Inside they are 0..size-1. HELLO and WELCOME of a leader with
 *                opts.first say first..first+size-1.
 *   Ownership    `setup` is referenced.
 */
#ifndef MUSTER_ROLE_MEMBER_H
#define MUSTER_ROLE_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "role/role.h"
#include "wire/message.h"

#define MUSTER_TIMER_MEMBER 1u
#define MUSTER_TIMER_ROLE   16u // the first id that roles may use

/* The number of a leader that is not one of its members (a star's). */
#define MUSTER_ID_LEADER (UINT32_MAX - 1)

/* The window until WELCOME says the leader's: an answer to HELLO that takes
 * much longer finds nobody. */
#define MUSTER_HEARTBEAT_JOIN_NS 2000000000ll

typedef struct muster_member_opts {
    bool leads;
    bool mesh;               // everybody connects to everybody
    bool apart;              // a mesh whose leader has none of the numbers
    muster_member_role kind; // what we are, or whom we lead
    int64_t stall_ns;        // 0: progress is not watched
    uint32_t timer;          // 0: MUSTER_TIMER_MEMBER
    /* leader */
    uint32_t size;  // numbers to give out
    uint32_t first; // the lowest of them, as others know it (an edge's)
    uint32_t total; // members of the whole run; 0: `size`
    uint64_t run;
    int64_t heartbeat_ns;  // the window
    muster_blob *setup;    // payload of WELCOME, or NULL
    uint32_t incarnations; // given out in earlier lives
    /* follower */
    char leader[128]; // its address
    uint32_t id;      // wish, or MUSTER_ID_ANY
    int64_t patience_ns;
    /* both */
    uint32_t pid;
    char host[64];
    char address[128]; // where we listen (mesh), or ""
} muster_member_opts;

typedef enum muster_news_kind {
    MUSTER_NEWS_JOINED = 1,  // `id` is here; for a follower of a star: we are
    MUSTER_NEWS_LOST = 2,    // `id` is gone, and why
    MUSTER_NEWS_MESSAGE = 3, // the event's message is from `id`
    MUSTER_NEWS_REFUSED = 4, // the leader will not have us: end
    MUSTER_NEWS_ALONE = 5,   // no leader for patience_ns, and why: end
} muster_news_kind;

typedef struct muster_news {
    muster_news_kind kind;
    uint32_t id;
    char *reason; // why; NULL: none, or no memory for it
} muster_news;

/* A connection. */
typedef struct muster_link {
    // What every message reads comes first; all of it is a line of memory.
    muster_role_peer peer;
    uint32_t id; // MUSTER_ID_ANY before it is known
    uint32_t incarnation;
    enum __attribute__((packed)) {
        MUSTER_LINK_GREETING,
        MUSTER_LINK_MEMBER,
        MUSTER_LINK_REFUSED,
        MUSTER_LINK_GONE // its place in the list is still to be used again
    } state;
    bool outgoing;
    bool busy;
    int64_t heard_ns;    // or when it came up
    int64_t owed_ns;     // since when it owes an answer; 0: it does not
    int64_t beat_ns;     // its newest heartbeat; what it says is as old
    int64_t progress_ns; // when `progress` last moved, or busy began
    uint64_t progress;
} muster_link;

/* Somebody we connect to, again and again until told otherwise. */
typedef struct muster_connect_target {
    uint32_t id;
    uint64_t token;        // of the connect under way, or 0
    muster_role_peer peer; // 0: not connected
    int64_t retry_ns;      // when to try next; < 0: not waiting
    int64_t backoff_ns;
    char address[128];
} muster_connect_target;

/* A number, as the leader or the directory knows it. */
typedef struct muster_place {
    uint32_t incarnation;  // the newest; 0: never taken
    muster_role_peer peer; // 0: not connected
    uint32_t pid;
    char host[64];
    char address[128];
    int64_t shut_out_ns; // its process is not admitted before that
    uint32_t bars;       // times that it was dropped for misbehaviour lately
    int64_t seated_ns;   // when its process came (back)
    bool silenced;       // it was lost by silence alone
    uint32_t doubts;     // times that this was wrong: the process came back
} muster_place;

/* News of one event beyond one of each link: joined, alone, refused. */
#define MUSTER_NEWS_MORE 4u
/* A follower in a star has one link: it and its news lie in the member. */
#define MUSTER_NEWS_FEW (MUSTER_NEWS_MORE + 2u)

/* It stays where it is: lists begin inside. */
typedef struct muster_member {
    // What every event reads comes first, in few cache lines.
    uint64_t run;         // 0 until welcomed
    uint32_t id;          // ours
    uint32_t incarnation; // ours; leader: the last one given out
    uint32_t size;
    bool busy;          // told to peers; kept by the role
    bool due_moved;     // what the timer waits for, perhaps
    bool publishes;     // leads a mesh: tells everybody who is there
    bool zero_leads;    // the leader is number 0, not apart from the numbers
    muster_vec links;   // muster_link, ascending by peer
    muster_vec news;    // muster_news of the last event
    int64_t contact_ns; // follower: when the leader was last heard
    muster_link first_link;
    muster_news first_news[MUSTER_NEWS_FEW];
    muster_place *places; // size of them; a star's follower has none
    muster_member_opts opts;
    muster_vec targets; // muster_connect_target
    muster_connect_target first_target;
    muster_vec links_new; // muster_link, ascending: to be merged into a long
                          // list
    int64_t next_beat_ns;
    int64_t timer_ns;     // what the timer is set to
    uint64_t strays;      // dropped: of another run or incarnation
    char unreached[160];  // follower: why it has no leader; "" with one
    size_t links_gone;    // of both lists: in state GONE
    size_t links_member;  // of both lists: in state MEMBER
    muster_blob *welcome; // follower: payload of the newest WELCOME
    uint64_t tokens;
    uint64_t epoch; // of the directory
    int64_t heartbeat_ns;
    char closed[128];    // leader: refuse everybody, and why
    bool told_unreached; // follower: since the last welcome
} muster_member;

MUSTER_CHECKED muster_status muster_member_init(muster_member *member,
                                                const muster_member_opts *opts);
void muster_member_fini(muster_member *member);

/* Why, as text: "" where nothing is known. It stands until the next event. */
const char *muster_news_reason(const muster_news *news);

/* Take an event. Fills member->news. */
void muster_member_step(muster_member *member, const muster_event *event,
                        muster_actions *actions);

/* Send to a member that is here (else nothing happens, false); run and
 * incarnation are filled in. The payload's reference is handed over. */
typedef struct muster_member_mail {
    muster_message message;
    muster_blob *payload;
    uint32_t replace_slot;
    uint64_t token;
} muster_member_mail;
bool muster_member_send(muster_member *member, uint32_t id,
                        muster_member_mail *mail, muster_actions *actions);

/* Refuse every HELLO from now on. */
void muster_member_close(muster_member *member, const char *why);

/* How a follower ends whose patience with its leader is over: MUSTER_ERR_QUORUM
 * where it was in the run, MUSTER_ERR_PEER_LOST where it never came in. */
muster_status muster_member_alone_status(const muster_member *member);

/* What a follower says that ends so without its leader, before the address: it
 * never came in, or the run that it was in went on or ended without it. */
const char *muster_member_without_leader(muster_status status);

/* The leader's address as a user would write it. Lent by the options. */
const char *muster_member_leader_address(const muster_member *member);

/* How a follower ends without its leader, for people: all of the above. */
void muster_member_say_end(const muster_member *member, muster_status status,
                           const char *reason, char *text, size_t room);

/* Say why there is no leader, once since the last welcome: tries go on until
 * patience is over. */
void muster_member_tell_unreached(muster_member *member,
                                  const muster_event *event,
                                  muster_actions *actions);

/* Misbehaviour that the role saw: end the connection; no LOST follows. A leader
 * does not admit that process again before a second is over, then two, .. at
 * most a minute; another process may take its place at once. */
void muster_member_drop(muster_member *member, uint32_t id,
                        const muster_event *event, muster_actions *actions);

/* The role's word that a connection has been handed what asks for an answer (it
 * may owe one already), and that it has answered. */
void muster_member_owes(muster_member *member, muster_role_peer peer,
                        int64_t now_ns);
void muster_member_paid(muster_member *member, muster_role_peer peer);

/* Ask the processor for the link of a peer; the number that it had, or
 * MUSTER_ID_ANY, when it has been asked for before. */
void muster_member_prefetch_link(const muster_member *member,
                                 muster_role_peer peer);
uint32_t muster_member_number_of(const muster_member *member,
                                 muster_role_peer peer);

/* Who sends the message of a BEGUN: a member that is here, in this life; else
 * MUSTER_ID_ANY. */
uint32_t muster_member_sender(muster_member *member, const muster_event *event);

/* The link of a member that is here, or NULL; valid until the next step. */
muster_link *muster_member_link(muster_member *member, uint32_t id);

#endif // MUSTER_ROLE_MEMBER_H
