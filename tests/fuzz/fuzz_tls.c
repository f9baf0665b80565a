/*
 * fuzz_tls.c -- what is parsed before a peer has proved the run key, and the
 * first of what is parsed after it.
 *
 * The first byte chooses what the others are:
 *   0  the first bytes of a caller, at the end that accepts
 *   1  the answer to a first flight, at the end that connects
 *   2  changes to the client's flights of a true handshake: pairs of a place
 *      (16 bits) and a byte to add by exclusive or
 *   3  bytes that follow a true handshake, not encrypted
 *   4  what a caller of a listening net with a key sends
 *   5  the same after a true handshake, encrypted: hello and frames
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/net.h"
#include "net/socket_address.h"
#include "net/tls.h"

#define FLIGHT_MAX 65536u
#define TURNS_MAX  200

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const muster_run_key the_key = {{3, 1, 4, 1, 5}};

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

/* One end, without a socket. */
typedef struct end {
    muster_tls_context *context;
    muster_tls *tls;
    muster_status status;
} end;

static end end_open(bool accepts)
{
    end it = {.status = MUSTER_IN_PROGRESS};
    require(muster_tls_context_create(&the_key, NULL, &it.context) ==
            MUSTER_OK);
    it.tls = muster_tls_create(it.context, accepts);
    require(it.tls != NULL);
    it.status = muster_tls_step(it.tls, NULL);
    return it;
}

static void end_close(end *it)
{
    muster_tls_free(it->tls);
    muster_tls_context_free(it->context);
}

/* Without a proof no plain text comes out. */
static void read_plain(end *it)
{
    uint8_t plain[1024];
    size_t got = 0;
    muster_error error = {0};
    muster_status status = MUSTER_OK;
    for (int i = 0; status == MUSTER_OK && i < TURNS_MAX; i++) {
        status = muster_tls_read(it->tls, plain, sizeof(plain), &error, &got);
        require(got == 0 || muster_tls_is_ready(it->tls));
        if (got == 0) {
            return;
        }
    }
}

static void feed(end *to, const uint8_t *bytes, size_t count)
{
    while (count > 0 && to->status >= 0) {
        size_t room = 0;
        uint8_t *in = muster_tls_in_room(to->tls, &room);
        size_t take = room < count ? room : count;
        if (take == 0) {
            return;
        }
        memcpy(in, bytes, take);
        muster_tls_in_added(to->tls, take);
        bytes += take;
        count -= take;
        to->status = muster_tls_step(to->tls, NULL);
        if (to->status == MUSTER_OK) {
            read_plain(to);
        }
    }
}

static size_t take_out(end *from, uint8_t *bytes)
{
    size_t count = 0;
    const uint8_t *out = muster_tls_out(from->tls, &count);
    require(count <= FLIGHT_MAX);
    memcpy(bytes, out, count);
    muster_tls_out_taken(from->tls, count);
    return count;
}

/* Pairs of a place and a change: what falls into the flight is applied. */
static void change(uint8_t *flight, size_t count, size_t before,
                   const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 3 <= size; i += 3) {
        size_t at = (size_t)data[i] << 8 | data[i + 1];
        if (at >= before && at - before < count) {
            flight[at - before] ^= data[i + 2];
        }
    }
}

/* A handshake whose client's flights are changed on their way. */
static void shake(end *client, end *server, const uint8_t *data, size_t size)
{
    static uint8_t flight[FLIGHT_MAX];
    size_t before = 0;
    for (int turn = 0; turn < 4; turn++) {
        size_t count = take_out(client, flight);
        change(flight, count, before, data, size);
        before += count;
        feed(server, flight, count);
        feed(client, flight, take_out(server, flight));
    }
}

static void alone(bool accepts, const uint8_t *data, size_t size)
{
    end it = end_open(accepts);
    feed(&it, data, size);
    read_plain(&it);
    require(!muster_tls_is_ready(it.tls)); // nobody guesses the key
    end_close(&it);
}

static void together(bool changed, const uint8_t *data, size_t size)
{
    end client = end_open(false);
    end server = end_open(true);
    shake(&client, &server, data, changed ? size : 0);
    if (!changed) {
        require(server.status == MUSTER_OK && client.status == MUSTER_OK);
        feed(&server, data, size);
    }
    read_plain(&server);
    end_close(&client);
    end_close(&server);
}

/* a listening net --------------------------------------------------------- */

static void on_message(void *context, muster_peer peer,
                       const muster_net_message *message)
{
    unsigned *sum = context;
    (void)peer;
    for (size_t i = 0; i < message->header_bytes; i++) {
        *sum += message->header[i];
    }
}

static int dial(const char *name)
{
    muster_socket_address address;
    require(muster_socket_address_parse(name, NULL, &address) == MUSTER_OK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(fd >= 0 && connect(fd, (const struct sockaddr *)&address.storage,
                               address.length) == 0);
    return fd;
}

static void poll_some(muster_net *net)
{
    for (int turn = 0; turn < 3; turn++) {
        require(muster_net_poll(net, 0) == MUSTER_OK);
    }
}

static void put(muster_net *net, int fd, const uint8_t *bytes, size_t count)
{
    for (size_t sent = 0, turn = 0; sent < count && turn < TURNS_MAX; turn++) {
        ssize_t some =
            send(fd, bytes + sent, count - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent += some > 0 ? (size_t)some : 0;
        poll_some(net);
    }
}

/* Prove the key over the socket, and send the bytes encrypted. */
static void put_locked(muster_net *net, int fd, const uint8_t *data,
                       size_t size)
{
    static uint8_t flight[FLIGHT_MAX];
    end it = end_open(false);
    for (int turn = 0; turn < TURNS_MAX && it.status == MUSTER_IN_PROGRESS;
         turn++) {
        put(net, fd, flight, take_out(&it, flight));
        poll_some(net);
        ssize_t got = recv(fd, flight, sizeof(flight), MSG_DONTWAIT);
        feed(&it, flight, got > 0 ? (size_t)got : 0);
    }
    put(net, fd, flight, take_out(&it, flight));
    for (size_t at = 0; it.status == MUSTER_OK && at < size;) {
        size_t some = size - at < 4096 ? size - at : 4096;
        if (!muster_tls_can_write(it.tls) ||
            !muster_tls_write(it.tls, data + at, some)) {
            break;
        }
        at += some;
        put(net, fd, flight, take_out(&it, flight));
    }
    end_close(&it);
}

static void call(bool locked, const uint8_t *data, size_t size)
{
    static const muster_net_callbacks callbacks = {.on_message = on_message};
    unsigned sum = 0;
    char name[MUSTER_NET_ADDRESS_MAX];
    muster_net *net = NULL;
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    opts.payload_bytes_max = 1u << 20;
    opts.key = &the_key;
    require(muster_net_open(&opts, &callbacks, &sum, NULL, &net) == MUSTER_OK);
    require(muster_net_listen(net, "tcp:127.0.0.1:0", NULL, name) == MUSTER_OK);
    int fd = dial(name);
    poll_some(net);
    if (locked) {
        put_locked(net, fd, data, size);
    } else {
        put(net, fd, data, size);
    }
    close(fd);
    poll_some(net);
    muster_net_close(net);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    switch (data[0]) {
    case 0:
    case 1:
        alone(data[0] == 0, data + 1, size - 1);
        break;
    case 2:
    case 3:
        together(data[0] == 2, data + 1, size - 1);
        break;
    default:
        call(data[0] != 4, data + 1, size - 1);
        break;
    }
    return 0;
}
