/*
 * fuzz_member.c -- the first messages of callers, after the key: bytes become
 * messages (wire/message.h) and go to a leader of three numbers, of which one
 * is held by a member that lives. It must keep its number.
 *
 * The input is a list: who speaks (a byte), the length (a byte), the bytes of
 * the message. A speaker that was dropped comes again.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "role/member.h"

#define SPEAKERS 4u
#define HOLDER   1000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

typedef struct scene {
    muster_member member;
    muster_actions actions;
    muster_role_peer peers[SPEAKERS]; // 0: not connected
    muster_role_peer last;
    int64_t now_ns;
} scene;

static void come_up(scene *s, muster_role_peer peer)
{
    muster_event up = {
        .kind = MUSTER_EVENT_PEER_UP, .now_ns = s->now_ns, .peer = peer};
    up.as.up.incoming = true;
    muster_member_step(&s->member, &up, &s->actions);
}

static void say(scene *s, muster_role_peer peer, const muster_message *message)
{
    muster_event event = {
        .kind = MUSTER_EVENT_MESSAGE, .now_ns = s->now_ns, .peer = peer};
    event.as.message.message = message;
    muster_member_step(&s->member, &event, &s->actions);
}

static void begin(scene *s)
{
    const muster_member_opts opts = {.leads = true,
                                     .kind = MUSTER_MEMBER_WORKER,
                                     .size = 3,
                                     .run = 1,
                                     .heartbeat_ns = 2 * MUSTER_NS_PER_S};
    *s = (scene){.actions = muster_actions_make(), .last = HOLDER};
    require(muster_member_init(&s->member, &opts) == MUSTER_OK);
    muster_event start = {.kind = MUSTER_EVENT_START};
    muster_member_step(&s->member, &start, &s->actions);
    muster_message hello = {.kind = MUSTER_MSG_HELLO};
    hello.as.hello.role = MUSTER_MEMBER_WORKER;
    hello.as.hello.pid = 77;
    come_up(s, HOLDER);
    say(s, HOLDER, &hello);
}

/* Who was dropped is gone. */
static void look_at_actions(scene *s)
{
    const muster_action *list = s->actions.list.data;
    for (size_t i = 0; i < s->actions.list.count; i++) {
        for (uint32_t k = 0; k < SPEAKERS; k++) {
            bool gone = list[i].kind == MUSTER_ACTION_DROP &&
                        list[i].as.drop.peer == s->peers[k];
            s->peers[k] = gone ? 0 : s->peers[k];
        }
    }
    muster_actions_clear(&s->actions);
}

/* One heartbeat of the holder, and the leader's timer. */
static void let_time_pass(scene *s)
{
    s->now_ns += MUSTER_NS_PER_S / 4;
    muster_message beat = {.kind = MUSTER_MSG_HEARTBEAT, .run = 1};
    beat.incarnation = s->member.places[0].incarnation;
    say(s, HOLDER, &beat);
    muster_event timer = {.kind = MUSTER_EVENT_TIMER, .now_ns = s->now_ns};
    timer.as.timer.id = MUSTER_TIMER_MEMBER;
    muster_member_step(&s->member, &timer, &s->actions);
    look_at_actions(s);
}

static void speak(scene *s, uint32_t who, const uint8_t *bytes, size_t size)
{
    muster_message message;
    muster_error error = {0};
    if (s->peers[who] == 0) {
        s->peers[who] = ++s->last;
        come_up(s, s->peers[who]);
        look_at_actions(s);
    }
    if (s->peers[who] != 0 &&
        muster_message_read(bytes, size, &error, &message) == MUSTER_OK) {
        say(s, s->peers[who], &message);
        look_at_actions(s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scene s;
    begin(&s);
    for (size_t at = 0; at + 2 <= size;) {
        size_t length = data[at + 1];
        length = length < size - at - 2 ? length : size - at - 2;
        speak(&s, data[at] % SPEAKERS, data + at + 2, length);
        at += 2 + length;
        let_time_pass(&s);
        require(s.member.places[0].peer == HOLDER);
        require(muster_member_link(&s.member, 0) != NULL);
    }
    muster_actions_fini(&s.actions);
    muster_member_fini(&s.member);
    return 0;
}
