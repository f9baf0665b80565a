/*
 * pace_test.c -- a net with a bandwidth and a latency: messages come whole, not
 * before their bytes can have come, and none is lost when the peer hangs up.
 * Times are bounded from below only: a machine may be slow, never fast.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/net.h"

#define PEERS   3u
#define BYTES   100000u
#define RATE    1e7 // bytes a second
#define LATENCY (20 * MUSTER_NS_PER_MS)

/* One end, and what it has seen. */
typedef struct end {
    muster_net *net;
    muster_peer peer; // the newest
    unsigned ups, messages, downs, after_down;
    unsigned done;
    unsigned wrong; // bytes
} end;

static void on_up(void *context, muster_peer peer, int incoming)
{
    (void)incoming;
    end *self = context;
    self->peer = peer;
    self->ups++;
}

static void on_message(void *context, muster_peer peer,
                       const muster_net_message *message)
{
    (void)peer;
    end *self = context;
    self->messages++;
    self->after_down += self->downs > 0;
    const uint8_t *bytes = message->payload ? message->payload->data : NULL;
    for (size_t i = 0; bytes != NULL && i < message->payload->bytes; i++) {
        self->wrong += bytes[i] != (uint8_t)(i * 7);
    }
}

static void on_down(void *context, muster_peer peer, muster_status status,
                    const char *reason)
{
    (void)peer;
    (void)status;
    (void)reason;
    ((end *)context)->downs++;
}

static void on_done(void *argument, muster_status status)
{
    ((end *)argument)->done += status == MUSTER_OK;
}

static const muster_net_callbacks callbacks = {
    .on_up = on_up, .on_message = on_message, .on_down = on_down};

static void open_end(end *self, double rate, int64_t latency_ns)
{
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    opts.bytes_per_s = rate;
    opts.latency_ns = latency_ns;
    *self = (end){0};
    assert_int_equal(muster_net_open(&opts, &callbacks, self, NULL, &self->net),
                     MUSTER_OK);
}

static void poll_all(end *ends, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (ends[i].net != NULL) {
            assert_int_equal(muster_net_poll(ends[i].net, 100000), MUSTER_OK);
        }
    }
}

/* ends[0] listens, the others connect to it. */
static void connect_all(end *ends, unsigned count, const char *address)
{
    char at[MUSTER_NET_ADDRESS_MAX];
    assert_int_equal(muster_net_listen(ends[0].net, address, NULL, at),
                     MUSTER_OK);
    for (unsigned i = 1; i < count; i++) {
        muster_peer peer;
        assert_int_equal(muster_net_connect(ends[i].net, at, NULL, &peer),
                         MUSTER_OK);
        while (ends[i].ups == 0 || ends[0].ups < i) {
            poll_all(ends, count);
        }
    }
}

static void send_blob(end *from, size_t bytes)
{
    muster_blob *blob = muster_net_blob(from->net, bytes);
    assert_non_null(blob);
    for (size_t i = 0; i < bytes; i++) {
        ((uint8_t *)blob->data)[i] = (uint8_t)(i * 7);
    }
    muster_net_send_opts opts = {.header = "x",
                                 .header_bytes = 1,
                                 .payload = blob,
                                 .done = on_done,
                                 .argument = from};
    assert_int_equal(muster_net_send(from->net, from->peer, &opts), MUSTER_OK);
    muster_blob_unref(blob);
}

static void close_all(end *ends, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        muster_net_close(ends[i].net);
    }
}

static void senders_share_the_receivers_bandwidth(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 2; k++) {
        char address[MUSTER_NET_ADDRESS_MAX];
        snprintf(address, sizeof(address),
                 k == 0 ? "unix:@muster-pace-%d" : "tcp:127.0.0.1:%d",
                 k == 0 ? (int)getpid() : 0);
        end ends[PEERS];
        for (unsigned i = 0; i < PEERS; i++) {
            open_end(&ends[i], RATE, 0);
        }
        connect_all(ends, PEERS, address);
        int64_t begin_ns = muster_clock_ns();
        send_blob(&ends[1], BYTES);
        send_blob(&ends[2], BYTES);
        while (ends[0].messages < 2) {
            poll_all(ends, PEERS);
        }
        int64_t took_ns = muster_clock_ns() - begin_ns;
        // Each sender could send its own in half of this; a turn is free.
        assert_true((double)took_ns > 0.9 * 1e9 * 2 * BYTES / RATE);
        assert_int_equal(ends[0].wrong, 0);
        assert_int_equal(ends[1].done + ends[2].done, 2);
        close_all(ends, PEERS);
    }
}

static void a_sender_shares_its_bandwidth_among_its_peers(void **state)
{
    (void)state;
    char address[MUSTER_NET_ADDRESS_MAX];
    snprintf(address, sizeof(address), "unix:@muster-pace-%d", (int)getpid());
    end ends[PEERS];
    open_end(&ends[0], RATE, 0);
    open_end(&ends[1], 0, 0);
    open_end(&ends[2], 0, 0);
    connect_all(ends, PEERS, address);
    int64_t begin_ns = muster_clock_ns();
    muster_peer last = ends[0].peer;
    for (ends[0].peer = 1; ends[0].peer <= last; ends[0].peer++) {
        send_blob(&ends[0], BYTES); // a net counts its peers from 1
    }
    while (ends[1].messages + ends[2].messages < 2) {
        poll_all(ends, PEERS);
    }
    int64_t took_ns = muster_clock_ns() - begin_ns;
    assert_true((double)took_ns > 0.9 * 1e9 * 2 * BYTES / RATE);
    assert_int_equal(ends[1].wrong + ends[2].wrong, 0);
    close_all(ends, PEERS);
}

static void a_message_is_held_for_the_latency(void **state)
{
    (void)state;
    char address[MUSTER_NET_ADDRESS_MAX];
    snprintf(address, sizeof(address), "unix:@muster-pace-%d", (int)getpid());
    end ends[2];
    open_end(&ends[0], 0, LATENCY);
    open_end(&ends[1], 0, LATENCY);
    connect_all(ends, 2, address);
    int64_t begin_ns = muster_clock_ns();
    send_blob(&ends[1], BYTES); // it passes by descriptor, and is held too
    while (ends[0].messages == 0) {
        poll_all(ends, 2);
    }
    assert_true(muster_clock_ns() - begin_ns >= LATENCY);
    assert_int_equal(ends[0].wrong, 0);
    close_all(ends, 2);
}

static void what_is_under_way_comes_before_the_end(void **state)
{
    (void)state;
    char address[MUSTER_NET_ADDRESS_MAX];
    snprintf(address, sizeof(address), "unix:@muster-pace-%d", (int)getpid());
    for (unsigned k = 0; k < 2; k++) {
        end ends[2];
        open_end(&ends[0], RATE, k == 0 ? 0 : 60 * MUSTER_NS_PER_S);
        open_end(&ends[1], 0, 0);
        connect_all(ends, 2, address);
        send_blob(&ends[1], BYTES);
        while (ends[1].done == 0) {
            poll_all(ends, 2);
        }
        muster_net_close(ends[1].net);
        ends[1].net = NULL;
        while (ends[0].downs == 0) {
            poll_all(ends, 2);
        }
        assert_int_equal(ends[0].messages, 1);
        assert_int_equal(ends[0].after_down, 0);
        assert_int_equal(ends[0].wrong, 0);
        close_all(ends, 2);
    }
}

static void what_is_held_goes_with_a_dropped_peer(void **state)
{
    (void)state;
    char address[MUSTER_NET_ADDRESS_MAX];
    snprintf(address, sizeof(address), "unix:@muster-pace-%d", (int)getpid());
    end ends[2];
    open_end(&ends[0], 0, LATENCY);
    open_end(&ends[1], 0, 0);
    connect_all(ends, 2, address);
    send_blob(&ends[1], BYTES);
    while (muster_net_count(ends[0].net).messages_received == 0) {
        poll_all(ends, 2);
    }
    muster_net_drop(ends[0].net, ends[0].peer);
    int64_t until_ns = muster_clock_ns() + 2 * LATENCY;
    while (muster_clock_ns() < until_ns) {
        poll_all(ends, 2);
    }
    assert_int_equal(ends[0].messages, 0);
    close_all(ends, 2);
}

int main(void)
{
    alarm(120); // a hang is a failure, too
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(senders_share_the_receivers_bandwidth),
        cmocka_unit_test(a_sender_shares_its_bandwidth_among_its_peers),
        cmocka_unit_test(a_message_is_held_for_the_latency),
        cmocka_unit_test(what_is_under_way_comes_before_the_end),
        cmocka_unit_test(what_is_held_goes_with_a_dropped_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
