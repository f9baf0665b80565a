/*
 * fuzz_frame.c -- what a peer can send: the frame and hello parsers alone, and
 * the whole reading side of a connection.
 *
 * The first byte chooses: 0 a hello, 1 a frame header, any other a stream that
 * follows a good hello, through a real socket pair of a net.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "muster/version.h"
#include "net/frame.h"
#include "net/hello.h"
#include "net/net.h"
#include "net/socket_address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static void parse_hello(const uint8_t *data, size_t size)
{
    muster_hello hello;
    muster_error error = {0};
    if (muster_hello_read(data, size, &error, &hello) == MUSTER_OK) {
        uint8_t again[MUSTER_HELLO_BYTES];
        muster_hello second;
        muster_hello_write(&hello, again);
        require(muster_hello_read(again, sizeof(again), &error, &second) ==
                MUSTER_OK);
        require(second.version == hello.version &&
                second.fabric == hello.fabric);
    }
}

static void parse_frame(const uint8_t *data, size_t size)
{
    static const muster_frame_limits limits = {1u << 20, true};
    muster_frame frame;
    muster_error error = {0};
    if (size >= MUSTER_FRAME_BYTES &&
        muster_frame_read(data, &limits, &error, &frame) == MUSTER_OK) {
        uint8_t again[MUSTER_FRAME_BYTES];
        require(frame.payload_bytes <= limits.payload_bytes_max);
        muster_frame_write(&frame, again);
        require(memcmp(again, data, sizeof(again)) == 0);
    }
}

/* Touch every byte that is delivered, for the sanitizers to see. */
static void on_message(void *context, muster_peer peer,
                       const muster_net_message *message)
{
    unsigned *sum = context;
    (void)peer;
    for (size_t i = 0; i < message->header_bytes; i++) {
        *sum += message->header[i];
    }
    if (message->payload != NULL) {
        const uint8_t *bytes = message->payload->data;
        for (size_t i = 0; i < message->payload->bytes; i++) {
            *sum += bytes[i];
        }
    }
}

static void stream(const uint8_t *data, size_t size)
{
    static const muster_net_callbacks callbacks = {.on_message = on_message};
    unsigned sum = 0;
    char name[64];
    muster_net *net = NULL;
    muster_socket_address address;
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    opts.payload_bytes_max = 1u << 20;
    snprintf(name, sizeof(name), "unix:@muster-fuzz-%d", (int)getpid());
    require(muster_net_open(&opts, &callbacks, &sum, NULL, &net) == MUSTER_OK);
    require(muster_net_listen(net, name, NULL, NULL) == MUSTER_OK);
    require(muster_socket_address_parse(name, NULL, &address) == MUSTER_OK);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    require(connect(fd, (const struct sockaddr *)&address.storage,
                    address.length) == 0);
    muster_hello hello = {.version = MUSTER_PROTOCOL_VERSION};
    uint8_t bytes[MUSTER_HELLO_BYTES];
    muster_hello_write(&hello, bytes);
    require(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) ==
            (ssize_t)sizeof(bytes));
    for (size_t sent = 0, turn = 0; sent < size && turn < 1000; turn++) {
        ssize_t put = send(fd, data + sent, size - sent, MSG_NOSIGNAL);
        sent += put > 0 ? (size_t)put : 0;
        require(muster_net_poll(net, 0) == MUSTER_OK);
    }
    for (int turn = 0; turn < 3; turn++) {
        require(muster_net_poll(net, 0) == MUSTER_OK);
    }
    close(fd);
    require(muster_net_poll(net, 0) == MUSTER_OK);
    muster_net_close(net);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    if (data[0] == 0) {
        parse_hello(data + 1, size - 1);
    } else if (data[0] == 1) {
        parse_frame(data + 1, size - 1);
    } else {
        stream(data + 1, size - 1);
    }
    return 0;
}
