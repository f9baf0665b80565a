/*
 * hostile_test.c -- what a peer that is not Muster, or a broken or evil one,
 * can do to the socket back end: nothing but lose its own connection.
 *
 * A bare socket plays the peer and writes bytes of the test's choice; a healthy
 * second peer is connected all the while and must not notice.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "muster/version.h"
#include "net/frame.h"
#include "net/hello.h"
#include "net/socket_address.h"
#include "node.h"
#include "wire/bytes.h"

static const muster_net_backend sock = {
    .name = "sock",
    .open = muster_net_open,
    .close = muster_net_close,
    .send = muster_net_send,
    .drop = muster_net_drop,
    .blob = muster_net_blob,
    .poll = muster_net_poll,
};

#define PAYLOAD_MAX 1000000u

typedef struct scene {
    node hub;
    node friend;
    node *both[2];
    int fd; // the bare peer's socket
} scene;

static int scenes;

static int bare_connect(const char *text)
{
    muster_socket_address address;
    assert_int_equal(muster_socket_address_parse(text, NULL, &address),
                     MUSTER_OK);
    int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(
        connect(fd, (const struct sockaddr *)&address.storage, address.length),
        0);
    return fd;
}

/* hello_timeout_ms 0: the default, which no test waits for. */
static scene *scene_open_with(const char *listen_at, int64_t hello_timeout_ms)
{
    scene *it = calloc(1, sizeof(*it));
    assert_non_null(it);
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    opts.payload_bytes_max = PAYLOAD_MAX;
    opts.hello_timeout_ns = hello_timeout_ms * 1000000;
    node_open(&it->hub, &sock, &opts);
    opts.hello_timeout_ns = 0;
    node_open(&it->friend, &sock, &opts);
    char unix_name[MUSTER_NET_ADDRESS_MAX];
    snprintf(unix_name, sizeof(unix_name), "unix:@muster-hostile-%d-%d",
             (int)getpid(), ++scenes);
    assert_int_equal(muster_net_listen(it->hub.net,
                                       listen_at ? listen_at : unix_name, NULL,
                                       it->hub.address),
                     MUSTER_OK);
    muster_peer peer = 0;
    assert_int_equal(
        muster_net_connect(it->friend.net, it->hub.address, NULL, &peer),
        MUSTER_OK);
    it->both[0] = &it->hub;
    it->both[1] = &it->friend;
    drive(it->both, 2, &it->hub.ups, 1);
    drive(it->both, 2, &it->friend.ups, 1);
    it->fd = bare_connect(it->hub.address);
    return it;
}

static scene *scene_open(const char *listen_at)
{
    return scene_open_with(listen_at, 0);
}

static void scene_close(scene *it)
{
    // The friend has noticed nothing.
    int before = it->hub.messages;
    assert_int_equal(node_say(&it->friend, 1, 4711), MUSTER_OK);
    drive(it->both, 2, &it->hub.messages, before + 1);
    assert_int_equal(it->friend.downs, 0);
    if (it->fd >= 0) {
        close(it->fd);
    }
    node_close(&it->friend);
    node_close(&it->hub);
    free(it);
}

static void put(int fd, const void *bytes, size_t count)
{
    assert_int_equal(send(fd, bytes, count, MSG_NOSIGNAL), count);
}

static void put_hello(int fd)
{
    muster_hello hello = {.version = MUSTER_PROTOCOL_VERSION};
    uint8_t bytes[MUSTER_HELLO_BYTES];
    muster_hello_write(&hello, bytes);
    put(fd, bytes, sizeof(bytes));
}

/* Send a frame header with up to `fd_count` descriptors along. */
static void put_frame(int fd, const muster_frame *frame, const int *fds,
                      size_t fd_count)
{
    uint8_t bytes[MUSTER_FRAME_BYTES];
    union {
        char bytes[CMSG_SPACE(16 * sizeof(int))];
        struct cmsghdr align;
    } control;
    muster_frame_write(frame, bytes);
    struct iovec iov = {bytes, sizeof(bytes)};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd_count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
    }
    assert_int_equal(sendmsg(fd, &message, MSG_NOSIGNAL), sizeof(bytes));
}

static void expect_end(scene *it, muster_status status, const char *reason)
{
    drive(it->both, 2, &it->hub.downs, 1);
    assert_int_equal(it->hub.down_status, status);
    if (strstr(it->hub.down_reason, reason) == NULL) {
        fail_msg("'%s' is not in '%s'", reason, it->hub.down_reason);
    }
    assert_int_equal(it->hub.messages, 0);
}

/* hellos ------------------------------------------------------------------ */

static void garbage_is_refused_at_once(void **state)
{
    (void)state;
    scene *it = scene_open(NULL);
    put(it->fd, "GET / HTTP/1.1\r\n\r\n", 18);
    expect_end(it, MUSTER_ERR_PROTOCOL, "not Muster's hello");
    scene_close(it);
}

static void silence_times_out(void **state)
{
    (void)state;
    scene *it = scene_open_with(NULL, 200);
    put(it->fd, "MUSTER", 6);
    expect_end(it, MUSTER_ERR_TIMED_OUT, "hello in time");
    scene_close(it);
}

static void a_message_may_come_byte_by_byte(void **state)
{
    (void)state;
    scene *it = scene_open(NULL);
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
    scene *it = scene_open(NULL);
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
    scene *it = scene_open(NULL);
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
        scene *it = scene_open(NULL);
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

/* frames ------------------------------------------------------------------ */

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
         "at most 1000000"},
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
        scene *it = scene_open(NULL);
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
    scene *it = scene_open("tcp:127.0.0.1:0");
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

/* descriptors ------------------------------------------------------------- */

static int memfd(size_t bytes, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    if (seals != 0) {
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    }
    return fd;
}

static const muster_frame shared_frame = {
    .kind = MUSTER_FRAME_MESSAGE,
    .flags =
        MUSTER_FRAME_PAYLOAD | MUSTER_FRAME_SHARED | MUSTER_FRAME_DESCRIPTOR,
    .slot = 3,
    .payload_bytes = 100000,
    .sequence = 1,
};

static void buffers_that_could_kill_us_are_refused(void **state)
{
    (void)state;
    const int fds[] = {
        memfd(100000, 0),                          // could shrink
        memfd(100000, F_SEAL_GROW),                // could shrink
        memfd(0, F_SEAL_SHRINK),                   // empty
        memfd((size_t)PAYLOAD_MAX, F_SEAL_SHRINK), // larger than announced
        open("/dev/null", O_RDONLY | O_CLOEXEC),   // no memory at all
    };
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        scene *it = scene_open(NULL);
        put_hello(it->fd);
        put_frame(it->fd, &shared_frame, &fds[i], 1);
        close(fds[i]);
        expect_end(it, MUSTER_ERR_PROTOCOL, "not a sealed buffer");
        scene_close(it);
    }
    scene *it = scene_open(NULL);
    int small = memfd(4096, F_SEAL_SHRINK);
    put_hello(it->fd);
    put_frame(it->fd, &shared_frame, &small, 1);
    close(small);
    expect_end(it, MUSTER_ERR_PROTOCOL, "beyond its shared buffer");
    scene_close(it);
}

/* Pages of this process that are mapped shared and present. */
static long resident_shared(void)
{
    long total = 0;
    long resident = 0;
    long shared = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld %ld", &total, &resident, &shared),
                     3);
    fclose(file);
    return shared;
}

/* A file of holes costs memory only where somebody reads it. */
static void an_unread_buffer_costs_no_memory(void **state)
{
    (void)state;
    scene *it = scene_open(NULL);
    muster_frame frame = shared_frame;
    note what = {1, PAYLOAD_MAX, 0, 0};
    int holes = memfd(PAYLOAD_MAX, F_SEAL_SHRINK);
    frame.payload_bytes = PAYLOAD_MAX;
    frame.header_bytes = sizeof(what);
    put_hello(it->fd);
    drive(it->both, 2, &it->hub.ups, 2);
    it->hub.blind = true;
    long before = resident_shared();
    put_frame(it->fd, &frame, &holes, 1);
    put(it->fd, &what, sizeof(what));
    drive(it->both, 2, &it->hub.messages, 1);
    assert_in_range(resident_shared() - before + 64, 0, 128);
    close(holes);
    scene_close(it);
}

static void too_many_descriptors_are_refused(void **state)
{
    (void)state;
    scene *it = scene_open(NULL);
    int fds[16];
    int one = memfd(100000, F_SEAL_SHRINK);
    for (int i = 0; i < 16; i++) {
        fds[i] = one;
    }
    muster_frame plain = {.kind = MUSTER_FRAME_MESSAGE, .sequence = 1};
    put_hello(it->fd);
    drive(it->both, 2, &it->hub.ups, 2);
    put_frame(it->fd, &plain, fds, 16);
    expect_end(it, MUSTER_ERR_PROTOCOL, "too many descriptors");
    close(one);
    scene_close(it);
}

static void our_lack_of_descriptors_is_not_the_peers_fault(void **state)
{
    (void)state;
    scene *it = scene_open(NULL);
    int one = memfd(100000, F_SEAL_SHRINK);
    put_hello(it->fd);
    drive(it->both, 2, &it->hub.ups, 2);
    put_frame(it->fd, &shared_frame, &one, 1);
    struct rlimit usual;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    struct rlimit none = {0, usual.rlim_max}; // open ones stay open
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    drive(it->both, 2, &it->hub.downs, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    expect_end(it, MUSTER_ERR_PEER_LOST, "we are out of descriptors");
    close(one);
    scene_close(it);
}

static size_t open_descriptors(void)
{
    size_t count = 0;
    struct stat info;
    for (int fd = 0; fd < 1000; fd++) {
        count += fstat(fd, &info) == 0;
    }
    return count;
}

/* Callers that say nothing: only so many are let in; the others wait in line
 * and come in when those have timed out. */
static void a_crowd_that_says_nothing_is_let_in_by_and_by(void **state)
{
    (void)state;
    scene *it = scene_open_with(NULL, 1000);
    int crowd[200];
    for (size_t i = 0; i < 200; i++) {
        crowd[i] = bare_connect(it->hub.address);
    }
    size_t before = open_descriptors();
    for (int turn = 0; turn < 20; turn++) {
        assert_int_equal(muster_net_poll(it->hub.net, 0), MUSTER_OK);
    }
    assert_in_range(open_descriptors() - before, 1, 128);
    put_hello(crowd[199]);
    drive(it->both, 2, &it->hub.ups, 2);
    assert_in_range(it->hub.downs, 73, 200); // all before, but for 128
    for (size_t i = 0; i < 200; i++) {
        close(crowd[i]);
    }
    scene_close(it);
}

/* Every shared payload asks for an acknowledgement; who does not read them
 * cannot make us keep them. */
static void a_peer_that_shares_and_does_not_read_is_refused(void **state)
{
    (void)state;
    scene *it = scene_open(NULL);
    int one = memfd(100000, F_SEAL_SHRINK);
    muster_frame frame = shared_frame;
    note what = {1, frame.payload_bytes, 0, 0};
    frame.header_bytes = sizeof(what);
    frame.flags |= MUSTER_FRAME_ACK_NOW;
    it->hub.blind = true;
    put_hello(it->fd);
    drive(it->both, 2, &it->hub.ups, 2);
    while (it->hub.downs == 0) {
        assert_in_range(frame.sequence, 0, 5000);
        put_frame(it->fd, &frame, &one, frame.sequence == 1);
        put(it->fd, &what, sizeof(what));
        frame.flags &= (uint8_t)~MUSTER_FRAME_DESCRIPTOR;
        frame.sequence++;
        assert_int_equal(muster_net_poll(it->hub.net, 0), MUSTER_OK);
    }
    assert_int_equal(it->hub.down_status, MUSTER_ERR_PROTOCOL);
    assert_non_null(strstr(it->hub.down_reason, "than we acknowledged"));
    close(one);
    scene_close(it);
}

/* A peer that reads nothing, keeps its connection, and shuts down one way. */
static void a_peer_that_refuses_to_read_is_lost(void **state)
{
    (void)state;
    scene *it = scene_open_with(NULL, 200);
    put_hello(it->fd);
    drive(it->both, 2, &it->hub.ups, 2);
    assert_int_equal(shutdown(it->fd, SHUT_RD), 0);
    assert_int_equal(node_say(&it->hub, it->hub.last_up, 1), MUSTER_OK);
    expect_end(it, MUSTER_ERR_PEER_LOST, "");
    assert_int_equal(it->hub.done_lost, 1);
    scene_close(it);
}

/* The same, but before it was told our hello. */
static void a_peer_that_never_read_our_hello_is_lost(void **state)
{
    (void)state;
    scene *it = scene_open_with(NULL, 200);
    assert_int_equal(shutdown(it->fd, SHUT_RD), 0);
    put_hello(it->fd);
    expect_end(it, MUSTER_ERR_PEER_LOST, "does not read");
    assert_int_equal(it->hub.ups, 2); // its own hello was in order
    scene_close(it);
}

static void what_a_peer_said_before_it_went_is_heard(void **state)
{
    (void)state;
    scene *it = scene_open(NULL);
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
        cmocka_unit_test(garbage_is_refused_at_once),
        cmocka_unit_test(silence_times_out),
        cmocka_unit_test(a_message_may_come_byte_by_byte),
        cmocka_unit_test(a_long_message_is_heard_of_while_it_comes),
        cmocka_unit_test(a_peer_that_trickles_gives_no_sign_of_life),
        cmocka_unit_test(half_a_message_is_never_delivered),
        cmocka_unit_test(frames_that_lie_are_refused),
        cmocka_unit_test(shared_memory_over_tcp_is_refused),
        cmocka_unit_test(buffers_that_could_kill_us_are_refused),
        cmocka_unit_test(an_unread_buffer_costs_no_memory),
        cmocka_unit_test(too_many_descriptors_are_refused),
        cmocka_unit_test(our_lack_of_descriptors_is_not_the_peers_fault),
        cmocka_unit_test(a_crowd_that_says_nothing_is_let_in_by_and_by),
        cmocka_unit_test(a_peer_that_shares_and_does_not_read_is_refused),
        cmocka_unit_test(a_peer_that_refuses_to_read_is_lost),
        cmocka_unit_test(a_peer_that_never_read_our_hello_is_lost),
        cmocka_unit_test(what_a_peer_said_before_it_went_is_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
