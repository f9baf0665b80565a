/*
 * hostile_callers_test.c -- callers that are not Muster, say nothing, or come
 * in crowds: they are refused, counted and gone, and others get in.
 */
#define _GNU_SOURCE
#include "scene.h"

static void garbage_is_refused_at_once(void **state)
{
    (void)state;
    scene *it = scene_open();
    put(it->fd, "GET / HTTP/1.1\r\n\r\n", 18);
    expect_end(it, MUSTER_ERR_PROTOCOL, "not Muster's hello");
    scene_close(it);
}

static void silence_times_out(void **state)
{
    (void)state;
    scene *it = scene_open_brief(200);
    put(it->fd, "MUSTER", 6);
    expect_end(it, MUSTER_ERR_TIMED_OUT, "hello in time");
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
    scene *it = scene_open_brief(1000);
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

/* The same, but before it was told our hello. */
static void a_peer_that_never_read_our_hello_is_lost(void **state)
{
    (void)state;
    scene *it = scene_open_brief(200);
    assert_int_equal(shutdown(it->fd, SHUT_RD), 0);
    put_hello(it->fd);
    expect_end(it, MUSTER_ERR_PEER_LOST, "does not read");
    assert_int_equal(it->hub.ups, 2); // its own hello was in order
    scene_close(it);
}

int main(void)
{
    alarm(300); // a hang is a failure, too
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(garbage_is_refused_at_once),
        cmocka_unit_test(silence_times_out),
        cmocka_unit_test(a_crowd_that_says_nothing_is_let_in_by_and_by),
        cmocka_unit_test(a_peer_that_never_read_our_hello_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
