/*
 * hostile_frames_test.c -- messages that are cut, slow or lies: a peer that
 * sends them can do nothing but lose its own connection.
 */
#define _GNU_SOURCE
#include "base/mem.h"
#include "scene.h"
#include "wire/bytes.h"

static void a_message_may_come_byte_by_byte(void **state)
{
    (void)state;
    scene *it = scene_open();
    uint8_t all[MUSTER_HELLO_BYTES + MUSTER_FRAME_BYTES + sizeof(note)];
    muster_hello hello = {.version = MUSTER_PROTOCOL_VERSION};
    muster_frame frame = {.kind = MUSTER_FRAME_MESSAGE,
                          .header_bytes = sizeof(note),
                          .sequence = 1};
    note what = {5, UINT64_MAX, 0, 0};
    muster_hello_write(&hello, all);
    muster_frame_write(&frame, all + MUSTER_HELLO_BYTES);
    memcpy(all + MUSTER_HELLO_BYTES + MUSTER_FRAME_BYTES, &what, sizeof(what));
    for (size_t i = 0; i < sizeof(all); i++) {
        assert_int_equal(it->hub.messages, 0);
        put(it->fd, all + i, 1);
        assert_int_equal(muster_net_poll(it->hub.net, 0), MUSTER_OK);
    }
    drive(it->both, 2, &it->hub.messages, 1);
    assert_int_equal(it->hub.numbers[0], 5);
    scene_close(it);
}

/* A link slower than any patience: the payload's bytes are signs of life. */
static void a_long_message_is_heard_of_while_it_comes(void **state)
{
    (void)state;
    scene *it = scene_open();
    note what = {6, 150000, 3, 0};
    muster_frame frame = {.kind = MUSTER_FRAME_MESSAGE,
                          .flags = MUSTER_FRAME_PAYLOAD,
                          .header_bytes = sizeof(what),
                          .payload_bytes = what.payload_bytes,
                          .sequence = 1};
    muster_blob *payload = muster_blob_create(what.payload_bytes);
    node_fill(payload, what.seed);
    const uint8_t *bytes = payload->data;
    put_hello(it->fd);
    drive(it->both, 2, &it->hub.ups, 2);
    assert_int_equal(it->hub.bytes, 0);
    put_frame(it->fd, &frame, NULL, 0);
    put(it->fd, &what, sizeof(what));
    put(it->fd, bytes, 100000);
    drive(it->both, 2, &it->hub.bytes, 1);
    drive_on(it->both, 2);
    assert_int_equal(it->hub.messages, 0);
    put(it->fd, bytes + 100000, 50000);
    drive(it->both, 2, &it->hub.messages, 1);
    muster_blob_unref(payload);
    scene_close(it);
}

/* Single bytes of a message that would never be whole are none. */
static void a_peer_that_trickles_gives_no_sign_of_life(void **state)
{
    (void)state;
    scene *it = scene_open();
    const uint8_t nothing[MUSTER_NET_BYTES_MIN] = {0};
    muster_frame frame = {.kind = MUSTER_FRAME_MESSAGE,
                          .flags = MUSTER_FRAME_PAYLOAD,
                          .payload_bytes = 150000,
                          .sequence = 1};
    put_hello(it->fd);
    drive(it->both, 2, &it->hub.ups, 2);
    put_frame(it->fd, &frame, NULL, 0);
    for (int i = 0; i < 200; i++) {
        put(it->fd, nothing, 1);
        drive_on(it->both, 2);
    }
    assert_int_equal(it->hub.bytes, 0);
    put(it->fd, nothing, sizeof(nothing));
    drive(it->both, 2, &it->hub.bytes, 1);
    scene_close(it);
}

static void half_a_message_is_never_delivered(void **state)
{
    (void)state;
    for (size_t cut = 0; cut < MUSTER_FRAME_BYTES + 200000; cut += 9973) {
        scene *it = scene_open();
        static uint8_t bytes[MUSTER_FRAME_BYTES + 200000];
        muster_frame frame = {.kind = MUSTER_FRAME_MESSAGE,
                              .flags = MUSTER_FRAME_PAYLOAD,
                              .payload_bytes = 200000,
                              .sequence = 1};
        put_hello(it->fd);
        drive(it->both, 2, &it->hub.ups, 2);
        muster_frame_write(&frame, bytes);
        size_t sent = 0;
        while (sent < cut) {
            ssize_t got = send(it->fd, bytes + sent, cut - sent,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
            sent += got > 0 ? (size_t)got : 0;
            drive_on(it->both, 2);
        }
        // Closing with unread bytes would reset instead.
        uint8_t hello[MUSTER_HELLO_BYTES];
        assert_int_equal(recv(it->fd, hello, sizeof(hello), MSG_WAITALL),
                         sizeof(hello));
        close(it->fd);
        it->fd = -1;
        expect_end(it, MUSTER_ERR_PEER_LOST,
                   cut == 0 ? "closed the connection"
                            : "in the middle of a message");
        scene_close(it);
    }
}

typedef struct bad_frame {
    muster_frame frame;
    uint64_t entry; // what follows the frame header, when it has a header
    const char *reason;
} bad_frame;

static void frames_that_lie_are_refused(void **state)
{
    (void)state;
    static const bad_frame cases[] = {
        {{MUSTER_FRAME_MESSAGE, MUSTER_FRAME_PAYLOAD, 0, 0, PAYLOAD_MAX + 1, 1,
          0},
         0,
         "at most 262144"},
        {{MUSTER_FRAME_MESSAGE, 0, 0, MUSTER_NET_HEADER_MAX + 1, 0, 1, 0},
         0,
         "at most 65536"},
        {{(muster_frame_kind)9, 0, 0, 0, 0, 1, 0}, 0, "not a frame"},
        {{MUSTER_FRAME_MESSAGE, 0x80, 0, 0, 0, 1, 0}, 0, "unknown flags"},
        {{MUSTER_FRAME_MESSAGE, 0, 0, 0, 0, 2, 0}, 0, "out of sequence"},
        {{MUSTER_FRAME_MESSAGE, 0, 0, 0, 0, 1, 7}, 0, "acknowledgement"},
        {{MUSTER_FRAME_RELEASE, 0, 0, 8, 0, 1, 0}, 1, "never gave"},
        {{MUSTER_FRAME_FORGET, 0, 0, 8, 0, 1, 0}, 64, "never gave"},
        {{MUSTER_FRAME_RELEASE, 0, 0, 12, 0, 1, 0}, 0, "malformed list"},
        {{MUSTER_FRAME_MESSAGE, MUSTER_FRAME_PAYLOAD | MUSTER_FRAME_SHARED, 3,
          0, 100, 1, 0},
         0,
         "beyond its shared buffer"},
        {{MUSTER_FRAME_MESSAGE,
          MUSTER_FRAME_PAYLOAD | MUSTER_FRAME_SHARED | MUSTER_FRAME_DESCRIPTOR,
          3, 0, 100, 1, 0},
         0,
         "without its descriptor"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        scene *it = scene_open();
        put_hello(it->fd);
        drive(it->both, 2, &it->hub.ups, 2);
        put_frame(it->fd, &cases[i].frame, NULL, 0);
        uint8_t entry[8];
        muster_bytes_put(entry, cases[i].entry, 8);
        put(it->fd, entry, sizeof(entry));
        // The lie is seen before anything is allocated for it.
        muster_mem_fail_after(0);
        for (int turn = 0; turn < 5; turn++) {
            assert_int_equal(muster_net_poll(it->hub.net, 0), MUSTER_OK);
        }
        muster_mem_fail_after(UINT64_MAX);
        expect_end(it, MUSTER_ERR_PROTOCOL, cases[i].reason);
        scene_close(it);
    }
}

static void shared_memory_over_tcp_is_refused(void **state)
{
    (void)state;
    const scene_opts tcp = {.listen_at = "tcp:127.0.0.1:0"};
    scene *it = scene_open_with(&tcp);
    muster_frame frame = {MUSTER_FRAME_MESSAGE,
                          MUSTER_FRAME_PAYLOAD | MUSTER_FRAME_SHARED,
                          0,
                          0,
                          100,
                          1,
                          0};
    put_hello(it->fd);
    put_frame(it->fd, &frame, NULL, 0);
    expect_end(it, MUSTER_ERR_PROTOCOL, "cannot carry");
    scene_close(it);
}

/* A peer that reads nothing, keeps its connection, and shuts down one way. */
static void a_peer_that_refuses_to_read_is_lost(void **state)
{
    (void)state;
    scene *it = scene_open_brief(200);
    put_hello(it->fd);
    drive(it->both, 2, &it->hub.ups, 2);
    assert_int_equal(shutdown(it->fd, SHUT_RD), 0);
    assert_int_equal(node_say(&it->hub, it->hub.last_up, 1), MUSTER_OK);
    expect_end(it, MUSTER_ERR_PEER_LOST, "");
    assert_int_equal(it->hub.done_lost, 1);
    scene_close(it);
}

static void what_a_peer_said_before_it_went_is_heard(void **state)
{
    (void)state;
    scene *it = scene_open();
    muster_frame frame = {.kind = MUSTER_FRAME_MESSAGE,
                          .header_bytes = sizeof(note),
                          .sequence = 1};
    note what = {77, UINT64_MAX, 0, 0};
    put_hello(it->fd);
    drive(it->both, 2, &it->hub.ups, 2);
    put_frame(it->fd, &frame, NULL, 0);
    put(it->fd, &what, sizeof(what));
    close(it->fd);
    it->fd = -1;
    // This write fails; the words in the socket must not be lost with it.
    assert_int_equal(node_say(&it->hub, it->hub.last_up, 1), MUSTER_OK);
    drive(it->both, 2, &it->hub.downs, 1);
    assert_int_equal(it->hub.messages, 1);
    assert_int_equal(it->hub.numbers[0], 77);
    assert_int_equal(node_dones(&it->hub), 1);
    scene_close(it);
}

int main(void)
{
    alarm(300); // a hang is a failure, too
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_may_come_byte_by_byte),
        cmocka_unit_test(a_long_message_is_heard_of_while_it_comes),
        cmocka_unit_test(a_peer_that_trickles_gives_no_sign_of_life),
        cmocka_unit_test(half_a_message_is_never_delivered),
        cmocka_unit_test(frames_that_lie_are_refused),
        cmocka_unit_test(shared_memory_over_tcp_is_refused),
        cmocka_unit_test(a_peer_that_refuses_to_read_is_lost),
        cmocka_unit_test(what_a_peer_said_before_it_went_is_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
