/*
 * member_test.c -- a leader that is told of its peers, event by event: who
 * counts as alive.
 */
#include "role/member.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

#define PEER 7u

/* A leader of one, with its one member here. */
static void lead(muster_member *member, muster_actions *actions)
{
    muster_member_opts opts = {.leads = true,
                               .kind = MUSTER_MEMBER_WORKER,
                               .stall_ns = 3 * MUSTER_NS_PER_S,
                               .size = 1,
                               .run = 1,
                               .heartbeat_ns = 2 * MUSTER_NS_PER_S};
    *actions = muster_actions_make();
    assert_int_equal(muster_member_init(member, &opts), MUSTER_OK);
    muster_message hello = {.kind = MUSTER_MSG_HELLO};
    hello.as.hello.id = MUSTER_ID_ANY;
    hello.as.hello.role = MUSTER_MEMBER_WORKER;
    muster_event events[] = {{.kind = MUSTER_EVENT_START},
                             {.kind = MUSTER_EVENT_PEER_UP, .peer = PEER},
                             {.kind = MUSTER_EVENT_MESSAGE, .peer = PEER}};
    events[1].as.up.incoming = true;
    events[2].as.message.message = &hello;
    for (size_t i = 0; i < 3; i++) {
        muster_member_step(member, &events[i], actions);
    }
    assert_non_null(muster_member_link(member, 0));
    muster_member_link(member, 0)->busy = true;
}

/* Ten seconds pass, a timer whenever one is due. */
static void let_time_pass(muster_member *member, bool bytes_come,
                          muster_actions *actions)
{
    for (int64_t now_ns = 0; now_ns < 10 * MUSTER_NS_PER_S;
         now_ns += MUSTER_NS_PER_S / 4) {
        muster_event timer = {.kind = MUSTER_EVENT_TIMER, .now_ns = now_ns};
        muster_event heard = {
            .kind = MUSTER_EVENT_HEARD, .now_ns = now_ns, .peer = PEER};
        timer.as.timer.id = MUSTER_TIMER_MEMBER;
        if (bytes_come) {
            muster_member_step(member, &heard, actions);
        }
        muster_member_step(member, &timer, actions);
        muster_actions_clear(actions);
    }
}

static void a_message_slower_than_a_heartbeat_is_a_sign_of_life(void **state)
{
    (void)state;
    for (int bytes_come = 0; bytes_come < 2; bytes_come++) {
        muster_member member;
        muster_actions actions;
        lead(&member, &actions);
        let_time_pass(&member, bytes_come, &actions);
        assert_int_equal(muster_member_link(&member, 0) != NULL, bytes_come);
        muster_actions_fini(&actions);
        muster_member_fini(&member);
    }
}

/* A heartbeat every 150 s: that no news of progress came between two of them
 * says nothing, but one that brings none does. */
static void between_two_heartbeats_nothing_is_known(void **state)
{
    (void)state;
    for (int moves = 0; moves < 2; moves++) {
        muster_member member;
        muster_actions actions;
        lead(&member, &actions);
        member.heartbeat_ns = 600 * MUSTER_NS_PER_S;
        for (int64_t beat = 1; beat < 8; beat++) {
            int64_t now_ns = beat * 150 * MUSTER_NS_PER_S;
            muster_event timer = {.kind = MUSTER_EVENT_TIMER, .now_ns = now_ns};
            timer.as.timer.id = MUSTER_TIMER_MEMBER;
            muster_message message = {.kind = MUSTER_MSG_HEARTBEAT, .run = 1};
            message.incarnation = member.places[0].incarnation;
            message.as.heartbeat.busy = 1;
            message.as.heartbeat.progress =
                moves || beat == 1 ? (uint64_t)beat : 1;
            muster_event heard = {.kind = MUSTER_EVENT_MESSAGE,
                                  .now_ns = now_ns + MUSTER_NS_PER_MS,
                                  .peer = PEER};
            heard.as.message.message = &message;
            muster_member_step(&member, &timer, &actions);
            bool stuck = !moves && beat > 2;
            assert_int_equal(muster_member_link(&member, 0) == NULL, stuck);
            muster_member_step(&member, &heard, &actions);
            muster_actions_clear(&actions);
        }
        muster_actions_fini(&actions);
        muster_member_fini(&member);
    }
}

static void bytes_of_a_stranger_are_no_hello(void **state)
{
    (void)state;
    muster_member member;
    muster_actions actions;
    lead(&member, &actions);
    muster_event up = {.kind = MUSTER_EVENT_PEER_UP, .peer = PEER + 1};
    up.as.up.incoming = true;
    muster_member_step(&member, &up, &actions);
    for (int64_t now_ns = 0; now_ns < 10 * MUSTER_NS_PER_S;
         now_ns += MUSTER_NS_PER_S / 4) {
        muster_event timer = {.kind = MUSTER_EVENT_TIMER, .now_ns = now_ns};
        timer.as.timer.id = MUSTER_TIMER_MEMBER;
        for (muster_role_peer peer = PEER; peer <= PEER + 1; peer++) {
            muster_event heard = {
                .kind = MUSTER_EVENT_HEARD, .now_ns = now_ns, .peer = peer};
            muster_member_step(&member, &heard, &actions);
        }
        muster_member_step(&member, &timer, &actions);
        muster_actions_clear(&actions);
    }
    assert_int_equal(member.links.count, 1);
    assert_non_null(muster_member_link(&member, 0));
    muster_actions_fini(&actions);
    muster_member_fini(&member);
}

static void say_hello(muster_member *member, muster_role_peer peer,
                      uint32_t pid, int64_t now_ns, muster_actions *actions)
{
    muster_message hello = {.kind = MUSTER_MSG_HELLO};
    hello.as.hello.id = 0;
    hello.as.hello.pid = pid;
    hello.as.hello.role = MUSTER_MEMBER_WORKER;
    muster_event up = {
        .kind = MUSTER_EVENT_PEER_UP, .peer = peer, .now_ns = now_ns};
    up.as.up.incoming = true;
    muster_event message = {
        .kind = MUSTER_EVENT_MESSAGE, .peer = peer, .now_ns = now_ns};
    message.as.message.message = &hello;
    muster_member_step(member, &up, actions);
    muster_member_step(member, &message, actions);
    muster_actions_clear(actions);
}

/* Thousands connect in no order: every number has its link, before and after
 * the heartbeats, and those that go leave the others. */
static void links_of_many_come_in_any_order(void **state)
{
    (void)state;
    enum { MANY = 3000, STRIDE = 1213 }; // without a common divisor
    muster_member_opts opts = {.leads = true,
                               .kind = MUSTER_MEMBER_WORKER,
                               .size = MANY,
                               .run = 1,
                               .heartbeat_ns = 2 * MUSTER_NS_PER_S};
    muster_member member;
    muster_actions actions = muster_actions_make();
    assert_int_equal(muster_member_init(&member, &opts), MUSTER_OK);
    muster_event start = {.kind = MUSTER_EVENT_START};
    muster_member_step(&member, &start, &actions);
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t id = i * STRIDE % MANY;
        muster_message hello = {.kind = MUSTER_MSG_HELLO};
        hello.as.hello.id = id;
        hello.as.hello.role = MUSTER_MEMBER_WORKER;
        muster_event up = {.kind = MUSTER_EVENT_PEER_UP, .peer = 2 * id + 1};
        up.as.up.incoming = true;
        muster_event message = {.kind = MUSTER_EVENT_MESSAGE,
                                .peer = 2 * id + 1};
        message.as.message.message = &hello;
        muster_member_step(&member, &up, &actions);
        muster_member_step(&member, &message, &actions);
        muster_actions_clear(&actions);
        assert_int_equal(member.links_member, i + 1);
    }
    for (int beaten = 0; beaten < 2; beaten++) {
        for (uint32_t id = 0; id < MANY; id++) {
            const muster_link *link = muster_member_link(&member, id);
            assert_non_null(link);
            assert_int_equal(link->peer, 2 * id + 1);
        }
        muster_event timer = {.kind = MUSTER_EVENT_TIMER,
                              .now_ns = MUSTER_NS_PER_S / 2};
        timer.as.timer.id = MUSTER_TIMER_MEMBER;
        muster_member_step(&member, &timer, &actions);
        muster_actions_clear(&actions);
        assert_int_equal(member.links.count, MANY);
    }
    for (uint32_t id = 0; id < MANY; id += 2) {
        muster_event down = {.kind = MUSTER_EVENT_PEER_DOWN,
                             .peer = 2 * id + 1};
        muster_member_step(&member, &down, &actions);
        assert_null(muster_member_link(&member, id));
        assert_non_null(muster_member_link(&member, id + 1));
    }
    assert_int_equal(member.links_member, MANY / 2);
    muster_actions_fini(&actions);
    muster_member_fini(&member);
}

/* The process gets to run every three seconds: it hears what happened to its
 * connection, and says hello anew or answers. */
static void a_starved_process_that_returns_is_given_more_time(void **state)
{
    (void)state;
    muster_member member;
    muster_actions actions;
    lead(&member, &actions);
    muster_member_link(&member, 0)->busy = false;
    muster_role_peer peer = PEER;
    uint32_t hellos = 0;
    for (int64_t now_ns = 0; now_ns < 40 * MUSTER_NS_PER_S;
         now_ns += MUSTER_NS_PER_S / 4) {
        muster_event timer = {.kind = MUSTER_EVENT_TIMER, .now_ns = now_ns};
        timer.as.timer.id = MUSTER_TIMER_MEMBER;
        muster_member_step(&member, &timer, &actions);
        muster_actions_clear(&actions);
        if (now_ns % (3 * MUSTER_NS_PER_S) != 0) {
            continue;
        }
        if (muster_member_link(&member, 0) == NULL) {
            say_hello(&member, ++peer, 0, now_ns, &actions);
            hellos++;
        } else {
            muster_event heard = {
                .kind = MUSTER_EVENT_HEARD, .now_ns = now_ns, .peer = peer};
            muster_member_step(&member, &heard, &actions);
        }
    }
    assert_int_equal(hellos, 1);
    assert_non_null(muster_member_link(&member, 0));

    // Another process has the usual time, once the first has gone.
    int64_t now_ns = 40 * MUSTER_NS_PER_S;
    muster_event down = {
        .kind = MUSTER_EVENT_PEER_DOWN, .peer = peer, .now_ns = now_ns};
    muster_member_step(&member, &down, &actions);
    say_hello(&member, ++peer, 99, now_ns, &actions);
    assert_int_equal(member.places[0].peer, peer);
    for (int i = 0; i < 10; i++) {
        now_ns += MUSTER_NS_PER_S / 4;
        muster_event timer = {.kind = MUSTER_EVENT_TIMER, .now_ns = now_ns};
        timer.as.timer.id = MUSTER_TIMER_MEMBER;
        muster_member_step(&member, &timer, &actions);
        muster_actions_clear(&actions);
    }
    assert_null(muster_member_link(&member, 0));
    muster_actions_fini(&actions);
    muster_member_fini(&member);
}

/* Hand the member a message of peer; the actions stay. */
static void say(muster_member *member, muster_role_peer peer,
                const muster_message *message, int64_t now_ns,
                muster_actions *actions)
{
    muster_event event = {
        .kind = MUSTER_EVENT_MESSAGE, .peer = peer, .now_ns = now_ns};
    event.as.message.message = message;
    muster_actions_clear(actions);
    muster_member_step(member, &event, actions);
}

static void come_up(muster_member *member, muster_role_peer peer,
                    int64_t now_ns, muster_actions *actions)
{
    muster_event up = {
        .kind = MUSTER_EVENT_PEER_UP, .peer = peer, .now_ns = now_ns};
    up.as.up.incoming = true;
    muster_member_step(member, &up, actions);
}

/* What was sent to peer, or NULL. */
static const muster_message *sent_to(const muster_actions *actions,
                                     muster_role_peer peer)
{
    const muster_action *list = actions->list.data;
    for (size_t i = 0; i < actions->list.count; i++) {
        if (list[i].kind == MUSTER_ACTION_SEND &&
            list[i].as.send.peer == peer) {
            return &list[i].as.send.message;
        }
    }
    return NULL;
}

static bool is_dropped(const muster_actions *actions, muster_role_peer peer)
{
    const muster_action *list = actions->list.data;
    for (size_t i = 0; i < actions->list.count; i++) {
        if (list[i].kind == MUSTER_ACTION_DROP &&
            list[i].as.drop.peer == peer) {
            return true;
        }
    }
    return false;
}

/* With the right run and incarnation, with those of a new process, with a
 * number from nowhere: as long as the holder is heard, it keeps its number. */
static void a_number_is_not_taken_from_a_member_that_lives(void **state)
{
    (void)state;
    muster_member member;
    muster_actions actions;
    lead(&member, &actions);
    const struct {
        uint64_t run;
        uint32_t incarnation, id;
    } asked[] = {{0, 0, 0},
                 {1, member.places[0].incarnation, 0},
                 {1, member.places[0].incarnation + 1, 0},
                 {1, 0, 0},
                 {0, 0, MUSTER_ID_ANY}};
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        muster_role_peer peer = PEER + 1 + i;
        muster_message hello = {.kind = MUSTER_MSG_HELLO,
                                .run = asked[i].run,
                                .incarnation = asked[i].incarnation};
        hello.as.hello.id = asked[i].id;
        hello.as.hello.role = MUSTER_MEMBER_WORKER;
        come_up(&member, peer, 1, &actions);
        say(&member, peer, &hello, 1, &actions);
        const muster_message *answer = sent_to(&actions, peer);
        assert_non_null(answer);
        assert_int_equal(answer->kind, MUSTER_MSG_REFUSE);
        assert_int_equal(answer->as.refuse.status, MUSTER_ERR_AGAIN);
        assert_int_equal(member.news.count, 0);
        assert_int_equal(member.places[0].peer, PEER);
        assert_null(sent_to(&actions, PEER));
    }
    muster_actions_fini(&actions);
    muster_member_fini(&member);
}

/* The cable of a worker's machine was pulled: its new connection comes before
 * the old one is known to be dead. It gets in when that has been silent for two
 * heartbeats. */
static void a_process_that_returns_waits_for_its_old_connection(void **state)
{
    (void)state;
    muster_member member;
    muster_actions actions;
    lead(&member, &actions);
    muster_member_link(&member, 0)->busy = false;
    muster_role_peer peer = PEER;
    int64_t back_ns = 0;
    for (int64_t now_ns = 0; back_ns == 0 && now_ns < 5 * MUSTER_NS_PER_S;
         now_ns += MUSTER_NS_PER_S / 4) {
        muster_event timer = {.kind = MUSTER_EVENT_TIMER, .now_ns = now_ns};
        timer.as.timer.id = MUSTER_TIMER_MEMBER;
        muster_member_step(&member, &timer, &actions);
        say_hello(&member, ++peer, 0, now_ns, &actions);
        back_ns = member.places[0].peer == peer ? now_ns : 0;
    }
    assert_in_range(back_ns, MUSTER_NS_PER_S, 2 * MUSTER_NS_PER_S);
    muster_actions_fini(&actions);
    muster_member_fini(&member);
}

/* Once a member, a connection is that one alone. */
static void what_is_not_of_this_life_ends_the_connection(void **state)
{
    (void)state;
    const muster_message wrong[] = {
        {.kind = MUSTER_MSG_HELLO, .run = 1, .as.hello.pid = 1},
        {.kind = MUSTER_MSG_WELCOME, .run = 1, .incarnation = 1},
        {.kind = MUSTER_MSG_GRADIENT, .run = 1, .incarnation = 2},
        {.kind = MUSTER_MSG_HEARTBEAT, .run = 2, .incarnation = 1},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        muster_member member;
        muster_actions actions;
        lead(&member, &actions);
        say(&member, PEER, &wrong[i], 1, &actions);
        assert_true(is_dropped(&actions, PEER));
        assert_int_equal(member.news.count, 1);
        assert_int_equal(((const muster_news *)member.news.data)->kind,
                         MUSTER_NEWS_LOST);
        assert_null(muster_member_link(&member, 0));
        // Its process is kept away for a second; another one is not.
        say_hello(&member, PEER + 1, 0, 2, &actions);
        assert_int_equal(member.places[0].peer, 0);
        say_hello(&member, PEER + 2, 5, 2, &actions);
        assert_int_equal(member.places[0].peer, PEER + 2);
        muster_actions_fini(&actions);
        muster_member_fini(&member);
    }
}

static void what_comes_late_is_dropped_and_no_more(void **state)
{
    (void)state;
    const muster_message late[] = {
        {.kind = MUSTER_MSG_HELLO},
        {.kind = MUSTER_MSG_GRADIENT, .run = 1, .incarnation = 0},
    };
    muster_member member;
    muster_actions actions;
    lead(&member, &actions);
    for (size_t i = 0; i < sizeof(late) / sizeof(late[0]); i++) {
        say(&member, PEER, &late[i], 1, &actions);
        assert_int_equal(member.strays, i + 1);
        assert_int_equal(member.news.count, 0);
        assert_int_equal(member.places[0].peer, PEER);
    }
    muster_actions_fini(&actions);
    muster_member_fini(&member);
}

static void who_does_not_begin_with_hello_is_dropped(void **state)
{
    (void)state;
    muster_member member;
    muster_actions actions;
    lead(&member, &actions);
    for (uint32_t kind = MUSTER_MSG_WELCOME; kind <= MUSTER_MSG_MISSING;
         kind++) {
        muster_message message = {.kind = (muster_message_kind)kind, .run = 1};
        message.incarnation = member.places[0].incarnation;
        come_up(&member, PEER + kind, 1, &actions);
        say(&member, PEER + kind, &message, 1, &actions);
        assert_true(is_dropped(&actions, PEER + kind));
        assert_int_equal(member.news.count, 0);
        assert_int_equal(member.places[0].peer, PEER);
    }
    muster_actions_fini(&actions);
    muster_member_fini(&member);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_of_many_come_in_any_order),
        cmocka_unit_test(a_message_slower_than_a_heartbeat_is_a_sign_of_life),
        cmocka_unit_test(between_two_heartbeats_nothing_is_known),
        cmocka_unit_test(bytes_of_a_stranger_are_no_hello),
        cmocka_unit_test(a_starved_process_that_returns_is_given_more_time),
        cmocka_unit_test(a_number_is_not_taken_from_a_member_that_lives),
        cmocka_unit_test(a_process_that_returns_waits_for_its_old_connection),
        cmocka_unit_test(what_is_not_of_this_life_ends_the_connection),
        cmocka_unit_test(what_comes_late_is_dropped_and_no_more),
        cmocka_unit_test(who_does_not_begin_with_hello_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
