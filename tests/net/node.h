/*
 * node.h -- a net under test with a record of everything it was told.
 *
 * The record checks by itself what must hold always: nothing comes for a peer
 * before its on_up (except its on_down) or after its on_down, and every payload
 * is the one that its header announces.
 */
#ifndef MUSTER_TESTS_NET_NODE_H
#define MUSTER_TESTS_NET_NODE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "conformance.h"

#define NODE_PEERS    4096
#define NODE_KEPT     16
#define NODE_MESSAGES 8192

/* The test messages' header; `padding` more bytes follow it. */
typedef struct note {
    uint64_t number;
    uint64_t payload_bytes; // UINT64_MAX: none
    uint64_t seed;          // of the payload's content
    uint64_t padding;
} note;

typedef struct node {
    const muster_net_backend *backend;
    muster_net *net;
    char address[MUSTER_NET_ADDRESS_MAX];
    int ups, downs, messages, bytes, begun;
    muster_blob *coming; // the last that has begun, kept
    bool up[NODE_PEERS];
    bool down[NODE_PEERS];
    muster_peer last_up;
    muster_status down_status;
    char down_reason[MUSTER_ERROR_TEXT_MAX];
    muster_peer from[NODE_MESSAGES];
    uint64_t numbers[NODE_MESSAGES]; // in order of arrival
    int done_ok, done_cancelled, done_lost, done_other;
    int done_at_down; // dones told when on_down came
    muster_blob *kept[NODE_KEPT];
    int kept_count;
    bool keep;  // keep a reference to the payloads
    bool echo;  // answer every message with its header
    bool drop;  // drop whoever sends
    bool blind; // do not look into payloads
} node;

static inline uint8_t node_byte(uint64_t seed, size_t at)
{
    return (uint8_t)((seed * 0x9e3779b97f4a7c15ull + at * 31u) >> 5);
}

/* Word by word, as sanitizers charge by the access. */
static inline uint64_t node_word(uint64_t seed, size_t at)
{
    return (seed + 1) * 0x9e3779b97f4a7c15ull + at * 0xbf58476d1ce4e5b9ull;
}

static inline void node_fill(muster_blob *blob, uint64_t seed)
{
    uint8_t *bytes = blob->data;
    for (size_t i = 0; i < blob->bytes; i += 8) {
        uint64_t word = node_word(seed, i);
        size_t left = blob->bytes - i;
        memcpy(bytes + i, &word, left < 8 ? left : 8);
    }
}

static inline bool node_content_is(const muster_blob *blob, uint64_t seed)
{
    const uint8_t *bytes = blob->data;
    for (size_t i = 0; i < blob->bytes; i += 8) {
        uint64_t word = node_word(seed, i);
        size_t left = blob->bytes - i;
        if (memcmp(bytes + i, &word, left < 8 ? left : 8) != 0) {
            return false;
        }
    }
    return true;
}

static inline void node_done(void *argument, muster_status status)
{
    node *self = argument;
    self->done_ok += status == MUSTER_OK;
    self->done_cancelled += status == MUSTER_ERR_CANCELLED;
    self->done_lost += status == MUSTER_ERR_PEER_LOST;
    self->done_other += status != MUSTER_OK && status != MUSTER_ERR_CANCELLED &&
                        status != MUSTER_ERR_PEER_LOST;
}

static inline int node_dones(const node *self)
{
    return self->done_ok + self->done_cancelled + self->done_lost +
           self->done_other;
}

static inline void node_on_up(void *context, muster_peer peer, int incoming)
{
    node *self = context;
    (void)incoming;
    assert_in_range(peer, 1, NODE_PEERS - 1);
    assert_false(self->up[peer]);
    assert_false(self->down[peer]);
    self->up[peer] = true;
    self->last_up = peer;
    self->ups++;
}

static inline void node_on_down(void *context, muster_peer peer,
                                muster_status status, const char *reason)
{
    node *self = context;
    assert_in_range(peer, 1, NODE_PEERS - 1);
    assert_false(self->down[peer]);
    self->down[peer] = true;
    self->downs++;
    self->down_status = status;
    snprintf(self->down_reason, sizeof(self->down_reason), "%s", reason);
    self->done_at_down = node_dones(self);
}

static inline void node_on_bytes(void *context, muster_peer peer)
{
    node *self = context;
    assert_true(peer < NODE_PEERS && self->up[peer] && !self->down[peer]);
    self->bytes++;
}

/* What is here of a payload is what its header announces. */
static inline void node_check_part(const muster_blob *payload, uint64_t seed)
{
    size_t here = muster_blob_here(payload) / 8 * 8;
    assert_true(here < payload->bytes);
    for (size_t i = 0; i < here; i += 8) {
        uint64_t word = node_word(seed, i);
        assert_memory_equal((const uint8_t *)payload->data + i, &word, 8);
    }
}

static inline void node_on_begun(void *context, muster_peer peer,
                                 const muster_net_message *message)
{
    node *self = context;
    note head;
    assert_true(peer < NODE_PEERS && self->up[peer] && !self->down[peer]);
    assert_true(message->header_bytes >= sizeof(head));
    memcpy(&head, message->header, sizeof(head));
    assert_int_equal(message->payload->bytes, head.payload_bytes);
    assert_true(head.payload_bytes >= MUSTER_NET_BEGUN_BYTES);
    if (!self->blind) {
        node_check_part(message->payload, head.seed);
    }
    muster_blob_unref(self->coming);
    self->coming = muster_blob_ref(message->payload);
    self->begun++;
    if (self->drop) {
        self->backend->drop(self->net, peer);
    }
}

static inline muster_status node_send_raw(node *self, muster_peer peer,
                                          const note *header, size_t bytes,
                                          muster_blob *payload, uint32_t slot)
{
    muster_net_send_opts opts = {
        .header = header,
        .header_bytes = bytes,
        .payload = payload,
        .replace_slot = slot,
        .done = node_done,
        .argument = self,
    };
    return self->backend->send(self->net, peer, &opts);
}

static inline void node_on_message(void *context, muster_peer peer,
                                   const muster_net_message *message)
{
    node *self = context;
    note head;
    assert_true(peer < NODE_PEERS && self->up[peer] && !self->down[peer]);
    assert_true(message->header_bytes >= sizeof(head));
    memcpy(&head, message->header, sizeof(head));
    assert_int_equal(message->header_bytes, sizeof(head) + head.padding);
    for (size_t i = sizeof(head); i < message->header_bytes; i++) {
        assert_int_equal(message->header[i], node_byte(head.number, i));
    }
    if (head.payload_bytes == UINT64_MAX) {
        assert_null(message->payload);
    } else {
        assert_non_null(message->payload);
        assert_int_equal(message->payload->bytes, head.payload_bytes);
        assert_int_equal(muster_blob_here(message->payload),
                         head.payload_bytes);
        assert_true(self->blind ||
                    node_content_is(message->payload, head.seed));
    }
    assert_in_range(self->messages, 0, NODE_MESSAGES - 1);
    self->from[self->messages] = peer;
    self->numbers[self->messages] = head.number;
    self->messages++;
    if (self->keep && message->payload != NULL) {
        assert_in_range(self->kept_count, 0, NODE_KEPT - 1);
        self->kept[self->kept_count++] = muster_blob_ref(message->payload);
    }
    if (self->echo) {
        note answer = {head.number, UINT64_MAX, 0, 0};
        assert_int_equal(
            node_send_raw(self, peer, &answer, sizeof(answer), NULL, 0),
            MUSTER_OK);
    }
    if (self->drop) {
        self->backend->drop(self->net, peer);
    }
}

static inline void node_open(node *self, const muster_net_backend *backend,
                             const muster_net_opts *opts)
{
    static const muster_net_callbacks callbacks = {node_on_up, node_on_message,
                                                   node_on_down, node_on_bytes,
                                                   node_on_begun};
    muster_error error = {0};
    memset(self, 0, sizeof(*self));
    self->backend = backend;
    muster_status status =
        backend->open(opts, &callbacks, self, &error, &self->net);
    if (status != MUSTER_OK) {
        fail_msg("open: %s", error.text);
    }
}

static inline void node_close(node *self)
{
    for (int i = 0; i < self->kept_count; i++) {
        muster_blob_unref(self->kept[i]);
    }
    self->kept_count = 0;
    muster_blob_unref(self->coming);
    self->coming = NULL;
    self->backend->close(self->net);
    self->net = NULL;
}

/* A note of `padding` more bytes and, unless UINT64_MAX, a payload. `shared`
 * takes it from the net, else from the heap. */
static inline muster_status node_send(node *self, muster_peer peer,
                                      const note *what, bool shared,
                                      uint32_t slot)
{
    static uint8_t header[MUSTER_NET_HEADER_MAX];
    size_t bytes = sizeof(*what) + what->padding;
    memcpy(header, what, sizeof(*what));
    for (size_t i = sizeof(*what); i < bytes; i++) {
        header[i] = node_byte(what->number, i);
    }
    muster_blob *payload = NULL;
    if (what->payload_bytes != UINT64_MAX) {
        payload = shared ? self->backend->blob(self->net, what->payload_bytes)
                         : muster_blob_create(what->payload_bytes);
        assert_non_null(payload);
        node_fill(payload, what->seed);
    }
    muster_net_send_opts opts = {header, bytes, payload, slot, node_done, self};
    muster_status status = self->backend->send(self->net, peer, &opts);
    muster_blob_unref(payload);
    return status;
}

static inline muster_status node_say(node *self, muster_peer peer,
                                     uint64_t number)
{
    note what = {number, UINT64_MAX, 0, 0};
    return node_send(self, peer, &what, false, 0);
}

/* Poll all nodes in turn until *count >= wanted; fails after a bounded number
 * of turns. */
static inline void drive(node **nodes, int node_count, const int *count,
                         int wanted)
{
    for (int turn = 0; turn < 30000 && *count < wanted; turn++) {
        for (int i = 0; i < node_count; i++) {
            // The first one waits a little, so that forked peers get the CPU.
            int64_t wait_ns = i == 0 && turn > 100 ? 1000000 : 0;
            assert_int_equal(nodes[i]->backend->poll(nodes[i]->net, wait_ns),
                             MUSTER_OK);
        }
    }
    assert_in_range(*count, wanted, INT32_MAX);
}

/* A fixed number of turns, to see that nothing more comes. */
static inline void drive_on(node **nodes, int node_count)
{
    for (int turn = 0; turn < 20; turn++) {
        for (int i = 0; i < node_count; i++) {
            assert_int_equal(nodes[i]->backend->poll(nodes[i]->net, 0),
                             MUSTER_OK);
        }
    }
}

#endif // MUSTER_TESTS_NET_NODE_H
