/*
 * conformance_wait.h -- part of conformance_tests.h: nets that change hands,
 * waited for by who does not own them.
 *
 * A wait that must end has no timeout, so that a lost wake-up hangs the test,
 * which is a failure; one that must not end is seen to last.
 */
#ifndef MUSTER_TESTS_NET_CONFORMANCE_WAIT_H
#define MUSTER_TESTS_NET_CONFORMANCE_WAIT_H

#include "base/clock.h"

#define WAIT_NS (5 * MUSTER_NS_PER_MS)

/* Poll until there is nothing more to do. */
static void settle_down(node *self)
{
    int turns = 0;
    while (self->backend->settle(self->net, -1) != -1 && turns++ < 1000) {
        assert_int_equal(self->backend->poll(self->net, 0), MUSTER_OK);
    }
    assert_in_range(turns, 0, 999);
}

static bool lasts(node *self, int aside)
{
    int64_t start = muster_clock_ns();
    assert_int_equal(self->backend->wait(self->net, WAIT_NS, aside), MUSTER_OK);
    return muster_clock_ns() - start >= WAIT_NS;
}

/* Does neither way of waiting end before its time? */
static bool wait_lasts(node *self)
{
    return lasts(self, 0) && lasts(self, 1);
}

/* Both must end. */
static void wait_long(node *self)
{
    assert_int_equal(self->backend->wait(self->net, -1, 0), MUSTER_OK);
    assert_int_equal(self->backend->wait(self->net, -1, 1), MUSTER_OK);
}

static void a_wait_ends_for_what_comes_and_takes_nothing(void **state)
{
    pair *it = pair_open(state, NULL);
    drive_on(it->both, 2);
    for (int i = 1; i <= 20; i++) {
        settle_down(&it->a);
        assert_true(wait_lasts(&it->a));
        assert_int_equal(node_say(&it->b, it->b_to_a, (uint64_t)i), MUSTER_OK);
        (void)it->b.backend->settle(it->b.net, 0); // writes it
        wait_long(&it->a);
        wait_long(&it->a);
        assert_int_equal(it->a.messages, i - 1);
        assert_int_equal(it->a.backend->poll(it->a.net, 0), MUSTER_OK);
        assert_int_equal(it->a.messages, i);
        assert_int_equal(it->b.backend->poll(it->b.net, 0), MUSTER_OK);
    }
    pair_close(it);
}

static void wake_ends_a_wait(void **state)
{
    pair *it = pair_open(state, NULL);
    drive_on(it->both, 2);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        settle_down(&it->a);
        assert_int_equal(pthread_create(&thread, NULL, wake_soon, &it->a), 0);
        assert_int_equal(it->a.backend->wait(it->a.net, -1, i % 2), MUSTER_OK);
        pthread_join(thread, NULL);
        wait_long(&it->a); // until a poll has seen it
        assert_int_equal(it->a.backend->poll(it->a.net, 0), MUSTER_OK);
        assert_true(wait_lasts(&it->a));
    }
    pair_close(it);
}

static void what_comes_to_a_sleeping_owner_ends_no_wait_aside(void **state)
{
    pair *it = pair_open(state, NULL);
    drive_on(it->both, 2);
    settle_down(&it->a);
    assert_int_equal(it->a.backend->poll(it->a.net, 1000), MUSTER_OK);
    assert_int_equal(node_say(&it->b, it->b_to_a, 7), MUSTER_OK);
    drive_on(it->both + 1, 1);
    assert_true(lasts(&it->a, 1));
    // Whatever the owner leaves unread is there for who comes after.
    assert_int_equal(it->a.backend->settle(it->a.net, -1), -1);
    wait_long(&it->a);
    assert_int_equal(it->a.backend->poll(it->a.net, 0), MUSTER_OK);
    assert_int_equal(it->a.numbers[0], 7);
    pair_close(it);
}

static void settling_writes_and_calls_nobody_back(void **state)
{
    pair *it = pair_open(state, NULL);
    drive_on(it->both, 2);
    assert_int_equal(node_say(&it->a, it->a_to_b, 3), MUSTER_OK);
    // The message is out, so its `done` is to be called: by a poll, now.
    assert_int_equal(it->a.backend->settle(it->a.net, -1), 0);
    assert_int_equal(node_dones(&it->a), 0);
    drive(it->both + 1, 1, &it->b.messages, 1);
    assert_int_equal(it->a.backend->poll(it->a.net, 0), MUSTER_OK);
    assert_int_equal(it->a.done_ok, 1);
    pair_close(it);
}

static void settling_tells_of_deadlines(void **state)
{
    const setting *where = *state;
    muster_net_opts opts = MUSTER_NET_OPTS_INIT;
    opts.hello_timeout_ns = 50 * MUSTER_NS_PER_MS;
    node *a = calloc(1, sizeof(*a));
    node *b = calloc(1, sizeof(*b));
    assert_true(a != NULL && b != NULL);
    node_open(a, where->backend, &opts);
    node_open(b, where->backend, NULL);
    node_listen(a, where);
    (void)node_connect(b, a->address); // and never a hello
    int64_t left = -1;
    for (int turn = 0; turn < 1000 && left < 0; turn++) {
        assert_int_equal(a->backend->poll(a->net, MUSTER_NS_PER_MS), MUSTER_OK);
        left = a->backend->settle(a->net, -1);
    }
    assert_in_range(left, 0, opts.hello_timeout_ns);
    while (a->downs == 0) { // time passes in waits alone
        left = a->backend->settle(a->net, -1);
        assert_in_range(left, 0, opts.hello_timeout_ns);
        assert_int_equal(a->backend->wait(a->net, left, 0), MUSTER_OK);
        assert_int_equal(a->backend->poll(a->net, 0), MUSTER_OK);
    }
    assert_int_equal(a->down_status, MUSTER_ERR_TIMED_OUT);
    node_close(b);
    node_close(a);
    free(a);
    free(b);
}

static void *let_go(void *argument)
{
    muster_blob_unref(argument);
    return NULL;
}

static void a_payload_let_go_elsewhere_ends_a_wait(void **state)
{
    const setting *where = *state;
    if (strncmp(where->pattern, "unix", 4) != 0) {
        return; // nothing is lent over TCP
    }
    pair *it = pair_open(state, NULL);
    note what = {1, 300000, 1, 0};
    it->a.keep = true;
    assert_int_equal(node_send(&it->b, it->b_to_a, &what, true, 0), MUSTER_OK);
    drive(it->both, 2, &it->a.messages, 1);
    drive_on(it->both, 2);
    settle_down(&it->a);
    assert_true(wait_lasts(&it->a));
    pthread_t thread;
    it->a.kept_count = 0;
    assert_int_equal(pthread_create(&thread, NULL, let_go, it->a.kept[0]), 0);
    wait_long(&it->a);
    pthread_join(thread, NULL);
    pair_close(it);
}

#endif // MUSTER_TESTS_NET_CONFORMANCE_WAIT_H
