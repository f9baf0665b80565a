/*
 * scene.h -- a net under attack: a hub, a healthy friend that is connected all
 * the while and must not notice, and a bare socket that plays the peer and
 * writes bytes of the test's choice.
 */
#ifndef MUSTER_TESTS_NET_SCENE_H
#define MUSTER_TESTS_NET_SCENE_H

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "muster/version.h"
#include "net/frame.h"
#include "net/hello.h"
#include "net/socket_address.h"
#include "node.h"

static const muster_net_backend sock =
    MUSTER_NET_BACKEND("sock", muster_net_open);

#define PAYLOAD_MAX 1000000u

typedef struct scene {
    node hub;
    node friend;
    node *both[2];
    int fd; // the bare peer's socket
} scene;

static inline int bare_connect(const char *text)
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

/* What a scene is like. Zeroed: an abstract Unix socket, no key. */
typedef struct scene_opts {
    const char *listen_at;     // NULL: an abstract Unix socket
    int64_t hello_timeout_ms;  // of the hub; 0: the default, not waited for
    const muster_run_key *key; // of hub and friend; NULL: none
} scene_opts;

static inline scene *scene_open_with(const scene_opts *wanted)
{
    static int scenes;
    scene *it = calloc(1, sizeof(*it));
    assert_non_null(it);
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    opts.payload_bytes_max = PAYLOAD_MAX;
    opts.hello_timeout_ns = wanted->hello_timeout_ms * 1000000;
    opts.key = wanted->key;
    node_open(&it->hub, &sock, &opts);
    opts.hello_timeout_ns = 0;
    node_open(&it->friend, &sock, &opts);
    char unix_name[MUSTER_NET_ADDRESS_MAX];
    snprintf(unix_name, sizeof(unix_name), "unix:@muster-hostile-%d-%d",
             (int)getpid(), ++scenes);
    const char *at = wanted->listen_at ? wanted->listen_at : unix_name;
    assert_int_equal(muster_net_listen(it->hub.net, at, NULL, it->hub.address),
                     MUSTER_OK);
    muster_peer peer = 0;
    assert_int_equal(
        muster_net_connect(it->friend.net, it->hub.address, NULL, &peer),
        MUSTER_OK);
    it->both[0] = &it->hub;
    it->both[1] = &it->friend;
    drive(it->both, 2, &it->hub.ups, 1);
    drive(it->both, 2, &it->friend.ups, 1);
    // A friend is no stranger.
    assert_int_equal(node_say(&it->friend, 1, 4711), MUSTER_OK);
    drive(it->both, 2, &it->hub.messages, 1);
    it->hub.messages = 0;
    it->fd = bare_connect(it->hub.address);
    return it;
}

static inline scene *scene_open(void)
{
    const scene_opts usual = {0};
    return scene_open_with(&usual);
}

/* With a hub that waits for hellos for so long. */
static inline scene *scene_open_brief(int64_t hello_timeout_ms)
{
    const scene_opts brief = {.hello_timeout_ms = hello_timeout_ms};
    return scene_open_with(&brief);
}

static inline void scene_close(scene *it)
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

static inline void put(int fd, const void *bytes, size_t count)
{
    assert_int_equal(send(fd, bytes, count, MSG_NOSIGNAL), count);
}

static inline void put_hello(int fd)
{
    muster_hello hello = {.version = MUSTER_PROTOCOL_VERSION};
    uint8_t bytes[MUSTER_HELLO_BYTES];
    muster_hello_write(&hello, bytes);
    put(fd, bytes, sizeof(bytes));
}

/* Send a frame header with up to `fd_count` descriptors along. */
static inline void put_frame(int fd, const muster_frame *frame, const int *fds,
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

static inline void expect_end(scene *it, muster_status status,
                              const char *reason)
{
    drive(it->both, 2, &it->hub.downs, 1);
    assert_int_equal(it->hub.down_status, status);
    if (strstr(it->hub.down_reason, reason) == NULL) {
        fail_msg("'%s' is not in '%s'", reason, it->hub.down_reason);
    }
    assert_int_equal(it->hub.messages, 0);
}

#endif // MUSTER_TESTS_NET_SCENE_H
