/*
 * conformance_tests.h -- the tests of conformance.h. Included once, by the test
 * program of a back end, after it has set _GNU_SOURCE.
 */
#ifndef MUSTER_TESTS_NET_CONFORMANCE_TESTS_H
#define MUSTER_TESTS_NET_CONFORMANCE_TESTS_H

#include "conformance.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "node.h"

typedef struct setting {
    const muster_net_backend *backend;
    const char *pattern;
} setting;

static int listen_count;

static void next_address(const setting *where, char *out)
{
    char pattern[MUSTER_NET_ADDRESS_MAX];
    snprintf(pattern, sizeof(pattern), "%s", where->pattern);
    char *mark = strstr(pattern, "%d");
    if (mark == NULL) {
        snprintf(out, MUSTER_NET_ADDRESS_MAX, "%s", pattern);
        return;
    }
    *mark = '\0';
    int length = snprintf(out, MUSTER_NET_ADDRESS_MAX, "%.80s%d-%d%.20s",
                          pattern, (int)getpid(), ++listen_count, mark + 2);
    assert_in_range(length, 1, MUSTER_NET_ADDRESS_MAX - 1);
}

static void node_listen(node *self, const setting *where)
{
    char wanted[MUSTER_NET_ADDRESS_MAX];
    muster_error error = {0};
    next_address(where, wanted);
    if (self->backend->listen(self->net, wanted, &error, self->address) !=
        MUSTER_OK) {
        fail_msg("listen: %s", error.text);
    }
}

static muster_peer node_connect(node *self, const char *address)
{
    muster_peer peer = 0;
    muster_error error = {0};
    if (self->backend->connect(self->net, address, &error, &peer) !=
        MUSTER_OK) {
        fail_msg("connect: %s", error.text);
    }
    assert_int_not_equal(peer, 0);
    return peer;
}

/* Two nets with one connection between them. */
typedef struct pair {
    node a, b; // b connects to a
    node *both[2];
    muster_peer a_to_b, b_to_a;
} pair;

static pair *pair_open(void **state, const muster_net_opts *opts)
{
    const setting *where = *state;
    pair *it = calloc(1, sizeof(*it));
    assert_non_null(it);
    node_open(&it->a, where->backend, opts);
    node_open(&it->b, where->backend, opts);
    it->both[0] = &it->a;
    it->both[1] = &it->b;
    node_listen(&it->a, where);
    it->b_to_a = node_connect(&it->b, it->a.address);
    drive(it->both, 2, &it->a.ups, 1);
    drive(it->both, 2, &it->b.ups, 1);
    assert_int_equal(it->b.last_up, it->b_to_a);
    it->a_to_b = it->a.last_up;
    // Who has connected and sent nothing is a stranger, and would time out.
    assert_int_equal(node_say(&it->b, it->b_to_a, 0), MUSTER_OK);
    drive(it->both, 2, &it->a.messages, 1);
    drive(it->both, 2, &it->b.done_ok, 1);
    it->a.messages = 0;
    it->b.done_ok = 0;
    return it;
}

static void pair_close(pair *it)
{
    node_close(&it->b);
    node_close(&it->a);
    free(it);
}

/* messages ---------------------------------------------------------------- */

static const uint64_t payload_sizes[] = {
    UINT64_MAX, 0, 1, 1000, 65535, 65536, 65537, 300001, 3000000};

static void messages_arrive_whole_and_once(void **state)
{
    pair *it = pair_open(state, NULL);
    int sent = 0;
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < sizeof(payload_sizes) / 8; i++) {
            note what = {(uint64_t)sent, payload_sizes[i],
                         (uint64_t)(1000 + sent),
                         (uint64_t)(i % 3 == 2 ? 65504 : i * 7)};
            bool shared = round % 2 == 0;
            assert_int_equal(node_send(&it->a, it->a_to_b, &what, shared, 0),
                             MUSTER_OK);
            assert_int_equal(node_send(&it->b, it->b_to_a, &what, shared, 0),
                             MUSTER_OK);
            sent++;
        }
    }
    drive(it->both, 2, &it->a.messages, sent);
    drive(it->both, 2, &it->b.messages, sent);
    drive_on(it->both, 2);
    bool seen[64] = {false};
    assert_int_equal(it->b.messages, sent);
    for (int i = 0; i < sent; i++) {
        assert_false(seen[it->b.numbers[i]]);
        seen[it->b.numbers[i]] = true;
    }
    assert_int_equal(it->a.done_ok, sent);
    assert_int_equal(it->b.done_ok, sent);
    assert_int_equal(node_dones(&it->a), sent);
    pair_close(it);
}

static void many_small_messages_arrive(void **state)
{
    pair *it = pair_open(state, NULL);
    const int wanted = 3000;
    for (int i = 0; i < wanted; i++) {
        note what = {(uint64_t)i, (uint64_t)(i % 5) * 17, (uint64_t)i,
                     (uint64_t)(i % 11)};
        assert_int_equal(node_send(&it->b, it->b_to_a, &what, i % 2, 0),
                         MUSTER_OK);
    }
    drive(it->both, 2, &it->a.messages, wanted);
    drive(it->both, 2, &it->b.done_ok, wanted);
    muster_net_counters counted = it->b.backend->count(it->b.net);
    assert_int_equal(counted.messages_sent, wanted + 1); // and the first
    assert_int_equal(it->a.backend->count(it->a.net).bytes_received,
                     counted.bytes_sent);
    // Writes are batched.
    assert_in_range(counted.syscalls, 1, wanted / 4);
    pair_close(it);
}

static void headers_too_long_are_invalid(void **state)
{
    static uint8_t header[MUSTER_NET_HEADER_MAX + 1];
    pair *it = pair_open(state, NULL);
    muster_net_send_opts opts = {.header = header,
                                 .header_bytes = sizeof(header)};
    assert_int_equal(it->a.backend->send(it->a.net, it->a_to_b, &opts),
                     MUSTER_ERR_INVALID);
    pair_close(it);
}

/* A blob's content in a receiver stays while it is kept, whatever the sender
 * does with its buffers, also when the connection is gone. */
static void kept_payloads_stay_as_they_are(void **state)
{
    pair *it = pair_open(state, NULL);
    it->b.keep = true;
    for (int i = 0; i < 6; i++) {
        note what = {(uint64_t)i, 200000, (uint64_t)(50 + i), 0};
        assert_int_equal(node_send(&it->a, it->a_to_b, &what, true, 0),
                         MUSTER_OK);
        drive(it->both, 2, &it->b.messages, i + 1);
        drive_on(it->both, 2);
    }
    it->a.backend->drop(it->a.net, it->a_to_b);
    drive(it->both, 2, &it->b.downs, 1);
    for (int i = 0; i < 8; i++) {
        muster_blob *blob = it->a.backend->blob(it->a.net, 200000);
        assert_non_null(blob);
        memset(blob->data, 0xee, blob->bytes);
        it->a.kept[it->a.kept_count++] = blob;
    }
    for (int i = 0; i < 6; i++) {
        assert_true(node_content_is(it->b.kept[i], (uint64_t)(50 + i)));
    }
    pair_close(it);
}

static void buffers_come_back_when_receivers_let_go(void **state)
{
    pair *it = pair_open(state, NULL);
    void *seen[4] = {0};
    int distinct = 0;
    for (int i = 0; i < 50; i++) {
        muster_blob *blob = it->a.backend->blob(it->a.net, 500000);
        int at = 0;
        while (at < distinct && seen[at] != blob->data) {
            at++;
        }
        assert_in_range(at, 0, 3);
        seen[at] = blob->data;
        distinct += at == distinct;
        node_fill(blob, (uint64_t)i);
        note what = {(uint64_t)i, 500000, (uint64_t)i, 0};
        assert_int_equal(
            node_send_raw(&it->a, it->a_to_b, &what, sizeof(what), blob, 0),
            MUSTER_OK);
        muster_blob_unref(blob);
        drive(it->both, 2, &it->b.messages, i + 1);
        drive_on(it->both, 2);
    }
    pair_close(it);
}

static void *unref_all(void *argument)
{
    node *self = argument;
    for (int i = 0; i < self->kept_count; i++) {
        muster_blob_unref(self->kept[i]);
    }
    return NULL;
}

static void *make_blobs(void *argument)
{
    node *self = argument;
    for (int i = 0; i < 200; i++) {
        muster_blob *blob =
            self->backend->blob(self->net, (size_t)(1000 + 1000 * i));
        if (blob != NULL) {
            memset(blob->data, 1, 1000);
        }
        muster_blob_unref(blob);
    }
    return NULL;
}

static void blobs_are_made_and_let_go_on_other_threads(void **state)
{
    pair *it = pair_open(state, NULL);
    for (int round = 0; round < 5; round++) {
        it->b.keep = true;
        for (int i = 0; i < 4; i++) {
            note what = {(uint64_t)i, 100000, (uint64_t)i, 0};
            assert_int_equal(node_send(&it->a, it->a_to_b, &what, true, 0),
                             MUSTER_OK);
        }
        drive(it->both, 2, &it->b.messages, 4 * round + 4);
        pthread_t threads[2];
        assert_int_equal(pthread_create(&threads[0], NULL, unref_all, &it->b),
                         0);
        assert_int_equal(pthread_create(&threads[1], NULL, make_blobs, &it->a),
                         0);
        drive_on(it->both, 2);
        pthread_join(threads[0], NULL);
        pthread_join(threads[1], NULL);
        it->b.kept_count = 0;
    }
    pair_close(it);
}

static void one_payload_reaches_many_peers(void **state)
{
    enum { RECEIVERS = 5 };
    const setting *where = *state;
    node *hub = calloc(1, sizeof(*hub));
    node *nodes[RECEIVERS + 1] = {hub};
    node_open(hub, where->backend, NULL);
    node_listen(hub, where);
    for (int i = 1; i <= RECEIVERS; i++) {
        nodes[i] = calloc(1, sizeof(node));
        node_open(nodes[i], where->backend, NULL);
        node_connect(nodes[i], hub->address);
    }
    drive(nodes, RECEIVERS + 1, &hub->ups, RECEIVERS);
    for (int round = 1; round <= 10; round++) {
        muster_blob *blob = where->backend->blob(hub->net, 1 << 20);
        node_fill(blob, (uint64_t)round);
        note what = {(uint64_t)round, 1 << 20, (uint64_t)round, 0};
        for (int i = 1; i <= RECEIVERS; i++) {
            assert_int_equal(node_send_raw(hub, (muster_peer)i, &what,
                                           sizeof(what), blob, 0),
                             MUSTER_OK);
        }
        muster_blob_unref(blob);
        for (int i = 1; i <= RECEIVERS; i++) {
            drive(nodes, RECEIVERS + 1, &nodes[i]->messages, round);
        }
    }
    drive(nodes, RECEIVERS + 1, &hub->done_ok, 10 * RECEIVERS);
    for (int i = RECEIVERS; i >= 0; i--) {
        node_close(nodes[i]);
        free(nodes[i]);
    }
}

/* queues ------------------------------------------------------------------ */

static void a_full_queue_answers_again(void **state)
{
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    opts.queue_messages_max = 3;
    opts.queue_bytes_max = 100000;
    pair *it = pair_open(state, &opts);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(node_say(&it->a, it->a_to_b, i), MUSTER_OK);
    }
    assert_int_equal(node_say(&it->a, it->a_to_b, 3), MUSTER_ERR_AGAIN);
    drive(it->both, 2, &it->b.messages, 3);
    drive(it->both, 2, &it->a.done_ok, 3);
    note large = {10, 60000, 1, 0};
    assert_int_equal(node_send(&it->a, it->a_to_b, &large, false, 0),
                     MUSTER_OK);
    assert_int_equal(node_send(&it->a, it->a_to_b, &large, false, 0),
                     MUSTER_ERR_AGAIN);
    // What a full queue does take: a word, and the newest of a slot.
    assert_int_equal(node_say(&it->a, it->a_to_b, 4), MUSTER_OK);
    assert_int_equal(node_send(&it->a, it->a_to_b, &large, false, 1),
                     MUSTER_OK);
    assert_int_equal(node_say(&it->a, it->a_to_b, 5), MUSTER_ERR_AGAIN);
    drive(it->both, 2, &it->b.messages, 6);
    drive(it->both, 2, &it->a.done_ok, 6);
    // An empty queue takes a message of any size.
    note huge = {11, 400000, 1, 0};
    assert_int_equal(node_send(&it->a, it->a_to_b, &huge, true, 0), MUSTER_OK);
    drive(it->both, 2, &it->b.messages, 7);
    drive_on(it->both, 2);
    assert_int_equal(it->b.messages, 7);
    assert_int_equal(node_dones(&it->a), 7);
    pair_close(it);
}

/* While a message far beyond the bound is on its way, others are taken. */
static void what_is_half_written_fills_no_queue(void **state)
{
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    opts.queue_bytes_max = 100000;
    pair *it = pair_open(state, &opts);
    note huge = {1, 50000000, 1, 0};
    assert_int_equal(node_send(&it->a, it->a_to_b, &huge, false, 0), MUSTER_OK);
    assert_int_equal(it->a.backend->poll(it->a.net, 0), MUSTER_OK);
    assert_int_equal(node_dones(&it->a), 0);
    note large = {2, 60000, 1, 0};
    assert_int_equal(node_send(&it->a, it->a_to_b, &large, false, 0),
                     MUSTER_OK);
    assert_int_equal(node_send(&it->a, it->a_to_b, &large, false, 0),
                     MUSTER_ERR_AGAIN);
    assert_int_equal(node_say(&it->a, it->a_to_b, 3), MUSTER_OK);
    drive(it->both, 2, &it->b.messages, 3);
    drive(it->both, 2, &it->a.done_ok, 3);
    pair_close(it);
}

/* Where payloads come as streams: all of these do, but by UCX. */
static void a_long_payload_is_told_of_when_it_begins(void **state)
{
    pair *it = pair_open(state, NULL);
    bool streams = strncmp(it->a.backend->name, "sock", 4) == 0;
    note shorter = {1, MUSTER_NET_BEGUN_BYTES - 1, 1, 0};
    note longer = {2, 3 * MUSTER_NET_BEGUN_BYTES, 2, 9};
    it->b.keep = true;
    assert_int_equal(node_send(&it->a, it->a_to_b, &shorter, false, 0),
                     MUSTER_OK);
    drive(it->both, 2, &it->b.messages, 1);
    assert_int_equal(it->b.begun, 0);
    assert_int_equal(node_send(&it->a, it->a_to_b, &longer, false, 0),
                     MUSTER_OK);
    drive(it->both, 2, &it->b.messages, 2);
    assert_int_equal(it->b.begun, streams ? 1 : 0);
    assert_ptr_equal(it->b.coming, streams ? it->b.kept[1] : NULL);
    pair_close(it);
}

static void the_newest_of_a_slot_is_sent(void **state)
{
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    opts.queue_messages_max = 2;
    pair *it = pair_open(state, &opts);
    assert_int_equal(node_say(&it->a, it->a_to_b, 100), MUSTER_OK);
    for (uint64_t i = 0; i < 5; i++) {
        note what = {i, 70000, i, 0};
        assert_int_equal(node_send(&it->a, it->a_to_b, &what, true, 7),
                         MUSTER_OK);
    }
    note other = {200, UINT64_MAX, 0, 0};
    assert_int_equal(node_send(&it->a, it->a_to_b, &other, false, 8),
                     MUSTER_ERR_AGAIN);
    drive(it->both, 2, &it->a.done_ok, 2);
    drive(it->both, 2, &it->b.messages, 2);
    drive_on(it->both, 2);
    assert_int_equal(it->a.done_cancelled, 4);
    assert_int_equal(node_dones(&it->a), 6);
    assert_int_equal(it->b.messages, 2);
    assert_int_equal(it->b.numbers[0] + it->b.numbers[1], 104);
    pair_close(it);
}

static void a_slow_reader_delays_nobody(void **state)
{
    const setting *where = *state;
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    opts.queue_bytes_max = 1 << 20;
    pair *it = pair_open(state, &opts);
    node *other = calloc(1, sizeof(*other));
    node_open(other, where->backend, NULL);
    node_connect(other, it->a.address);
    node *awake[2] = {&it->a, other}; // b is never polled
    drive(awake, 2, &other->ups, 1);
    drive(awake, 2, &it->a.ups, 2);
    muster_peer a_to_other = it->a.last_up;
    int taken = 0;
    int refused = 0;
    for (int i = 0; i < 2000 && refused < 20; i++) {
        note what = {(uint64_t)i, 40000, (uint64_t)i, 0};
        muster_status status = node_send(&it->a, it->a_to_b, &what, false, 0);
        assert_true(status == MUSTER_OK || status == MUSTER_ERR_AGAIN);
        taken += status == MUSTER_OK;
        refused += status == MUSTER_ERR_AGAIN;
        assert_int_equal(node_say(&it->a, a_to_other, (uint64_t)i), MUSTER_OK);
        drive(awake, 2, &other->messages, i + 1);
    }
    assert_int_equal(refused, 20);
    drive(it->both, 2, &it->b.messages, taken);
    node_close(other);
    free(other);
    pair_close(it);
}

static void sends_before_up_are_kept(void **state)
{
    const setting *where = *state;
    node *a = calloc(1, sizeof(*a));
    node *b = calloc(1, sizeof(*b));
    node *both[2] = {a, b};
    node_open(a, where->backend, NULL);
    node_open(b, where->backend, NULL);
    node_listen(a, where);
    muster_peer peer = node_connect(b, a->address);
    assert_int_equal(node_say(b, peer, 5), MUSTER_OK);
    drive(both, 2, &a->messages, 1);
    assert_int_equal(a->numbers[0], 5);
    node_close(b);
    node_close(a);
    free(a);
    free(b);
}

#include "conformance_ends.h"
#include "conformance_wait.h"

int muster_conformance_run(const muster_net_backend *backend,
                           const char *address)
{
    setting where = {backend, address};
#define CONFORMANCE_TEST(function) cmocka_unit_test_prestate(function, &where)
    const struct CMUnitTest tests[] = {
        CONFORMANCE_TEST(messages_arrive_whole_and_once),
        CONFORMANCE_TEST(many_small_messages_arrive),
        CONFORMANCE_TEST(headers_too_long_are_invalid),
        CONFORMANCE_TEST(kept_payloads_stay_as_they_are),
        CONFORMANCE_TEST(buffers_come_back_when_receivers_let_go),
        CONFORMANCE_TEST(blobs_are_made_and_let_go_on_other_threads),
        CONFORMANCE_TEST(one_payload_reaches_many_peers),
        CONFORMANCE_TEST(a_full_queue_answers_again),
        CONFORMANCE_TEST(what_is_half_written_fills_no_queue),
        CONFORMANCE_TEST(a_long_payload_is_told_of_when_it_begins),
        CONFORMANCE_TEST(the_newest_of_a_slot_is_sent),
        CONFORMANCE_TEST(a_slow_reader_delays_nobody),
        CONFORMANCE_TEST(sends_before_up_are_kept),
        CONFORMANCE_TEST(a_lost_peer_ends_its_sends_first),
        CONFORMANCE_TEST(a_payload_that_ends_midway_stays_a_part),
        CONFORMANCE_TEST(dropping_who_begins_to_send_is_fine),
        CONFORMANCE_TEST(a_dropped_peer_is_told_and_we_are_not),
        CONFORMANCE_TEST(dropping_inside_a_callback_is_fine),
        CONFORMANCE_TEST(close_calls_every_done),
        CONFORMANCE_TEST(a_peer_can_come_back),
        CONFORMANCE_TEST(connecting_to_nobody_is_told),
        CONFORMANCE_TEST(another_version_is_refused_on_both_sides),
        CONFORMANCE_TEST(other_machines_are_not_listened_to_without_a_key),
        CONFORMANCE_TEST(a_mesh_of_six_talks),
        CONFORMANCE_TEST(chaos_keeps_every_promise),
        CONFORMANCE_TEST(a_killed_process_is_a_lost_peer),
        CONFORMANCE_TEST(a_stopped_process_delays_nobody),
        CONFORMANCE_TEST(sixteen_processes_answer),
        CONFORMANCE_TEST(idle_nets_sleep),
        CONFORMANCE_TEST(wake_ends_a_poll),
        CONFORMANCE_TEST(a_wait_ends_for_what_comes_and_takes_nothing),
        CONFORMANCE_TEST(wake_ends_a_wait),
        CONFORMANCE_TEST(what_comes_to_a_sleeping_owner_ends_no_wait_aside),
        CONFORMANCE_TEST(settling_writes_and_calls_nobody_back),
        CONFORMANCE_TEST(settling_tells_of_deadlines),
        CONFORMANCE_TEST(a_payload_let_go_elsewhere_ends_a_wait),
        CONFORMANCE_TEST(running_out_of_memory_breaks_nothing),
    };
#undef CONFORMANCE_TEST
    printf("%s at %s\n", backend->name, address);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif // MUSTER_TESTS_NET_CONFORMANCE_TESTS_H
